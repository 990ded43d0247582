"""Who does the jobs: processes of this machine, Dask, or Spark. An engine takes jobs and gives back what each came to, in any order.

Workers write the table themselves, so nothing but counts comes back, and every engine leaves the same rows. On other machines they need this package,
the `thalweg` command in PATH, and the directories or URLs under the same names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from ..command import ThalwegError
from ..needs import need
from . import work
from .work import Job

Counts = dict[str, int]


def local(jobs: list[Job], workers: int) -> Iterator[Counts]:
    """Worker processes of this machine (`python -m thalweg.fleets.worker`); one worker is this very process."""
    if workers == 1 or len(jobs) < 2:
        yield from map(work.do, jobs)
        return
    pool = _Workers(min(workers, len(jobs)))
    try:
        with ThreadPoolExecutor(pool.size) as threads:
            futures = [threads.submit(pool.do, job) for job in jobs]
            try:
                for done in as_completed(futures):
                    yield done.result()
            except BaseException:
                # Ctrl-C, or a job that cannot be done: nobody waits for what is under way.
                for future in futures:
                    future.cancel()
                pool.stop()
                raise
    finally:
        pool.end()


class _Workers:
    """Some worker processes, each driven by one thread: a job a line in, its counts a line out."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.own = threading.local()
        self.all: list[subprocess.Popen[str]] = []

    def do(self, job: Job) -> Counts:
        child = getattr(self.own, "child", None)
        if child is None:
            child = self.own.child = self._start()
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps(job) + "\n")
        child.stdin.flush()
        answer = child.stdout.readline()
        if not answer:
            raise ThalwegError(f"a worker ended with {child.wait()} while it explained; explain again: what is done stays done")
        said: dict[str, Any] = json.loads(answer)
        if "failed" in said:
            raise ThalwegError(said["failed"])
        return said

    def _start(self) -> subprocess.Popen[str]:
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        paths = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        argv = [sys.executable, "-m", "thalweg.fleets.worker"]
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths})
        self.all.append(child)
        return child

    def stop(self) -> None:
        """Ends them where they are: what they have not written is not there."""
        for child in self.all:
            child.terminate()

    def end(self) -> None:
        """Ends them: each when its input ends."""
        for child in self.all:
            assert child.stdin is not None
            child.stdin.close()
        for child in self.all:
            child.wait()
            assert child.stdout is not None
            child.stdout.close()


def dask(jobs: list[Job], workers: int) -> Iterator[Counts]:
    """Dask: the cluster of the `distributed.Client` that is current, else processes of this machine."""
    dask_ = need("dask", "dask")
    try:
        from distributed import as_completed as completed
        from distributed import get_client

        client = get_client()
    except (ImportError, ValueError):
        tasks = [dask_.delayed(work.do)(job) for job in jobs]
        yield from dask_.compute(*tasks, scheduler="processes", num_workers=workers)
        return
    # Not pure: a job is done again when it is asked for again.
    for future in completed(client.map(work.do, jobs, pure=False)):
        yield future.result()


def spark(jobs: list[Job], workers: int) -> Iterator[Counts]:
    """Spark: the session that is active, else one of this machine."""
    sql = need("pyspark.sql", "spark")
    session = sql.SparkSession.getActiveSession()
    if session is None:
        # Else its workers run whatever `python3` is.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        session = sql.SparkSession.builder.master(f"local[{workers}]").appName("thalweg fleet").getOrCreate()
    lines = session.createDataFrame([(json.dumps(job),) for job in jobs], "job string").repartition(max(1, len(jobs)))
    for row in lines.mapInArrow(_batches, "counts string").collect():
        yield json.loads(row.counts)


def _batches(batches: Iterator[Any]) -> Iterator[Any]:
    """As Spark calls it: record batches of jobs in, of their counts out."""
    import pyarrow as pa

    for batch in batches:
        yield pa.RecordBatch.from_pydict({"counts": [work.do_line(line) for line in batch.column(0).to_pylist()]})


ENGINES: dict[str, Callable[[list[Job], int], Iterator[Counts]]] = {"local": local, "dask": dask, "spark": spark}
