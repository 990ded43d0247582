"""The store as a file system of fsspec, with what builds on that: pandas, Dask, Zarr, and fsspec's own tests."""

import gc
import io
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from tests.stores import Store
from thalweg import ThalwegError
from thalweg.files import PIECE_BYTES, READS_OF_A_STREAM

UNUSUAL = ("a b", "ä→語", "line\nbreak", "[x]*?", "#%41", "'\"", "-rf", "trailing ", "\udcff\udc80")
# Writes half a file, says so, and waits to be killed.
WRITER = """
import fsspec, sys, time
out = fsspec.filesystem("thal").open(sys.argv[1], "wb")
out.write(bytes(9_000_000))
print(flush=True)
time.sleep(99)
"""
ENDS_WITH_OPEN_FILES = """
import fsspec, pickle, sys
fs = fsspec.filesystem("thal")
reading = fs.open(sys.argv[1])
again = pickle.loads(pickle.dumps(reading))
writing = fs.open(sys.argv[2], "wb")
writing.write(bytes(9_000_000))
print(len(reading.read(100)))
"""
# How long a call may take that must not hang. Not a promise of the product.
SOON_S = 60


def content(size, seed=7):
    return random.Random(seed).randbytes(size)


class OfStore(unittest.TestCase):
    """Tests that share a store, each with a directory of its own."""

    @classmethod
    def setUpClass(cls):
        cls.store = Store()
        cls.addClassCleanup(cls.store.end)
        cls.fs = fsspec.filesystem("thal", store=cls.store.address)
        cls.addClassCleanup(cls.fs.close)

    def setUp(self):
        self.at = f"/{self.id().rpartition('.')[2]}"
        self.fs.mkdir(self.at)
        self.url = f"{self.store.address}{self.at}"

    def names(self):
        return [name.removeprefix(f"{self.at}/") for name in self.fs.find(self.at)]


