"""Distributions, hints and their measurement, 2005."""
