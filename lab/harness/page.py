"""docs/results/LAB.md, and the line on the terminal: the table of what was injected and what was named."""

import os
from statistics import median

from lab.harness import corpus, ordinary, packs, rules, score
from testbed import results
from testbed.paths import REPOSITORY

TITLE = "# The lab: faults with known causes, and what `thalweg explain` named\n"
ASKED = """**Asked.** A real client and a real server run with one fault of known size: a slow disk, a lossy link, a lock, a pause. Does `explain` name the fault and
where it is? How far is its share from the truth? How far is each prediction from the run with the change made?
"""
HEADER = """## How it is measured

`make lab` writes this page from [lab/results.jsonl](../../lab/results.jsonl), one line for each scenario ([lab/scenarios](../../lab/scenarios)).

- *Truth*: the share of the time that goes away with the fault, (T_fault − T_baseline) / T_fault, from medians of interleaved runs. The
  *baseline* is the same run without the fault.
- *Share*: what the explanation charged to that cause. It must be within 5 points of the truth where the fault is serial with everything
  else (marked =).
- *Named*: an answer that calls itself *unsure* counts neither as named nor as wrong. A wrong answer that does not, and an answer with the
  wrong place, is *wrong with confidence*.
- *Unknown*: the largest share that any repetition left unexplained.
- *Build*: the revision of the measured program.
- *No effect*: the fault moved the wall time by no more than repetitions differ, so there was nothing to name. The scenario counts as neither passed nor failed.
- *Predicted*: the time that the explanation gives for a change. *Achieved*: the time of the re-run with that change.
"""

MISSED = """**Missed, and why.** Most misses are shares and predictions, not names. A replay takes running time as it was recorded, with the
time that a processor needs to come out of idle; work that overlaps differently in the changed run, and windows that would grow, are not modelled.
*What is known to fall short* at the end has each kind with its reason, and the list above it has each scenario that failed.
"""

PAGE = os.path.join(REPOSITORY, "docs", "results", "LAB.md")
README = os.path.join(REPOSITORY, "README.md")
README_BEGINS = "**How often is it right?**"
USERS = """Everything is `nobody`'s: the command, the recorder `user`, the explanation, and the server wherever such a user can run it. Each fault is recorded once
(`lab/run --recorder user`, [lab/user](../../lab/user)) and scored by the truths that root's runs measured. Where the server stays root's (NFS, sshd, port 53, ...),
`server.unknown` at its address is right: more an ordinary user cannot know of it.
"""
USERS_SETTINGS = {ordinary.WITH_SWITCHES: "with context switches (paranoid 2)", ordinary.WITHOUT_SWITCHES: "without them (paranoid 3)"}
STATES = {"passed": "passed ", "failed": "FAILED ", "no effect": "NO EFFECT", "not run": "NOT RUN"}
LABELS = {
    "named": "the injected cause is named first and surely, in every repetition, in ≥ 98 % of the scenarios",
    "share": "its share within 5 points of the truth, where it is serial, in ≥ 95 %",
    "unknown": "unknown ≤ 2 %, with both ends recorded",
    "confidence": "wrong with confidence: ≤ 0.5 % of the answers",
    "unsure": "answers that say they are unsure: ≤ 3 %",
    "dropped": "no events dropped",
    "clock": "merged clocks are as close as is said, in every run",
    "bound": "bounds (\"at most 1.2 s -> 0.3 s\") that the run with the change did not beat by more than 5 %",
    "predictions made": "predictions or bounds, in ≥ 90 % of the scenarios",
    "predictions, median error": "predictions, median error ≤ 3 %",
    "predictions, 95th percentile": "predictions, 95th percentile of the errors ≤ 15 %",
    "predictions, worst error": "predictions, worst error ≤ 30 %",
}


def counts(documents):
    """How many passed, failed and were not run, and how many of them were run more than once."""
    made = {state: sum(document["state"] == state for document in documents) for state in STATES}
    return {**made, "retried": sum(document.get("retries", 0) > 0 for document in documents)}


