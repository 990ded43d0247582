"""How right an explanation was.

The truth of a fault is how much of the time with it is gone without it: (T_fault − T_baseline) / T_fault, of medians. With several
faults, each one's truth is held against the run without that one. Where the truth is 30 % or more, the cause must be *named
first*, and surely (`unsure` is no answer); a wrong one that is said without doubt is *wrong with confidence*. Where the fault is serial with the rest, its *share* must be within 5 points of the truth; with both ends recorded, no more
than 2 % may be *unknown*; and a *prediction* must come within 15 % of the re-run in which the change was made.
"""

from statistics import median

NAMED_FROM = 0.30
NAMED_SCENARIOS = 0.98
SHARE_SCENARIOS = 0.95
UNSURE_RUNS = 0.03
SHARE_POINTS = 0.05
UNKNOWN = 0.02
PREDICTION_MEDIAN = 0.05
PREDICTION_WORST = 0.15
PREDICTED_SCENARIOS = 0.90
CLEAR_LEAD = 0.05


def figures(scenario, walls, explanations):
    """Everything the table shows, from raw times by variant and documents of the runs with the fault."""
    made = {"wall_s": {name: median(values) for name, values in walls.items() if values}}
    made["truths"] = _truths(scenario, made["wall_s"])
    made["truth"] = sum(made["truths"]) if len(made["truths"]) > 1 else (made["truths"] or [0.0])[0]
    if not explanations:
        return made
    made["named"] = [_named(document) for document in explanations]
    made["shares"] = [[_share(document, causes) for causes in scenario.causes] for document in explanations]
    made["share"] = [median(column) for column in zip(*made["shares"], strict=True)]
    made["unknown"] = max(_share(document, {"unknown"}) for document in explanations)
    made["dropped"] = max(document["dropped_events"] for document in explanations)
    made["prediction"] = _prediction(scenario, made["wall_s"], explanations)
    return made


def checks(scenario, told, short=False):
    """The scenario's verdict: a list of (what, met, in words); short: of one run, which shares and predictions are too noisy for."""
    if "named" not in told:
        return []
    found = [_check_named(scenario, told), _check_confidence(scenario, told)]
    found += _check_where(scenario, told)
    if not short and scenario.expect.get("serial", False):
        for at, (share, truth) in enumerate(zip(told["share"], told["truths"], strict=True)):
            off = abs(share - truth)
            found.append(("share", off <= SHARE_POINTS, f"{_words(scenario.causes[at])} {share:.0%}, in truth {truth:.0%}"))
    if scenario.server.get("recorded", True):
        found.append(("unknown", told["unknown"] <= UNKNOWN, f"{told['unknown']:.1%} unknown"))
    found.append(("dropped", told["dropped"] == 0, f"{told['dropped']} events dropped"))
    prediction = told["prediction"]
    if not short and prediction.get("error") is not None:
        words = f"predicted {prediction['predicted_s']:.3f} s, achieved {prediction['achieved_s']:.3f} s"
        found.append(("prediction", prediction["error"] <= PREDICTION_WORST, words))
    return found


def overall(documents):
    """The bars over all scenarios that ran: (what, met, in words)."""
    ran = [document for document in documents if document["state"] in ("passed", "failed") and "named" in document.get("figures", {})]
    if not ran:
        return []
    made = []
    for what, least in (("named", NAMED_SCENARIOS), ("share", SHARE_SCENARIOS), ("unknown", 1.0), ("confidence", 1.0), ("dropped", 1.0)):
        of = [check for document in ran for check in document["checks"] if check[0] == what]
        met = sum(1 for check in of if check[1])
        made.append((what, met >= least * len(of), f"{met} of {len(of)}"))
    said = [named for document in ran for named in document["figures"]["named"]]
    unsure = sum(named["status"] == "unsure" for named in said)
    made.append(("unsure", unsure <= UNSURE_RUNS * len(said), f"{unsure} of {len(said)} explanations"))
    owed = [document for document in ran if document["predicts"]]
    errors = [document["figures"]["prediction"]["error"] for document in owed]
    given = [error for error in errors if error is not None]
    made.append(("predictions made", len(given) >= PREDICTED_SCENARIOS * len(owed), f"{len(given)} of {len(owed)}"))
    if given:
        middle, worst = median(given), max(given)
        made.append(("predictions, median error", middle <= PREDICTION_MEDIAN, f"{middle:.1%}"))
        made.append(("predictions, worst error", worst <= PREDICTION_WORST, f"{worst:.1%}"))
    return made


