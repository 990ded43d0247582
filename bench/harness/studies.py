"""A study that a verb of `thalweg bench` makes by itself, on a stage that is set here; and what it leaves in git: one line with the text of its
page, and its pictures beside the page. Its raw log is in a folder that git ignores.
"""

import os
import shutil
import signal
import subprocess
from contextlib import ExitStack, contextmanager

from testbed import shell
from testbed.campaign import Campaign, say
from testbed.errors import NotRun
from testbed.paths import PROGRAMS, REPOSITORY
from testbed.results import RAW, Results, now
from testbed.servers.nfs_ganesha import NfsGanesha

SCHEMA = "thalweg.study/1"
PATH = os.path.join(REPOSITORY, "bench", "studies.jsonl")
DOCS = os.path.join(REPOSITORY, "docs", "results")
# The client with which the studies list, read and write beside our own.
NFS_CLIENT = os.path.join(PROGRAMS, "nfs-client")


def raw(study):
    """Where a study's raw log goes, and all that it makes of it."""
    return os.path.join(RAW, "bench", study)


class Studies:
    """The lines, and the pages they are for."""

    def __init__(self, path=PATH, docs=DOCS):
        self.lines = Results(path, "study", SCHEMA)
        self.docs = docs

    def keep(self, study, results, **more):
        """Keep what a study made in the directory `results`: the text without its heading, and the pictures."""
        with open(os.path.join(results, f"{study}.md"), encoding="utf-8") as source:
            text = source.read().split("\n", 2)[2]
        pictures = os.path.join(self.docs, study)
        shutil.rmtree(pictures, ignore_errors=True)
        os.makedirs(pictures)
        for name in os.listdir(results):
            if name.endswith(".svg"):
                shutil.copy(os.path.join(results, name), pictures)
        self.lines.put({"study": study, "measured": now(), "text": text, **more})

    def get(self, study):
        """A study's line, and the names of its pictures."""
        line = self.lines.get(study)
        if line is None:
            raise ValueError(f"{self.lines.path}: nothing of the study `{study}`; make bench-{study}")
        files = sorted(name for name in os.listdir(os.path.join(self.docs, study)) if name.endswith(".svg"))
        return line, [name.removesuffix(".svg") for name in files]


class StudyCampaign(Campaign):
    """Its items are the study's own parts, which are measured together: `parts_flag` is the flag of `thalweg bench NAME` that chooses among them."""

    noun = "part"
    has_shards = False
    parts_flag = "--only"
    # The exit code of the study.
    ended = 0

    def add_flags(self, parser):
        parser.add_argument("--no-nfs", action="store_true", help="leave out the comparison with NFS")
        parser.add_argument("words", nargs="*", help=f"further words for `thalweg bench {self.name}`, after `--`")

    def stage(self, out):
        """Set the stage while a study runs that writes to `out`: the study's words, and the directory in which it runs."""
        raise NotImplementedError

    def figures(self):
        """What the line has besides the text."""
        return {}

    def results(self, _path=None):
        return Studies().lines

    def write_page(self, path):
        self.page.write(Studies(), path)

    def lines(self):
        line = self.table.get(self.name) or {}
        return {item.name: {"measured": line.get("measured")} for item in self.items()}

    def left(self, items, _is_enough):
        # The study itself knows which of its runs are left.
        return items

    def run(self, items):
        out = self.out or raw(self.name)
        if not self.options.resume:
            shutil.rmtree(out, ignore_errors=True)
        with self.stage(out) as (words, directory):
            words = ["bench", self.name, *words, "--out", out]
            words += [self.parts_flag, ",".join(item.name for item in items)] if self.options.only else []
            words += ["--resume"] if self.options.resume and os.path.exists(os.path.join(out, "raw.jsonl")) else []
            try:
                self.ended = _in_order([self.program, *words, *self.options.words], directory)
            finally:
                # What the study could not unmount must not hang over servers that are gone.
                for point in shell.mount_points():
                    if point.startswith(f"{os.path.abspath(out)}/"):
                        shell.run("umount", "--lazy", point, check=False)
        if self.ended == 0 and not self.out:
            Studies().keep(self.name, out, **self.figures())
        return []

    def code(self, _documents):
        return self.ended

    def publish(self):
        if self.ended == 0:
            super().publish()


@contextmanager
def nfs(host, directory, *export):
    """NFS-Ganesha on a host over a directory; None, and the reason on stderr, where this machine cannot serve NFS."""
    with ExitStack() as serving:
        server = None
        if not os.access(NFS_CLIENT, os.X_OK):
            say("without NFS: its client is not built (make -C lab; it needs libnfs-dev)")
        else:
            os.makedirs(directory)
            try:
                server = serving.enter_context(NfsGanesha(directory, host, *export))
            except NotRun as reason:
                say(f"without NFS: {reason}")
        yield server


def _in_order(argv, directory):
    """Run the study; when we are to end, so is it, in order: it takes its stores and mounts down."""
    study = subprocess.Popen(argv, stdout=subprocess.DEVNULL, start_new_session=True, cwd=directory)
    try:
        return study.wait()
    except BaseException:
        study.send_signal(signal.SIGINT)
        study.wait()
        raise
