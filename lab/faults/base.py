"""A fault that does nothing: what every other one begins from."""

from contextlib import contextmanager


class Fault:
    """Nothing is wrong. Others override what they need."""

    @contextmanager
    def applied(self, _fixture):
        """Set what is wrong before the command is started, and take it back when it has ended."""
        yield

    def during(self, _fixture, _run):
        """Act while the command runs, in a thread of its own; returns at the latest when `run.over` is set."""

    def relay(self):
        """Parameters of the relay."""
        return {}

    def record_flags(self):
        """Words for `thalweg record`."""
        return []
