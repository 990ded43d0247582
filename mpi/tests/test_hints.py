"""Hints on MPI_File_open of files in a mounted store, under each MPI implementation that is here. Run by mpi/tests/run."""

import os
import re
import subprocess
import unittest

import mounted

# As many ranks as nodes unless a test says more.
TWO = ("a", "b")
FOUR = ("a", "b", "a", "b")


def setUpModule():
    global m
    m = mounted.for_module()


class Hints(mounted.EachMpi):
    """What holds under both implementations; `mpi` is which."""

    def setUp(self):
        self.name = f"{self.mpi}-{self._testMethodName}"
        self.path = "{here}/" + self.name

    def open(self, modes, *arguments, path=None, **keywords):
        return m.open(self.mpi, path or self.path, modes, *arguments, **keywords)

    def exists(self, name=None):
        return any(os.path.lexists(os.path.join(at, name or self.name)) for at in m.at.values())

    def left_behind(self):
        return [name for name in os.listdir(m.at["a"]) if name.startswith(".thalweg-")]

    def opened(self, ranks):
        for rank in ranks:
            self.assertEqual(rank["class"], "MPI_SUCCESS", rank["text"])
        return ranks[0]["info"]

    def refused(self, ranks, error_class, *words):
        """Every rank was refused with the same words, and nothing was made."""
        for rank in ranks:
            self.assertEqual(rank["class"], error_class, rank["text"])
            self.assertEqual(rank["text"], ranks[0]["text"])
            for word in words:
                self.assertIn(word, rank["text"])
        self.assertFalse(self.exists())
        self.assertEqual(self.left_behind(), [])

    # What hints ask for is what is in force, and what the file's own info gives back.

    def test_striping_hints_make_a_simple_stripe(self):
        info = self.opened(self.open("cb", "striping_unit=65536", "striping_factor=2", "--write", "at_all"))
        self.assertTrue(m.layout(self.name).startswith("simple_stripe,strip_size=65536 datafiles=2 place=targets:"))
        self.assertEqual(info["striping_unit"], "65536")
        self.assertEqual(info["striping_factor"], "2")
        self.assertEqual(info["distribution_name"], "simple_stripe")
        self.assertEqual(info["simple_stripe:int64:strip_size"], "65536")
        with open(os.path.join(m.at["b"], self.name), "rb") as file:
            self.assertEqual(file.read(), b"a" * 65536 + b"b" * 65536)

    def test_typed_parameters_of_the_distribution_in_use_count_and_others_do_not(self):
        info = self.opened(self.open("cw", "distribution_name=varstrip_dist", "varstrip_dist:string:strips=0:100000;1:200000",
                                     "simple_stripe:int64:strip_size=nonsense", "thalweg_placement=targets:2,0"))
        self.assertEqual(m.layout(self.name), "varstrip_dist,strips=0:100000;1:200000 datafiles=2 place=targets:2,0")
        self.assertEqual(info["varstrip_dist:string:strips"], "0:100000;1:200000")
        self.assertEqual(info["thalweg_placement"], "targets:2,0")

    def test_types_have_a_short_form_for_short_keys(self):
        self.opened(self.open("cw", "distribution_name=twod_stripe", "twod_stripe:uint:group_strip_factor=4", "twod_stripe:unsigned int:num_groups=3"))
        self.assertRegex(m.layout(self.name), r"^twod_stripe,num_groups=3,strip_size=65536,group_strip_factor=4 ")
        self.opened(self.open("r"))

    def test_a_directory_default_gives_what_hints_leave_out(self):
        directory = os.path.join(m.at["a"], self.name)
        os.mkdir(directory)
        os.setxattr(directory, "user.thalweg.layout", b"simple_stripe,strip_size=131072 datafiles=2")
        self.opened(self.open("cw", "striping_factor=3", path=self.path + "/more"))
        self.assertTrue(m.layout(self.name + "/more").startswith("simple_stripe,strip_size=131072 datafiles=3 "))
        self.opened(self.open("cw", "striping_unit=4096", path=self.path + "/unit"))
        self.assertTrue(m.layout(self.name + "/unit").startswith("simple_stripe,strip_size=4096 datafiles=2 "))
        self.opened(self.open("cw", path=self.path + "/none"))
        self.assertTrue(m.layout(self.name + "/none").startswith("simple_stripe,strip_size=131072 datafiles=2 "))

    def test_hints_matter_only_at_creation(self):
        self.opened(self.open("cw", "striping_unit=65536"))
        info = self.opened(self.open("cb", "striping_unit=4096", "distribution_name=nonsense"))
        self.assertEqual(info["striping_unit"], "65536")
        self.assertEqual(info["distribution_name"], "simple_stripe")
        self.assertTrue(m.layout(self.name).startswith("simple_stripe,strip_size=65536 "))

    def test_the_prefix_is_taken_off(self):
        self.opened(self.open("cw", "striping_factor=1", path="thal:" + self.path))
        self.assertRegex(m.layout(self.name), " datafiles=1 ")

    def test_exclusive_creation_makes_a_file_once(self):
        ranks = self.open("cew", "striping_factor=1")
        self.opened(ranks)
        self.assertTrue(all(rank["excl"] for rank in ranks))
        for rank in self.open("cew", "striping_factor=1"):
            self.assertEqual(rank["class"], "MPI_ERR_FILE_EXISTS")

    def test_a_file_that_is_deleted_on_close_is_gone(self):
        self.opened(self.open("cwd", "striping_factor=1"))
        self.assertFalse(os.path.lexists(os.path.join(m.at["a"], self.name)))

    def test_each_rank_can_open_a_file_of_its_own(self):
        self.opened(self.open("cw", "--self", "0:striping_factor=1", "1:striping_factor=2"))
        self.assertRegex(m.layout(self.name + ".0"), " datafiles=1 ")
        self.assertRegex(m.layout(self.name + ".1"), " datafiles=2 ")

    def test_files_elsewhere_are_left_alone(self):
        path = os.path.join(m.directory, self.name)
        ranks = self.open("cw", "0:striping_factor=2", "distribution_name=nonsense", path=path)
        self.opened(ranks)
        self.assertEqual(os.listxattr(path), [])
        self.assertEqual(os.path.getsize(path), 0)

    def test_the_umask_and_file_perm_hold(self):
        self.opened(self.open("cw", "striping_factor=1", "file_perm=0640"))
        self.assertEqual(os.stat(os.path.join(m.at["a"], self.name)).st_mode & 0o777, 0o640)

    def test_a_program_that_gives_no_hints_takes_them_from_the_environment(self):
        file = os.path.join(m.directory, "hints")
        with open(file, "w") as romio:
            romio.write("# hints\nstriping_factor 1\nstriping_unit 8192\ncb_nodes 1\n")
        outside = {"ROMIO_HINTS": file, "THALWEG_HINTS": "striping_unit=4096 colour=blue"}
        self.opened(self.open("cw", environment=outside))
        self.assertTrue(m.layout(self.name).startswith("simple_stripe,strip_size=4096 datafiles=1 "))
        self.opened(self.open("cw", "striping_unit=65536", path=self.path + "-own", environment=outside))
        self.assertTrue(m.layout(self.name + "-own").startswith("simple_stripe,strip_size=65536 datafiles=1 "))

    def test_the_info_of_one_file_makes_another_like_it(self):
        info = self.opened(self.open("cb", "thalweg_layout=local", "--view", "parts", "--write", "view"))
        again = [f"{key}={value}" for key, value in info.items() if "romio" not in key and not key.startswith(("cb_", "ind_"))]
        self.opened(self.open("cb", *again, path=self.path + "-like-it"))
        self.assertEqual(m.layout(self.name + "-like-it"), m.layout(self.name))

    # What cannot be meant, or is not meant by all, fails everywhere and makes nothing.

    def test_ranks_that_ask_differently_are_refused_with_the_key_and_both_values(self):
        ranks = self.open("cw", "0:striping_unit=65536", "1:striping_unit=131072")
        self.refused(ranks, "MPI_ERR_NOT_SAME", "striping_unit", "`65536` at rank 0", "`131072` at rank 1")

    def test_a_hint_that_one_rank_lacks_is_refused(self):
        ranks = self.open("cw", "striping_unit=65536", "2:distribution_name=simple_stripe", nodes=FOUR)
        self.refused(ranks, "MPI_ERR_NOT_SAME", "distribution_name", "missing at rank 0", "`simple_stripe` at rank 2")

    def test_an_unknown_distribution_is_refused(self):
        self.refused(self.open("cw", "distribution_name=nonsense"), "MPI_ERR_INFO_VALUE", "nonsense", "simple_stripe")

    def test_bad_parameters_are_refused(self):
        cases = [
            (["distribution_name=simple_stripe", "simple_stripe:int64:strip_size=0"], "strip_size"),
            (["distribution_name=simple_stripe", "simple_stripe:int:strip_size=4096"], "type int64"),
            (["distribution_name=simple_stripe", "simple_stripe:int64:strip_size=64k"], "`64k`"),
            (["distribution_name=simple_stripe", "simple_stripe:float:strip_size=1"], "`float`"),
            (["distribution_name=simple_stripe", "simple_stripe:int64:colour=1"], "colour"),
            (["distribution_name=varstrip_dist", "varstrip_dist:string:strips=1:4096"], "datafile 0"),
            (["striping_factor=99"], "99"),
            (["striping_factor=-1"], "striping_factor"),
            (["striping_unit=0"], "striping_unit"),
            (["striping_unit=4096", "distribution_name=simple_stripe", "simple_stripe:int64:strip_size=8192"], "striping_unit"),
            (["thalweg_placement=anywhere"], "thalweg_placement"),
            (["thalweg_placement=targets:7"], "7"),
            (["thalweg_layout=fast"], "thalweg_layout"),
            (["thalweg_layout=local", "distribution_name=simple_stripe"], "thalweg_layout"),
        ]
        for (hints, word), ranks in zip(cases, m.open_each(self.mpi, [[self.path, "cw", *hints] for hints, _ in cases]), strict=True):
            with self.subTest(hints):
                self.refused(ranks, "MPI_ERR_INFO_VALUE", word)

    def test_typed_parameters_without_a_distribution_are_refused(self):
        self.refused(self.open("cw", "simple_stripe:int64:strip_size=4096"), "MPI_ERR_INFO_VALUE", "distribution_name")

    def test_a_directory_that_is_not_there_is_an_error_of_mpi(self):
        for rank in self.open("cw", "striping_factor=1", path=self.path + "/no/file"):
            self.assertEqual(rank["class"], "MPI_ERR_NO_SUCH_FILE")

    # Data where it is written.

    def local(self, ranks, strips, targets, *arguments, nodes):
        info = self.opened(self.open("cb", "thalweg_layout=local", *arguments, nodes=nodes))
        self.assertEqual((info["thalweg_layout"], info["varstrip_dist:string:strips"]), ("local", strips))
        self.assertEqual(info["thalweg_placement"], "targets:" + targets)
        return info

    def each_wrote_its_own(self, ranks):
        # Gathering at other ranks would show as nothing here and twice as much there.
        for rank in ranks:
            self.assertTrue(65536 <= rank["wrote"] < 2 * 65536, f"rank {rank['rank']} wrote {rank['wrote']} bytes")

    def test_parts_known_from_views_are_written_to_the_ranks_own_nodes(self):
        cases = [("parts", "0:64K;1:64K;0:64K;2:64K"), ("cyclic", "0:64K;1:64K;0:64K;2:64K"), ("columns", "0:1K;1:1K;0:1K;2:1K"),
                 ("blocks", ";".join(["0:2K;1:2K"] * 4 + ["0:2K;2:2K"] * 4))]
        jobs = [[f"{self.path}-{kind}", "cb", "thalweg_layout=local", "--view", kind, "--write", "view"] for kind, _ in cases]
        for (kind, strips), ranks in zip(cases, m.open_each(self.mpi, jobs, nodes=FOUR), strict=True):
            with self.subTest(kind):
                name = f"{self.name}-{kind}"
                info = self.opened(ranks)
                self.assertEqual((info["thalweg_layout"], info["varstrip_dist:string:strips"]), ("local", strips))
                # Node b has two targets, and two ranks: one each.
                self.assertEqual(info["thalweg_placement"], "targets:0,1,2")
                self.each_wrote_its_own(ranks)
                self.assertEqual(m.bytes_on(name), {"a": 2 * 65536, "b": 2 * 65536})
                with open(os.path.join(m.at["b"], name), "rb") as file:
                    bytes_read = file.read()
                self.assertEqual({c: bytes_read.count(c) for c in b"abcd"}, dict.fromkeys(b"abcd", 65536))
                # Each strip has the letter of the rank that it is for.
                if kind == "parts":
                    self.assertEqual(bytes_read, b"".join(bytes([c]) * 65536 for c in b"abcd"))

    def test_parts_known_from_a_collective_write_are_local(self):
        ways = ("at_all", "all", "ordered")
        jobs = [[f"{self.path}-{way}", "cb", "thalweg_layout=local", "--write", way] for way in ways]
        for way, ranks in zip(ways, m.open_each(self.mpi, jobs), strict=True):
            with self.subTest(way):
                name = f"{self.name}-{way}"
                info = self.opened(ranks)
                self.assertEqual((info["thalweg_layout"], info["varstrip_dist:string:strips"]), ("local", "0:64K;1:64K"))
                self.assertEqual(m.bytes_on(name), {"a": 65536, "b": 65536})
                with open(os.path.join(m.at["a"], name), "rb") as file:
                    self.assertEqual(file.read(), b"a" * 65536 + b"b" * 65536)

    def test_varstrip_with_placement_local_and_no_strips_is_the_same(self):
        info = self.opened(self.open("cb", "distribution_name=varstrip_dist", "thalweg_placement=local", "--view", "parts", "--write", "view"))
        self.assertEqual((info["thalweg_layout"], info["varstrip_dist:string:strips"]), ("local", "0:64K;1:64K"))

    def test_blocks_of_striping_unit_need_no_view(self):
        ranks = self.open("cew", "thalweg_layout=local", "striping_unit=65536", "--write", "at")
        info = self.opened(ranks)
        self.assertEqual((info["thalweg_layout"], info["varstrip_dist:string:strips"]), ("local", "0:64K;1:64K"))
        self.assertEqual(m.bytes_on(self.name), {"a": 65536, "b": 65536})

    def test_a_file_of_one_rank_is_on_its_own_node(self):
        ranks = self.open("cw", "thalweg_layout=local", "--self", "--write", "at")
        self.opened(ranks)
        self.assertEqual(m.bytes_on(self.name + ".0"), {"a": 65536, "b": 0})
        self.assertEqual(m.bytes_on(self.name + ".1")["a"], 0)

    def test_placement_local_is_the_targets_of_all_ranks_nodes(self):
        self.opened(self.open("cw", "thalweg_placement=local", "striping_unit=4096", nodes=("b", "b", "b")))
        self.assertTrue(m.layout(self.name).endswith("datafiles=2 place=targets:1,2"), m.layout(self.name))

    def test_parts_that_cannot_be_had_leave_the_layout_and_say_so(self):
        cases = [(("--view", "same", "--write", "at"), "no byte is written by one node alone"), (("--view", "fine", "--write", "view"), "too fine"),
                 (("--write", "at"), "no view was set")]
        jobs = [[f"{self.path}-{i}", "cb", "thalweg_layout=local", *arguments] for i, (arguments, _) in enumerate(cases)]
        for i, ((_, why), ranks) in enumerate(zip(cases, m.open_each(self.mpi, jobs), strict=True)):
            with self.subTest(why):
                info = self.opened(ranks)
                self.assertEqual((info["thalweg_layout"], info["distribution_name"]), ("none", "simple_stripe"))
                self.assertIn(why, m.said)
                if self.mpi == "mpich" and i == 1:
                    self.assertEqual(info["romio_cb_write"], "automatic", "what was disabled for the ranks' own parts is not any more")
                self.assertEqual(sum(m.bytes_on(f"{self.name}-{i}").values()), 2 * 65536)
        self.assertEqual(m.said.count("came to nothing"), len(cases), m.said)

    def test_a_file_that_was_there_is_not_laid_out(self):
        with open(os.path.join(m.at["a"], self.name), "wb"):
            info = self.opened(self.open("cb", "thalweg_layout=local", "--view", "parts"))
            self.assertNotIn("thalweg_layout", info)
            self.assertEqual(info["distribution_name"], "simple_stripe")

    def test_a_node_without_a_server_is_an_error_that_names_it(self):
        point = os.path.join(m.directory, "mnt-elsewhere")
        os.makedirs(point, exist_ok=True)
        subprocess.run([mounted.THALWEG, "mount", "--store", m.store_toml, "--node", "elsewhere", point], check=True, timeout=60)
        m.at["elsewhere"] = point
        try:
            self.refused(self.open("cw", "thalweg_layout=local", nodes=("a", "elsewhere")), "MPI_ERR_INFO_VALUE", "rank 1", "`elsewhere`", "a, b")
        finally:
            del m.at["elsewhere"]
            subprocess.run([mounted.THALWEG, "umount", point], timeout=60)


