"""What every end-to-end test needs: the build (WEIR_BUILD, default build/), its `weir`, a free port."""
import os
import pathlib
import socket

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def build():
    return pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build")).resolve()


@pytest.fixture(scope="session")
def weir(build):
    return build / "weir"


@pytest.fixture
def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A user's machine may lack a peer, and the test says so and is skipped; under CI a skip is a failure."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr[-1]}"
