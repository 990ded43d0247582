"""git: the repository itself is cloned into the store, checked, changed, packed, and cloned back out.

git maps its packs, makes thousands of small files, links and renames them into place, and checks every object's hash: `git fsck` says
whether the bytes are those that were written.
"""

import filecmp
import os

from gates.harness.case import attempt
from testbed.errors import Broken, NotRun

TITLE = "a repository cloned, changed, packed, cloned back"
SHORT_S = 30
ORDER = 60

TIMEOUT_S = 600
WHO = {
    "GIT_AUTHOR_NAME": "gate",
    "GIT_AUTHOR_EMAIL": "gate@localhost",
    "GIT_COMMITTER_NAME": "gate",
    "GIT_COMMITTER_EMAIL": "gate@localhost",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}


def cases(fixture):
    """One case for each thing done with the repository, each on the one before."""
    fixture.debian(git="git")
    source = fixture.repository
    if _git(fixture, source, "rev-parse", "HEAD", check=False).code != 0:
        source = _of_files(fixture)
    clone, there = os.path.join(fixture.path, "clone"), os.path.join(fixture.second, "clone")
    # What others commit meanwhile is not looked at.
    head = _git(fixture, source, "rev-parse", "HEAD").output.splitlines()[-1]
    yield attempt("clone", _clone, fixture, source, clone, head)
    if not os.path.isdir(os.path.join(clone, ".git")):
        return
    yield attempt("every object's hash", _git, fixture, clone, "fsck", "--full", "--strict", "--no-dangling")
    yield attempt("the other client sees a clean tree", _clean, fixture, there)
    yield attempt("the files are those of a local clone", _same, fixture, source, clone, head)
    yield attempt("branches, commits, merges", _work, fixture, clone)
    if not fixture.short:
        yield attempt("packed anew by the other client", _git, fixture, there, "gc", "--aggressive", "--prune=now")
        yield attempt("every object's hash after that", _git, fixture, clone, "fsck", "--full", "--strict", "--no-dangling")
        yield attempt("a clone with hard links", _git, fixture, fixture.path, "clone", "--quiet", "--local", clone, "linked")
        yield attempt("a second working tree", _git, fixture, clone, "worktree", "add", "--quiet", "../tree", "-b", "tree")
        yield attempt("clean in the end", _clean, fixture, clone)
    yield attempt("cloned back out", _back, fixture, clone)


def _git(fixture, where, *arguments, check=True):
    done = fixture.run(["git", "-C", where, *arguments], TIMEOUT_S, env=WHO)
    if check and done.code != 0:
        raise Broken(f"git {arguments[0]}: exit code {done.code}: {done.last_lines()}")
    return done


def _of_files(fixture):
    """A repository of these sources, where they are not one."""
    made = os.path.join(fixture.scratch, "source")
    os.makedirs(made)
    fixture.run(["cp", "-r", *(os.path.join(fixture.repository, name) for name in ("crates", "docs", "gates", "bench")), made], TIMEOUT_S)
    if _git(fixture, made, "init", "--quiet", check=False).code != 0:
        raise NotRun("git init fails on a local directory")
    _git(fixture, made, "add", ".")
    _git(fixture, made, "commit", "--quiet", "-m", "all")
    return made


def _clone(fixture, source, clone, head):
    _git(fixture, fixture.path, "clone", "--quiet", "--no-local", "--no-checkout", source, clone)
    _git(fixture, clone, "checkout", "--quiet", "-B", "gate", head)
    return len(_git(fixture, clone, "ls-files").output.splitlines())


def _clean(fixture, clone):
    told = _git(fixture, clone, "status", "--porcelain").output.splitlines()[1:]
    if told:
        raise Broken(f"git status names {len(told)} files: {', '.join(told[:3])}")
    return 1


def _same(fixture, source, clone, head):
    local = os.path.join(fixture.scratch, "local")
    _git(fixture, fixture.scratch, "clone", "--quiet", "--no-checkout", source, local)
    _git(fixture, local, "checkout", "--quiet", "-B", "gate", head)
    names = [line for line in _git(fixture, local, "ls-files").output.splitlines()[1:] if line and not line.startswith('"')]
    _, wrong, missing = filecmp.cmpfiles(local, clone, names, shallow=False)
    if wrong or missing:
        raise Broken(f"{len(wrong)} files differ, {len(missing)} cannot be read: {', '.join((wrong + missing)[:3])}")
    return len(names)


def _work(fixture, clone):
    for number in range(5 if fixture.short else 30):
        with open(os.path.join(clone, f"new-{number % 3}.txt"), "a") as out:
            out.write(f"{number}\n" * 100)
        _git(fixture, clone, "add", ".")
        _git(fixture, clone, "commit", "--quiet", "-m", f"commit {number}")
    _git(fixture, clone, "checkout", "--quiet", "-b", "side", "HEAD~2")
    with open(os.path.join(clone, "side.txt"), "w") as out:
        out.write("side\n")
    _git(fixture, clone, "add", ".")
    _git(fixture, clone, "commit", "--quiet", "-m", "side")
    _git(fixture, clone, "checkout", "--quiet", "gate")
    _git(fixture, clone, "merge", "--quiet", "-m", "merge", "side")
    return _clean(fixture, clone)


def _back(fixture, clone):
    back = os.path.join(fixture.scratch, "back")
    _git(fixture, fixture.scratch, "clone", "--quiet", "--no-local", clone, back)
    _git(fixture, back, "fsck", "--full", "--no-dangling")
    return _clean(fixture, back)
