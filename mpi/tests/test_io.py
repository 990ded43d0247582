"""MPI-IO on a mounted store, under each MPI implementation that is here: ranks on two nodes write, and another program reads. Run by mpi/tests/run."""

import os
import shutil
import struct
import subprocess
import unittest

import mounted

NODES = ("a", "b", "a")
BLOCK, RECORD = 40000, 1024
# Scenarios of io.c, and how many bytes of the pattern their files have, for `n` ranks.
PATTERNED = {
    "independent": lambda n: 8 * n * BLOCK,
    "collective": lambda n: 8 * n * BLOCK,
    "strided": lambda n: 4 * 64 * 1000 * n,
    "strided_collective": lambda n: 4 * 64 * 1000 * n,
    "indexed": lambda n: sum(37 + 61 * i for i in range(60)),
    "nonblocking": lambda n: 6 * n * BLOCK,
    "split": lambda n: n * BLOCK,
    "append": lambda n: (n + 1) * BLOCK,
}


def setUpModule():
    global m
    m = mounted.for_module()


def pattern(length):
    return bytes((x * 131 + (x >> 8) * 7 + (x >> 16)) & 0xFF for x in range(length))


def record(rank, number):
    return struct.pack(f"<{RECORD // 4}i", rank, number, *(rank * 1000003 + number * 101 + i for i in range(2, RECORD // 4)))


class Io(mounted.EachMpi):
    # What the implementation does not do on any file system.
    cannot = {}

    def scenarios(self, names, nodes=NODES, preload=True, extra=()):
        """Runs scenarios, one after the other, in files `prefix` + name; fails with what the ranks said."""
        prefix = f"{self.mpi}-{self._testMethodName}-"
        done = m.run(self.mpi, "io", ",".join(names), "{here}/" + prefix, nodes=nodes, preload=preload, extra=extra)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        self.assertEqual([line.split()[1] for line in done.stdout.splitlines() if line.startswith("done ")], list(names))
        return prefix

    def content(self, name, node):
        with open(os.path.join(m.at[node], name), "rb") as file:
            return file.read()

    def patterned(self, prefix, names, ranks):
        for name in names:
            for node in ("a", "b"):
                with self.subTest(name, node=node):
                    self.assertEqual(self.content(prefix + name, node), pattern(PATTERNED[name](ranks)), f"{name} at {node}")

    def test_what_ranks_of_two_nodes_write_is_what_both_read(self):
        prefix = self.scenarios(PATTERNED)
        self.patterned(prefix, PATTERNED, len(NODES))

    def test_one_rank_and_four(self):
        for nodes in (("b",), ("a", "b", "b", "a")):
            name = f"{self.mpi}-{self._testMethodName}-{len(nodes)}-"
            done = m.run(self.mpi, "io", "independent,strided_collective", "{here}/" + name, nodes=nodes)
            self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
            self.patterned(name, ("independent", "strided_collective"), len(nodes))

    def test_sizes_are_the_same_for_all(self):
        name = self.scenarios(["sizes"]) + "sizes"
        expected = pattern(70000 + 100 * len(NODES))
        for node in ("a", "b"):
            content = self.content(name, node)
            self.assertEqual(content[:70000], bytes(70000))
            self.assertEqual(content[70000:], expected[70000:])

    def test_the_shared_file_pointer_gives_each_record_a_place_of_its_own(self):
        name = self.scenarios(["shared"], **self.shared_pointers()) + "shared"
        content = self.content(name, "b")
        records = sorted(content[at : at + RECORD] for at in range(0, len(content), RECORD))
        self.assertEqual(records, sorted(record(rank, number) for rank in range(len(NODES)) for number in range(40)))

    def test_ordered_writes_are_in_the_order_of_ranks(self):
        name = self.scenarios(["ordered"], **self.shared_pointers()) + "ordered"
        self.assertEqual(self.content(name, "a"), b"".join(record(rank, number) for number in range(10) for rank in range(len(NODES))))

    def shared_pointers(self):
        return {}

    def test_overlapping_writes_in_atomic_mode_are_one_rank_s(self):
        name = self.scenarios(["atomic"], **self.atomic_mode()) + "atomic"
        content = self.content(name, "b")
        written = b"".join(content[at : at + 512] for at in range(0, 16 * 3 * 512, 3 * 512))
        self.assertEqual(len(set(written)), 1)
        self.assertIn(written[0], {1 + rank + 11 * len(NODES) for rank in range(len(NODES))})

    def atomic_mode(self):
        return {}

    def test_a_program_without_the_library_works_on_one_node(self):
        names = ["independent", "strided_collective", "indexed"]
        prefix = self.scenarios(names, nodes=("a", "a"), preload=False)
        self.patterned(prefix, names, 2)


class Types(unittest.TestCase):
    def test_the_runs_of_types_are_where_mpi_finds_their_bytes(self):
        for implementation in mounted.IMPLEMENTATIONS:
            with self.subTest(implementation):
                if mounted.missing(implementation):
                    self.skipTest(mounted.missing(implementation))
                program = os.path.join(mounted.BUILD, f"tests-{implementation}", "flatten")
                done = mounted.run_job(mounted.launcher(implementation, 1) + [program])
                self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")


class Mpich(Io, unittest.TestCase):
    mpi = "mpich"


class OpenMpi(Io, unittest.TestCase):
    mpi = "openmpi"

    def shared_pointers(self):
        # Through a file, as between machines, rather than through memory of one.
        return {"extra": ("--mca", "sharedfp", "lockedfile")}

    def atomic_mode(self):
        # OMPIO has no atomic mode for views with holes, on any file system; Open MPI's own ROMIO has.
        return {"extra": ("--mca", "io", "romio321")}


class Strict(unittest.TestCase):
    def test_strict_mounts_need_no_library_between_nodes(self):
        names = ["independent", "indexed", "sizes"]
        with mounted.Mounted("--strict") as strict:
            for implementation in mounted.IMPLEMENTATIONS:
                with self.subTest(implementation):
                    if mounted.missing(implementation):
                        self.skipTest(mounted.missing(implementation))
                    done = strict.run(implementation, "io", ",".join(names), "{here}/" + implementation, preload=False)
                    self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
                    for name in ("independent", "indexed"):
                        with open(os.path.join(strict.at["b"], implementation + name), "rb") as file:
                            self.assertEqual(file.read(), pattern(PATTERNED[name](2)), name)


class Linked(unittest.TestCase):
    def test_a_program_can_be_linked_with_the_library(self):
        for implementation in mounted.IMPLEMENTATIONS:
            with self.subTest(implementation):
                if mounted.missing(implementation):
                    self.skipTest(mounted.missing(implementation))
                name = f"linked-{implementation}"
                program, build = os.path.join(m.directory, name), os.path.abspath(mounted.BUILD)
                source = os.path.join(mounted.HERE, "..", "examples", "parts.c")
                linking = [f"-L{build}", f"-Wl,-rpath,{build}", "-Wl,--no-as-needed", f"-lthalweg-{implementation}"]
                subprocess.run([f"mpicc.{implementation}", "-o", program, source, *linking], check=True)
                hints = {"THALWEG_HINTS": "thalweg_layout=local"}
                done = m.run(implementation, [program], "{here}/" + name, "1", preload=False, environment=hints)
                self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
                self.assertEqual(m.bytes_on(name), {"a": 1 << 20, "b": 1 << 20})


class Fortran(unittest.TestCase):
    def test_a_fortran_program_gets_its_layout_from_hints(self):
        for implementation in mounted.IMPLEMENTATIONS:
            with self.subTest(implementation):
                program = os.path.join(m.directory, f"fortran-{implementation}")
                source = os.path.join(mounted.HERE, "local.f90")
                compiler = shutil.which(f"mpif90.{implementation}")
                if not compiler or subprocess.run([compiler, "-o", program, source], capture_output=True).returncode:
                    self.skipTest("there is no Fortran compiler (Debian: gfortran)")
                done = m.run(implementation, [program], f"{{here}}/fortran-{implementation}")
                self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
                self.assertEqual(done.stdout.split(), ["layout", "local"] * 2)
                self.assertEqual(m.bytes_on(f"fortran-{implementation}"), {"a": 65536, "b": 65536})
                with open(os.path.join(m.at["b"], f"fortran-{implementation}"), "rb") as file:
                    self.assertEqual(file.read(), b"a" * 65536 + b"b" * 65536)


PYTHON = r'''
import sys
from mpi4py import MPI

comm, path = MPI.COMM_WORLD, sys.argv[1]
info = MPI.Info.Create()
info.Set("thalweg_layout", "local")
file = MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_RDWR, info)
part = bytearray([65 + comm.rank]) * 100000
file.Write_at_all(comm.rank * len(part), part)
given = file.Get_info()
assert given.Get("thalweg_layout") == "local", given.Get("thalweg_layout")
assert given.Get("varstrip_dist:string:strips") == "0:100000;1:100000", given.Get("varstrip_dist:string:strips")
file.Sync()
comm.Barrier()
file.Sync()
back = bytearray(len(part))
other = (comm.rank + 1) % comm.size
file.Read_at(other * len(part), back)
assert back == bytearray([65 + other]) * len(part)
file.Close()
info.Set("distribution_name", "nonsense")
try:
    MPI.File.Open(comm, path + ".none", MPI.MODE_CREATE | MPI.MODE_RDWR, info)
    raise SystemExit("an unknown distribution was taken")
except MPI.Exception as refused:
    assert "nonsense" in str(refused), refused
'''


class Mpi4py(unittest.TestCase):
    def test_a_python_program_gets_its_layout_from_hints(self):
        # Debian's mpi4py is Debian's Python's, and is built for Open MPI.
        python = "/usr/bin/python3"
        if mounted.missing("openmpi") or subprocess.run([python, "-c", "import mpi4py"], capture_output=True).returncode:
            self.skipTest("there is no mpi4py for Open MPI (Debian: python3-mpi4py)")
        done = m.run("openmpi", [python, "-c", PYTHON], "{here}/python", nodes=("a", "b"))
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        self.assertEqual(m.bytes_on("python"), {"a": 100000, "b": 100000})
        with open(os.path.join(m.at["a"], "python"), "rb") as file:
            self.assertEqual(file.read(), b"A" * 100000 + b"B" * 100000)


if __name__ == "__main__":
    unittest.main()
