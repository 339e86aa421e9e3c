"""docs/operations.md quotes what the programs say: each quote of its last table is found in the sources."""
import re

import pytest

from gateway import ROOT

LITERAL = r'"((?:[^"\\\n]|\\.)*)"'
# Said by others: an example of a place in the policy, the C library, weir's own command, a key of the policy.
NOT_OURS = {"policy.yaml:12:9: error: …", "nginx -t", "weir arena", "weir serve", "arena: size", "return", "rewrite … last"}


def said():
    """All that the sources can say, a line each: adjacent literals joined, and what is printed in between as …"""
    texts = []
    for path in sorted([*ROOT.glob("src/**/*.c"), *ROOT.glob("nginx/*.c")]):
        for run in re.finditer(rf"(?:{LITERAL}(?:\s|PRI[udx]64)*)+", path.read_text()):
            texts.append("".join(re.findall(LITERAL, run.group())).replace('\\"', '"'))
    return [re.sub(r"%(?:\*?[a-zA-Z]+|[0-9]+\w)", "…", text) for text in texts]


def quotes():
    text = (ROOT / "docs" / "operations.md").read_text()
    table = text[text.index("## When something is wrong"):]
    rows = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")][2:]
    return [quote for row in rows for quote in re.findall(r"`([^`]+)`", row) if quote not in NOT_OURS]


@pytest.fixture(scope="module")
def texts():
    return said()


@pytest.mark.parametrize("quote", quotes())
def test_a_quoted_message_is_one(texts, quote):
    own = quote.replace(": No space left on device", ": …")
    assert [text for text in texts if own.strip("… ") in text], f"nothing says: {quote}"


def test_the_watched_counters_are_those_of_weir_arena(texts):
    text = (ROOT / "docs" / "operations.md").read_text()
    watched = re.search(r"Watch\n((?:`[^`]+`(?: and )?)+)", text).group(1)
    for name in re.findall(r"`([^`]+)`", watched)[:2]:
        assert name in texts
