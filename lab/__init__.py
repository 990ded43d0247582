"""The lab: faults with known causes, and the score of `thalweg explain` against them.

A scenario (one TOML file) goes in: what is copied by which program, between which hosts, and what is wrong. Out comes how long
it took with the fault and without, what the explanation named and how much it charged, what it predicted and what came of it.
Nothing here knows how the answer is found: it drives the built command.
"""
