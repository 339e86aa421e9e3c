"""`weir arena`: what it says of an arena that was decided in, of damage, and of what is none."""
import ctypes
import json
import os
import subprocess

import pytest

from gateway import BUILD

POLICY = """
version: 1
arena: {path: PATH, size: 4MiB}
limits:
  - {name: bucket, by: [ip], rate: 100/hour burst 5}
  - {name: log, by: [ip], rate: 30/hour, algorithm: sliding-log}
"""


class Slice(ctypes.Structure):
    _fields_ = [("ptr", ctypes.c_char_p), ("len", ctypes.c_size_t)]


def arena_command(*arguments):
    return subprocess.run([BUILD / "weir", "arena", *map(str, arguments)], capture_output=True, text=True, timeout=60)


@pytest.fixture
def arena(tmp_path):
    """The file of an arena in which each of five callers was admitted seven times by the log."""
    policy, path = tmp_path / "policy.yaml", tmp_path / "arena"
    policy.write_text(POLICY.replace("PATH", str(path)))
    lib = ctypes.CDLL(str(BUILD / "libweir.so"))
    lib.weir_now.restype = ctypes.c_int64
    handle, errors = ctypes.c_void_p(), ctypes.create_string_buffer(4096)
    assert lib.weir_open(ctypes.byref(handle), str(policy).encode(), None, errors, 4096) == 0, errors.value
    verdict = ctypes.create_string_buffer(256)
    for caller in range(5):
        key = b"192.0.2.%d" % caller
        for limit in (0, 1):
            for _ in range(7):
                assert lib.weir_check(handle, ctypes.c_uint(limit), Slice(key, len(key)), ctypes.c_int64(1),
                                      ctypes.c_int64(lib.weir_now(handle)), verdict) == 0
    lib.weir_close(handle)
    return path


def test_it_counts_keys_and_stamps(arena):
    said = arena_command("--json", arena)
    assert said.returncode == 0
    report = json.loads(said.stdout)
    assert report["sound"] is True
    assert report["size_bytes"] == 4 << 20
    assert report["used"] == 10 and report["live"] == 10
    assert report["processes"] == 0
    assert {c["algorithm"]: (c["keys"], c["stamps"]) for c in report["classes"]} == {
        "token-bucket": (5, 0), "sliding-log": (5, 35)}


def test_it_tells_people(arena):
    said = arena_command(arena)
    assert said.returncode == 0
    assert said.stdout.startswith(f"{arena}: sound\n")
    assert "100/1h burst 5" in said.stdout and "30/1h" in said.stdout
    assert "192.0.2." not in said.stdout


def test_keys_are_not_in_the_file(arena):
    assert b"192.0.2." not in arena.read_bytes()


def test_damage_is_found_and_repaired(arena):
    """Every slot's class becomes one that there is not."""
    at = 4096 + min(4096, (4 << 20) // 1024) * 128 + min(4096, (4 << 20) // 8192) * 288
    data = bytearray(arena.read_bytes())
    for slot in range(at, at + 400_000, 16):
        if any(data[slot:slot + 8]):
            data[slot] = 0xFE
            data[slot + 1] |= 0x0F
    arena.write_bytes(data)
    said = arena_command(arena)
    assert said.returncode == 1
    assert said.stdout.startswith(f"{arena}: damaged\n")
    assert "error: damaged: the class of slot" in said.stderr
    assert arena_command("--repair", arena).returncode == 0
    assert arena_command(arena).returncode == 0


@pytest.mark.parametrize("what, words", [
    (b"", "only 0 bytes long"), (b"GIF89a" + bytes(9000), "is not a weir arena"), (None, "there is no such file")])
def test_what_is_no_arena_is_refused(tmp_path, what, words):
    path = tmp_path / "file"
    if what is not None:
        path.write_bytes(what)
    said = arena_command(path)
    assert said.returncode == 1 and words in said.stderr and not said.stdout
    assert not (what is None and path.exists())


def test_a_truncated_arena_is_refused(arena):
    os.truncate(arena, (4 << 20) - 4096)
    said = arena_command(arena)
    assert said.returncode == 1 and "it was truncated" in said.stderr


def test_wrong_usage():
    assert arena_command().returncode == 2
    assert arena_command("--nonsense", "x").returncode == 2
    assert arena_command("--help").returncode == 0
