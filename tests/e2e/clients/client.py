"""redis-py against the RESP door: client.py PORT PROTOCOL PASSWORD. Prints "ok", or fails."""
import sys

import redis

port, protocol, password = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] or None
client = redis.Redis(port=port, protocol=protocol, password=password, socket_timeout=20, client_name="py")
key = f"py{protocol}"
assert client.ping() and client.echo("x") == b"x" and client.client_getname() in ("py", b"py")
assert client.execute_command("CL.THROTTLE", key, 15, 30, 3000) == [0, 16, 15, -1, 100]
assert client.execute_command("WEIR.CHECK", "three", key)[:4] == [1, 3, 2, 0]
with client.pipeline(transaction=False) as pipe:
    for _ in range(100):
        pipe.execute_command("CL.THROTTLE", key + "p", 49, 1, 3600)
    replies = pipe.execute()
assert [r[0] for r in replies] == [0] * 50 + [1] * 50, replies
client.connection_pool.disconnect()  # and connects anew
assert client.execute_command("CL.THROTTLE", key, 15, 30, 3000)[2] == 14
try:
    client.get("x")
    raise SystemExit("GET is answered")
except redis.ResponseError as error:
    assert "unknown command" in str(error)
assert client.info()["loading"] == 0 and client.time()
print("ok")
