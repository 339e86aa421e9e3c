"""`weir replay` over logs that are broken: a clear message, nothing lost, no crash."""
import gzip
import json
import random
import subprocess

import pytest

from replaying import line, one_limit, report, run, verdicts

T0 = 1767225600
GOOD = line(T0).encode()


@pytest.fixture
def policy(tmp_path):
    return one_limit(tmp_path, "by: [ip], rate: 3/hour")


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def counts(found):
    return found["lines"], found["bad_lines"], found["requests"]


def test_bad_lines_are_counted_and_the_first_five_shown(weir, policy, log):
    log.write_bytes(b"".join(b"junk %d\n" % n + GOOD for n in range(7)))
    found = report(weir, policy, log)
    assert counts(found) == (14, 7, 7)
    assert [bad["line"] for bad in found["bad"]] == [1, 3, 5, 7, 9]
    done = run(weir, policy, log)
    assert done.returncode == 0
    assert f"bad lines: 7 of 14, the first of them:\n  {log}:1:6: expected the identity".encode() in done.stdout
    assert b"junk 4\n" in done.stdout and b"junk 5\n" not in done.stdout


def test_binary_junk(weir, policy, log):
    junk = random.Random(7).randbytes(100000)
    log.write_bytes(GOOD + junk + b"\n" + GOOD)
    found = report(weir, policy, log)
    assert counts(found) == (3 + junk.count(b"\n"), 1 + junk.count(b"\n"), 2)
    text = run(weir, policy, log).stdout
    assert all(byte == 10 or 32 <= byte < 127 for byte in text)  # nothing that commands a terminal


def test_nul_bytes_and_blank_lines(weir, policy, log):
    log.write_bytes(b"\0" * 5000 + b"\n\n\r\n" + GOOD + b'{"time":1,"ip":"a\\u0000b"}\n{"time":1,"ip":"h\0"}\n')
    found = report(weir, policy, log)
    assert counts(found) == (6, 4, 2)
    assert [bad["reason"] for bad in found["bad"]][1:3] == ["the line is empty"] * 2


def test_no_newline_at_the_end(weir, policy, log):
    log.write_bytes(GOOD + GOOD.rstrip(b"\n"))
    assert counts(report(weir, policy, log)) == (2, 0, 2)
    log.write_bytes(GOOD + b"{")
    assert counts(report(weir, policy, log)) == (2, 1, 1)


@pytest.mark.parametrize("length,good", [(1 << 20, True), ((1 << 20) + 1, False), (5 << 20, False)])
def test_long_lines(weir, policy, log, length, good):
    start, end = b'{"time":%d,"ip":"192.0.2.9","path":"/' % T0, b'"}'
    log.write_bytes(GOOD + start + b"a" * (length - len(start) - len(end)) + end + b"\n" + GOOD)
    found = report(weir, policy, log)
    assert counts(found) == ((3, 0, 3) if good else (3, 1, 2))
    if not good:
        assert found["bad"][0]["reason"] == "the line is longer than 1 MiB"
    assert [v["line"] for v in verdicts(weir, policy, log)] == ([1, 2, 3] if good else [1, 3])


def test_many_long_lines_stay_within_memory(weir, policy, log):
    """More than may be held back: the oldest are given out early, none is lost."""
    path = "/" + "a" * 900000
    with log.open("w") as out:
        for n in range(400):
            out.write(line(T0 + n % 60, path=path))
    found = report(weir, policy, log)
    assert counts(found) == (400, 0, 400)


def test_gzip(weir, policy, log):
    log.write_bytes(gzip.compress(GOOD * 3) + gzip.compress(GOOD * 2) + b"\0" * 100)  # two members, padding
    assert counts(report(weir, policy, log)) == (5, 0, 5)
    assert counts(report(weir, policy, stdin=gzip.compress(GOOD))) == (1, 0, 1)
    log.write_bytes(b"\x1f")
    assert counts(report(weir, policy, log)) == (1, 1, 0)


