"""The golden vectors (tests/golden/README.md) as the doors' tests want them."""
import datetime
import pathlib

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
BASE_NS = 1700006400 * 10**9
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


class Vector:
    def __init__(self, words):
        moment, cost, arrow, self.verdict, *numbers = words
        assert arrow == "->"
        self.text, self.ns, self.cost = " ".join(words), moment_ns(moment), int(cost)
        self.remaining, self.retry_ms, self.delay_ms = map(int, numbers)

    def due_ms(self):
        """As JSON has it."""
        return self.retry_ms if self.verdict == "deny" and self.retry_ms >= 0 else None


def moment_ns(text):
    if "-" not in text:
        return BASE_NS + int(text)
    since = datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) - EPOCH
    return (since.days * 86400 + since.seconds) * 10**9 + since.microseconds * 1000


class Block:
    """One limit, and what it is asked."""

    def __init__(self, where, words, customer=False):
        self.where, self.words, self.customer = where, words, customer
        self.vectors = []
        self.kind = words[1] if words[0] == "limit" else "quota"

    def policy(self):
        """The limit as a policy has it, but for its name and match."""
        _, *words = self.words
        if self.kind == "quota":
            rate, zone, *anchor = words
            limit, per = rate.split("/")
            more = f", anchor: {anchor[1]}" if anchor else ""
            by = "customer" if self.customer else "ip"
            return f"by: [{by}], quota: {{limit: {limit}, per: {per}, zone: {zone}{more}}}"
        if self.kind == "concurrency":
            return f"by: [ip], concurrent: {words[1]}, hold: {words[3]}"
        extra = ", count_denied: true" if "count_denied" in words else ""
        rate = " ".join(word for word in words[1:] if word != "count_denied")
        return f"by: [ip], rate: {rate}, algorithm: {self.kind}{extra}"


def read():
    for path in sorted(GOLDEN.glob("*.txt")):
        blocks = []
        for number, text in enumerate(path.read_text().splitlines(), 1):
            words = text.split("#")[0].split()
            if words[:1] == ["limit"]:
                blocks = [Block(f"{path.stem}:{number}", words)]
                yield from blocks
            elif words[:1] == ["quota"]:
                # Once as a window in the arena, and once as the count of a customer.
                blocks = [Block(f"{path.stem}:{number}", words), Block(f"{path.stem}:{number}-customer", words, customer=True)]
                yield from blocks
            elif words:
                for block in blocks:
                    block.vectors.append(Vector(words))


BLOCKS = list(read())
IDS = [block.where for block in BLOCKS]
EARLIEST_NS = min(vector.ns for block in BLOCKS for vector in block.vectors)
