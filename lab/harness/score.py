"""How right an explanation was.

The truth of a fault is how much of the time with it is gone without it: (T_fault − T_baseline) / T_fault, of medians. With several
faults, each one's truth is held against the run without that one. Where the truth is 30 % or more, the cause must be *named
first*; where the fault is serial with the rest, its *share* must be within 5 points of the truth; with both ends recorded, no more
than 2 % may be *unknown*; and a *prediction* must come within 15 % of the re-run in which the change was made: of its time, and of the time before where the
change takes waits away (`no_...`). A *bound* must not be beaten by it.

An answer is right, *unsure*, or *wrong with confidence*: one that says it is not sure is neither of the others, whatever it names, and
`unknown` named without saying so is wrong. Right is the cause and, where the scenario says it, the place: in the largest charge of that
cause and in the sentence.
"""

import math
from dataclasses import dataclass
from statistics import median

from testbed.errors import Broken

NAMED_FROM = 0.30
# A fault that takes less than this of the time did not happen: repetitions of one command differ by as much.
NOISE = 0.05
NOT_KNOWN = ("unknown", "server.unknown")
NAMED_SCENARIOS = 0.98
SHARE_SCENARIOS = 0.95
UNSURE_ANSWERS = 0.03
WRONG_ANSWERS = 0.005
OTHERS_RIGHT = 0.75
ABOVE_RULES = 0.3
SHARE_POINTS = 0.05
UNKNOWN = 0.02
PREDICTION_MEDIAN = 0.03
PREDICTION_95TH = 0.15
PREDICTION_WORST = 0.30
PREDICTED_SCENARIOS = 0.90
# A bound says how little time can be left. It is wrong where a run was faster by more than runs differ.
BEATEN_BY = 0.05
CLEAR_LEAD = 0.05


def figures(scenario, walls, explanations):
    """Everything the table shows, from raw times by variant and documents of the runs with the fault."""
    made = {"wall_s": {name: median(values) for name, values in walls.items() if values}}
    made["truths"] = _truths(scenario, made["wall_s"])
    made["truth"] = sum(made["truths"]) if len(made["truths"]) > 1 else (made["truths"] or [0.0])[0]
    if not explanations:
        return made
    made["named"] = [named(document) for document in explanations]
    made["outcomes"] = [outcome(scenario, made["truths"], one) for one in made["named"]]
    made["shares"] = [[_share(document, causes) for causes in scenario.causes] for document in explanations]
    made["share"] = [median(column) for column in zip(*made["shares"], strict=True)]
    made["numbers"] = [[number["kind"] for number in document.get("summary", {}).get("numbers", [])] for document in explanations]
    made["unknown"] = max(_share(document, {"unknown"}) for document in explanations)
    made["dropped"] = max(document["dropped_events"] for document in explanations)
    made["prediction"] = _prediction(scenario, made["wall_s"], explanations)
    made["clocks"] = [document["lab_clock"] for document in explanations if "lab_clock" in document]
    return made


def checks(scenario, told, short=False):
    """The scenario's verdict: a list of (what, met, in words); short: of one run, which shares and predictions are too noisy for."""
    if "named" not in told:
        return []
    wrong, every = told["outcomes"].count("wrong"), len(told["outcomes"])
    found = [_check_named(scenario, told), ("confidence", wrong == 0, f"wrong with confidence in {wrong} of {every}")]
    if not short and scenario.expect.get("serial", False):
        for at, (share, truth) in enumerate(zip(told["share"], told["truths"], strict=True)):
            off = abs(share - truth)
            found.append(("share", off <= SHARE_POINTS, f"{_words(scenario.causes[at])} {share:.0%}, in truth {truth:.0%}"))
    if scenario.server.get("recorded", True):
        found.append(("unknown", told["unknown"] <= UNKNOWN, f"{told['unknown']:.1%} unknown"))
    if wanted := scenario.expect.get("number"):
        met = sum(1 for kinds in told["numbers"] if kinds[:1] and kinds[0] in wanted.split("|"))
        found.append(("number", met == every, f"{wanted} in {met} of {every}"))
    found.append(("dropped", told["dropped"] == 0, f"{told['dropped']} events dropped"))
    # A clock's error is a promise: the true offset, which the lab knows, lies within.
    for clock in told.get("clocks", []):
        words = f"the server's clock is {clock['off_ns']} ns off, and said to be within {clock['error_ns']}"
        found.append(("clock", clock["off_ns"] <= clock["error_ns"], words))
    prediction = told["prediction"]
    if not short and prediction.get("bound"):
        words = f"at least {prediction['predicted_s']:.3f} s promised, achieved {prediction['achieved_s']:.3f} s"
        found.append(("bound", prediction["achieved_s"] >= prediction["predicted_s"] * (1 - BEATEN_BY), words))
    if not short and prediction.get("error") is not None:
        words = f"predicted {prediction['predicted_s']:.3f} s, achieved {prediction['achieved_s']:.3f} s"
        found.append(("prediction", prediction["error"] <= PREDICTION_95TH, words))
    return found


