"""What a ledger says of its files: `weir usage --verify` while requests are counted and after kill -9, and files of usage
that somebody takes away from under a daemon."""
import json
import shutil
import subprocess
import sys
import threading

from serving import wait_for
from test_ledger import admin, ask, make, more, series, used  # noqa: F401 (make is a fixture)


READER = """import sqlite3, sys
database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
database.execute("SELECT count(*) FROM sqlite_master").fetchall()
print("open", flush=True)
sys.stdin.read()"""


def verify(weir, door, *options):
    done = subprocess.run([weir, "usage", "-c", door.policy, "--verify", *options], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_what_is_being_counted_is_not_unsound(make, weir):
    door, over, asked = make(), threading.Event(), []

    def call():
        while not over.is_set():
            ask(door, "k-acme")
            asked.append(1)
    caller = threading.Thread(target=call)
    caller.start()
    try:
        for _ in range(5):
            seen = len(asked)
            wait_for("it counts", lambda: len(asked) > seen + 20)
            status, text, errors = verify(weir, door)
            assert status == 0 and text.startswith("sound: "), (text, errors)
    finally:
        over.set()
        caller.join(60)
    door.end()
    assert verify(weir, door)[:2] == (0, f"sound: 1 windows of 1 customers on 1 nodes; used {len(asked)}, overage 0; 0 wrong\n")


def test_what_is_not_flushed_is_told_as_that(make, weir, tmp_path):
    rare = more(tmp_path).replace("flush: 100ms", "flush: 60s")
    door, asked = make(more=rare), []

    def look():
        status, text, errors = verify(weir, door, "--json")
        said = json.loads(text)
        assert status == 0 and said["wrong"] == 0, errors
        assert said["used"] + said["not_flushed"] == len(asked)
        return said["not_flushed"]

    def count():
        ask(door, "k-acme")
        asked.append(1)
        return look()
    waiting = wait_for("the keeper rests", count)
    assert f"not flushed yet: {waiting} units are counted, and not in the ledger" in verify(weir, door)[1]
    door.daemon.process.kill()
    door.daemon.wait()
    assert look() == waiting
    door = make(more=rare)
    door.end()
    assert look() == 0 and used(tmp_path) == {"acme": len(asked)}


def test_a_file_that_is_taken_away_is_told(make, weir, tmp_path):
    door = make()
    ask(door, "k-acme", cost=5)
    wait_for("it is written", lambda: used(tmp_path) == {"acme": 5})
    (tmp_path / "state" / "daily.usage").unlink()
    event = "a file of usage or of customers was taken away while it is counted in"
    assert door.daemon.event(event)["detail"].startswith("daily.usage was removed: ")
    ready = json.loads(admin(door, "/readyz"))
    assert ready["ready"] and "daily.usage was removed while it is counted in" in ready["detail"]
    assert series(door, "weir_ledger_stray_files") == 1
    status, text, errors = verify(weir, door)
    assert status == 1 and text.startswith("NOT SOUND: ") and "daily.usage: it is missing" in errors
    ask(door, "k-acme", cost=2)
    door.end()
    status, text, errors = verify(weir, door)
    assert status == 1 and text.startswith("NOT SOUND: ") and "daily.usage: it is missing" in errors
    door = make()
    ask(door, "k-acme")
    wait_for("it goes on", lambda: used(tmp_path) == {"acme": 8})
    assert verify(weir, door)[0] == 0
    assert json.loads(admin(door, "/readyz"))["detail"] == "serving"
    assert len([e for e in door.daemon.events if e["event"] == event]) == 0


def test_a_log_that_is_taken_away_is_told_and_a_restart_loses_nothing(make, weir, tmp_path):
    door = make()
    ask(door, "k-acme", cost=5)
    wait_for("it is written", lambda: used(tmp_path) == {"acme": 5})
    for end in ("-wal", "-shm"):
        (tmp_path / "state" / f"customers.db{end}").unlink()
    wait_for("it is told", lambda: "customers.db-wal was removed" in json.loads(admin(door, "/readyz"))["detail"])
    ask(door, "k-acme", cost=2)
    (tmp_path / "copy" / "state").mkdir(parents=True)

    def whole():
        shutil.copy(tmp_path / "state/customers.db", tmp_path / "copy/state/customers.db")
        return used(tmp_path / "copy")
    wait_for("a kill would lose nothing", lambda: whole() == {"acme": 7})
    reader = subprocess.Popen([sys.executable, "-c", READER, tmp_path / "state/customers.db"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert reader.stdout.readline() == b"open\n"  # so that the daemon's is not the last close
    door.end()
    reader.communicate(b"")
    door = make()
    assert used(tmp_path) == {"acme": 7}
    assert json.loads(admin(door, "/readyz"))["detail"] == "serving"
