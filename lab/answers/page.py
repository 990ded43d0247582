"""docs/results/ANSWERS.md, from what is kept."""

import os
import shlex

from lab.answers import judge, keeping
from lab.harness.ordinary import SETTINGS
from testbed.paths import REPOSITORY
from testbed.results import write_text

PATH = os.path.join(REPOSITORY, "docs", "results", "ANSWERS.md")
# Characters of a command in the table.
MOST = 120
HEAD = """# Ordinary commands, and what `explain` answers

**Asked.** {count} commands as people type them, each explained once by `thalweg explain -- COMMAND`. Is the first sentence true, and does it use the terms of the
person who typed the command? The true cause of each command was written down before its run, and a person judged the sentence against it. Every proposed
change that is a command was made word for word and run in turn with the original, five pairs or more. Is the prediction right?

**Found.** {found}.

**Missed, and why.** Predictions are further off than asked. The worst is of a change that removes nearly all of a run: tens of milliseconds remain, so a
small absolute error is a large relative one. Predictions for parallel compressors are up to 20 % off. Each wrong answer below has its reason beneath.

**When.** {when}, on two processors that other work shared at times. `lab/answers/run` repeats all of it; this page is made from what it kept
([lab/answers](../../lab/answers)).

| bar | figure | met |
|---|---|---|
{bars}

*True*: the first sentence. *Exact*: the right change is proposed as a command. The error is that of the predicted time; bounds ("at most") and
advice without a number have none.

| command | true | exact | change that was followed | predicted | achieved | error |
|---|---|---|---|---|---|---|
{rows}
"""


def line(command, kept):
    """A command's result for the terminal."""
    if "not_run" in kept:
        return f"NOT RUN   {command.name}: {kept['not_run']}"
    words = [f"{'right' if not judge.faults(command, kept) else 'LOOK'}  {command.name}  {kept['wall_s']:.2f} s"]
    words += [f"          {text}" for text in kept["text"]]
    words += [f"          ? {fault}" for fault in judge.faults(command, kept)]
    words += [f"          > {_change(change)}" for change in kept["changes"]]
    return "\n".join(words)


def _change(change):
    told = " ".join(_figures(change)) if "achieved_s" in change else change.get("failed", "not followed")
    return f"{shlex.join(change['command'])}: {told}"


def _shown(words):
    """A command as it is typed: of a shell's text alone, and no longer than a cell of the table may be."""
    typed = words[2] if words[:2] == ["sh", "-c"] else shlex.join(words)
    return typed if len(typed) <= MOST else f"{typed[: MOST // 2]} … {typed[-MOST // 2 :]}"


def _figures(change):
    predicted = f"{_seconds(change['before_s'])} -> {_seconds(change['predicted_s'])}" if "predicted_s" in change else "no number"
    error = f"{change['error']:+.1%}" if "error" in change else "–"
    return [("at most " if change.get("bounded") else "") + predicted, f"{_seconds(change['before_s'])} -> {_seconds(change['achieved_s'])}", error]


def _seconds(seconds):
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def write(commands, lines):
    """The page."""
    shown = [(command, lines[command.name]) for command in commands if command.name in lines]
    bars = "\n".join(f"| {what} | {figure} | {'yes' if met else '**no**'} |" for what, figure, met in judge.held(commands, lines))
    rows = "\n".join(row for command, kept in shown for row in _rows(command, kept))
    days = sorted(kept["measured"][:10] for _, kept in shown if "measured" in kept)
    builds = sorted({kept["build"]["revision"] for _, kept in shown if "build" in kept})
    when = f"{' to '.join(dict.fromkeys((days[0], days[-1])))}, builds {', '.join(builds)}" if days else "Not measured yet"
    found = "; ".join(f"{what}: {figure.split(',')[0]}" for what, figure, _ in judge.held(commands, lines))
    text = HEAD.format(count=len(shown), found=found[0].upper() + found[1:], when=when, bars=bars, rows=rows)
    text += _users(lines)
    text += "\n".join(_answer(command, kept) for command, kept in shown)
    write_text(PATH, text)


def _users(roots):
    """What an ordinary user is answered, beside root's causes."""
    answers = {paranoid: keeping.users_results(paranoid).all() for paranoid in SETTINGS}
    answers = {paranoid: lines for paranoid, lines in answers.items() if lines}
    if not answers:
        return ""
    told = ["\n## As an ordinary user\n", "`lab/answers/run --as nobody` explains each of these commands once as an ordinary user. Is the leading cause the same as in root's answer?\n"]
    for paranoid, lines in answers.items():
        (what, figure, met), _ = judge.held_of_user(roots, lines)
        told.append(f"- `kernel.perf_event_paranoid` {paranoid}: {what}: {figure}, {'met' if met else '**missed**'}.")
    told += ["", "| command | root | " + " | ".join(f"paranoid {paranoid}" for paranoid in answers) + " |", "|---" * (len(answers) + 2) + "|"]
    for name in sorted({name for lines in answers.values() for name in lines}):
        root = roots.get(name, {})
        told.append(f"| {name} | {root.get('cause', 'not run')} | " + " | ".join(_users_cell(root, lines.get(name)) for lines in answers.values()) + " |")
    return "\n".join(told) + "\n"


def _users_cell(root, line):
    if line is None or "sentence" not in line:
        return f"not run: {line['not_run']}" if line else "–"
    cause = line["cause"] + (" (unsure)" if line["status"] == "unsure" else "")
    return cause if judge.same_cause(root, line) is not False else f"**{cause}**"


def _rows(command, kept):
    if "not_run" in kept:
        return [f"| `{command.name}` | not run: {kept['not_run']} | | | | | |"]
    true = "yes" if not judge.faults(command, kept) else "**no**"
    exact = "yes" if judge.is_exact(command, kept) else "no" if command.exact else "–"
    head = f"| [{command.name}](#{command.name}) | {true} | {exact} |"
    if not kept["changes"]:
        return [f"{head} | | | |"]
    rows = []
    for change in kept["changes"]:
        words = _shown(change["command"]).replace("|", "\\|")
        figures = " | ".join(_figures(change)) if "achieved_s" in change else f"{change.get('failed', 'not followed')} | |"
        rows.append(f"{head} `{words}` | {figures} |")
        head = "| | | |"
    return rows


def _answer(command, kept):
    told = [f"\n## {command.name}\n", f"True of it: {command.truth} Right change: {command.change}.\n"]
    if "not_run" not in kept:
        told += ["```", f"$ thalweg explain -- {command.typed}", *kept["text"], "```\n"]
        told += [f"*Judged*: {command.judged.get('why') or 'true'}." if not judge.faults(command, kept) else f"**Wrong**: {'; '.join(judge.faults(command, kept))}."]
    return "\n".join(told)
