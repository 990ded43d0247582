"""The section on `pvfs2-cp`."""


def text(lines):
    return ""


def questions(lines):
    return []
