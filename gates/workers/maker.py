"""maker DIRECTORY NUMBER COUNT WHAT: the mdtest patterns on a directory: `create`, `stat`, `rename`, `remove` so many files of NUMBER.

Prints the names that it made or found, one a line, when WHAT is `list`.
"""

import os
import sys


def main(directory, number, count, what):
    names = [os.path.join(directory, f"f.{number}.{step}") for step in range(count)]
    if what == "create":
        for step, name in enumerate(names):
            with open(name, "xb", buffering=0) as out:
                if step % 4 == 0:
                    out.write(b"x" * (step % 1000))
    elif what == "stat":
        for step, name in enumerate(names):
            size = os.stat(name).st_size
            if size != (step % 1000 if step % 4 == 0 else 0):
                print(f"{name} is {size} bytes long", file=sys.stderr)
                return 1
    elif what == "rename":
        for name in names:
            os.rename(name, name.replace("/f.", "/g."))
    elif what == "remove":
        for name in names:
            os.unlink(name.replace("/f.", "/g."))
    elif what == "trees":
        for step in range(count // 10):
            tree = os.path.join(directory, f"t{number}.{step}")
            os.makedirs(os.path.join(tree, "a/b/c"))
            os.rmdir(os.path.join(tree, "a/b/c"))
            os.rename(os.path.join(tree, "a/b"), os.path.join(tree, "d"))
            os.rmdir(os.path.join(tree, "a"))
            os.rmdir(os.path.join(tree, "d"))
            os.rmdir(tree)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
