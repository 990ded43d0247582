"""JuiceFS is built once, from its module, and a machine that cannot build it is told why."""

import os
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from testbed.errors import NotRun  # noqa: E402
from testbed.servers import juicefs  # noqa: E402

# A `go` that has the module in a read-only directory, and builds by copying a source.
GO = """#!/bin/sh
echo "$1" >> "$LOG"
case "$1" in
    mod) {download} ;;
    build) while [ "$1" != -o ]; do shift; done; {build} ;;
esac
"""


class Building(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory, self.log = directory.name, os.path.join(directory.name, "log")
        self.module = os.path.join(directory.name, "module")
        os.mkdir(self.module)
        with open(os.path.join(self.module, "main.go"), "w") as out:
            out.write("#!/bin/sh\n")
        os.chmod(self.module, 0o555)
        self.program = os.path.join(directory.name, "built", "juicefs")

    def built(self, download, build="cp main.go \"$2\" && chmod +x \"$2\""):
        go = os.path.join(self.directory, "bin", "go")
        os.makedirs(os.path.dirname(go), exist_ok=True)
        with open(go, "w") as out:
            out.write(GO.format(download=download, build=build))
        os.chmod(go, 0o755)
        path = os.pathsep.join([os.path.dirname(go), os.environ["PATH"]])
        with mock.patch.dict(os.environ, {"PATH": path, "LOG": self.log}):
            return juicefs.built(self.program)

    def test_it_is_built_once_and_its_sources_go(self):
        for _ in range(2):
            self.assertEqual(self.built(f"""echo '{{"Dir": "{self.module}"}}'"""), self.program)
        self.assertTrue(os.access(self.program, os.X_OK))
        self.assertEqual(os.listdir(os.path.dirname(self.program)), ["juicefs"])
        with open(self.log) as log:
            self.assertEqual(log.read().split(), ["mod", "build"])

    def test_a_module_that_is_not_to_be_had_is_a_reason_that_names_no_host(self):
        with self.assertRaisesRegex(NotRun, r"^github.com/juicedata/juicefs@v[0-9.]+ cannot be had: .*404 Not Found$") as raised:
            self.built("""echo '{"Error": "github.com/juicedata/juicefs: reading https://registry.invalid/list: 404 Not Found"}'; exit 1""")
        self.assertNotIn("registry", str(raised.exception))
        with self.assertRaisesRegex(NotRun, "cannot be had: no network"):
            self.built("echo no network >&2; exit 1")

    def test_one_that_does_not_compile_is_a_reason_too_and_nothing_is_left(self):
        with self.assertRaisesRegex(NotRun, "cannot be built: undefined: star"):
            self.built(f"""echo '{{"Dir": "{self.module}"}}'""", "echo undefined: star >&2; exit 2")
        self.assertEqual(os.listdir(os.path.dirname(self.program)), [])

    def test_without_go_there_is_a_sentence(self):
        with mock.patch.dict(os.environ, {"PATH": self.directory}), self.assertRaisesRegex(NotRun, "there is no go"):
            juicefs.built(self.program)


if __name__ == "__main__":
    unittest.main()