def test_truncated_gzip(weir, policy, log):
    whole = gzip.compress(b"".join(line(T0 + n).encode() for n in range(50000)))
    log.write_bytes(whole[:len(whole) // 2])
    done = run(weir, policy, "--json", log)
    assert done.returncode == 1
    assert str(log).encode() in done.stderr and b"the compressed data ends too early" in done.stderr
    found = json.loads(done.stdout)
    assert 10000 < found["requests"] < 50000 and found["bad_lines"] <= 1
    text = run(weir, policy, log)
    assert text.returncode == 1 and b"requests of 1 client" in text.stdout


def test_damaged_gzip(weir, policy, log):
    whole = bytearray(gzip.compress(b"".join(line(T0 + n).encode() for n in range(50000))))
    whole[-6] ^= 1  # in the checksum: everything has been read by then
    log.write_bytes(whole)
    done = run(weir, policy, "--json", log)
    assert done.returncode == 1 and b"the compressed data is damaged" in done.stderr
    assert json.loads(done.stdout)["requests"] == 50000
    log.write_bytes(gzip.compress(GOOD) + b"garbage")
    done = run(weir, policy, "--json", log)
    assert done.returncode == 1 and b"not gzip" in done.stderr
    assert json.loads(done.stdout)["requests"] == 1


def test_what_is_no_file(weir, policy, tmp_path):
    done = run(weir, policy, tmp_path)
    assert done.returncode == 1 and b"Is a directory" in done.stderr
    done = run(weir, policy, tmp_path / "absent")
    assert done.returncode == 1 and b"No such file" in done.stderr
    assert done.stdout == b""


def test_standard_output_that_fails(weir, policy):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([weir, "replay", "-c", policy, "--json"], input=GOOD, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1 and b"No space left" in done.stderr


def test_hostile_fields(weir, tmp_path, log):
    head = ("identity:\n  ip: {from: x-forwarded-for, trusted: [10.0.0.0/8]}\n  api_key: {header: X-Api-Key}\n")
    policy = one_limit(tmp_path, "by: [api_key], rate: 3/hour", head=head)
    thousand = ", ".join("10.0.0.%d" % (n % 250) for n in range(1000))
    log.write_text(
        line(T0, "10.0.0.1", headers={"X-Forwarded-For": thousand, "X-Api-Key": "k" * 65536})
        + line(T0, "10.0.0.1", headers={"X-Forwarded-For": ["10.0.0.2"] * 1000, "X-Api-Key": "a\0b"})
        + line(T0, "10.0.0.1", headers={"X-Forwarded-For": "\x01\xff", "X-Api-Key": "\xe9"})
        + line(T0, "10.0.0.1", headers={"X-Api-Key": ""})
        + line(T0, "a\nb\x1b[31m" + "c" * 5000))
    assert [v["line"] for v in verdicts(weir, policy, log)] == [1, 2, 3, 4, 5]
    assert report(weir, policy, log)["requests"] == 5
    assert b"\x1b" not in run(weir, policy, log).stdout


def test_formats_named(weir, policy, log):
    combined = b'192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "a"\n'
    log.write_bytes(combined + GOOD)
    assert counts(report(weir, policy, log)) == (2, 0, 2)
    assert counts(report(weir, policy, "--format", "json", log)) == (2, 1, 1)
    assert counts(report(weir, policy, "-f", "combined", log)) == (2, 1, 1)
    assert counts(report(weir, policy, "-f", "common", log)) == (2, 1, 1)


def test_lines_of_five_servers(weir, policy, log):
    log.write_text("\n".join([
        '192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] "GET /x HTTP/1.1" 200 1',
        json.dumps({"remote_addr": "192.0.2.1", "time_local": "01/Jan/2026:01:00:00 +0100",
                    "request": "GET /x HTTP/1.1", "status": "200"}),
        json.dumps({"ts": 1767225600.0, "status": 200,
                    "request": {"remote_ip": "192.0.2.1", "method": "GET", "uri": "/x", "headers": {}}}),
        json.dumps({"ClientHost": "192.0.2.1", "StartUTC": "2026-01-01T00:00:00Z", "RequestMethod": "GET",
                    "RequestPath": "/x", "DownstreamStatus": 200}),
        '2026-01-01T00:00:01.5+00:00 stdout F ' + json.dumps(
            {"downstream_remote_address": "192.0.2.1:999", "start_time": "2026-01-01T00:00:00.000Z", "method": "GET",
             "x-envoy-origin-path": "/x", "response_code": 200}),
        line(T0).strip()]))
    got = verdicts(weir, policy, log)
    assert [(v["line"], v["time"]) for v in got] == [(n, "2026-01-01T00:00:00Z") for n in range(1, 7)]
    assert [v["verdict"] for v in got] == ["allow"] * 3 + ["deny"] * 3  # all are one caller
