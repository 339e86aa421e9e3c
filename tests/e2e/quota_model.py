"""A slow, obvious model of quotas, customers and plans, on top of policy_model.py. What a window is, is Python's
zoneinfo's to say; nothing is shared with the C code but the meanings of docs/policy.md."""
import calendar
import datetime
import zoneinfo
from fractions import Fraction

from policy_model import NEVER, Limit, Look, longest, speak

S = 10**9


class Civil:
    """Days, weeks from Monday, months from their anchor, in a zone."""

    def __init__(self, per, zone, anchor=1):
        self.per, self.zone, self.anchor = per, zoneinfo.ZoneInfo(zone), anchor

    def date(self, t):
        return datetime.datetime.fromtimestamp(t // S, self.zone).date()

    def begin_of_month(self, year, month):
        return datetime.date(year, month, min(self.anchor, calendar.monthrange(year, month)[1]))

    def window(self, t):
        """Its first day, and that of the next one."""
        day = self.date(t)
        if self.per == "day":
            return day, day + datetime.timedelta(1)
        if self.per == "week":
            first = day - datetime.timedelta(day.weekday())
            return first, first + datetime.timedelta(7)
        months = [self.begin_of_month(day.year + (day.month - 1 + i) // 12, (day.month - 1 + i) % 12 + 1) for i in (-1, 0, 1)]
        i = max(i for i, first in enumerate(months) if first <= day)
        after = months[i + 1] if i < 2 else None
        return months[i], after

    def end_ns(self, t):
        """The first moment at which local time has reached the next window: clocks change at quarters of an hour."""
        _, after = self.window(t)
        noon = datetime.datetime.combine(after, datetime.time(12), datetime.timezone.utc)
        at = int(noon.timestamp()) - 30 * 3600
        while self.date(at * S) < after:
            at += 900
        return at * S


class Rule:
    """Of one plan. |most|: admitted in all; None: no end."""

    def __init__(self, limit, most, exceed="deny"):
        self.limit, self.most, self.exceed = limit, most, exceed


class Quota(Limit):
    """One for all plans: |rules| by plan. |classes|: of statuses that count; None: all."""

    def __init__(self, name, civil, rules, by="customer", shadow=False, classes=None):
        super().__init__(name, dict, [by], shadow)
        self.civil, self.rules, self.classes = civil, rules, classes

    def meets(self, request):
        return request[self.by[0]] is not None

    def used(self, request, t):
        return self.state(request).get(self.civil.window(t)[0], 0)

    def look(self, request, t, cost):
        rule, used = self.rules[request["plan"]], self.used(request, t)
        if cost == 0 or rule.most is None or used + cost <= rule.most:
            return Look(True, max(0, rule.limit - used - cost))
        never = cost > rule.most
        return Look(False, max(0, rule.limit - used), NEVER if never else self.civil.end_ns(t) - t)

    def take(self, request, t, cost):
        """Units beyond the limit, by what they are."""
        if self.classes is not None and request["status"] // 100 not in self.classes:
            return None
        rule, used = self.rules[request["plan"]], self.used(request, t)
        self.state(request)[self.civil.window(t)[0]] = used + cost
        beyond = max(0, used + cost - max(rule.limit, used))
        return (self.name, "overage" if rule.exceed == "overage" else "grace", beyond) if beyond else None


class Other(Limit):
    """A limit of policy_model.py, for all plans alike."""

    def meets(self, request):
        return True

    def look(self, request, t, cost):
        return self.state(request).look(t, cost)

    def take(self, request, t, cost):
        self.state(request).take(t, cost)


def wants_upgrade(denied, request, upgrades):
    return bool(denied) and request["customer"] is not None and request["plan"] in upgrades and \
        all(isinstance(limit, Quota) and limit.by == ["customer"] and limit.rules[request["plan"]].exceed == "upgrade"
            for limit, _ in denied)


def decide(limits, request, t, cost, upgrades, plans):
    """As policy_model.decide, with `beyond` and `upgraded`. |plans|: what customers were upgraded to."""
    if request["customer"] in plans:
        request["plan"] = plans[request["customer"]]
    met = [limit for limit in limits if limit.meets(request)]

    def look():
        looks = [(limit, limit.look(request, t, cost)) for limit in met]
        return looks, [pair for pair in looks if not pair[0].shadow and not pair[1].allowed]
    looks, denied = look()
    upgraded = None
    if wants_upgrade(denied, request, upgrades):
        upgraded = (request["plan"], upgrades[request["plan"]])
        request["plan"] = plans[request["customer"]] = upgraded[1]
        looks, denied = look()
    if denied:
        return {**speak("deny", *max(denied, key=lambda pair: longest(pair[1]))), "beyond": [], "upgraded": upgraded}
    beyond = [limit.take(request, t, cost) for limit, look in looks if look.allowed and cost > 0]
    enforced = [pair for pair in looks if not pair[0].shadow]
    refused = [pair for pair in looks if pair[0].shadow and not pair[1].allowed]
    if refused:
        said = speak("shadow", *max(refused, key=lambda pair: longest(pair[1])), Fraction(0))
    elif enforced:
        said = speak("allow", *min(enforced, key=lambda pair: pair[1].remaining))
    else:
        said = {"verdict": "allow", "limit": None, "remaining": None, "retry_ns": None}
    return {**said, "beyond": [one for one in beyond if one], "upgraded": upgraded}