def line(document):
    """One line on the terminal."""
    told = document.get("figures", {})
    walls = told.get("wall_s", {})
    times = "  ".join(f"{name} {wall:.3f} s" for name, wall in walls.items())
    truths = ", ".join(f"{truth:.0%}" for truth in told.get("truths", []))
    reason = f"\n          {document['reason']}" if document.get("reason") else ""
    reason += f"\n          at the first try: {document['first']}" if document.get("retries") else ""
    tail = f" | {_named(told)}" if "named" in told else ""
    return f"{STATES[document['state']]} {document['scenario']:34} {times} (truth {truths or '-'}){tail}{reason}"


def write(path, kept, scenarios):
    """The page from the results there are."""
    lines = _with_first_revisions(kept.all())
    documents = [(one, lines.get(one.name)) for one in scenarios]
    there = [document for _, document in documents if document]
    answers = {paranoid: ordinary.kept(paranoid).all() for paranoid in ordinary.SETTINGS}
    parts = [TITLE, ASKED, _trust(there, answers), MISSED, _machine(there), _overall(there), HEADER, _changes(there), of_corpus(corpus.Corpus(corpus.DIRECTORY, "thalweg")), users(answers), _recorders(there), _rules(there), _table(documents, answers), _reasons(documents), _known()]
    results.write_text(path, "\n".join(part for part in parts if part).rstrip() + "\n")


def _with_first_revisions(lines):
    """One program has one name, that of the sources when it was first measured: they go on changing from shard to shard while it does not."""
    first = {}
    for document in sorted(lines.values(), key=lambda document: document.get("measured", "")):
        first.setdefault(document["build"].get("thalweg_sha256"), document["build"]["revision"])
    return {name: {**one, "build": {**one["build"], "revision": first[one["build"].get("thalweg_sha256")]}} for name, one in lines.items()}


def _known():
    """What is written by hand: why bars are missed."""
    with open(os.path.join(REPOSITORY, "lab", "KNOWN.md"), encoding="utf-8") as source:
        return source.read()


def _trust(documents, answers):
    """How far a reader can trust an answer."""
    told = score.trust(documents)
    if not told.answers:
        return ""
    sure = told.right + told.wrong
    words = [f"**Found.** {told.scenarios} transfers, nearly all with a fault, were recorded {told.answers} times."]
    words.append(f"{told.right} answers named the fault and its place, {told.unsure} called themselves unsure, {told.wrong} were wrong and did not.")
    words.append(f"Of the answers that do not call themselves unsure, {_share(told.right, sure)} were right.")
    if told.errors:
        near = sum(error <= score.PREDICTION_95TH for error in told.errors)
        words.append(f"Of {len(told.errors)} predictions whose change was made, {near} came within {score.PREDICTION_95TH:.0%} of the measured time.")
    words.append("All runs were recorded as root, most at both ends, with faults chosen beforehand.")
    where = "An ordinary user" if any(answers.values()) else "Other recorders"
    words.append(f"[ANSWERS.md](ANSWERS.md) asks the same of ordinary commands, and *{where}* below of recordings without privilege.")
    return "\n".join(words) + "\n"


def in_readme(documents, users):
    """README's line about being right, this page's figures: of root's results, and of an ordinary user's."""
    told, by_user = score.trust(documents), ordinary.counts(users)
    right, unsure, wrong = (_share(count, told.answers) for count in (told.right, told.unsure, told.wrong))
    asked = sum(by_user[state] for state in ("right", "unsure", "wrong"))
    without = [f"{_share(by_user[state], asked)} {words}" for state, words in (("right", "were right"), ("unsure", "unsure"), ("wrong", "wrong"))]
    return f"{_by_root(told, right, unsure, wrong)} Recorded without privilege, {without[0]}, {without[1]}, and {without[2]}."


def _by_root(told, right, unsure, wrong):
    return f"{README_BEGINS} Of {told.answers} answers about transfers with a known fault, recorded by root, {right} named the fault and its place, {unsure} called themselves unsure, and {wrong} were wrong ([the lab](docs/results/LAB.md))."


def write_in_readme(path, kept):
    """Put that sentence in the place of the line that begins as it does; the rest of the file stays as it is."""
    with open(path, encoding="utf-8") as source:
        lines = source.read().split("\n")
    sentence = in_readme(kept.all().values(), ordinary.kept(ordinary.WITH_SWITCHES).all().values())
    results.write_text(path, "\n".join(sentence if line.startswith(README_BEGINS) else line for line in lines))


def _share(part, of):
    return f"{part / of:.1%}" if of else "none"


