"""The golden vectors through the doors of the daemon and the gateway, whose clocks stand at each vector's moment
(moment.py): exact, to the millisecond that the door speaks of. The gateway holds what is delayed and frees places when a
response is sent: vectors of delays are followed up to the first one there, those of places are left to
test_nginx_flow.py."""
import http.client
import json

import pytest

from gateway import MODULE, Gateway
from golden_vectors import BLOCKS, EARLIEST_NS, IDS
from grpc_client import OK, OVER, call_by_hand, descriptor, question
from http2_wire import Http2
from http_door import Door
from moment import Moment
from serving import DEADLINE, Daemon
from test_resp import Client

each_block = pytest.mark.parametrize("index", range(len(BLOCKS)), ids=IDS)

DOORS = "listen: {http: 127.0.0.1:0, grpc: 127.0.0.1:0, resp: 127.0.0.1:0, admin: 127.0.0.1:0, threads: 1}\n"
WHO = "identity: {api_key: {header: X-Api-Key}}\ncustomers: {room: 100}\n"


def make_customer(daemon, name):
    """Its key is its name."""
    connection = http.client.HTTPConnection(*daemon.address("admin"), timeout=DEADLINE)
    connection.request("POST", "/v1/customers", json.dumps({"name": name, "value": name}))
    answered = connection.getresponse()
    assert answered.status == 200, answered.read()
    connection.close()


def limits(pattern, blocks=BLOCKS):
    return [f"name: b{i}, match: {{path: {pattern % i}}}, {block.policy()}" for i, block in enumerate(blocks)]


@pytest.fixture(scope="module")
def site(weir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    path = folder / "policy.yaml"
    path.write_text(f"version: 1\narena: {{path: {folder}/arena, size: 4MiB}}\n{DOORS}{WHO}limits:\n" +
                    "".join(f"  - {{{limit}}}\n" for limit in limits("/b%d")))
    moment = Moment(folder, EARLIEST_NS)
    daemon = Daemon([weir, "serve", "-c", path, "--log-format", "json"], env=moment.env).ready()
    daemon.moment = moment
    for name in ("http", "grpc", "resp"):
        make_customer(daemon, name)
    yield daemon
    daemon.close()


@pytest.fixture(scope="module")
def web(site):
    door = Door.__new__(Door)
    door.daemon, door.address, door.connection = site, site.address("http"), None
    yield door
    door.connection.close()


@each_block
def test_http(site, web, index):
    block = BLOCKS[index]
    for vector in block.vectors:
        site.moment.set(vector.ns)
        got = web.check(path=f"/b{index}", cost=vector.cost, keys={"api_key": "http"})
        assert (got["verdict"], got["limit"], got["remaining"], got["delay_ms"], got["retry_after_ms"]) == \
            (vector.verdict, f"b{index}", vector.remaining, vector.delay_ms, vector.due_ms()), f"{block.where}: {vector.text}"


@each_block
def test_grpc(site, index):
    """A call is answered OK or OVER_LIMIT; what a leaky bucket delays is OK."""
    block = BLOCKS[index]
    with Http2(site.address("grpc")) as connection:
        for i, vector in enumerate(block.vectors):
            site.moment.set(vector.ns)
            entries = [("remote_address", "192.0.2.2"), ("path", f"/b{index}"), ("api_key", "grpc")]
            body = question("any", descriptor(entries, hits=vector.cost))
            got = call_by_hand(connection, 2 * i + 1, body)
            assert (got["code"], got["statuses"][0]["remaining"]) == \
                (OVER if vector.verdict == "deny" else OK, vector.remaining), f"{block.where}: {vector.text}"


@pytest.fixture(scope="module")
def redis(site):
    client = Client(site.address("resp"))
    yield client
    client.close()


@each_block
def test_resp(site, redis, index):
    block = BLOCKS[index]
    for vector in block.vectors:
        site.moment.set(vector.ns)
        allowed, _, remaining, retry, _, delay = redis("WEIR.CHECK", f"b{index}", "resp", vector.cost)
        verdict = "deny" if not allowed else "delay" if delay > 0 else "allow"
        assert (verdict, remaining, delay, retry) == \
            (vector.verdict, vector.remaining, vector.delay_ms, vector.retry_ms), f"{block.where}: {vector.text}"


# ---- the gateway


def to_follow(block):
    """What the gateway can be asked of a block: see above."""
    delayed = next((i for i, vector in enumerate(block.vectors) if vector.verdict == "delay"), len(block.vectors))
    return [] if block.kind == "concurrency" else block.vectors[:delayed]


@pytest.fixture(scope="module")
def gate(weir):
    if not MODULE.exists():
        pytest.skip(f"no {MODULE}: nginx-dev was missing when weir was built")
    costs = {(i, vector.cost) for i, block in enumerate(BLOCKS) for vector in to_follow(block)}
    policy = DOORS + WHO + "costs:\n" + \
        "".join(f"  - {{match: {{path: /b{i}/{cost}}}, cost: {cost}}}\n" for i, cost in sorted(costs)) + \
        "limits:\n" + "".join(f"  - {{{limit}}}\n" for limit in limits("/b%d/**"))
    gate = Gateway(policy, server='add_header V "$weir_verdict,$weir_limit,$weir_remaining" always; weir_options on;')
    daemon = None
    try:
        gate.moment = Moment(gate.dir, EARLIEST_NS)
        daemon = Daemon([weir, "serve", "-c", gate.policy_file, "--log-format", "json"], env=gate.moment.env).ready()
        make_customer(daemon, "nginx")
        yield gate.start(env=gate.moment.env)
    finally:
        gate.cleanup()
        if daemon is not None:
            daemon.close()


@each_block
def test_nginx(gate, index):
    block = BLOCKS[index]
    for vector in to_follow(block):
        gate.moment.set(vector.ns)
        got = gate.get(f"/b{index}/{vector.cost}", headers={"X-Api-Key": "nginx"})
        assert got.one("V") == f"{vector.verdict},b{index},{vector.remaining}", f"{block.where}: {vector.text}"
        denied = vector.verdict == "deny"
        assert got.status == (429 if denied else 200)
        seconds = -(-vector.retry_ms // 1000)
        assert got.all("Retry-After") == ([str(seconds)] if denied and seconds > 0 else []), f"{block.where}: {vector.text}"
