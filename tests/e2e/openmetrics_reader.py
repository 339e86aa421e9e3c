"""Run by the tests' own Python: OpenMetrics on standard input, its samples as JSON on standard output."""
import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as text_0_0_4

parse = text_0_0_4 if sys.argv[1:] == ["0.0.4"] else text_string_to_metric_families
json.dump([{"name": family.name, "type": family.type, "unit": family.unit, "help": family.documentation,
            "samples": [[s.name, s.labels, s.value] for s in family.samples]}
           for family in parse(sys.stdin.read())], sys.stdout)
