"""A store with servers on two nodes, mounted once for each node, and MPI jobs whose ranks see the mount of their own node.

Everything is on this machine. A rank sees the mount of its node at the path that all ranks use, through a mount namespace of its
own, as if it ran on that node: this takes root. Everything that was started is taken down again, also when a test fails.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(HERE, "..", "build")
THALWEG = os.path.abspath(os.environ.get("THALWEG") or os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR", "target"), "debug", "thalweg"))
IMPLEMENTATIONS = ("mpich", "openmpi")
# Targets of each I/O server, by node: `a` has one, `b` has two.
NODES = {"a": ["t0"], "b": ["t1", "t2"]}
# Nothing here takes as long; a job that hangs is killed with all its ranks.
PATIENCE_S = 100


def cannot_mount():
    """Why there can be no mounted store here, or None."""
    if os.geteuid() != 0:
        return "ranks on two nodes need mount namespaces, which need root"
    if not os.path.exists("/dev/fuse"):
        return "there is no /dev/fuse"
    if not os.path.exists(THALWEG):
        return f"there is no {THALWEG} (tools/build)"
    return None


def missing(implementation):
    """Why this implementation cannot be tested here, or None."""
    for program in (f"mpiexec.{implementation}", f"mpicc.{implementation}"):
        if not shutil.which(program):
            return f"there is no {program}"
    return None


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Mounted:
    """`with Mounted() as m:` has m.at["a"] and m.at["b"], the two mount points, and m.here, where ranks see their own."""

    def __init__(self, *options):
        self.processes, self.options = [], options
        self.directory = tempfile.mkdtemp(prefix="thalweg-mpi-")
        self.at = {node: os.path.join(self.directory, f"mnt-{node}") for node in NODES}
        self.here = os.path.join(self.directory, "here")
        self.store_toml = os.path.join(self.directory, "store.toml")

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        text = f'store = "{os.urandom(8).hex()}"\n\n[metadata]\naddress = "127.0.0.1:{free_port()}"\ndirectory = "metadata"\n'
        for index, (node, targets) in enumerate(NODES.items()):
            for target in targets:
                os.makedirs(os.path.join(self.directory, target))
            text += f'\n[[servers]]\nname = "io{index}"\nnode = "{node}"\naddress = "127.0.0.1:{free_port()}"\n'
            text += "targets = [" + ", ".join(f'"{t}"' for t in targets) + "]\n"
        with open(self.store_toml, "w") as file:
            file.write(text)
        for name in ["metadata"] + [f"io{i}" for i in range(len(NODES))]:
            with open(os.path.join(self.directory, f"{name}.log"), "w") as log:
                command = [THALWEG, "serve", "--initialise", "--store", self.store_toml, "--name", name]
                self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True))
        self.wait_until_it_answers()
        os.makedirs(self.here)
        for node, point in self.at.items():
            os.makedirs(point)
            subprocess.run([THALWEG, "mount", "--store", self.store_toml, "--node", node, *self.options, point], check=True, timeout=PATIENCE_S)

    def wait_until_it_answers(self):
        end = time.monotonic() + PATIENCE_S
        while subprocess.run([THALWEG, "df", "--store", self.store_toml], capture_output=True).returncode:
            for process in self.processes:
                if process.poll() is not None:
                    raise RuntimeError(f"a server ended: {self.logs()}")
            if time.monotonic() > end:
                raise RuntimeError(f"the store does not answer: {self.logs()}")

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.directory)):
            if name.endswith(".log"):
                with open(os.path.join(self.directory, name)) as file:
                    text += f"{name}: {file.read()}"
        return text

    def __exit__(self, *_):
        for point in self.at.values():
            try:
                done = subprocess.run([THALWEG, "umount", "--timeout", "20", point], capture_output=True, timeout=60).returncode == 0
            except subprocess.TimeoutExpired:
                done = False
            if not done and os.path.ismount(point):
                subprocess.run(["umount", "-l", point], capture_output=True)
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    # What is true of a file, by other means than MPI.

    def layout(self, name, node="a"):
        return os.getxattr(os.path.join(self.at[node], name), "user.thalweg.layout").decode()

    def bytes_on(self, name, node="a"):
        """How many bytes of a file are on each node."""
        on = {label: 0 for label in NODES}
        for line in os.getxattr(os.path.join(self.at[node], name), "user.thalweg.map").decode().splitlines():
            _index, _target, _server, label, size = line.split()
            on[label] += int(size)
        return on

    def run(self, implementation, program, *arguments, nodes=("a", "b"), here=None, preload=True, extra=(), before=(), environment=None):
        """Runs a job with one rank for each of `nodes`; returns its CompletedProcess. `{here}` in arguments is where ranks see their
        mount; `before` is what the launcher is run by."""
        here = here or self.here
        command = list(before) + launcher(implementation, len(nodes)) + list(extra)
        command += [os.path.join(HERE, "as_node"), " ".join(f"{self.at[n]}" for n in nodes), here]
        if preload:
            command += [os.path.abspath(os.path.join(BUILD, f"libthalweg-{implementation}.so"))]
        else:
            command += [""]
        command += program if isinstance(program, list) else [os.path.join(BUILD, f"tests-{implementation}", program)]
        command += [argument.replace("{here}", here) for argument in arguments]
        return run_job(command, environment)

    def open(self, implementation, *arguments, **keywords):
        """The program `open`: what each rank says, in order of ranks."""
        done = self.run(implementation, "open", *arguments, **keywords)
        if done.returncode:
            raise AssertionError(f"open {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        self.said = done.stderr
        return sorted((json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")), key=lambda r: (r["job"], r["rank"]))

    def open_each(self, implementation, jobs, nodes=("a", "b")):
        """Several opens, one after the other, of the same ranks: a list of what `open` returns."""
        arguments = [a for job in jobs for a in ["--and", *job]][1:]
        said = self.open(implementation, *arguments, nodes=nodes)
        return [[one for one in said if one["job"] == job] for job in range(len(jobs))]


def launcher(implementation, ranks):
    if implementation == "mpich":
        return ["mpiexec.mpich", "-n", str(ranks)]
    # On loopback and through shared memory only, as many ranks as asked for, and as root.
    return ["mpiexec.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader", "--mca", "oob_tcp_if_include", "lo",
            "--mca", "orte_keep_fqdn_hostnames", "0", "-n", str(ranks)]


def run_job(command, environment=None):
    """Runs a job in a session of its own, so that all its processes can be ended if it hangs."""
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                           env={**os.environ, **(environment or {})})
    try:
        out, err = job.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        out, err = job.communicate()
        raise AssertionError(f"{' '.join(command)}: hung\n{out}\n{err}") from None
    return subprocess.CompletedProcess(command, job.returncode, out, err)


def for_module():
    """The store of a module's tests, for its `setUpModule`: taken down when they have run. Where there can be none, they are skipped."""
    why = cannot_mount()
    if why:
        raise unittest.SkipTest(why)
    m = Mounted()
    unittest.addModuleCleanup(m.__exit__)
    return m.__enter__()


class EachMpi:
    """Tests of one MPI implementation, `mpi`; skipped where it is missing."""

    mpi = None

    @classmethod
    def setUpClass(cls):
        why = missing(cls.mpi)
        if why:
            raise unittest.SkipTest(why)
