-- One decision over all keys of a request, all or none. src/remote/script.c writes ARGV and reads the
-- answer; docs/formats/redis.md has the records and values byte by byte.
--
-- It decides and changes state, and answers with the raw state before the charge and its own moment:
--   {now, then for each key: -1 refused or units granted as a lease, state...}    or {now} alone where the
-- boundaries given of a calendar window do not hold now. What remains, and when to retry, is worked out from
-- that in C, in 128 bits.
--
-- Rules:
--  1. Numbers are whole and below 2^53, where doubles are exact: time in us, buckets' debts in ticks.
--  2. TIME is asked once. A stored moment ahead of it stands still by up to a window (or a second); further
--     ahead the clock was set back, and the state moves to the present.
--  3. Nothing is written for a refusal, but count_denied, a state to be moved, and a TTL that is missing.
--  4. Every key that is written gets its TTL here; what cannot be read is as never seen, and overwritten.
--  5. No functions are defined: the script's body is run anew at each call, and would make each closure anew.
local SECOND, EXACT = 1000000, 9007199254740992
local TAKE, REFUND, FORCE, DROP = 0, 1, 2, 3 -- and 4: as taking, but it is known to be refused
local SHADOW, COUNT_DENIED, CALENDAR = 1, 2, 4
local TOKEN, LEAKY, FIXED, SLIDING, LOG = 1, 2, 3, 4, 5

local args, call, pack, read = ARGV[1], redis.call, struct.pack, struct.unpack
local op, now, nodes, slack, pos = read('<Bddd', args)
if op == DROP then
  call('DEL', unpack(KEYS))
  return {now}
end
if now == 0 then
  local t = call('TIME')
  now = t[1] * SECOND + t[2]
end

-- Words of a key: kind, moment, count or debt, and two that tell which limit it was written under.
local old = call('MGET', unpack(KEYS))

if op == REFUND then
  for i = 1, #KEYS do
    local key, algo, flags, cost, extra, p1, p2, p3, p4 = KEYS[i]
    algo, flags, cost, extra, p1, p2, p3, p4, pos = read('<BBdddddd', args, pos)
    local b0, b1, b2, place, r1, r2
    if flags >= CALENDAR then b0, b1, b2, pos = read('<ddd', args, pos) end
    place, r1, r2, pos = read('<c16dd', args, pos)
    local kind, x, y, u, v = 0
    if old[i] and #old[i] == 33 then kind, x, y, u, v = read('<Bdddd', old[i]) end
    if algo == LOG then
      redis.pcall('LREM', key, -cost, string.format('%.0f', r1))
    elseif algo > LOG then
      redis.pcall('ZREM', key, place)
    elseif algo <= LEAKY and kind % 8 == algo and u == p1 and v == p2 and x >= 0 and y >= 0 then
      local debt, rest = y - (now - x) * v, r2 - (now - r1) * v
      if algo == TOKEN then -- what of the charge has not been paid back since
        cost = math.min(cost * u, p4, rest)
        if rest > 2 * p4 + SECOND * v then cost = 0 end
      else -- only what departs behind everybody
        cost = debt == rest and math.min(cost * u, 31622400 * SECOND * v, EXACT / 2) or 0
      end
      if cost > 0 then
        local now = now
        debt = debt - cost
        if debt < 0 then -- paid back before now: the same moment of being free, from an earlier one
          local early = math.ceil(-debt / v)
          now, debt = now - early, debt + early * v
        end
        local far = algo == LEAKY and debt > p3 + p4 and 8 or 0
        call('SET', key, pack('<Bdddd', algo + far, now, debt, u, v), 'PX', math.floor(debt / (v * 1000)) + 1 + slack)
      end
    elseif algo > LEAKY and kind == algo and v == p2 then
      if x == r1 and y < p3 then -- counts at their bound are "this many or more"
        y = math.max(0, y - cost)
      elseif algo == SLIDING and x == r1 + p2 and u < p3 then
        u = math.max(0, u - cost)
      else
        cost = 0
      end
      local ttl = cost > 0 and call('PTTL', key) or 0
      if ttl == -1 then ttl = math.floor(2 * (b2 and b2 - b0 or p2) / 1000) + slack end
      if y + u == 0 and cost > 0 then
        call('DEL', key)
      elseif ttl > 0 then
        call('SET', key, pack('<Bdddd', kind, x, y, u, v), 'PX', ttl)
      end
    end
  end
  return {now}