def _truths(scenario, walls):
    if not scenario.faults or "baseline" not in walls or "fault" not in walls:
        return []
    without = [walls.get(f"without-{at}", walls["baseline"]) for at in range(len(scenario.faults))]
    return [(walls["fault"] - wall) / walls["fault"] for wall in without]


def _named(document):
    verdict = document["verdict"]
    second = verdict.get("second") or {}
    return {"status": verdict["status"], "cause": verdict["cause"], "where": verdict["where"], "second": second.get("cause")}


def _share(document, causes):
    return sum(entry["share"] for entry in document["critical_path"] if entry["cause"] in causes)


def _check_named(scenario, told):
    if scenario.expect.get("status") == "healthy":
        met = [named["status"] == "healthy" for named in told["named"]]
        return "named", all(met), f"healthy in {sum(met)} of {len(met)}"
    first, truth = _expected(scenario, told)
    met = [named["cause"] in first and named["status"] != "unsure" for named in told["named"]]
    words = f"{_words(first)} named in {sum(met)} of {len(met)}"
    if truth < NAMED_FROM:
        return "injected", False, f"the fault is {truth:.0%} of the time, too little to be scored; {words}"
    return "named", all(met), words


def _expected(scenario, told):
    """Which causes may be named first, and how much of the time the largest of them is."""
    truths, causes = told["truths"] or [1.0], scenario.causes
    order = sorted(range(len(causes)), key=lambda at: -truths[at])
    first = set(causes[order[0]])
    if len(order) > 1 and truths[order[0]] - truths[order[1]] < CLEAR_LEAD:
        first |= causes[order[1]]
    return first, truths[order[0]]


def _check_confidence(scenario, told):
    """Nothing false is said without doubt: another cause first, at the status of an answer; what is said to be unknown is not false."""
    if scenario.expect.get("status") == "healthy":
        return "confidence", True, ""
    first, truth = _expected(scenario, told)
    allowed = first | {"unknown", "server.unknown"}

    def is_wrong(named):
        return named["cause"] not in allowed and named["status"] != "unsure" and named["second"] not in first

    wrong = [named["cause"] for named in told["named"] if truth >= NAMED_FROM and is_wrong(named)]
    return "confidence", not wrong, f"{', '.join(sorted(set(wrong)))} said without doubt in {len(wrong)} of {len(told['named'])}"


def _check_where(scenario, told):
    place = scenario.expect.get("where")
    if not place:
        return []
    met = [place in named["where"] for named in told["named"]]
    return [("where", all(met), f"at {place} in {sum(met)} of {len(met)}")]


def _prediction(scenario, walls, explanations):
    wanted = scenario.predict.get("id")
    if wanted is None:
        return {"id": None, "error": None, "reason": scenario.predict["none"]}
    given = [change["predicted_wall_s"] for document in explanations for change in document["what_if"] if change.get("id") == wanted]
    achieved = walls.get("change")
    # Each repetition owes one: a prediction now and then is none to rely on.
    if not given or achieved is None or len(given) * 2 < len(explanations):
        reasons = {document["model"].get("reason") or "not among those offered" for document in explanations}
        offered = sorted({change.get("id", "") for document in explanations for change in document["what_if"]})
        return {"id": wanted, "error": None, "achieved_s": achieved, "reason": "; ".join(sorted(reasons)), "offered": offered}
    predicted = median(given)
    error = abs(predicted - achieved) / achieved
    return {"id": wanted, "predicted_s": predicted, "all_predicted_s": given, "achieved_s": achieved, "error": error}


def _words(causes):
    return " or ".join(sorted(causes))
