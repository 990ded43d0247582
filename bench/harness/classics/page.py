"""docs/STUDIES.md"""


def write():
    return "nothing"
