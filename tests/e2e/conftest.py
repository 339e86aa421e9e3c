"""What every end-to-end test needs: the build (WEIR_BUILD, default build/), its `weir`, a free port; and fairness on a
machine that stands still (stalls.py)."""
import os
import pathlib
import shutil

import pytest
from _pytest.runner import runtestprotocol

import serving
import stalls
from certificates import Authority
from http_door import Door
from serving import Daemon

pytest.register_assert_rewrite("chaos_site")  # what it judges fails with its numbers, as in a test

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def build():
    return pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build")).resolve()


@pytest.fixture(scope="session")
def weir(build):
    return build / "weir"


@pytest.fixture
def free_port():
    return serving.free_port()


@pytest.fixture
def daemon(weir, tmp_path, request):
    """`weir serve` with the POLICY of the test's file, which is a file at .policy."""
    path = tmp_path / "policy.yaml"
    path.write_text(request.module.POLICY)
    daemon = Daemon([weir, "serve", "-c", path, "--log-format", "json"]).ready()
    daemon.policy = path
    yield daemon
    daemon.close()


@pytest.fixture
def door(weir, tmp_path):
    """door(limit, …, **options) starts a Door; all are closed with the test."""
    doors = []

    def start(*limits, **options):
        doors.append(Door(weir, tmp_path / f"policy{len(doors)}.yaml", limits, **options))
        return doors[-1]

    yield start
    for d in doors:
        d.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def tls_files(authority, tmp_path):
    """A server's certificate and key, where a test may change them."""
    for source, name in zip(authority.issue("first"), ["cert.pem", "key.pem"]):
        shutil.copy(source, tmp_path / name)
    return tmp_path / "cert.pem", tmp_path / "key.pem"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A user's machine may lack a peer, and the test says so and is skipped; under CI a skip is a failure."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr[-1]}"


WATCH, AGAIN = stalls.Watch(), []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports, again = stalls.run(item, nextitem, runtestprotocol, WATCH)
    if again:
        AGAIN.append(again)
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"the machine stood still for {WATCH.longest * 1000:.0f} ms at most")
    if AGAIN:
        terminalreporter.section("run again")
        for line in AGAIN:
            terminalreporter.write_line(line)
