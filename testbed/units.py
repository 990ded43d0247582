"""Sizes, rates and times as scenarios write them."""

import re

BYTES = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
BITS = {"kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9}


def _parse(text, units, what):
    found = re.fullmatch(r"([0-9.]+) ?([A-Za-z]*)", str(text))
    if not found or found.group(2) not in units:
        raise ValueError(f"{text!r} is no {what}: expected a number and one of {', '.join(unit or '(nothing)' for unit in units)}")
    return float(found.group(1)) * units[found.group(2)]


def size_bytes(text):
    """`64Mi` in bytes."""
    return int(_parse(text, BYTES, "size"))


def seconds(text):
    """`5ms` in seconds."""
    return _parse(text, SECONDS, "time")


def bits_per_s(text):
    """`400Mbit` in bits per second."""
    return _parse(text, BITS, "rate of a link")
