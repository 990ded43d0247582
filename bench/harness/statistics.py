"""Medians, pairs and their uncertainty.

Two commands are compared by the ratio of their rates in the same round, and the median of those ratios is the figure; its 95 %
interval is a bootstrap over rounds (percentiles of resampled medians). Rates are never averaged, and medians never divided by
each other. The seed is fixed, so one file of raw times always gives one table.
"""

import random

RESAMPLES = 4000
SEED = 20070601


def median(values):
    """The middle value, or the mean of the two in the middle."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def interval(values):
    """The bootstrap 95 % interval of the median: `(low, high)`."""
    if len(values) < 2:
        return values[0], values[0]
    source = random.Random(SEED)
    medians = sorted(median(source.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1]


def ratios(of_seconds, to_seconds):
    """How many times faster `of` was than `to`, round by round."""
    return [to / of for of, to in zip(of_seconds, to_seconds, strict=True)]


def summary(values):
    """Median and interval as the JSON has them."""
    low, high = interval(values)
    return {"median": median(values), "low": low, "high": high}
