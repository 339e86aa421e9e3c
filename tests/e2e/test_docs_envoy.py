"""docs/envoy.md: each of its examples is read by whom it is for: policies and files of limits by `weir check`,
what Envoy is given by `envoy --mode validate`."""
import re
import subprocess

import pytest

from conftest import ROOT
from serving import DEADLINE

TEXT = (ROOT / "docs/envoy.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", TEXT, re.S)
SHOP = "domain: shop\ndescriptors: [{key: plan, rate_limit: {unit: minute, requests_per_unit: 5}}]\n"


def of(start):
    return [text for text in EXAMPLES if text.startswith(start)]


def test_each_example_is_looked_at():
    assert len(of("version:")) == 3 and len(of("domain:")) == 1
    assert len(of("version:") + of("domain:") + of("http_filters:") + of("rate_limits:")) == len(EXAMPLES)


def check(weir, folder, policy):
    (folder / "policy.yaml").write_text(policy)
    got = subprocess.run([weir, "check", folder / "policy.yaml"], capture_output=True, text=True, timeout=DEADLINE)
    assert got.returncode == 0 and "warning" not in got.stderr, got.stdout + got.stderr


@pytest.mark.parametrize("policy", of("version:"))
def test_policies(weir, tmp_path, policy):
    (tmp_path / "shop.yaml").write_text(SHOP)
    (tmp_path / "limits").mkdir()
    (tmp_path / "limits/other.yml").write_text(SHOP.replace("shop", "other"))
    check(weir, tmp_path, policy)


@pytest.mark.parametrize("limits", of("domain:"))
def test_files_of_limits(weir, tmp_path, limits):
    (tmp_path / "shop.yaml").write_text(limits)
    check(weir, tmp_path, "version: 1\nenvoy_ratelimit: [shop.yaml]\n")


def indented(text, by):
    return "".join(" " * by + line + "\n" for line in text.splitlines())


def test_what_envoy_is_given(build, tmp_path):
    """In place of the filter and the actions of examples/envoy, which is validated as it stands as well."""
    envoy = build / "venv/bin/envoy"
    if not envoy.exists():
        pytest.skip("no Envoy: scripts/venv.sh has not run")
    whole = (ROOT / "examples/envoy/envoy.yaml").read_text()
    filters, actions = of("http_filters:")[0], of("rate_limits:")[0]
    router = whole[whole.index("                  - name: envoy.filters.http.router"):
                   whole.index("                route_config:")]
    ours = re.sub(r" {16}http_filters:\n.*?(?= {16}route_config:)",
                  lambda _: indented(filters, 16) + router, whole, flags=re.S)
    ours = re.sub(r" {22}rate_limits:.*?(?= {22}routes:)", lambda _: indented(actions, 22), ours, flags=re.S)
    assert "x-api-key, descriptor_key: api_key, skip_if_absent" in ours and ours != whole
    for name, text in (("example", whole), ("docs", ours), ("broken", ours.replace("failure_mode_deny:", "failure:"))):
        (tmp_path / f"{name}.yaml").write_text(text)
        got = subprocess.run([envoy, "--mode", "validate", "-c", tmp_path / f"{name}.yaml", "-l", "error"],
                             capture_output=True, text=True, timeout=120)
        assert (got.returncode == 0) == (name != "broken"), (name, got.stdout + got.stderr)
