"""Notebooks run from end to end, and what they show is what a run gives."""

import copy
import json
import re
import unittest

import nbformat

from . import notebooks

# Where the notebook was run is nobody's business, nor true elsewhere.
PRIVATE = re.compile(r"/root/|/home/|/work/|/tmp/|site-packages")


class Notebooks(unittest.TestCase):
    def test_each_cell_runs_and_gives_what_is_stored(self):
        found = sorted(notebooks.FOLDER.glob("*.ipynb"))
        self.assertTrue(found)
        for path in found:
            with self.subTest(path.name):
                stored = nbformat.read(path, as_version=4)
                nbformat.validate(stored)
                differ = notebooks.differences(stored, notebooks.run(path))
                self.assertEqual(differ, [], f"look at them; python -m tests.notebooks notebooks/{path.name} stores what is given now")

    def test_what_is_stored_has_no_error_and_no_trace_of_a_machine(self):
        for path in notebooks.FOLDER.glob("*.ipynb"):
            stored = nbformat.read(path, as_version=4)
            outputs = [output for cell in stored.cells if cell.cell_type == "code" for output in cell.outputs]
            self.assertNotIn("error", {output.output_type for output in outputs})
            self.assertNotIn("stderr", {output.get("name") for output in outputs})
            texts = json.dumps([output for output in outputs if "image/png" not in output.get("data", {})])
            self.assertEqual(sorted(set(PRIVATE.findall(texts))), [])
            numbers = [cell.execution_count for cell in stored.cells if cell.cell_type == "code"]
            self.assertEqual(numbers, list(range(1, len(numbers) + 1)), "run from the top")

    def test_another_number_another_picture_and_a_missing_table_are_noticed(self):
        stored = nbformat.read(notebooks.FOLDER / "first-look.ipynb", as_version=4)
        changes = {
            "stream": lambda output: output.update(text=output.text.replace("95 %", "96 %")),
            "text/html": lambda output: output.data.update({"text/html": output.data["text/html"].replace("server.sync", "server.cpu")}),
            "image/png": lambda output: output.data.update({"image/png": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABc3UBGAAAAABJRU5ErkJggg=="}),
            "text/plain": lambda output: output.data.pop("text/plain"),
        }
        for kind, change in changes.items():
            made = copy.deepcopy(stored)
            outputs = [output for cell in made.cells if cell.cell_type == "code" for output in cell.outputs]
            of_kind = [output for output in outputs if kind == output.output_type or kind in output.get("data", {})]
            for output in of_kind:
                change(output)
            self.assertNotEqual(notebooks.differences(stored, made), [], kind)
        self.assertEqual(notebooks.differences(stored, copy.deepcopy(stored)), [])


if __name__ == "__main__":
    unittest.main()
