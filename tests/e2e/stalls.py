"""A machine that stands still: how long, and what a test that failed meanwhile is worth.

Servers under test have deadlines of tens to hundreds of milliseconds. On a shared machine all processes can be stopped
for longer, and then a server was truly late and said so: no fault of it. A thread measures by how much a short sleep
is too long. A test that fails while the machine stood still is run once more, in plain sight; what fails twice, or
without such a stall, has failed."""
import threading
import time

SLEEP_S = 0.02
STALL_S = 0.15  # shorter than the shortest deadline that a test waits for


class Watch:
    def __init__(self):
        self.longest = self.since = 0.0
        threading.Thread(target=self._measure, daemon=True).start()

    def _measure(self):
        while True:
            before = time.monotonic()
            time.sleep(SLEEP_S)
            late = time.monotonic() - before - SLEEP_S
            self.longest, self.since = max(self.longest, late), max(self.since, late)

    def begin(self):
        self.since = 0.0

    def stood_still(self):
        """For how long at most since begin(); 0: not to speak of."""
        return self.since if self.since >= STALL_S else 0.0


def run(item, nextitem, protocol, watch):
    """Run the test; once more if it failed while the machine stood still. Returns the reports that count, and the
    stall that they are the second ones for, or 0."""
    watch.begin()
    reports = protocol(item, nextitem=nextitem, log=False)
    stall = watch.stood_still()
    if not stall or not any(report.failed for report in reports):
        return reports, 0.0
    return protocol(item, nextitem=nextitem, log=False), stall
