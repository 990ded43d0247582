"""The commands as data: commands.toml, read and checked."""

import glob
import os
import re
import shlex
import tomllib

PATH = os.path.join(os.path.dirname(__file__), "commands.toml")
KINDS = {
    "name": str,
    "typed": str,
    "needs": list,
    "files": list,
    "servers": list,
    "path": dict,
    "once": str,
    "before": str,
    "cold": list,
    "drop_caches": bool,
    "truth": str,
    "must": list,
    "must_not": list,
    "change": str,
    "exact": list,
    "judged": dict,
}
# What a shell has to read; a command without any is started as its words. Quoted or escaped it is a word's own, as find's `\;`.
SHELL = set("|;<>&$`()")
QUOTED = re.compile(r"\\.|'[^']*'")


class Command:
    """One command: how it is typed, what is true of it, and what the first sentence has to say."""

    def __init__(self, told):
        for field, value in told.items():
            if field not in KINDS or not isinstance(value, KINDS[field]):
                raise ValueError(f"{told.get('name', '?')}: `{field} = {value!r}` is no field of a command, or not of its type")
        absent = [field for field in ("name", "typed", "truth", "must", "change") if not told.get(field)]
        if absent:
            raise ValueError(f"{told.get('name', '?')}: {', '.join(absent)} is missing")
        for field, kind in KINDS.items():
            setattr(self, field, told.get(field, kind()))

    def words(self, here=""):
        """The command's words: a shell's, where it is one that a shell has to read; `{here}` is the directory where it runs."""
        typed = self.typed.replace("{here}", here)
        if SHELL & set(QUOTED.sub("", typed)):
            return ["sh", "-c", typed]
        # Names with a star are the files by the time that the command is started.
        return [name for word in shlex.split(typed) for name in (sorted(glob.glob(word, root_dir=here)) or [word])]


def load(names=(), path=PATH):
    """The commands of these names, or all, in the file's order."""
    with open(path, "rb") as source:
        every = [Command(told) for told in tomllib.load(source)["command"]]
    by_name = {one.name: one for one in every}
    if len(by_name) != len(every):
        raise ValueError(f"{path}: a name stands twice")
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise ValueError(f"no such command: {', '.join(unknown)}; --list names them")
    return [by_name[name] for name in names] if names else every
