"""The man pages are well-formed."""

import shutil
import subprocess

import pytest

from gateway import ROOT


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "man").iterdir()), ids=lambda page: page.name)
def test_page(page):
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_every_command_has_its_section(weir):
    """One section may be of several: ban, unban."""
    page = (ROOT / "docs" / "man" / "weir.1").read_text()
    sections = {name for line in page.splitlines() if line.startswith(".Ss ") for name in line[4:].split(" , ")}
    listed = [line.split()[0] for line in subprocess.run([weir, "help"], capture_output=True, text=True, check=True).stdout.splitlines()
              if line.startswith("  ")]
    assert {"serve", "customer", "usage", "alerts"} <= set(listed)
    assert set(listed) - {"version", "help"} <= sections
    assert all(f".Cm {name}\n" in page for name in listed)
