"""Answers from a fleet's table, held against what is known of how the fleet was made, and against sums made by hand."""

import io
import json
import os
import subprocess
import sys
import unittest
from collections import defaultdict
from contextlib import redirect_stderr, redirect_stdout
from datetime import timedelta

import pyarrow as pa

import thalweg
from thalweg.command import find
from thalweg.fleets import page, questions
from thalweg.fleets.command_line import main
from thalweg.fleets.rows import COLUMNS, FILE_SCHEMA

from . import recordings
from .test_fleet import COUNT, WithFleet, three


class Answers(WithFleet):
    def test_top_is_the_sum_of_the_charges(self):
        sums = defaultdict(float)
        for row in self.local.arrow("charge").to_pylist():
            sums[row["cause"]] += row["seconds"]
        top = self.local.top(limit=100).to_pylist()
        self.assertEqual([row["cause"] for row in top], sorted(sums, key=lambda cause: (-sums[cause], cause)))
        for row in top:
            self.assertAlmostEqual(row["seconds"], sums[row["cause"]])
        self.assertAlmostEqual(sum(row["share"] for row in top), 1.0)

    def test_where_and_for_whom(self):
        by_host = self.local.top(["cause", "host"], where="cause = 'network.loss'").to_pylist()
        self.assertEqual(by_host[0]["host"], recordings.LOSSY_HOST)
        by_user = {row["user_name"] for row in self.local.top("user").to_pylist()}
        self.assertEqual(by_user, {f"user{number}" for number in range(recordings.USERS)})

    def test_since_when_a_host_loses_packets(self):
        found = self.local.since(["cause", "host"], of="cause = 'network.loss'").to_pylist()
        self.assertEqual([row["host"] for row in found], [recordings.LOSSY_HOST])
        since = recordings.FIRST_DAY.date() + timedelta(days=recordings.LOSSY_SINCE)
        self.assertLess(abs((found[0]["since"] - since).days), recordings.hosts(COUNT) * recordings.DAYS / COUNT + 1)
        self.assertGreater(found[0]["after_s"], found[0]["before_s"])

    def test_the_day_that_parts_before_from_after_is_found_whatever_the_noise(self):
        rows = []
        for number in range(60):
            day = recordings.FIRST_DAY.date() + timedelta(days=number // 2)
            common = {"recording": f"{number}.thw", "day": day, "host": "a"}
            seconds = (1.0 if number < 24 else 3.0) + number % 2 * 0.5
            rows += [
                {**common, "kind": "recording", "cause": None, "seconds": None},
                {**common, "kind": "charge", "cause": "client.read", "seconds": seconds},
            ]
            rows += [{**common, "kind": "charge", "cause": "client.cpu", "seconds": 1.0 + number % 2 * 0.1}]
        found = asked(rows, questions.since_sql("cause"))
        self.assertEqual([(row["cause"], row["since"]) for row in found], [("client.read", recordings.FIRST_DAY.date() + timedelta(days=12))])
        self.assertAlmostEqual(found[0]["before_s"], 1.25)
        self.assertAlmostEqual(found[0]["after_s"], 3.25)
        self.assertAlmostEqual(found[0]["cost_s"], 2.0 * 36)

    def test_trend_adds_up_to_top_and_counts_recordings_without_the_cause(self):
        for bucket in questions.BUCKETS:
            trend = self.local.trend(bucket=bucket).to_pylist()
            loss = sum(row["seconds"] for row in trend if row["cause"] == "network.loss")
            self.assertAlmostEqual(loss, self.local.top(where="cause = 'network.loss' and day is not null").to_pylist()[0]["seconds"])
        counts = {row["day"]: row["recordings"] for row in self.local.trend().to_pylist()}
        explained = sum(1 for row in self.local.arrow("recording").to_pylist() if row["day"] and not row["error"])
        self.assertEqual(sum(counts.values()), explained)

    def test_a_recording_that_has_none_of_a_cause_counts_all_the_same(self):
        whole = {row["day"]: row["recordings"] for row in self.local.trend().to_pylist()}
        of_loss = self.local.trend(of="cause = 'network.loss'").to_pylist()
        self.assertTrue(of_loss)
        self.assertEqual({row["cause"] for row in of_loss}, {"network.loss"})
        for row in of_loss:
            self.assertEqual(row["recordings"], whole[row["day"]])
        with self.assertRaisesRegex(thalweg.ThalwegError, "`of` is about charges and `where` about recordings"):
            self.local.trend(where="cause = 'network.loss'")

    def test_compare_is_of_each_recording_and_has_both_sides(self):
        rows = [
            {"recording": "1", "kind": "recording", "host": "a"},
            {"recording": "2", "kind": "recording", "host": "b"},
            {"recording": "3", "kind": "recording", "host": "b"},
        ]
        charges = [("1", "a", "client.read", 4.0), ("2", "b", "client.read", 1.0), ("3", "b", "client.read", 2.0), ("3", "b", "client.sync", 5.0)]
        rows += [{"recording": r, "kind": "charge", "host": h, "cause": c, "seconds": s} for r, h, c, s in charges]
        found = asked(rows, questions.compare_sql("host = 'a'", "host = 'b'"))
        self.assertEqual([(row["cause"], row["one_s"], row["other_s"]) for row in found], [("client.read", 4.0, 1.5), ("client.sync", 0.0, 2.5)])

    def test_gains_promise_nothing_of_bounds(self):
        gains = self.local.gains(limit=1000).to_pylist()
        self.assertTrue(gains)
        saved = sum(row["saved_s"] for row in self.local.arrow("what_if").to_pylist() if row["basis"] == "replayed" and row["saved_s"] > 0)
        self.assertAlmostEqual(sum(row["saved_s"] for row in gains), saved)

    def test_errors_name_the_columns(self):
        for wrong, words in (
            (lambda: self.local.top("colour"), "nothing goes by `colour`: there are cause, host"),
            (lambda: self.local.trend(bucket="hour"), "no `hour` of time"),
            (lambda: self.local.trend("day"), "`day` is what the answer goes along"),
            (lambda: self.local.top(where="colour = 1"), "the columns are kind, recording"),
            (lambda: self.local.compare("", "true"), "two conditions are compared"),
        ):
            with self.assertRaisesRegex(thalweg.ThalwegError, words):
                wrong()

    def test_the_page_needs_nothing_else_and_has_the_answers(self):
        text = self.local.page()
        self.assertIn(
            page.headline(self.local, self.local.sql("select sum(wall_s) as wall_s from fleet where kind = 'recording'").to_pylist()[0]), text
        )
        for heading in ("Which cause cost most", "Since when", "Where", "For whom", "What would help", "Not explained"):
            self.assertIn(f"<h2>{heading}</h2>", text)
        self.assertNotIn("<script", text)
        self.assertNotRegex(text, r"(src|href)=")
        import xml.etree.ElementTree as tree

        picture = tree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
        self.assertGreater(len(picture.findall("rect")), recordings.DAYS)

    def test_the_document_lists_every_column(self):
        text = (recordings.REPOSITORY / "docs" / "FLEET.md").read_text()
        for name, (_, about) in COLUMNS.items():
            self.assertIn(f"| `{name}` | {about} |", text)

    def test_the_pages_colours_are_those_of_the_pictures(self):
        palette = (recordings.REPOSITORY / "crates" / "report" / "src" / "picture" / "palette.rs").read_text()
        for name, colour in page.COLOURS.items():
            self.assertIn(f'"{name}" => "{colour}"', palette)


class CommandLine(WithFleet):
    def fleet_command(self, *words):
        """`thalweg fleet ...` with the package that pip installed."""
        return subprocess.run([find(), "fleet", *map(str, words)], cwd="/", capture_output=True, text=True, timeout=120, check=False)

    def setUp(self):
        if self.fleet_command("--help").returncode:
            self.skipTest("this thalweg has no verb `fleet`")

    def test_the_command_answers_from_recordings_and_from_a_table(self):
        folder = three(self.tables / "asked")
        said = self.fleet_command("top", folder, "--table", self.tables / "command", "--limit", 3)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("recordings explained", said.stderr)
        self.assertEqual(len(said.stdout.splitlines()), 4)
        again = self.fleet_command("top", self.tables / "command", "--limit", 3, "--json")
        self.assertEqual([row["cause"] for row in json.loads(again.stdout)], [line.split()[0] for line in said.stdout.splitlines()[1:]])

    def test_every_question(self):
        table = self.local.table
        out = self.tables.parent / "fleet.html"
        for words in (
            ["trend", table, "--bucket", "week"], ["since", table], ["compare", table, "host = 'node0'", "host = 'node1'"], ["gains", table],
            ["sql", table, "select count(*) as n from fleet"], ["errors", table], ["top", table, "--by", "cause,host"], ["page", table, "-o", out],
        ):  # fmt: skip
            # As the command calls it, without another process for each.
            said, noted = io.StringIO(), io.StringIO()
            with redirect_stdout(said), redirect_stderr(noted):
                code = main([*map(str, words)])
            self.assertEqual((code, noted.getvalue()), (0, ""), words)
            self.assertTrue(said.getvalue() or words[0] == "page", words)
        self.assertTrue(out.read_text().startswith("<!doctype html>"))

    def test_errors_are_one_line_and_code_1_and_wrong_words_are_code_2(self):
        said = self.fleet_command("top", "/no/such/directory")
        self.assertEqual((said.returncode, said.stderr), (1, "thalweg fleet: /no/such/directory: there is no such directory\n"))
        self.assertEqual(self.fleet_command("fly", self.local.table).returncode, 2)
        self.assertEqual(self.fleet_command().returncode, 2)

    def test_without_the_package_the_command_says_how_to_install_it(self):
        said = subprocess.run(
            [find(), "fleet", "top", "x"], capture_output=True, text=True, env={**os.environ, "THALWEG_PYTHON": "/no/such/python"}, check=False
        )
        self.assertEqual(said.returncode, 1)
        self.assertIn("install Python 3.9 or newer", said.stderr)
        bare = self.tables.parent / "python"
        bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
        bare.chmod(0o755)
        said = subprocess.run(
            [find(), "fleet", "top", "x"], capture_output=True, text=True, cwd="/", env={**os.environ, "THALWEG_PYTHON": str(bare)}, check=False
        )
        self.assertEqual(said.returncode, 1)
        self.assertIn("-m pip install './python[duckdb]'", said.stderr)


def asked(rows, query):
    """The answer from rows made by hand."""

    class Made(questions.Questions):
        def dataset(self):
            return pa.Table.from_pylist(rows, schema=FILE_SCHEMA.append(pa.field("day", pa.date32())))

    return Made().sql(query).to_pylist()


if __name__ == "__main__":
    unittest.main()
