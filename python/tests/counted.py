"""The tests, counted: prints what failed and why something was skipped; the last line is `N passed, N failed, N skipped`."""

import sys
import unittest
from pathlib import Path

# The tests of the wheel, which is made of this package and the command.
OF_WHEEL = Path(__file__).resolve().parents[2] / "packaging" / "tests"


class Result(unittest.TextTestResult):
    """Counts what passed, too."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main():
    sys.path.append(str(OF_WHEEL))
    loader = unittest.TestLoader()
    names = [name if name.startswith(("tests.", "test_wheel")) else f"tests.{name}" for name in sys.argv[1:]]
    suite = unittest.TestSuite([loader.discover("tests", top_level_dir="."), loader.loadTestsFromName("test_wheel")] if not names else [])
    suite.addTests(loader.loadTestsFromNames(names))
    result = unittest.TextTestRunner(resultclass=Result, verbosity=0, stream=sys.stdout).run(suite)
    for test, why in result.skipped:
        print(f"SKIPPED: {test}: {why}")
    failed = len(result.failures) + len(result.errors)
    print(f"{result.passed} passed, {failed} failed, {len(result.skipped)} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
