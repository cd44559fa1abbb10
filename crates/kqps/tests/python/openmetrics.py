"""Reads texts of OpenMetrics by the parser of prometheus_client.

Reads a JSON list of texts from standard input. Prints a JSON list with one object for each: `types` has the type of every
family by its name, and `samples` the name, the labels and the value of every sample. A text that is no OpenMetrics ends the
program with the parser's reason."""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families


def read(text):
    families = list(text_string_to_metric_families(text))
    return {
        "types": {family.name: family.type for family in families},
        "samples": [(each.name, each.labels, each.value) for family in families for each in family.samples],
    }


json.dump([read(text) for text in json.load(sys.stdin)], sys.stdout)
