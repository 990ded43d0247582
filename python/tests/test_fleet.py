"""Many recordings into one table: by which engine, restarted, interrupted, broken."""

import atexit
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

import thalweg
from thalweg import command
from thalweg.fleets import sources
from thalweg.fleets import table as tables
from thalweg.fleets.places import Place
from thalweg.fleets.rows import file_system_at

from . import recordings

COUNT = int(os.environ.get("THALWEG_FLEET_RECORDINGS", "48"))
WAIT_S = 60


@functools.cache
def made():
    """A fleet of recordings, and a directory for tables with the one that the engine `local` makes: once for all tests."""
    kept = tempfile.TemporaryDirectory(prefix="thalweg-fleet-test-")
    atexit.register(kept.cleanup)
    scratch = Path(kept.name)
    fleet = recordings.make(COUNT, scratch / "fleet")
    broken = recordings.break_some(fleet)
    return fleet, broken, scratch / "tables", thalweg.fleet(fleet, table=scratch / "tables" / "local")


class WithFleet(unittest.TestCase):
    """Tests that have a fleet; each has a table of its own where it changes one."""

    @classmethod
    def setUpClass(cls):
        cls.fleet, cls.broken, cls.tables, cls.local = made()

    def rows(self, where):
        """All rows in one order, without which command explained them."""
        table = thalweg.Fleet(where).arrow().drop_columns(["explained_by"])
        return table.sort_by(
            [(name, "ascending") for name in ("recording", "kind", "cause", "place", "seconds", "source_path", "sink_path", "change")]
        )

    def assert_same(self, where):
        self.assertTrue(self.rows(where).equals(self.rows(self.local.table)), f"{where} has other rows")


