"""The tests, counted: prints what failed and why something was skipped; the last line is `N passed, N failed, N skipped`."""

import sys
import unittest


class Result(unittest.TextTestResult):
    """Counts what passed, too."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main():
    loader = unittest.TestLoader()
    names = [name if name.startswith("tests.") else f"tests.{name}" for name in sys.argv[1:]]
    suite = loader.loadTestsFromNames(names) if names else loader.discover("tests", top_level_dir=".")
    result = unittest.TextTestRunner(resultclass=Result, verbosity=0, stream=sys.stdout).run(suite)
    for test, why in result.skipped:
        print(f"SKIPPED: {test}: {why}")
    failed = len(result.failures) + len(result.errors)
    print(f"{result.passed} passed, {failed} failed, {len(result.skipped)} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
