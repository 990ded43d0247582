"""The demonstration, run again and again beside busy loops: how far what it predicts is from what it achieves."""

import os
import re
import statistics
import subprocess
import sys
import tempfile

from testbed import shell
from testbed.campaign import Campaign, Item
from testbed.errors import Broken
from testbed.paths import REPOSITORY
from testbed.results import Results

RESULTS = os.path.join(REPOSITORY, "bench", "demo", "results.jsonl")
# The bar: a prediction is at most this far from what was achieved.
MOST_OFF = 0.10
UNIT_S = {"s": 1.0, "ms": 1e-3}
TIME = r"([\d.]+) (m?s)"
VERDICT = re.compile(rf": {TIME} before, {TIME} predicted \({{0,1}}.*?\){{0,1}}, {TIME} achieved")


class Demonstrations(Campaign):
    """Each item is one run of tools/demo."""

    name = "demo"
    noun = "run"
    flags = ("program",)
    failures_replace = True

    def add_flags(self, parser):
        parser.add_argument("--runs", type=int, default=20, help="runs in all (default: 20; with --quick 2)")
        parser.add_argument("--loops", type=int, default=2, help="busy loops beside them (default: 2)")

    def items(self):
        loops = self.options.loops
        return [Item(f"{number:02}-beside-{loops}", f"The demonstration beside {loops} busy loops") for number in range(1, self.options.runs + 1)]

    def is_in_quick(self, item):
        return item.name < "03"

    def results(self, path=None):
        return Results(path or RESULTS, "run", "thalweg.demo/1")

    def is_done(self, line):
        return super().is_done({"state": "done", **line}) if line else False

    def measure(self, item):
        loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(self.options.loops)]
        try:
            with tempfile.TemporaryDirectory(dir=self.scratch) as kept:
                environment = {**os.environ, "THALWEG": self.program, "KEEP": kept, "NO_COLOR": "1"}
                demo = os.path.join(REPOSITORY, "tools", "demo")
                ended = subprocess.run([demo], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
        if ended.returncode != 0:
            raise Broken(shell.last_line(ended.stdout))
        return {"loops": self.options.loops, **verdict(ended.stdout)}

    def show(self):
        lines = self.table.all().values()
        failed = [line for line in lines if line.get("state", "done") != "done"]
        for line in failed:
            print(f"{line['run']}: failed: {line['reason']}")
        done = [line for line in lines if "off" in line]
        for line in done:
            times = f"{line['before_s']:.2f} s before, {line['predicted_s']:.2f} s predicted, {line['achieved_s']:.2f} s achieved"
            print(f"{line['run']}: {times}: {100 * line['off']:+.1f} %")
        if not done:
            print("nothing is measured")
            return 1
        off = sorted(abs(line["off"]) for line in done)
        within = f"{sum(one <= MOST_OFF for one in off)} within {100 * MOST_OFF:.0f} %"
        print(f"{len(done)} runs: median {100 * statistics.median(off):.1f} % off, worst {100 * off[-1]:.1f} %; {within}")
        return 1 if failed or off[-1] > MOST_OFF else 0


def verdict(said):
    """Before, predicted and achieved, in seconds, of the last line that has them."""
    found = VERDICT.findall(said)
    if not found:
        raise Broken("no prediction was held against anything")
    before, predicted, achieved = (float(found[-1][i]) * UNIT_S[found[-1][i + 1]] for i in (0, 2, 4))
    return {"before_s": before, "predicted_s": predicted, "achieved_s": achieved, "off": predicted / achieved - 1.0}
