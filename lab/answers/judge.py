"""Whether an answer is right: its first sentence by patterns and by a person's judgement, its change by patterns and by what it brought."""

import re
import statistics

# A change that takes this much longer has made it slower: less is within what runs of one command vary by.
SLOWER = 1.03
MEDIAN_ERROR = 0.05
WORST_ERROR = 0.20
WANTED_COMMANDS = 30
SAME_CAUSE = 0.80
WANTED_EXACT = 20
UNITS = r"(?:[KMGT]i?B(?:/s)?|[KMG]?b/s|ms|µs|ns|s|%|bytes)"
FIGURE = re.compile(rf"\d[\d,.]*(?:\s?{UNITS}(?![A-Za-z]))?")


def without_figures(sentence):
    """A sentence as it is in every run: with # for its figures."""
    return FIGURE.sub("#", sentence)


def faults(command, line):
    """What is wrong with an answer's first sentence, in words; empty: it is true, and in the terms of who typed the command."""
    said = line["sentence"]
    found = []
    if not any(re.search(pattern, said, re.IGNORECASE | re.DOTALL) for pattern in command.must):
        found.append(f"it says nothing of {' | '.join(command.must)}")
    found += [f"it says {pattern}" for pattern in command.must_not if re.search(pattern, said, re.IGNORECASE | re.DOTALL)]
    judged = command.judged
    if without_figures(judged.get("sentence", "")) != without_figures(said):
        found.append("nobody has judged this sentence")
    elif not judged.get("holds"):
        found.append(f"judged false: {judged.get('why')}")
    return found


def is_exact(command, line):
    """Whether one of the changes proposed is a command, and the right one."""
    texts = [" ".join(change["command"]) for change in line["changes"]]
    return bool(command.exact) and any(all(re.search(pattern, text) for pattern in command.exact) for text in texts)


def slower(change):
    """Whether a change that was followed made the command slower."""
    return "achieved_s" in change and change["achieved_s"] > change["before_s"] * SLOWER


def same_cause(root, mine):
    """Whether an ordinary user's answer begins with root's cause; None where one of the two has no answer."""
    return root["cause"] == mine["cause"] if "sentence" in root and "sentence" in mine else None


def held_of_user(roots, lines):
    """The bar of an ordinary user's answers: (what, figure in words, met), and the names of those that begin with another cause."""
    judged = {name: same_cause(roots.get(name, {}), line) for name, line in lines.items()}
    every = [same for same in judged.values() if same is not None]
    bar = (f"root's leading cause, in ≥ {SAME_CAUSE:.0%}", f"{sum(every)} of {len(every)}", bool(every) and sum(every) >= SAME_CAUSE * len(every))
    return bar, sorted(name for name, same in judged.items() if same is False)


def held(commands, lines):
    """The bars: (what, figure in words, whether it is met)."""
    measured = [(command, lines[command.name]) for command in commands if "sentence" in lines.get(command.name, {})]
    right = sum(not faults(command, line) for command, line in measured)
    exact = sum(is_exact(command, line) for command, line in measured)
    followed = [change for _, line in measured for change in line["changes"] if "achieved_s" in change]
    errors = [abs(change["error"]) for change in followed if "error" in change and not change["bounded"]]
    made_slower = sum(map(slower, followed))
    median, worst = (statistics.median(errors), max(errors)) if errors else (None, None)
    percent = lambda error: "none" if error is None else f"{error:.1%}"  # noqa: E731
    return [
        ("commands with an answer", f"{len(measured)}, at least {WANTED_COMMANDS}", len(measured) >= WANTED_COMMANDS),
        ("first sentence true and in the reader's terms", f"{right} of {len(measured)}", bool(measured) and right == len(measured)),
        ("an exact change", f"{exact}, at least {WANTED_EXACT}", exact >= WANTED_EXACT),
        ("median error of the predictions", f"{percent(median)} of {len(errors)}, at most {MEDIAN_ERROR:.0%}", bool(errors) and median <= MEDIAN_ERROR),
        ("worst error of a prediction", f"{percent(worst)}, at most {WORST_ERROR:.0%}", bool(errors) and worst <= WORST_ERROR),
        ("changes that made it slower", f"{made_slower} of {len(followed)}", made_slower == 0),
    ]