def _changes(documents):
    rows = score.by_change(documents)
    if not rows:
        return ""
    lines = ["**Predictions by kind of change**: the error of the predicted time against the time measured with the change made.\n"]
    lines += ["| change | predictions | median error | worst |", "|---|---|---|---|"]
    return "\n".join(lines + [f"| `{change}` | {count} | {middle:.1%} | {worst:.1%} |" for change, count, middle, worst in rows]) + "\n"


def _machine(documents):
    if not documents:
        return "Not measured yet.\n"
    told, build = documents[0]["machine"], sorted({document["build"]["revision"] for document in documents})
    words = f"{told.get('processor')}, {told.get('cores')} processors, {told['memory_bytes'] / 2**30:.0f} GiB, Linux {told.get('kernel')}"
    repeats = sorted({document["repeat"] for document in documents})
    busy = [document["busy_before"] for document in documents if document.get("busy_before") is not None]
    other = f" Other work kept the processors {median(busy):.0%} busy before a scenario (median)." if busy else ""
    if busy and median(busy) > 0.2:
        other += " Waits for these processors are charged to the run queue, unevenly with and without the fault, which makes shares and predictions worse."
    return f"Measured on: {words}. Revision {', '.join(build)}; {'/'.join(str(n) for n in repeats)} repetitions.{other}\n"


def _overall(documents):
    rows = score.overall(documents)
    if not rows:
        return ""
    counted = counts(documents)
    retried = f" {counted['retried']} ran more than once." if counted["retried"] else ""
    lines = [f"**{counted['passed']} scenarios passed, {counted['failed']} failed, {counted['no effect']} had a fault without effect, {counted['not run']} could not run on this machine.{retried}**\n"]
    lines += ["| bar | | |", "|---|---|---|"]
    lines += [f"| {LABELS[what]} | {words} | {'met' if met else '**missed**'} |" for what, met, words in rows]
    return "\n".join(lines) + "\n"


def of_corpus(held):
    """The expected answers for the kept recordings."""
    answers = list(held.expectations.all().values())
    if not answers:
        return ""
    words = f"{len(answers)} recordings, {corpus.outcomes(answers)}; {packs.size(held.packs) / 2**20:.1f} MiB packed"
    return f"**The corpus** ([lab/corpus](../../lab/corpus)), explained again by `make corpus` and `make test`: {words}.\n"


def users(answers):
    """What an ordinary user's recordings come to; `answers` are lines by setting and scenario."""
    if not any(answers.values()):
        return ""
    lines = ["## An ordinary user\n", USERS, "| | " + " | ".join(USERS_SETTINGS[paranoid] for paranoid in answers) + " |", "|---" * (len(answers) + 1) + "|"]
    counted = {paranoid: ordinary.counts(kept.values()) for paranoid, kept in answers.items()}
    lines += [f"| {state} | " + " | ".join(str(one[state]) for one in counted.values()) + " |" for state in ordinary.STATES]
    lines.append("| unsure, and what would settle it is said | " + " | ".join(f"{one['settled']} of {one['unsure']}" for one in counted.values()) + " |")
    for whose in ("the user's", "root's", "none"):
        cells = [_right_of([one for one in kept.values() if one["server"] == whose]) for kept in answers.values()]
        lines.append(f"| right where the server is {whose} | " + " | ".join(cells) + " |")
    lines += ["", "| bar | | |", "|---|---|---|"]
    for paranoid, kept in answers.items():
        bars = ordinary.asked(counted[paranoid], paranoid) if kept else []
        lines += [f"| {USERS_SETTINGS[paranoid]}: {what} | {figure} | {'met' if met else '**missed**'} |" for what, figure, met in bars]
    return "\n".join(lines) + "\n"


def _right_of(lines):
    scored = [one for one in lines if one["state"] in ("right", "unsure", "wrong", "could not record")]
    return f"{sum(one['state'] == 'right' for one in scored)} of {len(scored)}"


def _as_user(name, answers):
    """The cell of a scenario: what an ordinary user's answer was under each setting."""
    cells = []
    for kept in answers.values():
        told = kept.get(name)
        if told is None:
            cells.append("–")
            continue
        cause = f": {told['named']['cause']}" if told["state"] in ("wrong", "unsure") else ""
        cells.append(f"**{told['state']}**{cause}" if told["state"] in ("wrong", "could not record") else f"{told['state']}{cause}")
    return " / ".join(cells)


