"""The golden vectors through `weir replay --verdicts`: exact, as replay takes its time from the log."""
import pytest

from golden_vectors import BLOCKS, IDS
from replaying import line, one_limit, verdicts

HEAD = "identity: {api_key: {header: X-Api-Key}}\ncustomers: {directory: customers}\n"


def test_there_are_vectors():
    assert len(BLOCKS) > 60 and sum(block.customer for block in BLOCKS) > 15


@pytest.mark.parametrize("block", BLOCKS, ids=IDS)
def test_vector(weir, tmp_path, block):
    policy = one_limit(tmp_path, block.policy(), head=HEAD if block.customer else "")
    log = tmp_path / "log.jsonl"
    with log.open("w") as out:
        for vector in block.vectors:
            s, ns = divmod(vector.ns, 10**9)
            # Nobody releases places in the vectors: the requests last longer than any hold.
            out.write(line(f"{s}.{ns:09}", cost=vector.cost, duration=10**6, headers={"X-Api-Key": "k"}))
    got = verdicts(weir, policy, log)
    assert len(got) == len(block.vectors)
    for vector, found in zip(block.vectors, got):
        assert (found["verdict"], found["remaining"], found["retry_after_ms"], found["delay_ms"]) == \
            (vector.verdict, vector.remaining, vector.due_ms(), vector.delay_ms), f"{block.where}: {vector.text}"