end

local reply, pass, at = {now}, op == TAKE, 1 -- at: of the last field of the reply
local plan, ttl = {}, {} -- plan[i]: what to write if the request passes; plan[-i]: if not
for i = 1, #KEYS do
  -- p1..p4: buckets: unit, rate, capacity or queue, full capacity or window (ticks);
  -- windows: units, window (us) or kind of calendar, most that a count may be; lists: units, window (us)
  local algo, flags, cost, extra, p1, p2, p3, p4
  algo, flags, cost, extra, p1, p2, p3, p4, pos = read('<BBdddddd', args, pos)
  local word, kind, x, y, u, v = old[i], 0
  if word and #word == 33 then
    kind, x, y, u, v = read('<Bdddd', word)
    -- Another algorithm's, or no number that we wrote (a NaN fails every comparison).
    if kind % 8 ~= algo or not (x >= 0 and x < EXACT and y >= 0 and y < EXACT and u >= 0 and u < EXACT
        and v > 0 and v < EXACT) then
      kind = 0
    end
  end
  local ok, granted, verdict = false, 0, at + 1

  if algo <= LEAKY then -- a bucket: debt y at x; a unit is u ticks, v a us are paid back
    local debt, spacing, set_back = 0, cost * p1, false
    if kind ~= 0 then
      debt = y - (now - x) * v
      if debt < 0 then debt = 0 end
      if u ~= p1 or v ~= p2 then -- another limit's: as many units, rounded up
        local part = u > 0 and debt % u or 0
        debt = u > 0 and (debt - part) / u * p1 or 0
        if part > 0 then debt = debt + math.min(p1, math.ceil(part / u * p1)) end
        debt = math.min(debt, algo == TOKEN and p4 or p3 + p1)
      end
    end
    if algo == TOKEN then
      if debt > 2 * p4 and debt > 2 * p4 + SECOND * p2 then debt, set_back = p4, true end
      ok = cost == 0 or debt + spacing <= p3
      if ok and extra > 0 then
        granted = (p3 - debt - spacing) / (p1 * 2 * nodes)
        granted = granted - granted % 1
        if granted > extra then granted = extra end
      end
    else
      -- One cost puts the next departure off by 366 days at most; kind 10 says one led so far.
      spacing = math.min(spacing, 31622400 * SECOND * p2, EXACT / 2)
      local most = p3 + p4 + math.max(p4, SECOND * p2)
      if kind > 8 then most = p3 + (31622400 + 1) * SECOND * p2 end
      if debt > most then debt, set_back = p3 + p1, true end
      ok = debt <= p3 or p3 < 0 and cost == 0
    end
    reply[at + 2] = debt
    if set_back then
      plan[i] = pack('<Bdddd', algo, now, debt, p1, p2)
      plan[-i] = plan[i]
    end
    local paid_ms = p2 * 1000
    local after = debt + spacing + granted * p1
    if ok and after > debt then
      if algo == LEAKY and after > p3 + p4 then kind = LEAKY + 8 else kind = algo end
      plan[i] = pack('<Bdddd', kind, now, after, p1, p2)
      after = after / paid_ms
      ttl[i] = after - after % 1 + 1 + slack
    elseif word then
      ttl[i] = math.ceil(debt / paid_ms) + slack
    end
    if (flags % CALENDAR >= COUNT_DENIED or op == FORCE) and cost > 0 and p3 >= 0 then
      local most = algo == TOKEN and 2 * p4 or p3 + math.max(spacing, p4)
      local far = math.max(debt, math.min(debt + spacing, most))
      if far > debt then
        plan[-i] = pack('<Bdddd', algo == LEAKY and far > p3 + p4 and LEAKY + 8 or algo, now, far, p1, p2)
        ttl[i] = math.ceil(far / paid_ms) + slack
      end
    end
    at = at + 2

  elseif algo <= SLIDING then -- a window: y counted in the one that starts at x, u in the one before
    local start, stop, count, before, set_back = now - now % p2, 0, 0, 0, false
    local most_ahead = SECOND / p2 + 1
    if flags >= CALENDAR then
      local b0, b1, b2
      b0, b1, b2, pos = read('<ddd', args, pos)
      if now < b0 or now >= b2 then return {now} end
      start, stop = b0, b1
      if now >= b1 then start, stop = b1, b2 end
      if kind ~= 0 and v == p2 and x == stop then
        start, stop, count = x, b2 + 2 * (b2 - b1), y
      elseif kind ~= 0 and v == p2 and x >= start then
        count, set_back = y, x > start
      end
    elseif kind ~= 0 and v == p2 and x % p2 == 0 then
      if x == start then
        count, before = y, u
      elseif x > start then
        count, before = y, u
        if (x - start) / p2 <= most_ahead then start = x else set_back = true end
      elseif x == start - p2 then
        before = y
      end
    end
    if kind ~= 0 and v ~= p2 and x <= now then -- windows of another length: as many units, at most all
      local len = ({604800 * SECOND, 2678400 * SECOND, 31622400 * SECOND})[v] or v
      if now < x + len then
        count = y + (algo == SLIDING and math.ceil(u * (1 - (now - x) / len)) or 0)
      elseif algo == SLIDING and now < x + 2 * len then
        count = math.ceil(y * (2 - (now - x) / len))
      end
      count = math.min(count, p1)
    end
    if flags < CALENDAR then stop = start + p2 end
    if count > p3 then count = p3 end
    if before > p3 then before = p3 end
    local used = count
    if algo == SLIDING and before > 0 then -- + before * (W - e) / W, rounded up
      local left, rest = stop - now, 0
      if left > p2 then left = p2 end
      if before * left < EXACT then
        rest = before * left % p2
        used = used + (before * left - rest) / p2
      else -- by long division, in digits of 7 bits: W < 2^45
        local faded, digits = 0, 268435456
        repeat
          digits = digits / 128
          rest = rest * 128 + (before - before % digits) / digits % 128 * left
          faded = faded * 128 + (rest - rest % p2) / p2
          rest = rest % p2
        until digits == 1
        used = used + faded
      end
      if rest > 0 then used = used + 1 end
    end
    ok = cost == 0 or used + cost <= p1
    if ok and extra > 0 and used < p1 then
      granted = (p1 - used - cost) / (2 * nodes)
      granted = granted - granted % 1
      if granted > extra then granted = extra end
    end
    reply[at + 2], reply[at + 3] = start, count
    local tell = 0
    if algo == SLIDING then
      reply[at + 4], stop, tell, at = before, stop + p2, before, at + 1
    end
    ttl[i] = math.floor((stop - now) / 1000) + 1 + slack
    if set_back and count + before > 0 then
      plan[i] = pack('<Bdddd', algo, start, count, tell, p2)
      plan[-i] = plan[i]
    end
    if ok and cost + granted > 0 then
      plan[i] = pack('<Bdddd', algo, start, math.min(p3, count + cost + granted), tell, p2)
    end
    if (flags % CALENDAR >= COUNT_DENIED or op == FORCE) and cost > 0 and p1 > 0 then
      plan[-i] = pack('<Bdddd', algo, start, math.min(p3, count + cost), tell, p2)
    end
    at = at + 3

  elseif algo == LOG then -- a list of stamps, one a unit, oldest first
    local key, gone = KEYS[i], now - p2
    local len, dead, newest, retry, oldest = redis.pcall('LLEN', key), 0, 0, 0, 0
    local wrong = type(len) ~= 'number'
    if wrong then len = 0 end
    if len > 0 then
      newest = tonumber(call('LINDEX', key, -1)) or 0
      if newest - now > math.max(p2, SECOND) then -- set back: what lies ahead is of now
        local stamps, text = call('LRANGE', key, 0, -1), string.format('%.0f', now)
        call('DEL', key)
        for j = 1, len do
          call('RPUSH', key, (tonumber(stamps[j]) or 0) > now and text or stamps[j])
        end
        call('PEXPIRE', key, math.floor(p2 / 1000) + 1 + slack)
        newest = now
      end
      if newest <= gone then
        dead = len
      else -- dead: the first that lives, looked for in growing steps, then by halves
        local high = 0
        while high < len - 1 and (tonumber(call('LINDEX', key, high)) or 0) <= gone do
          dead, high = high + 1, high * 2 + 1
        end
        if high > len - 1 then high = len - 1 end
        while dead < high do
          local middle = math.floor((dead + high) / 2)
          if (tonumber(call('LINDEX', key, middle)) or 0) <= gone then dead = middle + 1 else high = middle end
        end
      end
    end
    local live = len - dead
    ok = cost == 0 or live + cost <= p1
    if not ok and cost <= p1 then
      retry = tonumber(call('LINDEX', key, dead + live + cost - p1 - 1)) or 0
    end
    if live > 0 then oldest = tonumber(call('LINDEX', key, dead + math.max(0, live - p1))) or 0 else newest = 0 end
    if not ok and flags % CALENDAR >= COUNT_DENIED then -- tell of it with what the refusal adds
      local more = math.min(cost, math.max(0, 2 * p1 - live))
      if more > 0 or live > 0 then
        newest = more > 0 and math.max(now, newest) or newest
        local first, must = live + more - p1, live + more + cost - p1 - 1
        oldest = newest
        if first < live then oldest = tonumber(call('LINDEX', key, dead + math.max(0, first))) or 0 end
        if cost <= p1 then
          retry = newest
          if must < live then retry = tonumber(call('LINDEX', key, dead + must)) or 0 end
        end
      end
    end
    reply[at + 2], reply[at + 3], reply[at + 4], reply[at + 5] = live, retry, oldest, newest
    ttl[i] = math.floor((math.max(now, newest) + p2 - now) / 1000) + 1 + slack
    local push = {cost, string.format('%.0f', math.max(now, newest)), dead, live, wrong}
    old[i] = len > 0
    if ok and cost > 0 then plan[i] = push end
    if (flags % CALENDAR >= COUNT_DENIED or op == FORCE) and cost > 0 and p1 > 0 and live < 2 * p1 then
      plan[-i] = {math.min(cost, 2 * p1 - live), push[2], dead, live, wrong}
    end
    at = at + 5

  else -- concurrency: a sorted set of places, by the moment each was taken
    local key, place = KEYS[i]
    place, pos = read('<c16', args, pos)
    local gone = string.format('(%.0f', now - p2)
    local live, retry, oldest, newest = redis.pcall('ZCOUNT', key, gone, '+inf'), 0, 0, 0
    local wrong = type(live) ~= 'number'
    if wrong then live = 0 end
    if live > 0 then
      newest = tonumber(call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]) or 0
      if newest - now > math.max(p2, SECOND) then
        local text = string.format('%.0f', now)
        for _, ahead in ipairs(call('ZRANGEBYSCORE', key, '(' .. text, '+inf')) do
          call('ZADD', key, text, ahead)
        end
        call('PEXPIRE', key, math.floor(p2 / 1000) + 1 + slack)
        newest = now
      end
      oldest = tonumber(call('ZRANGEBYSCORE', key, gone, '+inf', 'WITHSCORES', 'LIMIT',
        math.max(0, live - p1), 1)[2]) or 0
    end
    ok = cost == 0 or live < p1
    if not ok then retry = oldest end
    reply[at + 2], reply[at + 3], reply[at + 4], reply[at + 5] = live, retry, oldest, newest
    ttl[i] = math.floor((math.max(now, newest) + p2 - now) / 1000) + 1 + slack
    old[i] = live > 0
    if ok and cost > 0 then plan[i] = {place, string.format('%.0f', now), string.format('%.0f', now - p2), live, wrong} end
    at = at + 5
  end

  if not ok then
    granted = -1
    if flags % 2 == 0 then pass = false end -- not SHADOW
  end
  reply[verdict] = granted
end

for i = 1, #KEYS do
  local key, value = KEYS[i], plan[pass and i or -i]
  if type(value) == 'string' then
    call('SET', key, value, 'PX', ttl[i])
  elseif value then
    local what, stamp, gone, live, wrong = unpack(value)
    if wrong or live == 0 then call('DEL', key) end
    if type(what) == 'string' then
      if live > 0 then call('ZREMRANGEBYSCORE', key, '-inf', '(' .. gone) end
      call('ZADD', key, stamp, what)
    else
      if live > 0 and gone > 0 then call('LTRIM', key, gone, -1) end
      local stamps = {}
      for j = 1, math.min(what, 1000) do stamps[j] = stamp end
      while what > 0 do
        call('RPUSH', key, unpack(stamps, 1, math.min(what, 1000)))
        what = what - 1000
      end
    end
    call('PEXPIRE', key, ttl[i])
  elseif old[i] and ttl[i] and call('PTTL', key) == -1 then
    call('PEXPIRE', key, ttl[i])
  end
end
return reply
