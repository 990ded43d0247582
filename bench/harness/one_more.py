"""One more server: whether it is slower with it, and whether the explanation says why. Pure; measuring is `cases/one_more.py`'s."""

import re
from dataclasses import dataclass

from bench.harness import result

ASKED = "≥ 1, or explained"
NOT_SLOWER = ("faster", "as fast")
# A situation whose interval spans 1 is as fast with one more server only where the interval is so narrow that it would show a loss of this size.
MOST_LOST = 0.10


@dataclass(frozen=True)
class Cause:
    """What was built in: one of these causes, at a place whose description has all of these words."""

    causes: tuple
    place: tuple = ()

    def is_named(self, explanation):
        """Whether an explanation (a `thalweg.explain/1` document) says it first: as its verdict, at its place, and of more time than any other cause.
        All that were built in count together: a port that loses packets is waited for also while they are sent again."""
        verdict = explanation.get("verdict") or {}
        share, others = 0.0, {}
        for charge in explanation.get("critical_path") or []:
            if charge["cause"] in self.causes:
                share += charge["share"]
            else:
                others[charge["cause"]] = others.get(charge["cause"], 0.0) + charge["share"]
        is_there = all(word in (verdict.get("where") or "") for word in self.place)
        is_sure = verdict.get("status") not in (None, "unsure")
        return is_sure and verdict.get("cause") in self.causes and is_there and share > max(others.values(), default=0.0)

    def __str__(self):
        return " or ".join(self.causes) + (f" at {', '.join(self.place)}" if self.place else "")


def verdict(ratio, cause, explanations):
    """What became of a situation. `ratio`: the rate with one more server over that without, median and interval; `explanations` of runs with it.

    Not slower: the interval reaches 1. One that spans 1 must be narrow, since a wide one would excuse anything. Otherwise every explanation has to
    name the cause that was built in, and there has to be one.
    """
    named = [cause.is_named(explanation) for explanation in explanations]
    is_explained = bool(named) and all(named)
    if ratio["high"] < 1.0:
        word = "slower, and explained" if is_explained else "slower, and not explained"
    elif ratio["low"] >= 1.0:
        word = "faster"
    elif ratio["low"] >= 1.0 - MOST_LOST:
        word = "as fast"
    else:
        word = "explained; too wide to say" if is_explained else "too wide to say"
    met = word in NOT_SLOWER or is_explained
    return {"word": word, "met": met, "named": sum(named), "explanations": len(named)}


def said(explanation):
    """What an explanation names, in a line."""
    told = explanation.get("verdict") or {}
    if not told.get("cause"):
        return told.get("status") or "nothing"
    # (Without paths, which are another run's each time.)
    where = re.sub(r": \S+ /\S+", "", told.get("where") or "nowhere")
    return f"{told['cause']}, {where}"


def bar(what, ratio, cause, explanations):
    """The bar of a situation, with what was built in and what was said."""
    told = verdict(ratio, cause, explanations)
    given = {"built_in": str(cause), "said": sorted({said(explanation) for explanation in explanations})}
    return {**result.absolute_bar(what, ASKED, ratio, told["met"]), **told, **given}