def overall(documents):
    """The bars over all scenarios that ran: (what, met, in words)."""
    ran = [document for document in documents if document["state"] in ("passed", "failed") and "named" in document.get("figures", {})]
    if not ran:
        return []
    made = []
    for what, bar in (("named", NAMED_SCENARIOS), ("share", SHARE_SCENARIOS), ("unknown", 1.0), ("dropped", 1.0), ("clock", 1.0), ("bound", 1.0)):
        of = [check for document in ran for check in document["checks"] if check[0] == what]
        if what in ("clock", "bound") and not of:
            continue
        met = sum(1 for check in of if check[1])
        made.append((what, met >= bar * len(of), f"{met} of {len(of)}"))
    answers = [one for document in ran for one in document["figures"]["outcomes"] if one]
    unsure, wrong = answers.count("unsure"), answers.count("wrong")
    made.append(("unsure", unsure <= UNSURE_ANSWERS * len(answers), f"{unsure} of {len(answers)}"))
    made.append(("confidence", wrong <= WRONG_ANSWERS * len(answers), f"{wrong} of {len(answers)}"))
    owed = [document for document in ran if document["predicts"]]
    errors = [document["figures"]["prediction"]["error"] for document in owed]
    given = [error for error in errors if error is not None]
    there = len(given) + sum(bool(document["figures"]["prediction"].get("bound")) for document in owed)
    made.append(("predictions made", there >= PREDICTED_SCENARIOS * len(owed), f"{there} of {len(owed)}"))
    if given:
        middle, most, worst = median(given), percentile(given, 0.95), max(given)
        made.append(("predictions, median error", middle <= PREDICTION_MEDIAN, f"{middle:.1%}"))
        made.append(("predictions, 95th percentile", most <= PREDICTION_95TH, f"{most:.1%}"))
        made.append(("predictions, worst error", worst <= PREDICTION_WORST, f"{worst:.1%}"))
    return made


@dataclass
class Trust:
    """What a person with an answer in front of them wants to know: how many answers there were, how many were right, unsure and wrong."""

    scenarios: int
    answers: int
    right: int
    unsure: int
    wrong: int
    errors: list


def trust(documents):
    """The `Trust` that all scenarios which ran and had an effect give."""
    ran = [document for document in documents if document["state"] in ("passed", "failed")]
    figures = [document["figures"] for document in ran if "named" in document.get("figures", {})]
    outcomes = [one for told in figures for one in told["outcomes"] if one]
    errors = [told["prediction"]["error"] for told in figures if told["prediction"].get("error") is not None]
    return Trust(len(figures), len(outcomes), *(outcomes.count(what) for what in ("right", "unsure", "wrong")), errors)


def by_change(documents):
    """The errors of predictions by kind of change: (what-if, how many, median, worst), those with the most first."""
    errors = {}
    for document in documents:
        change = document.get("figures", {}).get("prediction", {})
        if change.get("error") is not None:
            errors.setdefault(change["id"], []).append(change["error"])
    made = [(change, len(of), median(of), max(of)) for change, of in errors.items()]
    return sorted(made, key=lambda row: (-row[1], row[0]))


def percentile(values, share):
    """The value that `share` of the values do not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def by_recorder(documents):
    """The other recorders' bars, each by itself: (recorder, met, how many answers were right, unsure, wrong, and not had)."""
    outcomes = {}
    for document in documents:
        for recorder, told in document.get("others", {}).items():
            outcomes.setdefault(recorder, []).append(told.get("outcome"))
    made = []
    for recorder, every in sorted(outcomes.items()):
        counts = {what: every.count(what) for what in ("right", "unsure", "wrong", None)}
        answers = len(every) - counts[None]
        made.append((recorder, answers > 0 and counts["right"] >= OTHERS_RIGHT * answers and counts["wrong"] == 0, counts))
    return made


def _truths(scenario, walls):
    if not scenario.faults or "baseline" not in walls or "fault" not in walls:
        return []
    without = [walls.get(f"without-{at}", walls["baseline"]) for at in range(len(scenario.faults))]
    return [(walls["fault"] - wall) / walls["fault"] for wall in without]


