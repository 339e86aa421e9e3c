"""The clocks by which a daemon or a gateway under test decides, set by the test (moment.c)."""
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build")).resolve() / "tests/e2e/moment.so"


class Moment:
    """|env| is for the programs; they must be started before the first set(), and read what is set at once."""

    def __init__(self, folder, ns):
        self.path = folder / "moment"
        self.path.write_bytes(bytes(8))
        self.path.chmod(0o644)
        self.env = {"LD_PRELOAD": str(LIBRARY), "WEIR_MOMENT": str(self.path)}
        self.set(ns)

    def set(self, ns):
        with open(self.path, "r+b", buffering=0) as file:
            file.write(ns.to_bytes(8, "little"))
