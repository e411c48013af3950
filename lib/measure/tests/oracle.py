# SPDX-License-Identifier: MIT
"""Runs the package MLRsearch (PyPI), which asks for its trials by lines of JSON: see mlrsearch_oracle.rs.

The first line on stdin is {"goals": [...], "minimum": ..., "maximum": ...}. Each trial is a line {"load": ..., "duration": ...}
on stdout, answered by a line {"sent": ..., "received": ...}. The last line is {"results": [...]}, one for each goal.
"""

import json
import sys

import MLRsearch


def tell(value):
    """One line of JSON."""
    print(json.dumps(value), flush=True)


class Measurer(MLRsearch.AbstractMeasurer):
    """Has the trials run at the other end."""

    def measure(self, intended_duration, intended_load):
        tell({"load": intended_load, "duration": intended_duration})
        answer = json.loads(sys.stdin.readline())
        return MLRsearch.MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=answer["sent"],
            forwarding_count=answer["received"],
        )


def search_goal(goal):
    """A goal of perigee's as the package has it."""
    return MLRsearch.SearchGoal(
        loss_ratio=goal["loss_ratio"],
        exceed_ratio=goal["exceed_ratio"],
        relative_width=goal["width"],
        initial_trial_duration=goal["initial_duration"],
        final_trial_duration=goal["final_duration"],
        duration_sum=goal["duration_sum"],
        preceding_targets=2,
        expansion_coefficient=2,
        fail_fast=False,
    )


def bound(load):
    """A load in frames per second, if there is one."""
    return None if load is None else float(load)


def main():
    """One search."""
    wanted = json.loads(sys.stdin.readline())
    goals = [search_goal(goal) for goal in wanted["goals"]]
    config = MLRsearch.Config()
    config.goals = goals
    # The maximum first: the minimum is compared with the one there is.
    config.max_load = wanted["maximum"]
    config.min_load = wanted["minimum"]
    config.search_duration_max = 600.0
    config.warmup_duration = None
    found = MLRsearch.MultipleLossRatioSearch(config=config).search(Measurer(), debug=lambda _: None)
    results = [found[goal] for goal in goals]
    tell({
        "results": [
            {
                "lower": bound(result.relevant_lower_bound),
                "upper": bound(result.relevant_upper_bound),
                "throughput": bound(result.conditional_throughput),
            }
            for result in results
        ]
    })


main()
