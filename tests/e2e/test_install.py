"""make install, and what make builds for whom."""
import re
import shutil
import subprocess

import pytest

from gateway import BUILD, MODULE, NGINX, ROOT


def test_destdir_install(tmp_path):
    """The module lands where Debian's nginx looks for modules/…, the rest below the prefix."""
    if not MODULE.exists():
        pytest.skip(f"no {MODULE}: nginx-dev was missing when weir was built")
    done = subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", tmp_path],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    said = subprocess.run([NGINX, "-V"], capture_output=True, text=True, timeout=20).stderr
    modules = re.search(r"--modules-path=(\S+)", said).group(1)
    installed = {"/" + str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir()}
    assert f"{modules}/ngx_http_weir_module.so" in installed
    assert [path for path in installed if path.endswith("ngx_http_weir_module.so")] == [f"{modules}/ngx_http_weir_module.so"]
    for name in ("/bin/weir", "/include/weir/weir.h", "/libweir.so.0", "/libweir.a", "/pkgconfig/libweir.pc",
                 "/man1/weir.1", "/man7/ngx_http_weir_module.7"):
        assert sum(path.endswith(name) for path in installed) == 1, (name, installed)
    unit, = tmp_path.rglob("lib/systemd/system/weir.service")
    program, = (path for path in installed if path.endswith("/bin/weir"))
    text = unit.read_text()
    assert f"ExecStart={program} serve -c " in text and f"ExecStartPre={program} check " in text and "@bindir@" not in text
    user, = tmp_path.rglob("lib/sysusers.d/weir.conf")
    assert "User=weir\n" in text and user.read_text().splitlines()[-1].startswith("u weir ")


def test_the_unit_and_its_user_are_what_systemd_takes(build, tmp_path):
    """Names, values, and how little the service may do, as systemd rates it (0: nothing, 10: all)."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze")
    unit = tmp_path / "weir.service"
    unit.write_text(re.sub(r"=\S+/weir ", f"={build}/weir ", (build / "packaging/weir.service").read_text()))
    for arguments in (["verify", "--man=no"], ["security", "--offline=yes", "--threshold=20"]):
        done = subprocess.run(["systemd-analyze", *arguments, unit], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "weir.service:" not in done.stderr, done.stdout + done.stderr
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    done = subprocess.run(["systemd-sysusers", f"--root={root}", ROOT / "packaging/weir.sysusers"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "weir:" in (root / "etc/passwd").read_text(), done.stderr


@pytest.mark.parametrize("target, wanted", [
    ("gateway", ["weir", "ngx_http_weir_module.so"]),
    ("product", ["weir", "libweir.so.0.1.0", "libweir.a", "ngx_http_weir_module.so"]),
])
def test_a_first_build_makes_only_what_it_promises(target, wanted):
    """A first make run waits for no test, fuzz target or bench."""
    made = {path for path in ninja("inputs", target) if not path.startswith(("/", ".."))}
    assert set(wanted) <= {path.rpartition("/")[2] for path in ninja("query", target)}
    assert not [path for path in made if path.startswith(("tests/", "fuzz/", "bench/", "examples/"))]


def ninja(tool, target):
    said = subprocess.run(["ninja", "-C", BUILD, "-t", tool, target], capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr
    return [line.strip(" |") for line in said.stdout.splitlines()]


def test_make_run_and_build_use_these_targets():
    for goal, target in (("run", "gateway"), ("build", "product"), ("bench", "benches")):
        said = subprocess.run(["make", "-n", goal, "BUILD=b"], cwd=ROOT, capture_output=True, text=True, timeout=20)
        assert [line for line in said.stdout.splitlines() if line.startswith("ninja")] == [f"ninja -C b {target}"]
