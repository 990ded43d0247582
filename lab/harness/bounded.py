"""Jobs one after another, each with a time limit that holds whatever the job hangs in.

A worker process does them, so that what they share is set up once. At the limit an alarm interrupts the job, which tidies up as after any
failure. Where that hangs too, the worker is ended with all that it started, and another one goes on with the next job.
"""

import multiprocessing
import os
import signal
from contextlib import contextmanager

# What tidying up may take.
GRACE_S = 30


class Overrun(BaseException):
    """The job's time is over. No `except Exception` on the way is to take it for a failure of its own."""


class Failed(str):
    """Why a job has no result."""


def each(names, work, limit_s, grace_s=GRACE_S):
    """Yield (name, result or `Failed`) for each name. `work()` is a context manager that gives a function of a name; failures are its exceptions."""
    left = list(names)
    fork = multiprocessing.get_context("fork")
    while left:
        receive, send = fork.Pipe(duplex=False)
        worker = fork.Process(target=_serve, args=(list(left), work, limit_s, send))
        worker.start()
        send.close()
        in_time = True
        try:
            while left and in_time:
                name = left.pop(0)
                in_time = receive.poll(limit_s + grace_s)
                result, in_time = _received(receive) if in_time else (Failed(f"took longer than {limit_s:g} s, and did not stop"), False)
                yield name, result
        finally:
            receive.close()
            _end(worker, grace_s, wait=in_time and not left)


def _received(receive):
    try:
        return receive.recv(), True
    except EOFError:
        return Failed("its process ended"), False


def _end(worker, grace_s, wait):
    """Have the worker tidy up and end."""
    if wait:
        worker.join(grace_s)
    if worker.is_alive():
        worker.terminate()
        worker.join(grace_s)
    if worker.is_alive():
        try:
            os.killpg(worker.pid, signal.SIGKILL)
        except ProcessLookupError:
            worker.kill()
        worker.join(grace_s)


def _serve(names, work, limit_s, send):
    os.setsid()
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGALRM, _over)
    with work() as do:
        for name in names:
            try:
                with _alarm(limit_s):
                    result = do(name)
            except Overrun:
                result = Failed(f"took longer than {limit_s:g} s")
            except Exception as reason:
                result = Failed(str(reason) or repr(reason))
            try:
                send.send(result)
            except BrokenPipeError:
                return


@contextmanager
def _alarm(limit_s):
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _over(*_):
    raise Overrun


def _stop(*_):
    raise SystemExit(143)
