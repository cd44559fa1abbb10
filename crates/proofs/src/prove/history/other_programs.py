"""Finds changes in series by Apache Otava and ruptures: one JSON object on standard input, one on standard output."""

import json
import logging
import math
import sys

import numpy
import ruptures
from otava.analysis import compute_change_points

logging.disable(logging.CRITICAL)


def by_otava(series):
    # As its documentation advises: windows of 50, p at most 0.001.
    figures = [math.exp(log) for log in series]
    found, _ = compute_change_points(figures, window_len=50, max_pvalue=0.001, min_magnitude=0.0)
    return [int(change.index) for change in found]


def by_ruptures(series):
    # PELT with the penalty of Schwarz's criterion, in units of the scatter of neighbours.
    logs = numpy.array(series)
    scatter = max(numpy.median(numpy.abs(numpy.diff(logs))) / 0.9539, 1e-6)
    found = ruptures.Pelt(model="l2", min_size=3, jump=1).fit(logs / scatter).predict(pen=3 * math.log(len(logs)))
    return [int(at) for at in found[:-1]]


def tried(finder, series):
    try:
        return finder(series)
    except Exception as error:  # whatever stops the other program is a result
        return f"{type(error).__name__}: {error}"


asked = json.load(sys.stdin)
json.dump(
    {
        "Otava": [tried(by_otava, series) for series in asked],
        "ruptures": [tried(by_ruptures, series) for series in asked],
    },
    sys.stdout,
)
