"""Recordings as Arrow tables, explanations as objects."""

import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
import typing
import unittest
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import thalweg
from thalweg import command
from thalweg.explaining import document
from thalweg.recording import TABLES

from .recordings import FIXTURES, REPOSITORY, pack

CURL = FIXTURES / "curl-get-loss"


class Scratch(unittest.TestCase):
    """A directory of its own for each test."""

    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="thalweg-test-")
        self.addCleanup(kept.cleanup)
        self.scratch = Path(kept.name)

    def packed(self, *names, ending=".tar", path="run"):
        """A tar of these fixtures."""
        for name in names:
            shutil.copytree(FIXTURES / name, self.scratch / f"{name}.thw")
        into = self.scratch / f"{path}{ending}"
        pack(into, [self.scratch / f"{name}.thw" for name in names])
        return into


class Tables(Scratch):
    def test_every_table_has_its_rows_with_their_host(self):
        recording = thalweg.open(CURL)
        for name in TABLES:
            table = getattr(recording, name)
            self.assertIsInstance(table, pa.Table)
            self.assertIn("host", table.column_names, name)
        spans = recording.spans
        self.assertEqual(set(spans["host"].to_pylist()), {0})
        self.assertGreater(len(spans), 1000)
        self.assertIn("net.receive", spans["kind"].to_pylist())
        self.assertEqual(recording.hosts["name"].to_pylist(), ["here"])

    def test_the_command_exports_the_same_rows(self):
        out = self.scratch / "csv"
        command.run(["export", CURL, "--to", "csv", "-o", out])
        lines = (out / "spans.csv").read_text().splitlines()
        self.assertEqual(len(lines) - 1, len(thalweg.open(CURL).spans))

    def test_columns_and_filters_are_asked_of_parquet(self):
        table = thalweg.open(CURL).table("spans", ["kind", "duration_ns", "host"], filters=pc.field("kind") == "net.receive")
        self.assertEqual(table.column_names, ["kind", "duration_ns", "host"])
        self.assertEqual(set(table["kind"].to_pylist()), {"net.receive"})

    def test_a_packed_recording_has_the_same_tables(self):
        for ending in (".tar", ".tar.gz"):
            packed = thalweg.open(self.packed("curl-get-loss", ending=ending, path=f"run{ending[-2:]}"))
            self.assertTrue(packed.spans.equals(thalweg.open(CURL).spans))
            self.assertEqual(packed.meta, thalweg.open(CURL).meta)

    def test_of_a_pack_of_several_one_is_named(self):
        path = self.packed("curl-get-loss", "cp-source-disk")
        with self.assertRaisesRegex(thalweg.ThalwegError, "holds 2 recordings.*cp-source-disk.thw, curl-get-loss.thw"):
            thalweg.open(path)
        self.assertEqual(thalweg.open(path, "cp-source-disk.thw").meta.command[0], "cp")
        with self.assertRaisesRegex(thalweg.ThalwegError, "no recording `other`"):
            thalweg.open(path, "other")

    def test_a_tar_that_points_outside_is_not_followed(self):
        path = self.scratch / "run.tar"
        pack(path, [])
        import io
        import tarfile

        with tarfile.open(path, "w") as out:
            for name in ("../evil/meta.json", "/evil/meta.json"):
                member = tarfile.TarInfo(name)
                member.size = 2
                out.addfile(member, io.BytesIO(b"{}"))
            link = tarfile.TarInfo("a.thw/meta.json")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            out.addfile(link)
        with self.assertRaisesRegex(thalweg.ThalwegError, "holds no recording"):
            thalweg.open(path)

    def test_tables_become_data_frames(self):
        spans = thalweg.open(CURL).spans
        import pandas
        import polars

        self.assertEqual(len(spans.to_pandas(types_mapper=pandas.ArrowDtype)), len(spans))
        self.assertEqual(polars.from_arrow(spans).height, len(spans))

    def test_errors_name_the_thing(self):
        cases = [
            (lambda: thalweg.open(self.scratch / "none.thw"), "none.thw: there is no such recording"),
            (lambda: thalweg.open(self.scratch), "no recording: it has no meta.json"),
            (lambda: thalweg.open(Path(__file__)), "neither a directory nor a tar"),
            (lambda: thalweg.open(CURL).table("span"), "`span` is no table of recordings: there are hosts"),
        ]
        for open_it, words in cases:
            with self.assertRaisesRegex(thalweg.ThalwegError, words):
                open_it()

    def test_a_newer_format_is_refused(self):
        copy = self.scratch / "new.thw"
        shutil.copytree(CURL, copy)
        (copy / "meta.json").write_text(json.dumps({**json.loads((CURL / "meta.json").read_text()), "format": 99}))
        with self.assertRaisesRegex(thalweg.ThalwegError, "format 99, and this package knows up to 2"):
            thalweg.open(copy)


