"""Who may import whom: lab, bench and gates import the testbed and not each other; the testbed imports none of them."""

import ast
import os
import sys
import tempfile
import unittest

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ALLOWED = {"testbed": set(), "lab": {"testbed"}, "bench": {"testbed"}, "gates": {"testbed"}}
# Run by a Python that has the library: one of an environment of its own, or the system's.
OTHERS = {"bench/tune/tpe.py": {"optuna"}, "lab/scripts/slow/blocks.py": {"paramiko"}}


def python_files(room):
    """Every Python file of a room, scripts without an ending among them."""
    for directory, _, names in os.walk(os.path.join(REPOSITORY, room)):
        for name in names:
            path = os.path.join(directory, name)
            if name.endswith(".py") or _is_script(path):
                yield path


def _is_script(path):
    with open(path, "rb") as source:
        return source.readline().startswith(b"#!/usr/bin/env python3")


def imports(path):
    """The first names of all modules that a file imports, wherever in it."""
    with open(path, encoding="utf-8") as source:
        tree = ast.parse(source.read(), path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "a relative path" if node.level else node.module.split(".")[0]


class Imports(unittest.TestCase):
    def test_rooms_import_the_testbed_and_the_standard_library_alone(self):
        wrong = []
        for room, others in ALLOWED.items():
            allowed = sys.stdlib_module_names | others | {room}
            paths = list(python_files(room))
            self.assertGreater(len(paths), 5, room)
            for path in paths:
                # A script that is run by itself may use what lies beside it.
                beside = {name[:-3] for name in os.listdir(os.path.dirname(path)) if name.endswith(".py")} if "/scripts/" in path else set()
                beside |= OTHERS.get(os.path.relpath(path, REPOSITORY), set())
                found = [(line, name) for line, name in imports(path) if name not in allowed | beside]
                wrong += [f"{os.path.relpath(path, REPOSITORY)}:{line} imports {name}" for line, name in found]
        self.assertEqual(wrong, [])

    def test_an_import_is_seen_also_inside_of_a_function(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as out:
            out.write("import os.path\n\n\ndef f():\n    from bench.harness import pairs\n    from . import g\n")
            out.flush()
            self.assertEqual(sorted(imports(out.name)), [(1, "os"), (5, "bench"), (6, "a relative path")])
