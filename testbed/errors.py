"""The two ways in which a run ends without its result."""


class NotRun(Exception):
    """This machine cannot do it; one sentence that says why. It counts neither as passed nor as failed."""


class Broken(Exception):
    """Something did not do what it must: a command failed, bytes differ, a server ended. It counts as failed."""
