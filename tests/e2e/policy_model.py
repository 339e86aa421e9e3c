"""A slow, obvious model of a whole policy: exact fractions, lists of events, no state words.

It shares nothing with the C code but the meanings of docs/algorithms.md. Time in ns, integers; what is not whole
is a Fraction. Each limit answers look(t, cost) -> Look without changing anything, and take(t, cost)."""
import dataclasses
import math
from fractions import Fraction

NEVER = -1


@dataclasses.dataclass
class Look:
    allowed: bool
    remaining: int
    retry_ns: Fraction = Fraction(0)  # denied: until it would pass, or NEVER
    delay_ns: Fraction = Fraction(0)


class TokenBucket:
    """Tokens as a fraction, refilled continuously."""

    def __init__(self, units, window_ns, burst):
        self.rate, self.burst, self.units = Fraction(units, window_ns), burst, units
        self.tokens, self.at = Fraction(burst), None

    def level(self, t):
        if self.at is None:
            return Fraction(self.burst)
        return min(Fraction(self.burst), self.tokens + (t - self.at) * self.rate)

    def look(self, t, cost):
        level = self.level(t)
        if self.units == 0:
            return Look(cost == 0, 0, NEVER)
        if cost > self.burst:
            return Look(False, math.floor(level), NEVER)
        if level >= cost:
            return Look(True, math.floor(level - cost))
        return Look(False, math.floor(level), (cost - level) / self.rate)

    def take(self, t, cost):
        self.tokens, self.at = self.level(t) - cost, t


class LeakyBucket:
    """The next departure that is free."""

    def __init__(self, units, window_ns, queue):
        self.gap, self.queue, self.units, self.free = Fraction(window_ns, units or 1), queue, units, None

    def delay(self, t):
        return max(Fraction(0), self.free - t) if self.free is not None else Fraction(0)

    def look(self, t, cost):
        delay, room = self.delay(t), self.queue * self.gap
        if self.units == 0:
            return Look(cost == 0, 0, NEVER)
        if delay > room:
            return Look(False, 0, delay - room)
        after = delay + cost * self.gap
        more = 0 if after > room else math.floor((room - after) / self.gap) + 1
        return Look(True, more, delay_ns=delay)

    def take(self, t, cost):
        self.free = t + self.delay(t) + cost * self.gap


class Window:
    """Fixed and sliding windows: what was admitted, by window index."""

    def __init__(self, units, window_ns, sliding):
        self.n, self.w, self.sliding, self.taken = units, window_ns, sliding, {}

    def estimate(self, t):
        index, e = divmod(t, self.w)
        now = Fraction(self.taken.get(index, 0))
        if not self.sliding:
            return now
        return now + Fraction(self.taken.get(index - 1, 0) * (self.w - e), self.w)

    def look(self, t, cost):
        estimate = self.estimate(t)
        if self.n == 0:
            return Look(cost == 0, 0, NEVER)
        left = max(0, math.floor(self.n - estimate))
        if cost > self.n:
            return Look(False, left, NEVER)
        if estimate + cost <= self.n:
            return Look(True, math.floor(self.n - estimate - cost))
        return Look(False, left, self.when(t, cost) - t)

    def when(self, t, cost):
        """The first moment, to the ns, at which the cost would pass: by bisection inside each window."""
        if not self.sliding:
            return (t // self.w + 1) * self.w
        for index in range(t // self.w, t // self.w + 3):
            low, high = max(t, index * self.w), (index + 1) * self.w - 1
            if self.estimate(high) + cost > self.n:
                continue
            while low < high:
                middle = (low + high) // 2
                if self.estimate(middle) + cost <= self.n:
                    high = middle
                else:
                    low = middle + 1
            return low
        raise AssertionError("never passes")

    def take(self, t, cost):
        self.taken[t // self.w] = self.taken.get(t // self.w, 0) + cost


class SlidingLog:
    """Every admitted unit's time."""

    def __init__(self, units, window_ns):
        self.n, self.w, self.stamps = units, window_ns, []

    def look(self, t, cost):
        live = [s for s in self.stamps if t - self.w < s <= t]
        if self.n == 0:
            return Look(cost == 0, 0, NEVER)
        if cost > self.n:
            return Look(False, self.n - len(live), NEVER)
        if len(live) + cost <= self.n:
            return Look(True, self.n - len(live) - cost)
        return Look(False, self.n - len(live), live[len(live) + cost - self.n - 1] + self.w - t)

    def take(self, t, cost):
        self.stamps += [t] * cost


@dataclasses.dataclass
class Limit:
    name: str
    make: object  # () -> a fresh one of the above
    by: list
    shadow: bool = False

    def __post_init__(self):
        self.states = {}

    def state(self, request):
        key = tuple(request[part] for part in self.by)
        if key not in self.states:
            self.states[key] = self.make()
        return self.states[key]


def longest(look):
    return math.inf if look.retry_ns == NEVER else look.retry_ns


def speak(verdict, limit, look, delay=Fraction(0)):
    retry = None if look.allowed or look.retry_ns == NEVER else look.retry_ns
    return dict(verdict=verdict, limit=limit.name, remaining=look.remaining, retry_ns=retry, delay_ns=delay)


def decide(limits, request, t, cost):
    """What `weir replay --verdicts` says of the request, as a dict; retry and delay in ns."""
    looks = [(limit, limit.state(request).look(t, cost)) for limit in limits]
    enforced = [pair for pair in looks if not pair[0].shadow]
    denied = [pair for pair in enforced if not pair[1].allowed]
    if denied:
        return speak("deny", *max(denied, key=lambda pair: longest(pair[1])))  # max: the first of equals
    for limit, look in looks:
        if look.allowed and cost > 0:
            limit.state(request).take(t, cost)
    delay = max([look.delay_ns for _, look in enforced], default=Fraction(0))
    refused = [pair for pair in looks if pair[0].shadow and not pair[1].allowed]
    if refused:
        return speak("shadow", *max(refused, key=lambda pair: longest(pair[1])), delay)
    verdict = "delay" if delay > 0 else "allow"
    if not enforced:
        return dict(verdict=verdict, limit=None, remaining=None, retry_ns=None, delay_ns=delay)
    return speak(verdict, *min(enforced, key=lambda pair: pair[1].remaining), delay)
