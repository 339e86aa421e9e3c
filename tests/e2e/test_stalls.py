"""Who runs a test once more, and when: stalls.py. One that hid failures would be worse than none."""
import types

import stalls


def outcome(*tries, stood_still):
    """Reports of a test that comes out so, try after try, and how often it was run."""
    runs = []

    def protocol(item, nextitem, log):
        runs.append(nextitem)
        return [types.SimpleNamespace(failed=tries[len(runs) - 1] == "failed")]

    watch = types.SimpleNamespace(begin=lambda: None, stood_still=lambda: stood_still)
    reports, stall = stalls.run("item", "next", protocol, watch)
    return any(report.failed for report in reports), len(runs), stall


def test_only_a_failure_during_a_stall_is_run_again():
    assert outcome("passed", stood_still=0.0) == (False, 1, 0.0)
    assert outcome("passed", stood_still=0.4) == (False, 1, 0.0)
    assert outcome("failed", stood_still=0.0) == (True, 1, 0.0)
    assert outcome("failed", "passed", stood_still=0.4) == (False, 2, 0.4)


def test_what_fails_twice_has_failed():
    assert outcome("failed", "failed", stood_still=0.4) == (True, 2, 0.4)
