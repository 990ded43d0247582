"""docs/results/STUDIES.md, from the results alone."""

import os

from bench.harness.classics.words import table
from testbed.paths import REPOSITORY
from testbed.results import write_text

PAGE = os.path.join(REPOSITORY, "docs", "results", "STUDIES.md")

PREFACE = """# Five classic studies, made again

**Asked.** Five studies of slow transfers, from 2001 to 2011, ended with pictures that an expert read by eye and with questions that their authors left open: the
gaps of `pvfs2-cp`, the processor time of GridFTP servers, the stalls of NFS clients, PVFS2's distributions beside the raw disk, and the cost of a listing per
stripe. Can Thalweg alone answer these questions on a machine of today?

**Found.** The table at the end has each open question with its answer and its evidence.

**Missed, and why.** Some questions cannot be answered here, and the table says so: this virtual machine has no hardware counters, the kernel's own RPC layer is not on the
measured path, and NeST and the PVFS2 of 2005 can no longer be run.

**When.** Figures come from results in [bench/classics](../../bench/classics), through `bench/studies --page`; explanations are quoted word for word.

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
