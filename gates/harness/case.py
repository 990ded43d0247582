"""One thing a gate looks at, and how it ended.

A gate yields cases; `attempt` makes one of a function. What the function raises says how it ended: nothing is a pass, `Wrong` a
failure with its reason, `NotRun` a case this machine or this place cannot have. Anything else is a failure too: an `OSError` is a
file system that said no to something it must allow.
"""

import time
import traceback
from dataclasses import asdict, dataclass

STATES = ("passed", "failed", "skipped", "expected")


class Wrong(Exception):
    """The file system did something else than it must; one sentence that says what."""


class NotRun(Exception):
    """This cannot be looked at here; one sentence that says why."""


@dataclass
class Case:
    """One case. `checks` is how many operations or checks it was made of, where a number means something."""

    name: str
    state: str
    reason: str = ""
    seconds: float = 0.0
    checks: int = 0

    def document(self):
        """As it stands in the JSON file."""
        kept = {key: value for key, value in asdict(self).items() if value not in ("", 0)}
        return dict(kept, seconds=round(self.seconds, 3))


def attempt(name, function, *arguments):
    """Run a case; the function may return the number of its checks."""
    begun = time.monotonic()
    state, reason, checks = "passed", "", 0
    try:
        told = function(*arguments)
        checks = told if isinstance(told, int) else 0
    except NotRun as why:
        state, reason = "skipped", str(why)
    except Wrong as why:
        state, reason = "failed", str(why)
    except Exception as why:
        state, reason = "failed", f"{type(why).__name__}: {why} ({traceback.extract_tb(why.__traceback__)[-1].name})"
    return Case(name, state, reason, time.monotonic() - begun, checks)


def counts(cases):
    """How many ended how."""
    made = dict.fromkeys(STATES, 0)
    for case in cases:
        made[case.state] += 1
    return made
