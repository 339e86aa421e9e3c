"""What a failure is worth that does not come again.

Servers under test are real, with deadlines of tens to hundreds of milliseconds, on a machine that is shared. A test that
fails is run again in two cases, in plain sight (the summary has its name and its failure), and in no other:

  stall     all processes stood still for longer than deadlines last (a thread measures by how much a short sleep is too
            long): a server was truly late and said so, no fault of it. It must pass once.
  unsteady  it failed without a reason that is known. It must pass twice in a row, and a run has UNSTEADY_MAX of them:
            one is a fault of the test or of weir to be found, but no reason to distrust all the others. What fails always,
            or every other time, has failed."""
import threading
import time

SLEEP_S = 0.02
STALL_S = 0.15  # shorter than the shortest deadline that a test waits for
UNSTEADY_MAX = 3


class Watch:
    def __init__(self):
        self.longest = self.since = 0.0
        self.unsteady = 0
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

    def chances(self):
        """How often a test that has just failed must pass to have passed, and why; 0: it has failed."""
        stall = self.stood_still()
        if stall:
            return 1, f"failed while the machine stood still for {stall * 1000:.0f} ms"
        self.unsteady += 1
        return (2, "UNSTEADY, failed once for no known reason") if self.unsteady <= UNSTEADY_MAX else (0, "")


def has_failed(reports):
    return any(report.failed for report in reports)


def run(item, nextitem, protocol, watch):
    """Run the test. Returns the reports that count, and, if they are not the first ones, why and what failed first."""
    watch.begin()
    reports = first = protocol(item, nextitem=nextitem, log=False)
    if not has_failed(first):
        return first, ""
    times, why = watch.chances()
    for _ in range(times):
        reports = protocol(item, nextitem=nextitem, log=False)
        if has_failed(reports):
            break
    failure = "\n".join(report.longreprtext for report in first if report.failed)
    return reports, f"{item.nodeid}: {why}\n{failure}" if times else ""
