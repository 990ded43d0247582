"""What is set up for one run, and undone after it: in the order from last to first, also where setting up ends half-way."""

from contextlib import ExitStack


class Undoing:
    """Entered, `_set_up` has made what it makes; each part is undone by what it puts on `undo`."""

    def __init__(self):
        self.undo = ExitStack()

    def __enter__(self):
        try:
            self._set_up()
        except BaseException:
            self.undo.close()
            raise
        return self

    def __exit__(self, *_):
        self.undo.close()

    def _set_up(self):
        raise NotImplementedError