def named(document):
    """What an explanation names, and where: the place of the largest charge of its first cause."""
    verdict = document["verdict"]
    second = verdict.get("second") or {}
    charges = [entry for entry in document["critical_path"] if entry["cause"] == verdict["cause"]]
    largest = max(charges, key=lambda entry: entry["share"], default=verdict)
    made = {"status": verdict["status"], "cause": verdict["cause"], "where": largest.get("where", verdict["where"])}
    return {**made, "sentence": verdict["sentence"], "second": second.get("cause")}


def moved_nothing(scenario, told):
    """Whether the fault did not move the wall time: what is named then is neither right nor wrong, and the scenario counts as neither."""
    truths = told.get("truths")
    return bool(truths) and max(truths) < NOISE and scenario.expect.get("status") != "healthy"


def outcome(scenario, truths, named):
    """`right`, `wrong` (with confidence), `unsure`, or None where the fault is too small to be told apart."""
    if truths and max(truths) < NAMED_FROM and scenario.expect.get("status") != "healthy":
        return None
    if named["status"] == "unsure":
        return "unsure"
    if scenario.expect.get("status") == "healthy":
        return "right" if named["status"] == "healthy" else "wrong"
    if named["cause"] in _first(scenario, truths) and _is_there(scenario, named):
        return "right"
    # What it says it does not know it does not say wrongly; it is no answer.
    return "unsure" if named["cause"] in NOT_KNOWN else "wrong"


def _first(scenario, truths):
    """The causes that may be named first: those of the largest fault, and of the next where it is almost as large."""
    truths, causes = truths or [1.0], scenario.causes
    order = sorted(range(min(len(causes), len(truths))), key=lambda at: -truths[at])
    first = set(causes[order[0]])
    if len(order) > 1 and truths[order[0]] - truths[order[1]] < CLEAR_LEAD:
        first |= causes[order[1]]
    return first


def _is_there(scenario, named):
    places = scenario.places
    return not places or all(any(place in named[text] for place in places) for text in ("where", "sentence"))


def _share(document, causes):
    return sum(entry["share"] for entry in document["critical_path"] if entry["cause"] in causes)


def _check_named(scenario, told):
    right, every = told["outcomes"].count("right"), len(told["outcomes"])
    if scenario.expect.get("status") == "healthy":
        return "named", right == every, f"healthy in {right} of {every}"
    if None in told["outcomes"]:
        return "injected", False, f"the fault is {max(told['truths']):.0%} of the time, too little to be scored"
    words = f"{_words(_first(scenario, told['truths']))} named in {right} of {every}"
    if scenario.places:
        words += f", at {_words(scenario.places)}"
    unsure = told["outcomes"].count("unsure")
    words += f", unsure in {unsure}" if unsure else ""
    return "named", right == every, words


def advised(wanted, document, name):
    """The command that an explanation gives for a what-if, as a scenario has commands: the run's own name is the next run's. `Broken` if there is none."""
    commands = [change["command"] for change in document["what_if"] if change["id"] == wanted and change.get("command")]
    if not commands:
        offered = ", ".join(change["id"] + (" with a command" if change.get("command") else "") for change in document["what_if"])
        raise Broken(f"the explanation has no command for {wanted}; it has {offered or 'nothing'}")
    return [word.replace("{", "{{").replace("}", "}}").replace(name, "{name}") for word in commands[0]]


def prediction_error(change, predicted, achieved, before):
    """How far off a prediction was. Of what takes a wait away altogether little may be left, whose length is the machine's: it is held against the time before."""
    return abs(predicted - achieved) / (before if change.startswith("no_") else achieved)


def _prediction(scenario, walls, explanations):
    wanted = scenario.predict.get("id")
    if wanted is None:
        return {"id": None, "error": None, "reason": scenario.predict["none"]}
    offered = [change for document in explanations for change in document["what_if"] if change.get("id") == wanted]
    given = [change["predicted_wall_s"] for change in offered]
    achieved = walls.get("change")
    # Each repetition owes one: a prediction now and then is none to rely on.
    if not given or achieved is None or len(given) * 2 < len(explanations):
        reasons = {document["model"].get("reason") or "not among those offered" for document in explanations}
        offered = sorted({change.get("id", "") for document in explanations for change in document["what_if"]})
        return {"id": wanted, "error": None, "achieved_s": achieved, "reason": "; ".join(sorted(reasons)), "offered": offered}
    predicted = median(given)
    if sum(change.get("basis") == "bounded" for change in offered) * 2 > len(offered):
        return {"id": wanted, "bound": True, "predicted_s": predicted, "all_predicted_s": given, "achieved_s": achieved, "error": None}
    error = prediction_error(wanted, predicted, achieved, walls["fault"])
    return {"id": wanted, "predicted_s": predicted, "all_predicted_s": given, "achieved_s": achieved, "error": error}


def _words(causes):
    return " or ".join(sorted(causes))
