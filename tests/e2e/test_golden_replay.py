"""The golden vectors through `weir replay --verdicts`: exact, as replay takes its time from the log."""
import pathlib

import pytest

from replaying import line, one_limit, verdicts

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
EPOCH_S = 1700006400
MEMBERS = ("verdict", "remaining", "retry_after_ms", "delay_ms")


def blocks():
    """(id, words of the limit, [words of a request])"""
    for path in sorted(GOLDEN.glob("*.txt")):
        limit = None
        for number, text in enumerate(path.read_text().splitlines(), 1):
            words = text.split("#")[0].split()
            if words[:1] == ["limit"]:
                limit = (f"{path.stem}:{number}", words[1:], [])
                yield limit
            elif words:
                limit[2].append(words)


BLOCKS = list(blocks())


def policy_text(words):
    if words[0] == "concurrency":
        return f"by: [ip], concurrent: {words[1]}, hold: {words[3]}"
    extra = ", count_denied: true" if "count_denied" in words else ""
    rate = " ".join(word for word in words[1:] if word != "count_denied")
    return f"by: [ip], rate: {rate}, algorithm: {words[0]}{extra}"


def expected(words):
    _, _, arrow, verdict, remaining, retry, delay = words
    assert arrow == "->"
    retry_ms = int(retry) if verdict == "deny" and int(retry) >= 0 else None
    return dict(verdict=verdict, remaining=int(remaining), retry_after_ms=retry_ms, delay_ms=int(delay))


def test_there_are_vectors():
    assert len(BLOCKS) > 20


@pytest.mark.parametrize("where,limit,requests", BLOCKS, ids=[block[0] for block in BLOCKS])
def test_vector(weir, tmp_path, where, limit, requests):
    policy, log = one_limit(tmp_path, policy_text(limit)), tmp_path / "log.jsonl"
    with log.open("w") as out:
        for words in requests:
            s, ns = divmod(int(words[0]), 10**9)
            # Nobody releases places in the vectors: the requests last longer than any hold.
            out.write(line(f"{EPOCH_S + s}.{ns:09}", cost=int(words[1]), duration=10**6))
    got = verdicts(weir, policy, log)
    assert len(got) == len(requests)
    for words, found in zip(requests, got):
        assert {member: found[member] for member in MEMBERS} == expected(words), f"{where}: {' '.join(words)}"