class Files(OfStore):
    def test_every_read_is_what_a_local_file_gives_and_jumps_read_no_more_than_was_asked_for(self):
        whole = content(3 * PIECE_BYTES + 12_345)
        self.fs.pipe_file(f"{self.at}/f", whole)
        local, choice = io.BytesIO(whole), random.Random(1)
        with self.fs.open(f"{self.at}/f") as file:
            for _ in range(400):
                if choice.random() < 0.3:
                    for each in (file, local):
                        each.seek(at := choice.randrange(len(whole) + 10)) if each is file else each.seek(at)
                size = choice.choice((0, 1, 100, 5000, 70_000, PIECE_BYTES + 1, -1) if choice.random() < 0.1 else (1, 100, 5000, 70_000))
                self.assertEqual(file.read(size), local.read(size))
                self.assertEqual(file.tell(), min(local.tell(), max(file.tell(), len(whole))))
        before = self.fs.session().received_bytes
        with self.fs.open(f"{self.at}/f") as file:
            asked = 0
            for at in choice.sample(range(0, len(whole) - 5000, 10_000), 100):
                file.seek(at)
                asked += len(file.read(5000))
        self.assertEqual(self.fs.session().received_bytes - before, asked)

    def test_a_sequential_reader_has_pieces_in_flight_ahead_of_it(self):
        self.fs.pipe_file(f"{self.at}/f", content(2 * PIECE_BYTES))
        with self.fs.open(f"{self.at}/f") as file:
            for _ in range(READS_OF_A_STREAM - 1):
                file.read(100_000)
            self.assertEqual(file.cache.asked_bytes, file.cache.read_bytes)
            file.read(100_000)
            self.assertGreater(file.cache.asked_bytes, file.cache.read_bytes)
            self.assertLess(file.cache.asked_bytes, 2 * file.cache.read_bytes + 300_000)

    def test_other_caches_of_fsspec_work_as_well(self):
        whole = content(300_000)
        self.fs.pipe_file(f"{self.at}/f", whole)
        for cache in ("none", "readahead", "bytes", "blockcache", "all", "background"):
            with self.fs.open(f"{self.at}/f", cache_type=cache, block_size=10_000) as file:
                self.assertEqual((file.read(10), file.seek(150_000), file.read()), (whole[:10], 150_000, whole[150_000:]), cache)

    def test_text_lines_and_compression(self):
        with self.fs.open(f"{self.at}/t.txt", "w", encoding="latin-1") as out:
            out.write("eins\nzwö\ndrei")
        with self.fs.open(f"{self.at}/t.txt", "r", encoding="latin-1") as source:
            self.assertEqual(source.readlines(), ["eins\n", "zwö\n", "drei"])
        lines = [b"%d\n" % number for number in range(50_000)]
        with self.fs.open(f"{self.at}/lines.gz", "wb", compression="infer") as out:
            out.writelines(lines)
        with self.fs.open(f"{self.at}/lines.gz", compression="infer") as source:
            self.assertEqual(source.readlines(), lines)
        with self.fs.open(f"{self.at}/t.bz2", "w", compression="infer") as out:
            out.write("zwö")
        with self.assertRaises(ZeroDivisionError), self.fs.open(f"{self.at}/none.xz", "w", compression="infer") as out:
            out.write(str(1 // 0))
        with fsspec.open(f"{self.url}/t.bz2", "r", compression="infer") as source:
            self.assertEqual(source.read(), "zwö")
        self.assertEqual(self.names(), ["lines.gz", "t.bz2", "t.txt"])
        self.fs.pipe_file(f"{self.at}/lines", b"".join(lines))
        with self.fs.open(f"{self.at}/lines") as source:
            self.assertEqual(list(source), lines)
            source.seek(0)
            self.assertEqual((source.readline(1), source.readline(), source.readline(), source.tell()), (b"0", b"\n", b"1\n", 4))
        long = content(300_000).replace(b"\n", b"")
        self.fs.pipe_file(f"{self.at}/long", b"a\n" + long + b"\n\nlast")
        with self.fs.open(f"{self.at}/long") as source:
            self.assertEqual(list(source), [b"a\n", long + b"\n", b"\n", b"last"])
            source.seek(3)
            self.assertEqual((source.readline(), source.readline(0), source.readline(9), source.readline(9)), (long[1:] + b"\n", b"", b"\n", b"last"))

    def test_nothing_appears_of_a_file_that_was_not_completed(self):
        path, half = f"{self.at}/f", content(PIECE_BYTES + 1)
        with self.assertRaisesRegex(ValueError, "mine"), self.fs.open(path, "wb") as out:
            out.write(half)
            self.assertEqual(self.names(), ["f.partial"])
            raise ValueError("mine")
        with self.assertRaisesRegex(ValueError, "mine"), self.fs.open(path, "w") as out:
            out.write("half")
            raise ValueError("mine")
        self.assertEqual(self.names(), [])
        out = self.fs.open(path, "wb")
        out.write(half)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            del out
            gc.collect()
        self.assertEqual(([one.category for one in told], self.names()), ([ResourceWarning], []))
        with self.fs.open(path, "wb"):
            pass
        self.assertEqual((self.fs.size(path), self.fs.cat_file(path)), (0, b""))

    def test_a_process_that_is_killed_leaves_nothing(self):
        words = [sys.executable, "-c", WRITER, f"{self.at}/f"]
        writer = subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, "THALWEG_STORE": self.store.address})
        writer.stdout.readline()
        self.assertEqual(self.names(), ["f.partial"])
        writer.kill()
        writer.wait()
        writer.stdout.close()
        self.until(lambda: self.names() == [])

    def test_an_interpreter_that_ends_with_open_files_ends_and_leaves_nothing(self):
        self.fs.pipe_file(f"{self.at}/f", content(1000))
        for _ in range(3):
            words = [sys.executable, "-c", ENDS_WITH_OPEN_FILES, f"{self.at}/f", f"{self.at}/g"]
            environment = {**os.environ, "THALWEG_STORE": self.store.address}
            done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=SOON_S, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr, self.names()), (0, "100\n", "", ["f"]))

    def until(self, holds):
        limit = datetime.now(UTC) + timedelta(seconds=SOON_S)
        while not holds():
            self.assertLess(datetime.now(UTC), limit)

    def test_files_that_must_not_exist_and_files_of_a_transaction(self):
        path = f"{self.at}/f"
        with self.fs.open(path, "xb") as out:
            out.write(b"first")
        for refused in (lambda: self.fs.open(path, "xb"), lambda: self.fs.pipe_file(path, b"", mode="create")):
            with self.assertRaisesRegex(FileExistsError, "exists already.*/f"):
                refused()
        with self.assertRaises(ZeroDivisionError), self.fs.transaction:
            self.fs.open(path, "wb").close()
            _ = 1 // 0
        self.assertEqual((self.fs.cat_file(path), self.names()), (b"first", ["f"]))
        with self.fs.transaction, self.fs.open(path, "wb") as out:
            out.write(b"second")
        self.assertEqual(self.fs.cat_file(path), b"second")
        slow, quick = self.fs.open(path, "wb"), self.fs.open(path, "wb")
        slow.write(b"slow")
        quick.write(b"quick")
        quick.close()
        with self.assertRaisesRegex(OSError, "another copy to the same name"):
            slow.close()
        self.assertEqual((self.fs.cat_file(path), self.names()), (b"quick", ["f"]))
        for mode in ("ab", "r+b"):
            with self.assertRaisesRegex(ValueError, "written as a whole"):
                self.fs.open(path, mode)

    def test_ranges_of_many_files_at_once(self):
        sizes = {f"{self.at}/{number}": number * 1000 for number in range(150)}
        for path, size in sizes.items():
            self.fs.pipe_file(path, content(size, size))
        wanted = [(path, start, end) for path, size in sizes.items() for start, end in ((0, 10), (-7, None), (size // 2, size), (5, 2))]
        out = self.fs.cat_ranges(*map(list, zip(*wanted, strict=True)))
        self.assertEqual(out, [content(sizes[path], sizes[path])[start:end] for path, start, end in wanted])
        big = content(40 << 20)
        self.fs.pipe_file(f"{self.at}/big", big)
        self.assertEqual(self.fs.cat_file(f"{self.at}/big"), big)
        out = self.fs.cat_ranges([f"{self.at}/big"] * 4, [None, 1, 5, -9], [None, (30 << 20), 5_000_000, None])
        self.assertTrue(out == [big, big[1 : 30 << 20], big[5:5_000_000], big[-9:]])
        out = self.fs.cat_ranges([f"{self.at}/nothing", f"{self.at}/1"], 0, 3)
        self.assertIsInstance(out[0], FileNotFoundError)
        self.assertEqual(out[1], content(1000, 1000)[:3])
        with self.assertRaises(FileNotFoundError):
            self.fs.cat_ranges([f"{self.at}/nothing"], [0], [1], on_error="raise")

    def test_holes_stay_holes_in_and_out(self):
        with tempfile.TemporaryDirectory() as scratch:
            local, back = Path(scratch) / "in", Path(scratch) / "out"
            with local.open("wb") as out:
                out.seek(50 << 20)
                out.write(b"end")
            self.fs.put_file(local, f"{self.at}/f")
            self.assertEqual(self.fs.cat_ranges([f"{self.at}/f"] * 2, [0, -5], [10, None]), [bytes(10), b"\0\0end"])
            self.fs.get_file(f"{self.at}/f", back)
            self.assertEqual((back.stat().st_size, back.read_bytes()[-3:]), ((50 << 20) + 3, b"end"))
            self.assertLess(back.stat().st_blocks * 512, 1 << 20)
            with self.fs.open(f"{self.at}/f") as file:
                self.assertEqual(file.read(), bytes(50 << 20) + b"end")


class Names(OfStore):
    def test_any_name(self):
        for name in UNUSUAL:
            path = f"{self.at}/{name}"
            if "\udcff" in name:
                self.fs.pipe_file(f"{self.at}/plain", name.encode("utf-8", "surrogateescape"))
                self.fs.mv(f"{self.at}/plain", path)
            else:
                with self.fs.open(path, "wb") as out:
                    out.write(name.encode())
            self.assertEqual(self.fs.cat_file(path), name.encode("utf-8", "surrogateescape"), ascii(name))
            self.assertEqual(self.fs.info(path)["name"], path)
        self.assertEqual(sorted(self.names()), sorted(UNUSUAL))
        for name in UNUSUAL:
            self.fs.rm(f"{self.at}/{name}")
        self.assertEqual(self.names(), [])

    def test_addresses(self):
        self.fs.pipe_file(f"{self.at}/f", b"here")
        fs, path = fsspec.core.url_to_fs(f"{self.url}/f")
        self.assertEqual((fs.cat_file(path), path, fs.unstrip_protocol(path)), (b"here", f"{self.at}/f", f"{self.url}/f"))
        self.assertEqual(fsspec.filesystem("thal", store=self.store.description).cat_file(f"{self.url}/f"), b"here")
        with self.assertRaisesRegex(ValueError, "thal://127.0.0.1:1/x is in another store"):
            self.fs.exists("thal://127.0.0.1:1/x")
        before = os.environ.pop("THALWEG_STORE", None)
        self.addCleanup(lambda: os.environ.pop("THALWEG_STORE") if before is None else os.environ.update(THALWEG_STORE=before))
        with self.assertRaisesRegex(ValueError, "set THALWEG_STORE"):
            fsspec.filesystem("thal")
        os.environ["THALWEG_STORE"] = self.store.address
        with fsspec.open(f"thal://{self.at}/f") as file:
            self.assertEqual(file.read(), b"here")
        os.environ["THALWEG_STORE"] = "thal://127.0.0.1:1"
        with self.assertRaises(ConnectionRefusedError):
            fsspec.filesystem("thal").exists("/")
        self.assertEqual(pickle.loads(pickle.dumps(fs)).cat_file(path), b"here")

    def test_directories_times_and_links(self):
        begun = datetime.now(UTC) - timedelta(seconds=1)
        self.fs.makedirs(f"{self.at}/a/b")
        self.fs.makedirs(f"{self.at}/a/b", exist_ok=True)
        for refused, error in (
            (lambda: self.fs.mkdir(f"{self.at}/a"), FileExistsError),
            (lambda: self.fs.makedirs(f"{self.at}/a"), FileExistsError),
            (lambda: self.fs.mkdir(f"{self.at}/x/y", create_parents=False), FileNotFoundError),
            (lambda: self.fs.ls(f"{self.at}/nothing"), FileNotFoundError),
            (lambda: self.fs.rm(f"{self.at}/a"), IsADirectoryError),
            (lambda: self.fs.rmdir(f"{self.at}/a"), OSError),
            (lambda: self.fs.open(f"{self.at}/a"), IsADirectoryError),
            (lambda: self.fs.open(f"{self.at}/a", "wb"), IsADirectoryError),
            (lambda: self.fs.rm("/", recursive=True), PermissionError),
        ):
            with self.assertRaises(error) as told:
                refused()
            self.assertGreater(len(str(told.exception)), 20)
        self.fs.touch(f"{self.at}/a/f")
        first = self.fs.modified(f"{self.at}/a/f")
        self.fs.touch(f"{self.at}/a/f", truncate=False)
        self.assertTrue(begun < self.fs.created(f"{self.at}/a/f") <= first < self.fs.modified(f"{self.at}/a/f"))
        self.assertEqual(self.fs.find(self.at, withdirs=True), [self.at, *(f"{self.at}/{name}" for name in ("a", "a/b", "a/f"))])
        self.assertEqual(self.fs.find(self.at, maxdepth=1, withdirs=True), [self.at, f"{self.at}/a"])
        self.assertEqual(self.fs.glob(f"{self.at}/**/f"), [f"{self.at}/a/f"])
        self.fs.mv(f"{self.at}/a", f"{self.at}/new/c")
        self.assertEqual((self.fs.isdir(f"{self.at}/new/c/b"), self.fs.exists(f"{self.at}/a"), self.fs.exists(f"{self.at}/new/c/f/g")), (True, False, False))
        self.assertEqual(self.fs.du(self.at), 0)
        self.fs.rm(self.at, recursive=True)
        self.assertFalse(self.fs.exists(self.at))

    def test_a_read_only_credential_reads(self):
        self.fs.pipe_file(f"{self.at}/f", b"read")
        reader = fsspec.filesystem("thal", store=self.store.address, credential=Path(self.store.directory.name) / "read-only.credential")
        self.addCleanup(reader.close)
        self.assertEqual(reader.cat_file(f"{self.at}/f"), b"read")
        for refused in (lambda: reader.pipe_file(f"{self.at}/g", b""), lambda: reader.rm(f"{self.at}/f"), lambda: reader.open(f"{self.at}/f", "wb")):
            with self.assertRaises(PermissionError):
                refused()


class Frames(OfStore):
    def frame(self, rows=20_000):
        random_ = np.random.default_rng(3)
        return pd.DataFrame({f"c{number}": random_.random(rows) for number in range(20)})

    def test_pandas_reads_the_columns_it_is_asked_for(self):
        frame = self.frame()
        frame.to_parquet(f"{self.url}/x.parquet", row_group_size=5_000)
        size, before = self.fs.size(f"{self.at}/x.parquet"), self.fs.session().received_bytes
        read = pd.read_parquet(f"{self.url}/x.parquet", columns=["c3", "c17"])
        pd.testing.assert_frame_equal(read, frame[["c3", "c17"]])
        self.assertLess(self.fs.session().received_bytes - before, size / 5)
        pd.testing.assert_frame_equal(pd.read_parquet(f"{self.url}/x.parquet"), frame)
        frame.head(100).to_csv(f"{self.url}/x.csv", index=False)
        pd.testing.assert_frame_equal(pd.read_csv(f"{self.url}/x.csv"), frame.head(100))
        self.assertEqual(pq.read_metadata(self.fs.open(f"{self.at}/x.parquet")).num_row_groups, 4)

    def test_dask_reads_and_writes_directories_with_threads_and_processes(self):
        import dask
        import dask.dataframe as dd

        frame = self.frame(4_000)
        dd.from_pandas(frame, npartitions=5).to_parquet(f"{self.url}/many", write_index=False)
        self.assertEqual(len(self.fs.glob(f"{self.at}/many/*.parquet")), 5)
        with tempfile.TemporaryDirectory() as scratch, dask.config.set({"temporary-directory": scratch}):
            for scheduler in ("threads", "processes"):
                read = dd.read_parquet(f"{self.url}/many", columns=["c1", "c5"]).compute(scheduler=scheduler)
                pd.testing.assert_frame_equal(read.reset_index(drop=True), frame[["c1", "c5"]])

    def test_zarr_keeps_arrays(self):
        import zarr

        array = np.arange(300 * 500).reshape(300, 500)
        group = zarr.open_group(f"{self.url}/z", mode="w")
        group.create_array("a", data=array, chunks=(50, 100))
        group["a"][7, :] = -1
        array[7, :] = -1
        read = zarr.open_group(f"{self.url}/z", mode="r")["a"]
        np.testing.assert_array_equal(read[5:60, 90:410], array[5:60, 90:410])
        np.testing.assert_array_equal(read[:], array)

    def test_fsspecs_own_tests(self):
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "tests/abstract_fs.py"]
        environment = {**os.environ, "THALWEG_STORE": self.store.address}
        done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=10 * SOON_S, check=False)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        self.assertGreater(int(done.stdout.strip().rpartition("\n")[2].split()[0]), 100, done.stdout)


def read_in_child(fs, file, path, out):
    """In a forked child: what the parent had open, and what it had not."""
    try:
        file.seek(5)
        out.send((file.read(5), fs.cat_file(path)[:5], os.getpid()))
    except BaseException as error:
        out.send(error)


class Processes(OfStore):
    def test_threads_share_a_session(self):
        bodies = {f"{self.at}/{number}": content(300_000, number) for number in range(20)}
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda path: self.fs.pipe_file(path, bodies[path]), bodies))
            self.assertEqual(list(threads.map(self.fs.cat_file, bodies)), list(bodies.values()))
            with self.fs.open(f"{self.at}/3") as file:
                reads = list(threads.map(lambda at: file.cache._fetch(at, at + 1000), range(0, 300_000, 1000)))
            self.assertEqual(b"".join(reads), bodies[f"{self.at}/3"])
            others = list(threads.map(lambda _: fsspec.filesystem("thal", store=self.store.address).session(), range(4)))
        self.assertEqual(set(others), {self.fs.session()})

    def test_a_forked_child_has_a_session_of_its_own_and_the_parents_goes_on(self):
        path, whole = f"{self.at}/f", content(1 << 20)
        self.fs.pipe_file(path, whole)
        file = self.fs.open(path)
        self.assertEqual(file.read(5), whole[:5])
        writing = self.fs.open(f"{self.at}/w", "wb")
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=read_in_child, args=(self.fs, file, path, theirs))
        child.start()
        self.assertTrue(ours.poll(SOON_S))
        told = ours.recv()
        child.join(SOON_S)
        self.assertEqual((told[:2], child.exitcode), ((whole[5:10], whole[:5]), 0))
        self.assertEqual((file.read(5), self.fs.cat_file(path)), (whole[5:10], whole))
        writing.write(b"of the parent")
        writing.close()
        self.assertEqual(self.fs.cat_file(f"{self.at}/w"), b"of the parent")
        file.close()

    def test_pickles_carry_where_it_was_and_no_secret(self):
        whole = content(100_000)
        self.fs.pipe_file(f"{self.at}/f", whole)
        with self.fs.open(f"{self.at}/f") as file:
            file.read(1000)
            packed = pickle.dumps((self.fs, file))
        secret = self.store.credential.read_text()
        self.assertFalse(any(word in packed.decode("latin-1") for word in secret.split() if len(word) > 20))
        fs, again = pickle.loads(packed)
        self.assertEqual((again.read(1000), fs.cat_file(f"{self.at}/f")), (whole[1000:2000], whole))
        again.close()
        words = Path(f"/proc/{self.fs.session()._process.pid}/cmdline").read_bytes().split(b"\0")
        self.assertEqual(words[1:], [b"session", b""])

    def test_a_session_that_was_killed_is_started_anew_and_an_open_file_goes_on_if_it_is_the_same(self):
        path, whole = f"{self.at}/f", content(1 << 20)
        self.fs.pipe_file(path, whole)
        with self.fs.open(path) as file, self.assertRaisesRegex(OSError, "cannot be completed: the session with .* ended"):
            file.read(10)
            with self.fs.open(f"{self.at}/w", "wb") as out:
                out.write(b"1")
                self.kill_session()
                self.assertEqual((file.read(10), self.fs.cat_file(path)), (whole[10:20], whole))
        with self.fs.open(path) as file:
            self.fs.pipe_file(path, b"another")
            self.assertEqual(file.read(10), whole[:10])
            self.kill_session()
            with self.assertRaisesRegex(OSError, "was replaced or changed"):
                file.read(10)

    def kill_session(self):
        session = self.fs.session()
        os.kill(session._process.pid, signal.SIGKILL)
        session._process.wait()
        while session.dead is None:
            threading.Event().wait(0.01)


