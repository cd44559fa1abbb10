"""Runs the package MLRsearch, an independent implementation of RFC 9971, on the inputs of kqps' own search.

Reads one JSON object from stdin and writes one to stdout:

    {"loads": [{"goal": ..., "trials": [[duration_s, bad_ratio], ...]}, ...],
     "searches": [{"goal": ..., "subject": {"shape": ..., "capacity_qps": ..., "seed": ...}}, ...]}

    {"loads": [{"class": "lower" | "upper" | "undecided", "loss": ...}, ...],
     "searches": [{"lower_qps": ..., "upper_qps": ..., "throughput_qps": ..., "wall_s": ..., "trials": ...}, ...]}
"""

import json
import sys

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal
from MLRsearch.target_spec import TargetSpec
from MLRsearch.target_stat import TargetStat


class Result:
    """A trial, in the form that the package's statistics expect."""

    def __init__(self, duration_s, bad_ratio):
        self.intended_duration = duration_s
        self.duration_with_overheads = duration_s
        self.loss_ratio = bad_ratio


def classify(load):
    """The class of a load from its trials, and the loss behind its conditional throughput."""
    goal = load["goal"]
    stat = TargetStat(
        TargetSpec(
            loss_ratio=goal["loss"],
            exceed_ratio=goal["exceed"],
            discrete_width=None,
            trial_duration=goal["final_s"],
            duration_sum=goal["sum_s"],
            expansion_coefficient=2,
            fail_fast=False,
            preceding=None,
        )
    )
    for duration_s, bad_ratio in load["trials"]:
        stat.add(Result(duration_s, bad_ratio))
    names = {(True, True): "lower", (False, False): "upper"}
    return {"class": names.get(stat.estimates(), "undecided"), "loss": stat.pessimistic_loss_ratio}


def chance(seed, index):
    """A number from 0 to below 1: the same as in simulate.rs."""
    whole = 2**64 - 1
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & whole
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & whole
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & whole
    return ((z ^ (z >> 31)) >> 11) / 2**53


class Simulated(AbstractMeasurer):
    """The subjects of simulate.rs."""

    def __init__(self, subject):
        shape = subject["shape"]
        self.shape, self.size = next(iter(shape.items())) if isinstance(shape, dict) else (shape, None)
        self.capacity = subject["capacity_qps"]
        self.seed = subject["seed"]
        self.trials = 0
        self.wall_s = 0.0

    def bad_ratio(self, load, duration_s):
        def over(capacity):
            return max(0.0, 1.0 - capacity / load)

        if self.shape == "soft":
            above = max(0.0, load / self.capacity - 0.9)
            return max(over(self.capacity), min(1.0, above * above))
        if self.shape == "noisy":
            return over(self.capacity * (1.0 + self.size * (2.0 * chance(self.seed, self.trials) - 1.0)))
        if self.shape == "buffered":
            return max(0.0, over(self.capacity) - self.size / (load * duration_s))
        if self.shape == "gap" and 0.6 * self.capacity < load < 0.65 * self.capacity:
            return 0.01
        if self.shape == "stalling" and chance(self.seed, self.trials) < 0.1:
            return max(0.05, over(self.capacity))
        return over(self.capacity)

    def measure(self, intended_duration, intended_load):
        ratio = self.bad_ratio(intended_load, intended_duration)
        count = max(1, round(intended_duration * intended_load))
        self.trials += 1
        self.wall_s += intended_duration + (1.0 if ratio > 0.0 else 0.05)
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=count,
            loss_count=round(count * ratio),
        )


def search(wanted):
    """The bounds that the package finds."""
    goal = wanted["goal"]
    config = Config()
    config.max_load = goal["max_qps"]
    config.min_load = goal["min_qps"]
    config.warmup_duration = None
    search_goal = SearchGoal(
        loss_ratio=goal["loss"],
        exceed_ratio=goal["exceed"],
        relative_width=goal["width"],
        initial_trial_duration=goal["final_s"],
        final_trial_duration=goal["final_s"],
        duration_sum=goal["sum_s"],
        fail_fast=False,
    )
    config.goals = (search_goal,)
    measurer = Simulated(wanted["subject"])
    found = MultipleLossRatioSearch(config=config).search(measurer=measurer, debug=lambda _: None)
    result = found[search_goal]

    def number(load):
        return None if load is None else float(load)

    return {
        "lower_qps": number(result.relevant_lower_bound),
        "upper_qps": number(result.relevant_upper_bound),
        "throughput_qps": number(result.conditional_throughput),
        "wall_s": measurer.wall_s,
        "trials": measurer.trials,
    }


def main():
    asked = json.load(sys.stdin)
    answer = {
        "loads": [classify(load) for load in asked["loads"]],
        "searches": [search(wanted) for wanted in asked["searches"]],
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
