"""This very process recorded, and cells of notebooks."""

import io
import os
import pwd
import socket
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from datetime import datetime, timezone
from pathlib import Path

import thalweg
from thalweg.magic import arguments


def busy_and_asleep():
    """Some work of which a recording shows something."""
    with tempfile.NamedTemporaryFile() as out:
        for _ in range(50):
            out.write(os.urandom(1 << 16))
            out.flush()
    sum(range(10**7))


class Live(unittest.TestCase):
    def test_a_block_is_recorded_and_explained(self):
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "run.thw"
            with thalweg.record(path, method="proc") as run:
                busy_and_asleep()
            self.assertEqual(run.path, path)
            pids = set(run.tracks["pid"].to_pylist())
            self.assertIn(os.getpid(), pids)
            explained = run.explain()
            self.assertGreater(explained.wall_s, 0)
            self.assertTrue(run.text())

    def test_a_process_that_listens_is_what_its_recording_is_about(self):
        # As the kernel of a notebook does, whose front end is connected to it.
        front_end = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); sys.stdin.read()"
        with socket.create_server(("127.0.0.1", 0)) as listening:
            argv = [sys.executable, "-c", front_end, str(listening.getsockname()[1])]
            with subprocess.Popen(argv, stdin=subprocess.PIPE) as peer:
                connection, _ = listening.accept()
                with connection, thalweg.record(method="proc") as run:
                    busy_and_asleep()
                peer.communicate()
        tracks = run.tracks.to_pylist()
        roles = {track["role"] for track in tracks if track["pid"] == os.getpid()}
        self.assertEqual(roles, {"client"}, tracks)

    def test_without_a_name_it_is_kept_as_long_as_the_object(self):
        with thalweg.record(method="proc") as run:
            busy_and_asleep()
        path = run.path
        self.assertTrue((path / "meta.json").exists())
        self.assertEqual(run.meta.user, os.environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name)
        self.assertLess(abs((datetime.now(timezone.utc) - run.meta.started).total_seconds()), 3600)
        del run
        self.assertFalse(path.exists())

    def test_an_error_in_the_block_comes_out_and_the_recording_is_finished(self):
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "run.thw"
            with self.assertRaisesRegex(ValueError, "mine"), thalweg.record(path, method="proc"):
                raise ValueError("mine")
            self.assertIsNotNone(thalweg.open(path).meta.end_ns)

    def test_a_recorder_that_cannot_start_says_why(self):
        with tempfile.TemporaryDirectory() as scratch:
            (Path(scratch) / "there").write_text("")
            with self.assertRaises(thalweg.CommandFailed), thalweg.record(scratch, method="proc"):
                self.fail("the block is not run")


class Magic(unittest.TestCase):
    def setUp(self):
        try:
            from IPython.core.interactiveshell import InteractiveShell
        except ImportError:
            self.skipTest("IPython is not installed")
        self.shell = InteractiveShell.instance()
        self.addCleanup(InteractiveShell.clear_instance)
        self.shell.run_line_magic("load_ext", "thalweg")
        self.shown = []
        self.shell.display_pub.publish = lambda data, **_: self.shown.append(data)

    def test_a_cell_is_explained_with_its_picture(self):
        said = io.StringIO()
        with redirect_stdout(said):
            self.shell.run_cell("%%thalweg --method proc\nx = sum(range(10**7))\nprint('mine', x)")
        self.assertEqual(self.shell.user_ns["x"], sum(range(10**7)))
        self.assertIn("mine", said.getvalue())
        self.assertIn("explain -v", said.getvalue())
        pictures = [data["image/svg+xml"] for data in self.shown if "image/svg+xml" in data]
        self.assertEqual(len(pictures), 1)
        self.assertIn("<svg", pictures[0])

    def test_flags(self):
        asked = arguments("-o 'my run.thw' --no-picture -v")
        self.assertEqual((asked.output, asked.no_picture, asked.verbose), ("my run.thw", True, True))
        for wrong in ("--colour", "-o"):
            with self.assertRaises(thalweg.ThalwegError):
                arguments(wrong)


if __name__ == "__main__":
    unittest.main()
