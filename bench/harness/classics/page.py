"""docs/STUDIES.md, from the results alone."""

import os

from bench.harness.classics.words import table
from testbed.paths import REPOSITORY
from testbed.results import write_text

PAGE = os.path.join(REPOSITORY, "docs", "STUDIES.md")

PREFACE = """# Five classic studies, made again

Five studies of slow transfers, from 2001 to 2011, ended with pictures that an expert read by eye, and with questions that their authors could not answer.
Here each is made again with Thalweg alone, on a machine of today: figure beside figure, and the open questions answered with what the
explanation rests on. All figures are made of results in [bench/classics](../bench/classics) by `bench/studies --page`; what explanations say is quoted as they say it.

"""

MACHINE = """Measured on {cores} processors ({processor}), kernel {kernel}, a virtual machine, {first} to {last}; client, servers, disks and links share its processors. Times of
machines twenty years apart do not compare; shapes, shares and causes do. Figures are medians, with the least and the most of all runs in brackets.

"""

END = """## The open questions

"""


def write(studies, path=PAGE):
    """Write the page; its path."""
    write_text(path, text(studies))
    return os.path.relpath(path, REPOSITORY)


def text(studies):
    """All of it."""
    known = [(study, study.lines()) for study in studies]
    sections = [study.section.text(lines) for study, lines in known]
    rows = [list(row) for study, lines in known for row in study.section.questions(lines)]
    ends = END + table(["question", "answer", "evidence"], rows, right=3) if rows else ""
    return PREFACE + _machine([line for _, lines in known for line in lines.values()]) + "".join(sections) + ends


def _machine(lines):
    if not lines:
        return "Nothing has been measured yet.\n"
    on = lines[0]["machine"]
    days = sorted(line["measured"][:10] for line in lines)
    return MACHINE.format(cores=on["cores"], processor=on.get("processor", "unknown"), kernel=on["kernel"], first=days[0], last=days[-1])
