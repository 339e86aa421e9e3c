#!/usr/bin/env python3
"""Civil days, weeks and months against Python's zoneinfo: civil.py CIVIL_WINDOWS.

What a boundary must be is said here by its meaning alone: local time reaches the window's first day at that moment
and at none before. First days come from Python's calendar."""
import calendar
import datetime
import subprocess
import sys
import zoneinfo

# With changes at midnight, over midnight, by half an hour, of whole days, in other months each year, rules that ended;
# and the two ends of the world.
ZONES = """UTC Europe/Istanbul Europe/London Europe/Dublin America/New_York America/Sao_Paulo America/Havana
America/St_Johns America/Caracas Asia/Beirut Asia/Tehran Asia/Kolkata Asia/Pyongyang Asia/Gaza Africa/Casablanca
Africa/Cairo Australia/Lord_Howe Pacific/Apia Pacific/Kiritimati Pacific/Pago_Pago Antarctica/Troll
America/Nuuk""".split()
EPOCH = datetime.date(1970, 1, 1)
FIRST, LAST = datetime.date(2000, 1, 1), datetime.date(2032, 1, 1)
FAR = [(datetime.date(2095, 1, 1), datetime.date(2101, 4, 1)), (datetime.date(1970, 3, 5), datetime.date(1973, 1, 1))]


def first_days(per, anchor, first, last):
    """The first days of the windows that hold first to last."""
    if per == "day":
        return [first + datetime.timedelta(i) for i in range((last - first).days + 1)]
    if per == "week":
        day = first - datetime.timedelta(first.weekday())
        return [day + datetime.timedelta(i) for i in range(0, (last - day).days + 1, 7)]
    days = []
    for year in range(first.year - 1, last.year + 1):
        for month in range(1, 13):
            days.append(datetime.date(year, month, min(anchor, calendar.monthrange(year, month)[1])))
    begin = max(i for i, day in enumerate(days) if day <= first)
    return [day for day in days[begin:] if day <= last]


class Zone:
    def __init__(self, name):
        self.zone = zoneinfo.ZoneInfo(name)

    def date(self, moment):
        return datetime.datetime.fromtimestamp(moment, self.zone).date()

    def noon(self, day):
        return int(datetime.datetime(day.year, day.month, day.day, 12, tzinfo=self.zone).timestamp())

    def begins(self, day, moment):
        """Does local time reach |day| at |moment|, and at no moment of the six hours before?"""
        return self.date(moment) >= day and all(self.date(moment - before) < day
                                                for before in (1, *range(1800, 6 * 3600, 1800)))


def ask(program, questions):
    text = "".join(f"{zone} {per} {anchor} {start} {end}\n" for zone, per, anchor, start, end in questions)
    out = subprocess.run([program], input=text, capture_output=True, text=True, check=False)
    if out.returncode != 0:
        sys.exit(out.stderr)
    answers = []
    for line in out.stdout.splitlines():
        if line[0] == "=":
            answers.append([])
        else:
            answers[-1].append([int(word) for word in line.split()])
    assert len(answers) == len(questions), (len(answers), len(questions))
    return answers


def check(name, per, anchor, first, last, windows):
    zone, what = Zone(name), (name, per, anchor)
    wanted = first_days(per, anchor, first, last)
    if per == "day":  # one that was skipped whole has no noon on it
        wanted = [day for day in wanted if zone.date(zone.noon(day)) == day]
    found = [EPOCH + datetime.timedelta(day) for day, start, end in windows]
    assert found == wanted, (what, set(found) ^ set(wanted))
    for day, (_, start, end) in zip(found, windows):
        assert zone.begins(day, start), (*what, day, start)
        assert start < end
    for before, after in zip(windows, windows[1:]):
        assert before[2] == after[1]
    return len(windows)


def main():
    cases = []
    for name in ZONES:
        zone = Zone(name)
        for per, anchors in (("day", [1]), ("week", [1]), ("month", range(1, 32))):
            for anchor in anchors:
                spans = [(FIRST, LAST)] + (FAR if per != "month" or anchor in (1, 29, 31) else [])
                cases += [(name, per, anchor, a, b, zone.noon(a), zone.noon(b)) for a, b in spans]
    answers = ask(sys.argv[1], [(name, per, anchor, start, end) for name, per, anchor, _, _, start, end in cases])
    total = sum(check(name, per, anchor, a, b, windows)
                for (name, per, anchor, a, b, _, _), windows in zip(cases, answers))
    print(f"{total} windows of {len(ZONES)} zones")


if __name__ == "__main__":
    main()
