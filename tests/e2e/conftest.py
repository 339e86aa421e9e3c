import sys
import pathlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture
def gateway(request):
    """Make gateways that are started, and in the end stopped with a look at their error logs."""
    import gateway as g
    if not g.MODULE.exists():
        pytest.skip(f"no {g.MODULE}: nginx-dev was missing when weir was built")
    made = []

    def make(policy, start=True, **parts):
        gate = g.Gateway(policy, **parts)
        gate.expect_alerts = False
        made.append(gate)
        return gate.start() if start else gate

    yield make
    try:
        for gate in made:
            started = gate.master is not None
            gate.stop()
            if started and not gate.expect_alerts:
                gate.check_log()
    finally:
        for gate in made:
            gate.cleanup()
