"""What is wrong with a page, for the person who wrote it."""


class Broken(Exception):
    """Pages that cannot be laid out: each line says what is wrong, where, and what to do."""
