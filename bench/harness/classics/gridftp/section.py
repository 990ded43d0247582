"""The section."""


def text(lines):
    return ""


def questions(lines):
    return []
