"""The benchmark's parts: timing commands, pairing what is compared, the cases, the page.

It drives built commands and never links or imports anything of theirs. Cases are in `harness/cases/`, one function each.
"""
