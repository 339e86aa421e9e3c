"""h2spec against the gRPC door: every case of HTTP/2 and HPACK, in clear and under TLS."""
import subprocess
import xml.etree.ElementTree

import pytest

from certificates import Authority
from serving import Daemon

POLICY = """version: 1
arena: {path: "%(dir)s/arena", size: 1MiB}
listen: {threads: 1, grpc: {address: 127.0.0.1:0%(tls)s}}
limits: [{name: per-ip, by: [ip], rate: 5/hour}]
"""


@pytest.mark.parametrize("tls", [False, True], ids=["clear", "tls"])
def test_every_case(weir, build, tmp_path, tls):
    h2spec = build / "clients/h2spec"
    if not h2spec.exists():
        pytest.skip("no h2spec: scripts/clients.sh could not build it")
    more = ""
    if tls:
        more = ", tls: {certificate: %s, key: %s}" % Authority(tmp_path).issue("server")
    (tmp_path / "policy.yaml").write_text(POLICY % {"dir": tmp_path, "tls": more})
    daemon = Daemon([weir, "serve", "-c", tmp_path / "policy.yaml", "--log-format", "json"]).ready()
    try:
        report = tmp_path / "report.xml"
        out = subprocess.run([h2spec, "-h", "127.0.0.1", "-p", str(daemon.address("grpc")[1]), "-o", "10", "-S", "-j", report,
                              *(["-t", "-k"] if tls else [])], capture_output=True, text=True, timeout=300)
        cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
        wrong = [(c.get("package"), c.get("classname")) for c in cases if len(c) > 0]
        assert wrong == [], out.stdout[-3000:]
        assert len(cases) >= 145
    finally:
        daemon.close()