class Mpich(Hints, unittest.TestCase):
    mpi = "mpich"

    def test_a_file_that_others_have_open_keeps_its_layout(self):
        # Under one implementation: what is waited for is the same under each, and takes seconds.
        info = self.opened(self.open("cb", "thalweg_layout=local", "--held", "--view", "parts", "--write", "view"))
        self.assertEqual((info["thalweg_layout"], info["distribution_name"]), ("none", "simple_stripe"))
        self.assertIn("came to nothing", m.said)
        with open(os.path.join(m.at["b"], self.name), "rb") as file:
            self.assertEqual(file.read(), b"a" * 65536 + b"b" * 65536)


class OpenMpi(Hints, unittest.TestCase):
    mpi = "openmpi"


class Library(unittest.TestCase):
    def test_a_preloaded_library_harms_no_program_without_mpi(self):
        for implementation in mounted.IMPLEMENTATIONS:
            library = os.path.abspath(os.path.join(mounted.BUILD, f"libthalweg-{implementation}.so"))
            for more in ({}, {"LD_BIND_NOW": "1"}) if os.path.exists(library) else ():
                environment = {**os.environ, "LD_PRELOAD": library, **more}
                done = subprocess.run(["sh", "-c", "echo fine"], env=environment, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "fine\n", ""))

    def test_the_list_of_parameters_is_the_store_s(self):
        with open(os.path.join(mounted.HERE, "..", "hints", "text.c")) as file:
            here = set(re.findall(r'\{"(\w+)", "(\w+)", TYPE_(\w+)\}', file.read()))
        there = set()
        names = {"Int64": "INT64", "UnsignedInt": "UNSIGNED", "String": "STRING"}
        directory = os.path.join(mounted.ROOT, "crates", "layout", "src", "distributions")
        for source in os.listdir(directory):
            with open(os.path.join(directory, source)) as file:
                text = file.read()
            for parameter, kind in re.findall(r'ParameterInfo \{\s*name: "(\w+)",\s*kind: ParameterType::(\w+)', text):
                there.add((re.search(r'name: "(\w+)"', text).group(1), parameter, names[kind]))
        self.assertEqual(here, there)
        self.assertGreater(len(here), 4)


if __name__ == "__main__":
    unittest.main()
