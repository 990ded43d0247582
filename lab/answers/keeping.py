"""What is kept of an answer: a line of results with the text itself, and the recording, shrunk, so that another build can explain it again."""

import json
import os
import shlex
import shutil
import subprocess
import tempfile

from lab.answers import judge, trial
from lab.harness import packs
from testbed import shell
from testbed.errors import Broken
from testbed.paths import REPOSITORY, TARGET
from testbed.results import Results

DIRECTORY = os.path.join(REPOSITORY, "lab", "answers")
PACKS = os.path.join(DIRECTORY, "packs")
SCHEMA = "thalweg.answers/1"
USERS_SCHEMA = "thalweg.answers-user/1"
FIXTURES = [os.path.join(TARGET, kind, "examples", "fixture") for kind in ("release", "debug")]
# What one recording may have, packed: a few MB are for all of them.
MOST_BYTES = 400_000
EXPLAIN_TIMEOUT_S = 60


def results():
    """One line for each command."""
    return Results(os.path.join(DIRECTORY, "results.jsonl"), "name", SCHEMA)


def users_results(paranoid):
    """The same as an ordinary user has it, under a setting of kernel.perf_event_paranoid."""
    return Results(os.path.join(DIRECTORY, f"nobody-paranoid-{paranoid}.jsonl"), "name", USERS_SCHEMA)


def of_users_document(text, document):
    """What such a line has: no change is followed."""
    made, verdict = of_document(text, document), document.get("verdict", {})
    return {**made, "settle": verdict.get("settle") or [], "where": verdict.get("where")}


def of_document(text, document):
    """What a line has of an explanation."""
    verdict = document.get("verdict", {})
    # What stands between the first line and the rows: the sentence, and the number behind the rate.
    said = " ".join(text[1 : text.index("")] if "" in text else text[1:])
    return {"text": text, "sentence": said, "status": verdict.get("status"), "cause": verdict.get("cause"), "wall_s": document["wall_s"]}


def keep(name, recording, program):
    """Keep a recording, shrunk and packed, unless it is too large for git: then its answer alone is kept."""
    fixture = next((path for path in FIXTURES if os.access(path, os.X_OK)), None)
    if fixture is None:
        raise Broken("the example `fixture`, which shrinks recordings, is not built: tools/cargo build --release -p thalweg-explain --examples")
    with tempfile.TemporaryDirectory() as scratch:
        made = os.path.join(scratch, name)
        _run([fixture, recording, made, f"{os.path.dirname(program)}=/thalweg/bin", f"{REPOSITORY}=/thalweg", f"{os.path.expanduser('~')}=/home/user"])
        os.makedirs(PACKS, exist_ok=True)
        packed, path = packs.pack(scratch, [name]), os.path.join(PACKS, f"{name}{packs.ENDING}")
        if len(packed) <= MOST_BYTES:
            with open(path, "wb") as out:
                out.write(packed)
        elif os.path.exists(path):
            os.unlink(path)


def explain_again(program, commands, table, accept):
    """Explain the kept recordings with this program; say which sentences and changes are others than those that are kept."""
    with tempfile.TemporaryDirectory() as recordings:
        for command in commands:
            path = os.path.join(PACKS, f"{command.name}{packs.ENDING}")
            line = table.get(command.name)
            if not line or not os.path.exists(path):
                continue
            packs.unpack_file(path, recordings)
            recording = os.path.join(recordings, command.name)
            document, text = json.loads(_run([program, "explain", "--json", recording])), _run([program, "explain", recording])
            shutil.rmtree(recording)
            now = {**line, **of_document(text.rstrip().splitlines(), document), "changes": trial.exact_changes(document)}
            if now["sentence"] != line.get("sentence"):
                print(f"{command.name}: {line.get('sentence')}\n    now {now['sentence']}")
            then, those = ({shlex.join(change["command"]) for change in one["changes"]} for one in (line, now))
            for what, words in [("no longer", sorted(then - those)), ("new", sorted(those - then))]:
                print("".join(f"{command.name}: {what}: {word}\n" for word in words), end="")
            for fault in judge.faults(command, now):
                print(f"{command.name}: {fault}")
            if accept:
                # What was followed stays with its figures; what is proposed anew has not been followed.
                followed = {shlex.join(change["command"]): change for change in line["changes"]}
                table.put({**now, "changes": [followed.get(shlex.join(change["command"]), change) for change in now["changes"]]})


def _run(argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=EXPLAIN_TIMEOUT_S)
    if done.returncode:
        raise Broken(f"{os.path.basename(argv[0])}: exit code {done.returncode}: {shell.last_line(done.stderr)}")
    return done.stdout