class Explanations(Scratch):
    def test_an_explanation_is_the_commands_field_by_field(self):
        for name in ("curl-get-loss", "cp-source-disk", "mpi-late-rank", "nfs-write-server-disk"):
            said = json.loads(command.run(["explain", "--json", "--why", FIXTURES / name]))
            self.assertEqual(plain(thalweg.read(json.dumps(said))), plain(said), name)

    def test_charges_add_up_and_the_verdict_is_the_largest(self):
        explained = thalweg.explain(CURL)
        self.assertAlmostEqual(sum(charge.share for charge in explained.critical_path), 1.0, delta=0.001)
        self.assertEqual(explained.verdict.cause, "network.loss")
        self.assertEqual(explained.transfers[0].to, "/lab/sink/curl-get-loss-2")
        self.assertTrue(explained.transfers[0].from_.endswith("source-10Mi"))
        low, high = explained.what_if[0].interval_s
        self.assertLess(low, high)

    def test_a_packed_recording_is_explained_and_drawn_as_its_directory(self):
        packed, plain_one = thalweg.open(self.packed("curl-get-loss")), thalweg.open(CURL)
        self.assertEqual(packed.explain(), plain_one.explain())
        self.assertEqual(packed.text(), plain_one.text())
        self.assertTrue(packed.svg().startswith("<svg"))
        self.assertIn("network.loss", packed.html())

    def test_a_command_is_run_and_explained(self):
        explained = thalweg.explain([sys.executable, "-c", "sum(range(10**7))"], options=["--method", "proc"])
        self.assertEqual(explained.command[0], sys.executable)
        self.assertGreater(explained.wall_s, 0)
        failed = thalweg.explain([sys.executable, "-c", "raise SystemExit(3)"], options=["--method", "proc"])
        self.assertIn("exit code 3", failed.summary.ended)

    def test_what_cannot_be_explained_says_what_the_command_says(self):
        with self.assertRaisesRegex(thalweg.CommandFailed, "no-such-program"):
            thalweg.explain(["no-such-program"])
        with self.assertRaisesRegex(thalweg.ThalwegError, "nothing to explain"):
            thalweg.explain([])

    def test_another_schema_is_refused_and_a_new_field_is_not_seen(self):
        said = json.loads(command.run(["explain", "--json", CURL]))
        self.assertEqual(thalweg.read(json.dumps({**said, "novelty": 1})).wall_s, said["wall_s"])
        with self.assertRaisesRegex(thalweg.ThalwegError, "schema thalweg.explain/2, and this package knows thalweg.explain/1"):
            document(json.dumps({**said, "schema": "thalweg.explain/2"}), "run.thw")

    def test_the_dataclasses_are_those_of_the_schema(self):
        made = subprocess.run([sys.executable, REPOSITORY / "python" / "generate", "--check"], check=False)
        self.assertEqual(made.returncode, 0, "python/generate writes thalweg/explanation.py anew")
        self.assertIn("network.loss", typing.get_args(thalweg.explanation.Cause))

    def test_the_command_that_is_not_there_is_named(self):
        import os
        from unittest import mock

        with mock.patch.dict(os.environ, {"THALWEG": "/no/such/thalweg"}), self.assertRaisesRegex(thalweg.ThalwegError, "THALWEG=/no/such/thalweg"):
            command.find()


def plain(value):
    """An object as JSON has it, without what is absent, and without empty lists: an absent list is empty here."""
    if dataclasses.is_dataclass(value):
        value = {field.name.rstrip("_"): getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items() if one is not None and one not in ([], ())}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


if __name__ == "__main__":
    unittest.main()
