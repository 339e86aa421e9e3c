"""Who runs a test again, and when: stalls.py. One that hid failures would be worse than none."""
import types

import stalls


def watch(stood_still=0.0):
    made = stalls.Watch.__new__(stalls.Watch)  # without its thread
    made.longest = made.since = 0.0
    made.unsteady = 0
    made.begin = lambda: setattr(made, "since", stood_still)
    return made


def outcome(*tries, by):
    """Has the test failed that comes out so, try after try; how often was it run; is that told?"""
    runs = []

    def protocol(item, nextitem, log):
        runs.append(nextitem)
        failed = tries[len(runs) - 1] == "failed"
        return [types.SimpleNamespace(failed=failed, longreprtext=f"try {len(runs)}")]

    reports, told = stalls.run(types.SimpleNamespace(nodeid="a test"), "next", protocol, by)
    assert ("a test" in told and "try 1" in told) == (told != "")
    return any(report.failed for report in reports), len(runs), told != ""


def test_what_passes_is_run_once():
    assert outcome("passed", by=watch()) == (False, 1, False)
    assert outcome("passed", by=watch(0.4)) == (False, 1, False)


def test_a_failure_during_a_stall_must_pass_once():
    assert outcome("failed", "passed", by=watch(0.4)) == (False, 2, True)
    assert outcome("failed", "failed", by=watch(0.4)) == (True, 2, True)


def test_another_failure_must_pass_twice():
    assert outcome("failed", "passed", "passed", by=watch()) == (False, 3, True)
    assert outcome("failed", "passed", "failed", by=watch()) == (True, 3, True)
    assert outcome("failed", "failed", by=watch()) == (True, 2, True)


def test_a_run_has_three_chances():
    one = watch()
    assert [outcome("failed", "passed", "passed", by=one)[0] for _ in range(3)] == [False] * 3
    assert outcome("failed", by=one) == (True, 1, False)
