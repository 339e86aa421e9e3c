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