class Engines(WithFleet):
    def test_every_recording_is_there_once_with_the_commands_answer(self):
        explained = self.local.arrow("recording").to_pylist()
        names = [row["recording"] for row in explained]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(len(names), COUNT + len(self.broken))
        self.assertEqual(self.local.progress.recordings, len(names))
        one = next(row for row in explained if row["recording"].endswith(".thw") and not row["error"] and ".tar" not in row["recording"])
        said = json.loads(command.run(["explain", "--json", self.fleet / one["recording"]]))
        self.assertEqual((one["wall_s"], one["cause"]), (said["wall_s"], said["verdict"]["cause"]))
        of_it = [row for row in self.local.arrow("charge").to_pylist() if row["recording"] == one["recording"]]
        self.assertEqual(
            sorted((c["cause"], c["where"], c["seconds"]) for c in said["critical_path"]),
            sorted((c["cause"], c["place"], c["seconds"]) for c in of_it),
        )

    def test_who_where_and_when(self):
        for row in self.local.arrow("charge").slice(0, 500).to_pylist():
            number = int(row["recording"].rpartition("-")[2].partition(".")[0])
            self.assertEqual(row["host"], f"node{number % recordings.hosts(COUNT)}")
            self.assertEqual(row["user_name"], f"user{number % recordings.USERS}")
            self.assertEqual((row["day"] - recordings.FIRST_DAY.date()).days, number * recordings.DAYS // COUNT)
            self.assertEqual(row["started"].date(), row["day"])

    def test_what_is_broken_is_a_row_with_its_error(self):
        errors = {row["recording"]: row["error"] for row in self.local.errors().to_pylist()}
        self.assertEqual(set(errors), set(self.broken))
        for name, word in self.broken.items():
            self.assertIn(word, errors[name])
            self.assertNotIn(tempfile.gettempdir(), errors[name].replace(str(self.fleet), ""))

    def test_dask_gives_the_same_table(self):
        from distributed import Client, LocalCluster

        with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, Client(cluster):
            thalweg.fleet(self.fleet, "dask", table=self.tables / "dask")
        self.assert_same(self.tables / "dask")

    def test_dask_without_a_cluster_is_processes_of_this_machine(self):
        opened = thalweg.fleet(three(self.tables / "small"), "dask", workers=2)
        self.assertEqual(sorted(opened.arrow("recording")["recording"].to_pylist()), ["a.thw", "b.thw", "c.thw"])

    def test_spark_gives_the_same_table_and_reads_it(self):
        session = spark(self)
        thalweg.fleet(self.fleet, "spark", table=self.tables / "spark", workers=2)
        self.assert_same(self.tables / "spark")
        from thalweg.fleets import questions

        session.read.parquet(str(self.tables / "spark")).createOrReplaceTempView("fleet")
        texts = {
            "top": questions.top_sql(["cause", "host"]),
            "trend": questions.trend_sql("cause", "week"),
            "since": questions.since_sql(["cause", "host"]),
            "compare": questions.compare_sql("host = 'node0'", "host = 'node1'"),
            "gains": questions.gains_sql(),
        }
        for name, text in texts.items():
            ours, theirs = self.local.sql(text).to_pylist(), [row.asDict() for row in session.sql(text).collect()]
            self.assertEqual(len(ours), len(theirs), name)
            for one, other in zip(ours, theirs):
                for key, value in one.items():
                    (self.assertAlmostEqual if isinstance(value, float) else self.assertEqual)(value, other[key], msg=f"{name}: {key}")

    def test_an_engine_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(thalweg.ThalwegError, "no engine `slurm`: there are local, dask, spark"):
            thalweg.fleet(self.fleet, "slurm", table=self.tables / "none")

    def test_other_readers_see_the_same_rows(self):
        import duckdb
        import polars

        count = len(self.local.arrow())
        pattern = f"{self.local.table}/**/*.parquet"
        self.assertEqual(duckdb.sql(f"select count(*) from read_parquet('{pattern}', hive_partitioning = true)").fetchall(), [(count,)])
        self.assertEqual(polars.scan_parquet(pattern, hive_partitioning=True).select(polars.len()).collect().item(), count)
        import dask.dataframe

        self.assertEqual(len(dask.dataframe.read_parquet(self.local.table)), count)


class Restarted(WithFleet):
    def setUp(self):
        self.table = self.tables / self.id().rpartition(".")[2]

    def test_what_is_explained_is_not_explained_again(self):
        again = thalweg.fleet(self.fleet, table=self.local.table)
        self.assertEqual((again.progress.recordings, again.progress.done_before), (0, again.progress.sources))

    def test_errors_are_tried_again_when_that_is_asked_for(self):
        shutil.copytree(self.local.table, self.table)
        again = thalweg.fleet(self.fleet, table=self.table, retry_errors=True)
        self.assertEqual((again.progress.recordings, again.progress.errors), (len(self.broken), len(self.broken)))
        self.assertEqual(len(again.arrow("recording")), COUNT + len(self.broken))

    def test_a_recording_that_changed_is_explained_anew_and_stands_once(self):
        small = self.tables / "changing"
        recordings.copy(recordings.FIXTURES / "curl-get-loss", small / "a.thw", "node0", "user0", recordings.FIRST_DAY)
        recordings.copy(recordings.FIXTURES / "curl-get-loss", small / "b.thw", "node0", "user0", recordings.FIRST_DAY)
        thalweg.fleet(small, table=self.table)
        shutil.rmtree(small / "a.thw")
        recordings.copy(recordings.FIXTURES / "cp-source-disk", small / "a.thw", "node0", "user0", recordings.FIRST_DAY)
        again = thalweg.fleet(small, table=self.table)
        self.assertEqual(again.progress.recordings, 1)
        self.assertEqual({row["recording"]: row["program"] for row in again.arrow("recording").to_pylist()}, {"a.thw": "cp", "b.thw": "curl"})
        self.assertEqual({row["program"] for row in again.arrow("charge").to_pylist() if row["recording"] == "a.thw"}, {"cp"})

    def test_killed_at_any_time_it_goes_on_and_ends_with_the_same_table(self):
        script = "import sys, thalweg; thalweg.fleet(sys.argv[1], table=sys.argv[2], workers=2)"
        kills = 0
        for part in (1, 2):
            child = subprocess.Popen([sys.executable, "-c", script, str(self.fleet), str(self.table)], start_new_session=True)
            deadline = time.monotonic() + WAIT_S
            while child.poll() is None and len(list(self.table.glob("day=*/*.parquet"))) < 5 * part and time.monotonic() < deadline:
                time.sleep(0.002)
            if child.poll() is None:
                # All of it, and the one that started the others: they are not to go on.
                (os.kill if part == 2 else os.killpg)(child.pid, signal.SIGKILL)
                kills += 1
            child.wait()
            if tables.is_table(Place.of(self.table)):
                # What is there is whole: each recording with all of its rows.
                whole = self.rows(self.local.table).filter(
                    pa.compute.is_in(self.rows(self.local.table)["recording"], self.rows(self.table)["recording"])
                )
                self.assertTrue(self.rows(self.table).equals(whole))
        self.assertGreater(kills, 0)
        thalweg.fleet(self.fleet, table=self.table)
        self.assert_same(self.table)
        self.assertEqual(list(self.table.rglob("*.tmp")), [])

    def test_a_half_written_file_is_nobodys_rows(self):
        shutil.copytree(self.local.table, self.table)
        part = next(self.table.glob("day=*/*.parquet"))
        half = part.parent / f".{part.name}.1234.tmp"
        half.write_bytes(part.read_bytes()[: part.stat().st_size // 2])
        self.assert_same(self.table)
        thalweg.fleet(self.fleet, table=self.table)
        self.assertFalse(half.exists())

    def test_a_part_of_a_pack_is_not_taken_for_all_of_it(self):
        pack = self.tables / "packs"
        for name in ("a", "b"):
            recordings.copy(recordings.FIXTURES / "curl-get-loss", pack / f"{name}.thw", "node0", "user0", recordings.FIRST_DAY)
        recordings.pack(pack / "both.tar", [pack / "a.thw", pack / "b.thw"])
        thalweg.fleet(pack, table=self.table)
        place = Place.of(self.table)
        file = next(self.table.glob("day=*/*.parquet"))
        rows = ds.dataset(file).to_table()
        tables._write(
            place, str(file.relative_to(self.table)), rows.filter(pa.compute.equal(rows["recording"], "both.tar/a.thw")).select(rows.column_names)
        )
        again = thalweg.fleet(pack, table=self.table)
        self.assertEqual(again.progress.recordings, 2)
        self.assertEqual(sorted(again.arrow("recording")["recording"].to_pylist()), ["both.tar/a.thw", "both.tar/b.thw"])

    def test_two_at_once_are_kept_apart(self):
        thalweg.fleet(self.small(), table=self.table)
        with tables.locked(Place.of(self.table)):
            under_way = self.table / "day=2026-10-01" / ".part-1.parquet.1.tmp"
            under_way.parent.mkdir()
            under_way.touch()
            with self.assertRaisesRegex(thalweg.ThalwegError, "another fleet is being explained"):
                thalweg.fleet(self.small(), table=self.table)
            self.assertTrue(under_way.exists())

    def test_what_stands_twice_is_explained_again_and_stands_once(self):
        folder = three(self.tables / "twice")
        thalweg.fleet(folder, table=self.table)
        part = next(self.table.glob("day=*/*.parquet"))
        shutil.copy(part, part.with_name("part-other.parquet"))
        again = thalweg.fleet(folder, table=self.table)
        self.assertEqual((again.progress.recordings, len(again.arrow("recording"))), (1, 3))

    def small(self):
        """A directory with nothing in it."""
        folder = self.tables / "nothing"
        folder.mkdir(parents=True, exist_ok=True)
        return folder


class Places(WithFleet):
    def test_a_url_is_as_good_as_a_directory(self):
        opened = thalweg.fleet(three(self.tables / "by url").as_uri(), table=(self.tables / "table by url").as_uri())
        self.assertEqual(sorted(opened.arrow("recording")["recording"].to_pylist()), ["a.thw", "b.thw", "c.thw"])

    def test_recordings_and_table_on_a_store_of_objects(self):
        import fsspec

        memory = fsspec.filesystem("memory")
        for name in ("curl-get-loss", "cp-source-disk"):
            memory.put(str(recordings.FIXTURES / name), f"/fleet/{name}.thw", recursive=True)
        recordings.copy(recordings.FIXTURES / "curl-get-loss", self.tables / "p" / "c.thw", "node0", "user0", recordings.FIRST_DAY)
        recordings.pack(self.tables / "p" / "c.tar", [self.tables / "p" / "c.thw"])
        memory.put(str(self.tables / "p" / "c.tar"), "/fleet/c.tar")
        opened = thalweg.fleet("memory://fleet", workers=1)
        self.assertEqual(sorted(opened.arrow("recording")["recording"].to_pylist()), ["c.tar/c.thw", "cp-source-disk.thw", "curl-get-loss.thw"])
        self.assertEqual(opened.errors().num_rows, 0)
        self.assertEqual(thalweg.fleet("memory://fleet", workers=1).progress.recordings, 0)

    def test_a_link_that_leads_back_is_no_end(self):
        folder = three(self.tables / "linked")
        (folder / "again").symlink_to(folder)
        (folder / "d.thw").symlink_to(folder / "a.thw")
        self.assertEqual([one.path for one in sources.find(Place.of(folder), "")], ["a.thw", "b.thw", "c.thw", "d.thw"])

    def test_nothing_is_no_recordings_and_every_answer_is_empty(self):
        folder = self.tables / "empty"
        folder.mkdir(parents=True)
        opened = thalweg.fleet(folder)
        self.assertEqual((opened.progress.sources, len(opened.arrow())), (0, 0))
        for answer in (opened.top(), opened.trend(), opened.since(), opened.gains(), opened.compare("true", "true"), opened.errors()):
            self.assertEqual(len(answer), 0)
        self.assertIn("Nothing was explained", opened.page())

    def test_errors_name_the_thing(self):
        other = self.tables / "other"
        other.mkdir(parents=True)
        (other / "mine.txt").write_text("mine")
        with self.assertRaisesRegex(thalweg.ThalwegError, "is no fleet's table.*give the table another place"):
            thalweg.fleet(self.fleet, table=other)
        self.assertEqual(os.listdir(other), ["mine.txt"])
        with self.assertRaisesRegex(thalweg.ThalwegError, "there is no such directory"):
            thalweg.fleet(self.tables / "no-such")
        with self.assertRaisesRegex(thalweg.ThalwegError, "there is no fleet's table"):
            thalweg.Fleet(self.tables / "no-such")
        newer = self.tables / "newer"
        newer.mkdir()
        (newer / "_fleet.json").write_text('{"schema": "thalweg.fleet/2"}')
        with self.assertRaisesRegex(thalweg.ThalwegError, "schema thalweg.fleet/2, and this package knows thalweg.fleet/1"):
            thalweg.fleet(self.fleet, table=newer)

    def test_the_file_system_of_a_charge_is_that_of_the_file_it_names(self):
        known = {"/a": "ext4", "/a b": "xfs", "/a/b": "nfs4"}
        self.assertEqual(file_system_at("client cp: file.read /a on loop3", known), "ext4")
        self.assertEqual(file_system_at("client cp: file.read /a b on loop3", known), "xfs")
        self.assertEqual(file_system_at("client cp: file.write /a/b", known), "nfs4")
        self.assertIsNone(file_system_at("the 2 CPUs of here", known))


def three(into):
    """A small fleet."""
    for name in ("a", "b", "c"):
        recordings.copy(recordings.FIXTURES / "curl-get-loss", into / f"{name}.thw", "node0", "user0", recordings.FIRST_DAY)
    return into


def spark(test):
    """A session of Spark on this machine, or a skipped test."""
    if not os.environ.get("THALWEG_SPARK"):
        test.skipTest("`make fleet` installs Spark, and tests it")
    from pyspark.sql import SparkSession

    if shutil.which("java") is None:
        test.skipTest("Spark needs Java; Debian: apt-get install default-jre-headless")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("thalweg test")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    test.addClassCleanup(session.stop)
    return session


if __name__ == "__main__":
    unittest.main()
