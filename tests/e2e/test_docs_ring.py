"""docs/distributed.md, sticky routing: nginx and Envoy load what it shows."""
import re
import subprocess

import pytest

from gateway import NGINX, ROOT
from serving import free_port

TEXT = (ROOT / "docs/distributed.md").read_text()


def block(language):
    found = re.findall(rf"```{language}\n(.*?)```", TEXT[TEXT.index("### Sticky routing"):], flags=re.S)
    assert found
    return found


def test_nginx_loads_it(tmp_path):
    (upstream,) = block("nginx")
    (tmp_path / "logs").mkdir()
    conf = tmp_path / "nginx.conf"
    conf.write_text(f"pid {tmp_path}/nginx.pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{upstream}\n"
                    f"server {{ listen 127.0.0.1:{free_port()}; location / {{ proxy_pass http://weir; }} }}\n}}\n")
    got = subprocess.run([NGINX, "-t", "-p", tmp_path, "-c", conf], capture_output=True, text=True, timeout=60)
    assert got.returncode == 0, got.stderr


def indented(text, by):
    return "".join(" " * by + line + "\n" for line in text.splitlines())


def test_envoy_loads_it(build, tmp_path):
    envoy = build / "venv/bin/envoy"
    if not envoy.exists():
        pytest.skip("no envoy: scripts/venv.sh")
    clusters, route = block("yaml")
    conf = tmp_path / "envoy.yaml"
    conf.write_text(f"""static_resources:
  listeners:
  - name: in
    address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{prefix: /}}
{indented(route, 16)}
{indented(clusters, 2)}""")
    got = subprocess.run([envoy, "--mode", "validate", "-c", conf, "-l", "error"], capture_output=True, text=True, timeout=120)
    assert got.returncode == 0, got.stdout + got.stderr
