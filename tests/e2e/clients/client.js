// ioredis and node-redis against the RESP door: client.js LIBRARY PORT PROTOCOL PASSWORD. Prints "ok", or fails.
const assert = require('assert')
const [library, port, protocol, password] = process.argv.slice(2)
const key = library + protocol

async function talk(call, pipeline) {
  assert.deepStrictEqual(await call('CL.THROTTLE', key, '15', '30', '3000'), [0, 16, 15, -1, 100])
  assert.deepStrictEqual((await call('WEIR.CHECK', 'three', key)).slice(0, 4), [1, 3, 2, 0])
  const replies = await pipeline(100, ['CL.THROTTLE', key + 'p', '49', '1', '3600'])
  assert.deepStrictEqual(replies.map(r => r[0]), [...Array(50).fill(0), ...Array(50).fill(1)])
  await assert.rejects(call('GET', 'x'), /unknown command/)
}

async function ioredis() {
  const Redis = require('ioredis')
  const client = new Redis({ port: +port, password: password || undefined, connectionName: 'io', retryStrategy: () => 10 })
  client.on('error', error => { throw error })
  await talk((...args) => client.call(...args), async (n, args) => {
    const pipe = client.pipeline()
    for (let i = 0; i < n; i++) pipe.call(...args)
    return (await pipe.exec()).map(([error, reply]) => { assert.ifError(error); return reply })
  })
  client.disconnect(true) // and connects anew
  assert.strictEqual((await client.call('CL.THROTTLE', key, '15', '30', '3000'))[2], 14)
  await client.quit()
}

async function nodeRedis() {
  const { createClient } = require('redis')
  const client = createClient({ socket: { port: +port }, password: password || undefined, name: 'node', RESP: +protocol })
  client.on('error', error => { throw error })
  await client.connect()
  await talk((...args) => client.sendCommand(args),
    (n, args) => Promise.all(Array.from({ length: n }, () => client.sendCommand(args))))
  await client.disconnect()
  await client.connect()
  assert.strictEqual((await client.sendCommand(['CL.THROTTLE', key, '15', '30', '3000']))[2], 14)
  await client.quit()
}

(library === 'ioredis' ? ioredis() : nodeRedis()).then(() => { console.log('ok'); process.exit(0) },
  error => { console.error(error); process.exit(1) })
