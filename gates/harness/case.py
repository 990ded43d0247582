"""One thing a gate looks at, and how it ended.

A gate yields cases; `attempt` makes one of a function. What the function raises says how it ended: nothing is a pass, `Broken` a
failure with its reason, `NotRun` a case this machine or this file system cannot have. Anything else is a failure too: an `OSError` is a
file system that said no to something it must allow.
"""

import time
import traceback
from dataclasses import asdict, dataclass

from testbed.errors import Broken, NotRun

STATES = ("passed", "failed", "skipped", "expected")


@dataclass
class Case:
    """One case. `checks` is how many operations or checks it was made of, where a number means something; `retries` how many of them
    were tried again."""

    name: str
    state: str
    reason: str = ""
    seconds: float = 0.0
    checks: int = 0
    retries: int = 0

    def document(self):
        """As it stands in the JSON file."""
        kept = {key: value for key, value in asdict(self).items() if value not in ("", 0)}
        return dict(kept, seconds=round(self.seconds, 3))


@dataclass
class Done:
    """What a function returns that has more to say than the number of its checks."""

    checks: int
    retries: int = 0


def attempt(name, function, *arguments):
    """Run a case; the function may return the number of its checks, or `Done`."""
    begun = time.monotonic()
    state, reason, done = "passed", "", Done(0)
    try:
        told = function(*arguments)
        done = told if isinstance(told, Done) else Done(told if isinstance(told, int) else 0)
    except NotRun as why:
        state, reason = "skipped", str(why)
    except Broken as why:
        state, reason = "failed", str(why)
    except Exception as why:
        state, reason = "failed", f"{type(why).__name__}: {why} ({traceback.extract_tb(why.__traceback__)[-1].name})"
    return Case(name, state, reason, time.monotonic() - begun, done.checks, done.retries)


def counts(cases):
    """How many ended how."""
    return {state: sum(case.state == state for case in cases) for state in STATES}


def checks(cases):
    """How many checks they made, and how many of these were tried again."""
    return sum(case.checks for case in cases), sum(case.retries for case in cases)
