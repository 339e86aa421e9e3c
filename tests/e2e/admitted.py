"""What a limit allows, judged from outside: of each request only when it was sent, when its answer came and what it
was are known; it was decided somewhere between. So a check says "too many" only of what no moments between could
excuse, and "too few" only of what none could. Plain counting; nothing of weir's arithmetic."""
import bisect
import collections

NEVER = float("-inf")


def too_many_bucket(answers, capacity, rate):
    """How many units more than capacity + rate * time the worst interval has: those sent and answered within it.
    <= 0: the bucket held. One sweep: intervals begin at a sending, in falling order; a tree knows for every end how
    many lie within, less rate * end, and the greatest of that."""
    passed = [(sent, received) for sent, received, said in answers if said]
    if not passed:
        return 0
    ends = sorted({received for _, received in passed})
    size = 1 << len(ends).bit_length()
    total, best = [0.0] * 2 * size, [NEVER] * 2 * size  # of a span of ends: its sum, its greatest sum of a beginning

    def add(at, value, is_end):
        at += size
        total[at] += value
        best[at] = total[at] if is_end else NEVER
        while at > 1:
            at //= 2
            total[at] = total[2 * at] + total[2 * at + 1]
            best[at] = max(best[2 * at], total[2 * at] + best[2 * at + 1])

    for i in range(size):
        add(i, -rate * (ends[i] - ends[i - 1]) if 0 < i < len(ends) else 0, False)
    worst, starts = NEVER, collections.defaultdict(list)
    for sent, received in passed:
        starts[sent].append(received)
    for sent in sorted(starts, reverse=True):
        for received in starts[sent]:
            add(bisect.bisect_left(ends, received), 1, True)
        # best[1] is count - rate * (end - ends[0]) of the worst end.
        worst = max(worst, best[1] - rate * (ends[0] - sent) - capacity)
    return worst


def too_few_bucket(answers, capacity, rate):
    """How many more had passed by the last refusal, had nothing been lost; the bucket must not have been full again
    meanwhile. Refused means less than a unit left."""
    refused = [(sent, received) for sent, received, said in answers if said is False]
    if not refused:
        return 0
    sent, received = max(refused)
    first = min(received for _, received, said in answers if said)
    due = capacity + rate * (sent - first) - 1
    return due - sum(1 for s, _, said in answers if said and s <= received)


def windows(answers, window):
    """{index: (surely in it, perhaps in it, was one refused that was surely in it)}"""
    out = collections.defaultdict(lambda: [0, 0, False])
    for sent, received, said in answers:
        first, last = int(sent // window), int(received // window)
        if said is None:
            continue
        if said:
            for index in range(first, last + 1):
                out[index][1] += 1
            out[first][0] += first == last
        elif first == last:
            out[first][2] = True
    return out


def too_many_fixed(answers, limit, window):
    return max((sure - limit for sure, _, _ in windows(answers, window).values()), default=0)


def too_few_fixed(answers, limit, window):
    return max((limit - perhaps for _, perhaps, refused in windows(answers, window).values() if refused), default=0)


def too_many_sliding(answers, limit, window):
    """At each admission: those of this window so far, and those of the last by the part of it that is still seen."""
    known = windows(answers, window)
    worst, so_far = 0, collections.Counter()
    for sent, received, said in answers:  # in the order of the answers
        index = int(sent // window)
        if said and index == int(received // window):
            so_far[index] += 1
            last = known[index - 1][0] if index - 1 in known else 0
            worst = max(worst, so_far[index] + last * (window - received % window) / window - limit)
    return worst


def too_few_sliding(answers, limit, window):
    """At the last refusal of each window."""
    known = windows(answers, window)
    last_refused = {}
    for sent, received, said in answers:
        if said is False and sent // window == received // window:
            last_refused[int(sent // window)] = (sent, received)
    worst = 0
    for index, (sent, received) in last_refused.items():
        this = sum(1 for s, r, said in answers if said and s <= received and int(r // window) >= index)
        last = known[index - 1][1] if index - 1 in known else 0
        worst = max(worst, limit - 1 - this - last * (window - sent % window) / window)
    return worst
