"""A second reader of the rules file: the check on the first.

It is written from the description of the format in docs/PROFILE.md and shares no code with `thalweg profile`: where the two divide the
same functions otherwise, one of them is wrong.
"""

import re

TRANSPARENT = "~"
USER_ADDRESSES = 1 << 63


class Frame:
    """A function of a stack: its name (None: unknown), its module as rules have it, whether it is the kernel's."""

    __slots__ = ("is_kernel", "module", "name")

    def __init__(self, name, module, is_kernel):
        # What compilers add to a function's name is no part of it.
        self.name = name.partition(".")[0] or name if name and is_kernel else name
        self.module = module
        self.is_kernel = is_kernel


class Rules:
    """Lines in order; the first that has a function decides."""

    def __init__(self, *texts):
        lines = [line for text in texts for line in joined(text)]
        self.titles = {}
        self.leaves = []
        self.anchors = []
        for line in lines:
            head, _, globs = divide(line)
            kind, _, rest = head.partition(" ")
            if kind == "class":
                self.titles[rest.strip()] = globs.strip()
                continue
            name, _, modules = (rest.strip() if kind == "for" else head).partition("[")
            rule = (name, pattern(modules.rstrip("]").split(",")) if modules else None, pattern(globs.split() or ["*"]))
            (self.anchors if kind == "for" else self.leaves).append(rule)
        self.known = {}

    def of_function(self, frame):
        """Its class as the innermost function (or `~`, or None) and the class that it is an anchor of (or None)."""
        key = (frame.name, frame.module, frame.is_kernel)
        if key not in self.known:
            self.known[key] = (first(self.leaves, frame), first(self.anchors, frame))
        return self.known[key]

    def of_stack(self, frames):
        """What ran and what for, innermost function first: (class, purpose)."""
        what = self._what(frames)
        if not frames or not frames[0].is_kernel:
            return what, what
        anchors = (self.of_function(frame)[1] for frame in frames)
        purpose = next((name for name in anchors if name), what)
        # What is called from that which takes samples is its cost, whatever it is.
        return ("recorder" if purpose == "recorder" else what), purpose

    def _what(self, frames):
        unknown = False
        for depth, frame in enumerate(frames):
            if not frame.is_kernel and depth:
                # The kernel's part has ended, and none of its functions has said anything.
                return "rest" if unknown else "syscall"
            said = self.of_function(frame)[0]
            if said is None:
                if not frame.is_kernel:
                    return "program"
                unknown = True
            elif said == "syscall" and unknown:
                return "rest"
            elif said != TRANSPARENT:
                return said
        return "rest"


def joined(text):
    """Lines with those that continue them, without comments."""
    lines = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line[0] in " \t":
            lines[-1] += " " + line.strip()
        else:
            lines.append(line.strip())
    return lines


def divide(line):
    """What stands before the colon that is not within brackets, and after it."""
    end = line.find("]") if 0 <= line.find("[") < line.find(":") else 0
    at = line.index(":", max(end, 0))
    return line[:at].strip(), ":", line[at + 1 :]


def pattern(globs):
    """One expression for several globs."""
    one = [re.escape(glob.strip()).replace(r"\*", ".*").replace(r"\?", ".") for glob in globs]
    return re.compile("|".join(f"(?:{text})" for text in one), re.DOTALL)


def first(rules, frame):
    """The first rule that has a function. A rule without modules is about the kernel."""
    for name, modules, functions in rules:
        if modules is None and not frame.is_kernel:
            continue
        if modules is not None and not modules.fullmatch(frame.module):
            continue
        if functions.fullmatch(frame.name or ""):
            return name
    return None
