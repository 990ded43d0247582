"""The ordinary commands as an ordinary user asks about them: everything is `nobody`'s but the machines of other people."""

import os
import shutil
import tempfile

from lab.answers import judge, keeping, trial
from lab.answers.place import Place
from lab.harness.ordinary import SETTING, WITHOUT_SWITCHES
from testbed import settings, users
from testbed.errors import Broken, NotRun
from testbed.machine import describe
from testbed.paths import build
from testbed.results import now
from testbed.scratch import Scratch


def measure(arguments, chosen, table, roots):
    """Ask about each command once, and keep what is answered; `roots` are root's lines."""
    program = build(arguments.program)
    for name in settings.put_back():
        print(f"{name}: put back, which a run that was killed had left changed", flush=True)
    with settings.changed(SETTING, arguments.paranoid), Scratch("thalweg-answers", arguments.base) as scratch:
        user = users.User(os.path.join(scratch.directory, "home"))
        user.must_reach(arguments.program, scratch.directory)
        user.make()
        for one in chosen:
            last = table.get(one.name) or {}
            if arguments.resume and last.get("build", {}).get("thalweg_sha256") == program["thalweg_sha256"]:
                continue
            line = {"name": one.name, "typed": one.typed, "measured": now(), "build": program, "machine": describe(scratch.directory), "paranoid": arguments.paranoid}
            with tempfile.TemporaryDirectory(dir=scratch.directory) as work:
                os.chmod(work, 0o755)
                user.give(work)
                line |= _answer(one, Place(one, scratch, arguments.program, arguments.relay, user), arguments, work, roots.get(one.name, {}))
            table.put(line)
            print(_words(line, roots.get(one.name, {})), flush=True)


def _answer(one, place, arguments, work, root):
    try:
        with place:
            before = (lambda argv: users.refused("perf_event_open", argv)) if arguments.paranoid >= WITHOUT_SWITCHES else (lambda argv: argv)
            text, document, recording = trial.Trial(place, arguments.program, work, arguments.method, before).explained()
            made = keeping.of_users_document(text, document)
            if arguments.keep and judge.same_cause(root, made) is False:
                target = os.path.join(arguments.keep, f"{one.name}.thw")
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(recording, target)
            return made
    except (Broken, NotRun) as reason:
        return {"not_run": str(reason)}


def _words(line, root):
    if "not_run" in line:
        return f"NOT RUN   {line['name']}: {line['not_run']}"
    same = judge.same_cause(root, line)
    head = f"{'NO ROOT' if same is None else 'same' if same else 'OTHER':9} {line['name']}  {line['wall_s']:.2f} s  {line['cause']}" + (" (unsure)" if line["status"] == "unsure" else "")
    more = [f"root: {root['cause']}: {root['sentence']}"] if same is False else []
    more += [line["sentence"]] if not same else []
    return "\n          ".join([head, *more, *(f"to settle it: {words}" for words in line["settle"])])
