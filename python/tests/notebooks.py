"""Notebooks, run cell by cell, and what they stored held against what a run gives.

python -m tests.notebooks NOTEBOOK...     runs them and stores what they give
"""

import base64
import io
import sys
from pathlib import Path

import nbclient
import nbformat

from .recordings import REPOSITORY

FOLDER = REPOSITORY / "python" / "notebooks"
# The tag of a cell whose output differs from run to run: only what kinds of output it has is compared.
VARIES = "varies"
LIMIT_S = 300
# Of two pictures so many pixels may differ: processors round differently.
PIXELS = 0.005


def run(path):
    """A notebook with what its cells give now; an error in a cell is an error here."""
    notebook = nbformat.read(path, as_version=4)
    about = {"metadata": {"path": str(path.parent)}}
    # (Its warning that it listens on the loopback address is not for us.)
    quiet = ["--IPKernelApp.log_level=ERROR"]
    nbclient.NotebookClient(notebook, timeout=LIMIT_S, kernel_name="python3", resources=about, extra_arguments=quiet).execute()
    for cell in notebook.cells:
        # When each was run is of no interest.
        cell.metadata.pop("execution", None)
    return notebook


def differences(stored, made):
    """The cells whose output is another, each with both."""
    found = []
    for before, after in zip(stored.cells, made.cells):
        if before.cell_type == "code" and not is_same(before.outputs, after.outputs, VARIES in before.metadata.get("tags", [])):
            found.append(f"{before.source}\n--- stored\n{shown(before.outputs)}\n--- now\n{shown(after.outputs)}")
    return found


def is_same(stored, made, varies):
    """Whether outputs are of the same kinds and, if the cell does not vary, the same."""
    if [kinds(one) for one in stored] != [kinds(one) for one in made]:
        return False
    return varies or all(is_same_output(*pair) for pair in zip(stored, made))


def kinds(output):
    return output.output_type, output.get("name"), sorted(output.get("data", {}))


def is_same_output(stored, made):
    if stored.output_type == "stream":
        return stored.text == made.text
    pairs = [(kind, stored.data[kind], made.data[kind]) for kind in stored.data]
    return all(is_same_picture(one, other) if kind == "image/png" else one == other for kind, one, other in pairs)


def is_same_picture(stored, made):
    """Whether they have the same size, and nearly all pixels."""
    from PIL import Image, ImageChops

    one, other = (Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB") for data in (stored, made))
    if one.size != other.size:
        return False
    changed = sum(ImageChops.difference(one, other).convert("L").point(lambda value: value > 0 and 255).histogram()[1:])
    return changed <= PIXELS * one.width * one.height


def shown(outputs):
    """Outputs as text, pictures by their kind."""
    return "\n".join(one.get("text") or str(one.get("data", {}).get("text/plain", kinds(one))) for one in outputs)


def main(paths):
    for path in map(Path, paths):
        nbformat.write(run(path.resolve()), path)
        print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
