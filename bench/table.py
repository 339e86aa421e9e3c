#!/usr/bin/env python3
"""Print the JSON lines on standard input as a table, the missed targets plainly at the end."""
import json
import sys

rows = [json.loads(line) for line in sys.stdin if line.startswith("{")]
head = ("bench", "case", "unit", "ours", "peer", "ratio", "target", "met")
table = [head] + [tuple("yes" if row[k] is True else "NO" if row[k] is False else str(row[k]) for k in head) for row in rows]
widths = [max(len(line[i]) for line in table) for i in range(len(head))]
for line in table:
    print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
missed = [row for row in rows if not row["met"]]
print(f"\n{len(rows) - len(missed)} of {len(rows)} targets met")
for row in missed:
    print(f"missed: {row['bench']}, {row['case']} ({row['unit']}): {row['ratio']}, wanted {row['target']}")
