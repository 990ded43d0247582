"""The gates: other people's programs on a mounted store, and what they find, case by case."""
