"""What is wrong with an explanation's changes is found, and nothing else is."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from lab.harness import advice  # noqa: E402

RECIPES = {"recipes": [{"name": "dd", "advice": [{"for": ["no_sync"], "gives_up": "durability"}, {"cause": ["client.cpu"], "gives_up": ""}]}]}


def change(**fields):
    return {"id": "no_sync", "change": "no syncing", "basis": "replayed", "predicted_wall_s": 1.0, "how": "leave it out"} | fields


class Advice(unittest.TestCase):
    def faults(self, *changes, advised=()):
        return advice.faults({"command": ["dd", "a"], "what_if": list(changes), "advice": list(advised)}, lambda: RECIPES)

    def test_what_is_right_is_left_alone(self):
        made = change(command=["dd"], recipe="dd", gives_up="durability")
        bound = change(id="x", change="x", basis="bounded", predicted_wall_s=0.1)
        self.assertEqual(self.faults(made, bound, advised=[{"cause": "client.cpu", "recipe": "dd", "says": "s"}]), [])

    def test_each_fault_is_named(self):
        cases = [
            ([change(basis="bounded"), change(id="x", change="x")], "order"),
            ([change(), change()], "twice"),
            ([change(command=["dd", "a"], recipe="dd", gives_up="durability")], "is the recorded command"),
            ([change(recipe="dd")], "does not say that"),
            ([change(recipe="cp")], "no recipe"),
            ([change(gives_up="all")], "no recipe says so"),
            ([change(how=" ")], "nothing of how"),
        ]
        for changes, words in cases:
            with self.subTest(words):
                self.assertIn(words, "; ".join(self.faults(*changes)))


if __name__ == "__main__":
    unittest.main()
