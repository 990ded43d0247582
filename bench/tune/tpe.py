#!/usr/bin/env python3
"""Optuna's TPE behind a pipe: a line of JSON in, a line out. Run by the Python that has Optuna.

`{"sizes": [5, 4], "start": [0, 1], "seed": 1}` begins a search whose first answer is the start; `{"rate": 1.5}` is what the last answer reached. Each
answer is the next place. The first FIRST runs are the start and random places; Optuna's own 10 would leave it 2 of 12.
"""

import json
import sys
import warnings

import optuna

FIRST = 4


def study(begin):
    """A search, its first trial the start."""
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    made = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=begin["seed"], n_startup_trials=FIRST))
    made.enqueue_trial({str(axis): at for axis, at in enumerate(begin["start"])})
    return made


def main():
    current = trial = sizes = None
    for line in sys.stdin:
        words = json.loads(line)
        if "sizes" in words:
            current, sizes = study(words), words["sizes"]
        else:
            current.tell(trial, words["rate"])
        trial = current.ask()
        print(json.dumps([trial.suggest_int(str(axis), 0, size - 1) for axis, size in enumerate(sizes)]), flush=True)


if __name__ == "__main__":
    main()
