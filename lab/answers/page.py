"""docs/ANSWERS.md, from what is kept."""

import os
import shlex

from lab.answers import judge
from testbed.paths import REPOSITORY
from testbed.results import write_text

PATH = os.path.join(REPOSITORY, "docs", "ANSWERS.md")
# Characters of a command in the table.
MOST = 120
HEAD = """# Ordinary commands, and what `explain` answers

{count} commands as people type them, each explained once by `thalweg explain -- COMMAND` on a machine of two processors, which other work shared at times. Every answer is printed here as it
came. What is true of each command was written down before it was run, and a person judged the first sentence against it: is it true, and in the terms of
who typed the command? Each change that an answer proposes as a command is made, word for word, and run in turn with the command as it was (five pairs
or more); what was predicted is held against that. [lab/answers](../lab/answers) does it all again; this page is made from what it kept.

| bar | figure | met |
|---|---|---|
{bars}

*True*: the first sentence. *Exact*: the change that is right is proposed as a command. An error is that of the predicted time; a bound ("at most") and an
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
    text = HEAD.format(count=len(shown), bars=bars, rows=rows)
    text += "\n".join(_answer(command, kept) for command, kept in shown)
    write_text(PATH, text)


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