def _recorders(documents):
    rows = score.by_recorder(documents)
    if not rows:
        return ""
    lines = ["## Other recorders\n", "Once on each fault; right in ≥ 75 % of what they could record, and wrong with confidence in none.\n"]
    lines += ["| recorder | right | unsure | wrong with confidence | could not record | |", "|---|---|---|---|---|---|"]
    for recorder, met, counts in rows:
        cells = " | ".join(str(counts[what]) for what in ("right", "unsure", "wrong", None))
        lines.append(f"| {recorder} | {cells} | {'met' if met else '**missed**'} |")
    return "\n".join(lines) + "\n"


def _rules(documents):
    rows = rules.scores(documents)
    if not rows[0][2]:
        return ""
    shares = {name: right / of for name, right, of in rows}
    met = shares["ours"] - shares["best"] >= score.ABOVE_RULES
    lines = ["## Trivial rules on the same faults\n", f"Ours is to be {score.ABOVE_RULES} above the best: {'met' if met else '**missed**'}.\n"]
    lines += ["| rule | right | of |", "|---|---|---|"]
    return "\n".join(lines + [f"| {name.replace('_', ' ')} | {right / of:.2f} | {of} |" for name, right, of in rows]) + "\n"


def _table(documents, answers):
    head = "| scenario | injected | named (of repetitions) | right/unsure/wrong | truth | share | unknown | baseline → fault | predicted | achieved | build | |"
    more = any(answers.values())
    head += " an ordinary user, with switches / without |" if more else ""
    lines = [head, "|" + "---|" * (head.count("|") - 1)]
    for scenario, document in documents:
        if document is None:
            row = f"| {scenario.name} | {scenario.title} | | | | | | | | | | not measured |"
        else:
            row = _row(document)
        lines.append(f"{row} {_as_user(scenario.name, answers)} |" if more else row)
    return "\n".join(lines) + "\n"


def _row(document):
    told = document.get("figures", {})
    injected = ", ".join(document["causes"])
    head = f"| [{document['scenario']}](../../lab/scenarios/{document['scenario']}.toml) | {injected} |"
    build = document["build"]["revision"]
    if document["state"] == "not run":
        return f"{head} | | | | | | | | {build} | **NOT RUN** |"
    if "named" not in told:
        return f"{head} | | | | | | | | {build} | **failed** |"
    walls = told["wall_s"]
    equal = "=" if document["serial"] else ""
    truth = " + ".join(f"{value:.0%}" for value in told["truths"]) or "–"
    share = " + ".join(f"{value:.0%}" for value in told["share"])
    change = told["prediction"]
    predicted, achieved = _promised(change)
    times = f"{walls.get('baseline', walls['fault']):.3f} → {walls['fault']:.3f} s"
    state = {"passed": "passed", "no effect": "no effect"}.get(document["state"], "**failed**")
    state += f" ({document['retries']} retried)" if document.get("retries") else ""
    counted = "/".join(str(told["outcomes"].count(what)) for what in ("right", "unsure", "wrong"))
    return f"{head} {_named(told)} | {counted} | {truth} | {share} {equal} | {told['unknown']:.1%} | {times} | {predicted} | {achieved} | {build} | {state} |"


def _promised(change):
    """What was promised of a change, and what came of it."""
    if change.get("bound"):
        return f"≥ {change['predicted_s']:.3f} s", f"{change['achieved_s']:.3f} s"
    if change.get("error") is not None:
        return f"{change['predicted_s']:.3f} s", f"{change['achieved_s']:.3f} s ({change['error']:.0%})"
    return "none owed" if change["id"] is None else "**none**", ""


def _named(told):
    names = {}
    for named in told["named"]:
        word = {"healthy": "healthy", "unsure": f"{named['cause']}?"}.get(named["status"], named["cause"])
        names[word] = names.get(word, 0) + 1
    return ", ".join(f"{name} ({count})" for name, count in sorted(names.items(), key=lambda item: -item[1]))


def _reasons(documents):
    lines = []
    for _, document in documents:
        if document and document.get("reason"):
            words = STATES[document["state"]].strip().replace("FAILED", "failed")
            lines.append(f"- **{document['scenario']}** {words}: {document['reason']}")
    return "\n".join(["## What falls short, and what could not run\n", *lines]) if lines else ""
