"""What a mounted store says of itself, as the library reads it: the cases that the reader in Rust is held to as well.

Run by mpi/tests/run, or: python3 -m unittest mpi/tests/test_description.py (after make -C mpi tests)
"""

import json
import os
import subprocess
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "build", "tests", "description")
CASES = os.path.join(HERE, "..", "..", "crates", "trace", "tests", "mount_descriptions.json")


class Description(unittest.TestCase):
    def test_descriptions_are_read_as_the_shared_cases_say(self):
        with open(CASES) as file:
            cases = json.load(file)
        for case in cases:
            with self.subTest(case["name"]):
                done = subprocess.run([PROGRAM], input=case["said"].encode(), stdout=subprocess.PIPE)
                means = case.get("means")
                self.assertEqual(done.returncode, 0 if means else 1)
                if not means:
                    continue
                nodes = ", ".join(dict.fromkeys(server["node"] for server in means["servers"] if server["node"]))
                here = ",".join(map(str, case["targets_of_nodes"].get(means["node"], [])))
                self.assertEqual(done.stdout.decode(), "".join(f"{text}\0" for text in (means["store"], means["node"], nodes, here)))