class Trouble(unittest.TestCase):
    def setUp(self):
        self.store = Store()
        self.addCleanup(self.store.end)

    def soon(self, call):
        """The exception of a call that must not hang."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(call).exception(SOON_S)

    def test_a_store_that_stops_is_an_error_and_no_hang(self):
        fs = fsspec.filesystem("thal", store=self.store.address, timeout=1)
        self.addCleanup(fs.close)
        fs.pipe_file("/f", content(20 << 20))
        with fs.open("/f") as file:
            for _ in range(4):
                file.read(100_000)
            self.store.signal(signal.SIGSTOP)
            error = self.soon(file.read)
            self.assertIsInstance(error, TimeoutError)
            self.store.signal(signal.SIGCONT)
            file.seek(0)
            self.assertEqual(file.read(), content(20 << 20))
            out = fs.open("/g", "wb")
            self.store.kill()
            writes = lambda: out.write(bytes(9_000_000)) and out.close()  # noqa: E731
            for call in (lambda: file.seek(0) or file.read(5_000_000), lambda: fs.exists("/f"), lambda: fs.find("/"), writes):
                error = self.soon(call)
                self.assertIsInstance(error, ConnectionError)
                self.assertRegex(str(error), "server|metadata")

    def test_credentials_that_are_wrong_or_missing(self):
        other = Store()
        self.addCleanup(other.end)
        with self.assertRaisesRegex(PermissionError, "credential"):
            fsspec.filesystem("thal", store=self.store.address, credential=other.credential).ls("/")
        with self.assertRaisesRegex(OSError, "nothing.credential"):
            fsspec.filesystem("thal", store=self.store.address, credential="nothing.credential").ls("/")
        # The next attempt is a new one.
        fs = fsspec.filesystem("thal", store=self.store.address)
        self.addCleanup(fs.close)
        self.assertEqual(fs.ls("/"), [])

    def test_a_command_that_is_missing_or_speaks_something_else(self):
        before = os.environ.get("THALWEG")
        self.addCleanup(lambda: os.environ.pop("THALWEG", None) if before is None else os.environ.update(THALWEG=before))
        for command, says in (("/no/such/thalweg", "is no program"), ("true", "said nothing"), ("echo", "is it a command that speaks thalweg.session/1")):
            os.environ["THALWEG"] = command
            with self.assertRaisesRegex(ThalwegError, says):
                fsspec.filesystem("thal", store=self.store.address).ls("/")


if __name__ == "__main__":
    unittest.main()
