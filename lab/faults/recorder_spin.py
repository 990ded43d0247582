"""An intrusive recorder: it looks for events without a pause and so takes a whole processor."""

from lab.faults.base import Fault


class RecorderSpin(Fault):
    """`thalweg record --drain 0`."""

    def record_flags(self):
        return ["--drain", "0"]
