"""git: the repository itself is cloned into the store, checked, changed, packed, and cloned back out.

git maps its packs, makes thousands of small files, links and renames them into place, and checks every object's hash: `git fsck` says
whether the bytes are those that were written.
"""

import filecmp
import os

from gatehouse.case import NotRun, Wrong, attempt

TITLE = "a repository cloned, changed, packed, cloned back"
SHORT = True
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


def cases(visit):
    """One case for each thing done with the repository, each on the one before."""
    visit.debian(git="git")
    source = visit.repository
    if _git(visit, source, "rev-parse", "HEAD", check=False).code != 0:
        source = _of_files(visit)
    clone, there = os.path.join(visit.path, "clone"), os.path.join(visit.second, "clone")
    # What others commit meanwhile is not looked at.
    head = _git(visit, source, "rev-parse", "HEAD").output.splitlines()[-1]
    yield attempt("clone", _clone, visit, source, clone, head)
    if not os.path.isdir(os.path.join(clone, ".git")):
        return
    yield attempt("every object's hash", _git, visit, clone, "fsck", "--full", "--strict", "--no-dangling")
    yield attempt("the other client sees a clean tree", _clean, visit, there)
    yield attempt("the files are those of a local clone", _same, visit, source, clone, head)
    yield attempt("branches, commits, merges", _work, visit, clone)
    if not visit.short:
        yield attempt("packed anew by the other client", _git, visit, there, "gc", "--aggressive", "--prune=now")
        yield attempt("every object's hash after that", _git, visit, clone, "fsck", "--full", "--strict", "--no-dangling")
        yield attempt("a clone with hard links", _git, visit, visit.path, "clone", "--quiet", "--local", clone, "linked")
        yield attempt("a second working tree", _git, visit, clone, "worktree", "add", "--quiet", "../tree", "-b", "tree")
        yield attempt("clean in the end", _clean, visit, clone)
    yield attempt("cloned back out", _back, visit, clone)


def _git(visit, where, *arguments, check=True):
    done = visit.run(["git", "-C", where, *arguments], TIMEOUT_S, env=WHO)
    if check and done.code != 0:
        raise Wrong(f"git {arguments[0]}: exit code {done.code}: {done.last_words()}")
    return done


def _of_files(visit):
    """A repository of these sources, where they are not one."""
    made = os.path.join(visit.scratch, "source")
    os.makedirs(made)
    visit.run(["cp", "-r", *(os.path.join(visit.repository, name) for name in ("crates", "docs", "gates", "bench")), made], TIMEOUT_S)
    if _git(visit, made, "init", "--quiet", check=False).code != 0:
        raise NotRun("git init fails on a local directory")
    _git(visit, made, "add", ".")
    _git(visit, made, "commit", "--quiet", "-m", "all")
    return made


def _clone(visit, source, clone, head):
    _git(visit, visit.path, "clone", "--quiet", "--no-local", "--no-checkout", source, clone)
    _git(visit, clone, "checkout", "--quiet", "-B", "gate", head)
    return len(_git(visit, clone, "ls-files").output.splitlines())


def _clean(visit, clone):
    told = _git(visit, clone, "status", "--porcelain").output.splitlines()[1:]
    if told:
        raise Wrong(f"git status names {len(told)} files: {', '.join(told[:3])}")
    return 1


def _same(visit, source, clone, head):
    local = os.path.join(visit.scratch, "local")
    _git(visit, visit.scratch, "clone", "--quiet", "--no-checkout", source, local)
    _git(visit, local, "checkout", "--quiet", "-B", "gate", head)
    names = [line for line in _git(visit, local, "ls-files").output.splitlines()[1:] if line and not line.startswith('"')]
    _, wrong, missing = filecmp.cmpfiles(local, clone, names, shallow=False)
    if wrong or missing:
        raise Wrong(f"{len(wrong)} files differ, {len(missing)} cannot be read: {', '.join((wrong + missing)[:3])}")
    return len(names)


def _work(visit, clone):
    for number in range(5 if visit.short else 30):
        with open(os.path.join(clone, f"new-{number % 3}.txt"), "a") as out:
            out.write(f"{number}\n" * 100)
        _git(visit, clone, "add", ".")
        _git(visit, clone, "commit", "--quiet", "-m", f"commit {number}")
    _git(visit, clone, "checkout", "--quiet", "-b", "side", "HEAD~2")
    with open(os.path.join(clone, "side.txt"), "w") as out:
        out.write("side\n")
    _git(visit, clone, "add", ".")
    _git(visit, clone, "commit", "--quiet", "-m", "side")
    _git(visit, clone, "checkout", "--quiet", "gate")
    _git(visit, clone, "merge", "--quiet", "-m", "merge", "side")
    return _clean(visit, clone)


def _back(visit, clone):
    back = os.path.join(visit.scratch, "back")
    _git(visit, visit.scratch, "clone", "--quiet", "--no-local", clone, back)
    _git(visit, back, "fsck", "--full", "--no-dangling")
    return _clean(visit, back)
