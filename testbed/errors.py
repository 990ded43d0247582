"""What can go wrong with a scenario, and what that means for its score."""


class NotRun(Exception):
    """This machine cannot run the scenario; one sentence that says why. It counts neither as passed nor as failed."""


class Broken(Exception):
    """The scenario ran and something other than the explanation was wrong (a command failed, say). It counts as failed."""
