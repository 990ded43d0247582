"""A long or lossy path: other parameters of the relay between the hosts."""

from lab.faults.base import Fault


class Relay(Fault):
    """The relay's options by their names: `delay` (one way), `rate`, `loss`, `queue`, `jitter`, `stall`."""

    def __init__(self, **parameters):
        self.parameters = parameters

    def relay(self):
        return self.parameters
