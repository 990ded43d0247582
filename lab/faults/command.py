"""The fault is in the command itself (its own options), or in the server program's: the scenario gives the words."""

from lab.faults.base import Fault


class Command(Fault):
    """The client is started with other words than its baseline's; `Scenario` puts them in."""

    def __init__(self, command):
        self.command = command


class ServerCommand(Command):
    """The same of a server that is a program of the scenario."""
