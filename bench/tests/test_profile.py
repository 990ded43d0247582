"""The second reader of the rules, the reader of perf's file, and the page."""

import os
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bench.profile import beside_perf, page, perf  # noqa: E402
from bench.profile.rules import Frame, Rules  # noqa: E402
from testbed.errors import Broken  # noqa: E402

NAMES = perf.Names("ffffffff81000000 T tcp_ack\nffffffff81000100 T ksys_write\nffffffffc0000000 t virtnet_poll\t[virtio_net]\n")


def rules():
    with open(beside_perf.CLASSES) as text:
        return Rules(text.read())


def kernel(*names):
    return [Frame(name, "kernel", True) for name in names]


class SecondReader(unittest.TestCase):
    def test_the_first_function_that_says_something_decides(self):
        user = [Frame(None, "/bin/x", False)]
        for frames, expected in [
            (kernel("_raw_spin_unlock_bh", "tcp_ack"), ("net", "net")),
            (kernel("_copy_to_iter", "nobody_knows", "tcp_recvmsg"), ("copy", "net")),
            (kernel("nobody_knows", "vfs_write"), ("fs", "fs")),
            (kernel("nobody_knows") + user, ("rest", "rest")),
            (kernel("nobody_knows", "do_syscall_64") + user, ("rest", "rest")),
            (kernel("_raw_spin_unlock_bh") + user, ("syscall", "syscall")),
            (kernel("tcp_ack.isra.0"), ("net", "net")),
            (user, ("program", "program")),
            ([Frame(None, "/usr/lib/libc.so.6", False)], ("libc", "libc")),
            ([Frame(None, "/usr/lib/libz.so.1.2", False)], ("libraries", "libraries")),
        ]:
            self.assertEqual(rules().of_stack(frames), expected, [frame.name for frame in frames])

    def test_a_sites_lines_come_first(self):
        site = Rules("class jit: made\njit[jit,*/lib?.so]:\nfs[kernel]: tcp_*\n  sock_*\n", "net: tcp_* sock_*\n")
        self.assertEqual(site.of_stack([Frame("f", "jit", False)])[0], "jit")
        self.assertEqual(site.of_stack([Frame("f", "/a/libx.so", False)])[0], "jit")
        self.assertEqual(site.of_stack(kernel("sock_read"))[0], "fs")


def record(number, body, misc=0):
    return struct.pack("<IHH", number, misc, 8 + len(body)) + body


def perf_file(*records):
    """As perf writes one: samples with address, thread, time, stack and period."""
    kind = perf.IP | perf.TID | perf.TIME | perf.CALLCHAIN | perf.PERIOD
    attributes = struct.pack("<IIQQQ", 1, 128, 0, 1, kind).ljust(128, b"\0")
    data = b"".join(records)
    return struct.pack("<8s6Q", b"PERFILE2", 104, 128, 104, 128, 104 + 128, len(data)).ljust(104, b"\0") + attributes + data


def taken(at_ns, *addresses):
    head = struct.pack("<QIIQQ", addresses[0], 7, 8, at_ns, 1_000_000)
    return record(perf.SAMPLE, head + struct.pack(f"<Q{len(addresses)}Q", len(addresses), *addresses))


class PerfFile(unittest.TestCase):
    def read(self, data):
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            return list(perf.samples(file.name, NAMES))

    def test_samples_have_their_functions_in_order_of_time(self):
        ids = struct.pack("<IIQ", 7, 8, 5)
        mapped = struct.pack("<IIQQQ", 7, 7, 0x1000, 0x1000, 0) + struct.pack("<IIQQII", 0, 0, 0, 0, 5, 2) + b"/bin/x\0\0" + ids
        named = struct.pack("<II", 7, 8) + b"work\0\0\0\0" + ids
        late = taken(20, perf.FIRST_MARK + 100, 0xFFFFFFFF81000010, 0xFFFFFFFFC0000000, 0x1234)
        early = taken(10, 0x1234)
        samples = self.read(perf_file(late, record(perf.MMAP2, mapped), early, record(perf.COMM, named)))
        self.assertEqual([sample.at_ns for sample in samples], [10, 20])
        self.assertEqual([(sample.comm, sample.pid) for sample in samples], [("work", 7)] * 2)
        self.assertEqual(samples[0].frames[0].module, "/bin/x")
        # A return address at a function's beginning is of the function before it.
        self.assertEqual([frame.name for frame in samples[1].frames], ["tcp_ack", "ksys_write", None])

    def test_a_file_that_was_not_finished_is_refused(self):
        with self.assertRaisesRegex(Broken, "not a whole file"):
            self.read(perf_file())


class Page(unittest.TestCase):
    def test_the_page_is_what_the_results_say(self):
        with open(page.PAGE) as source:
            text = source.read()
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "PROFILE.md")
            page.write(page.table(), path)
            with open(path) as made:
                self.assertEqual(made.read(), text, "bench/profile/run --page writes another page")

    def test_what_was_not_measured_is_said(self):
        told = page.markdown({"perf-nfs-read": {"state": "not run", "reason": "there is no perf"}})
        self.assertIn("nfs-read: **NOT RUN**: there is no perf", told)
        self.assertIn("Nothing has been measured yet", told)


if __name__ == "__main__":
    unittest.main()
