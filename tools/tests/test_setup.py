"""What `make demo` says and builds where the kernel recorder cannot be built."""

import os
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Nothing may be installed by a test, and cargo only says how it was called.
LEFT_OUT = {"apt-get", "cargo", "rustup"}
CARGO = '#!/bin/sh\n[ "$1" = --version ] && echo "cargo 99.0.0" || echo "cargo $*"\n'
# The header files that are looked for; the others are hidden with them.
HEADERS = ("stdio.h", "libelf.h", "zlib.h")


def without(programs=(), headers=(), command="tools/setup demo && tools/cargo build -p thalweg"):
    """Run a command where these programs and header files are missing; returns its exit code, output and messages."""
    with tempfile.TemporaryDirectory() as binaries:
        for directory in ("/usr/bin", "/bin"):
            for name in os.listdir(directory):
                if name not in LEFT_OUT | set(programs) and not os.path.lexists(os.path.join(binaries, name)):
                    os.symlink(os.path.join(directory, name), os.path.join(binaries, name))
        with open(os.path.join(binaries, "cargo"), "w") as cargo:
            cargo.write(CARGO)
        os.chmod(os.path.join(binaries, "cargo"), 0o755)
        script = command
        if headers:
            kept = " ".join(f"/usr/include/{name}" for name in HEADERS if name not in headers)
            hide = f"mount -t tmpfs none /usr/include && touch {kept}"
            script = f'unshare {"-m" if os.geteuid() == 0 else "-rm"} sh -c \'{hide} && {command}\''
        environment = {"PATH": binaries, "HOME": binaries}
        done = subprocess.run(["sh", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout, done.stderr


class WithoutTheKernelRecorder(unittest.TestCase):
    def test_where_clang_is_missing_one_sentence_says_what_is_left_out_and_the_rest_is_built(self):
        code, out, err = without(programs=["clang"])
        self.assertEqual(code, 0, err)
        sentence = "setup: left out: the kernel recorder (missing: clang; Debian: apt-get install clang)"
        self.assertEqual([line for line in err.splitlines() if "kernel recorder" in line], [sentence])
        self.assertEqual(out, "cargo build --no-default-features --features=postgresql,png -p thalweg\n")

    def test_where_libelf_is_missing_too_they_are_named_together(self):
        if without(headers=["libelf.h"], command="true")[0] != 0:
            self.skipTest("no mount namespace to hide a header file in")
        code, out, err = without(programs=["clang"], headers=["libelf.h"])
        self.assertEqual(code, 0, err)
        self.assertIn("setup: left out: the kernel recorder (missing: clang, libelf-dev; Debian: apt-get install clang libelf-dev)\n", err)
        code, out, err = without(headers=["libelf.h"])
        self.assertEqual(code, 0, err)
        self.assertIn("setup: left out: the kernel recorder (missing: libelf-dev; Debian: apt-get install libelf-dev)\n", err)
        self.assertNotIn("bpf", out)

    def test_where_nothing_is_missing_nothing_is_said_of_it(self):
        code, out, err = without()
        self.assertEqual(code, 0, err)
        if not os.path.exists("/usr/bin/clang") or not os.path.exists("/usr/include/libelf.h"):
            self.skipTest("the kernel recorder cannot be built here")
        self.assertNotIn("kernel recorder", err)
        self.assertEqual(out, "cargo build -p thalweg\n")

    def test_without_a_compiler_nothing_is_built(self):
        code, out, err = without(programs=["cc"])
        self.assertEqual((code, out), (1, ""))
        self.assertIn("setup: gcc cannot be done without; install it (Debian: apt-get install gcc) and try again", err)

    def test_the_demo_says_it_once(self):
        with open(os.path.join(ROOT, "tools", "demo")) as source:
            text = source.read()
        self.assertEqual(text.count("tools/setup"), 1)
        self.assertNotIn("tools/build --profile", text)


if __name__ == "__main__":
    unittest.main()
