"""What a build says it was built from: the build script of the command, in sources of each kind."""

import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "crates", "cli", "build.rs")


def git(directory, *arguments):
    """Run git where nobody's settings are; returns what it printed."""
    settings = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": os.environ["PATH"], "HOME": directory}
    who = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in (("NAME", "a"), ("EMAIL", "a@b"), ("DATE", "@1700000000 +0000"))}
    done = subprocess.run(["git", "-C", directory, *arguments], env={**settings, **who}, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


@unittest.skipUnless(shutil.which("git") and shutil.which("rustc"), "git or rustc is missing")
class BuiltFrom(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.program = os.path.join(cls.scratch.name, "build-script")
        subprocess.run(["rustc", "--edition", "2024", "-o", cls.program, SCRIPT], check=True, timeout=120)
        cls.made = 0

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def sources(self, below="", is_repository=True):
        """Sources like ours, in a directory of their own, committed once; returns their root."""
        type(self).made += 1
        outside = os.path.join(self.scratch.name, str(self.made))
        root = os.path.join(outside, below) if below else outside
        os.makedirs(os.path.join(root, "crates", "cli"))
        with open(os.path.join(root, "Cargo.lock"), "w") as lock:
            lock.write("# locked\n")
        if is_repository:
            git(outside, "init", "--quiet", "--initial-branch", "main")
            git(outside, "add", "--all")
            git(outside, "commit", "--quiet", "--message", "First")
        return root

    def said(self, root, profile="release", **environment):
        """What the script tells cargo of these sources: what is set, and what is watched."""
        environment = {"PATH": os.environ["PATH"], "HOME": self.scratch.name, "PROFILE": profile, "TARGET": "t", **environment}
        environment["CARGO_MANIFEST_DIR"] = os.path.join(root, "crates", "cli")
        done = subprocess.run([self.program], env=environment, capture_output=True, text=True, check=True, timeout=60)
        lines = [line.removeprefix("cargo:") for line in done.stdout.splitlines()]
        values = dict(line.removeprefix("rustc-env=").split("=", 1) for line in lines if line.startswith("rustc-env="))
        watched = [line.removeprefix("rerun-if-changed=") for line in lines if line.startswith("rerun-if-changed=")]
        return (values["THALWEG_BUILT_FROM"], values["THALWEG_BUILT_FROM_S"]), watched

    def test_a_clean_repository_is_its_commit_and_one_with_changes_says_so(self):
        root = self.sources()
        commit = git(root, "rev-parse", "--short=12", "HEAD")
        self.assertEqual(self.said(root)[0], (commit, "1700000000"))
        with open(os.path.join(root, "Cargo.lock"), "a") as lock:
            lock.write("# changed\n")
        self.assertEqual(self.said(root)[0], (f"{commit}, modified", "1700000000"))

    def test_what_is_watched_exists_and_changes_with_the_next_commit(self):
        for packed in (False, True):
            root = self.sources()
            if packed:
                git(root, "pack-refs", "--all")
            watched = self.said(root)[1]
            self.assertEqual([path for path in watched if path != "build.rs" and not os.path.exists(path)], [])
            of_git = [path for path in watched if f"{os.sep}.git{os.sep}" in path]

            def times(paths=tuple(of_git)):
                return [os.stat(path).st_mtime_ns for path in paths]

            before = times()
            git(root, "commit", "--quiet", "--allow-empty", "--message", "Second")
            self.assertNotEqual(times(), before, of_git)

    def test_a_worktree_is_a_repository_too(self):
        root = self.sources()
        tree = os.path.join(self.scratch.name, f"tree{self.made}")
        git(root, "worktree", "add", "--quiet", "--detach", tree)
        os.makedirs(os.path.join(tree, "crates", "cli"), exist_ok=True)
        self.assertEqual(self.said(tree)[0], (git(root, "rev-parse", "--short=12", "HEAD"), "1700000000"))

    def test_a_source_archive_says_so_also_within_another_repository(self):
        said = ("source archive, no commit", "")
        self.assertEqual(self.said(self.sources(is_repository=False))[0], said)
        self.assertEqual(self.said(self.sources(below="vendored/thalweg"))[0], said)
        self.assertEqual(self.said(self.sources(), PATH="/nonexistent")[0], said)

    def test_what_a_package_says_counts_before_everything_else(self):
        for root in (self.sources(), self.sources(is_repository=False)):
            said, watched = self.said(root, THALWEG_COMMIT="abcdef123456", SOURCE_DATE_EPOCH="1800000000")
            self.assertEqual((said, watched), (("abcdef123456", "1800000000"), ["build.rs"]))
        self.assertEqual(self.said(self.sources(), THALWEG_COMMIT="", SOURCE_DATE_EPOCH="1800000000")[0][1], "1800000000")

    def test_a_development_build_watches_nothing_that_a_commit_changes(self):
        said, watched = self.said(self.sources(), profile="debug")
        self.assertEqual((said, watched), (("development build", ""), ["build.rs"]))


if __name__ == "__main__":
    unittest.main()
