"""The comparison of waits: that it finds the same ones the same, and each kind of difference."""

import os
import tempfile
import unittest

from lab.harness import scenario
from lab.harness.campaign import SCENARIOS
from lab.waits import compare
from lab.waits.compare import Wait

MS = 1_000_000
SPANS = "span,track,kind,start_ns,end_ns,count,object,offset_bytes,size_bytes,result,parent,request,waker_track,waker_context,cpu_ns,runqueue_ns,stack"


def wait(begin, end, kind="wait.lock", again=None, object="pipe", waker=(7, 7), tid=1):
    return Wait(tid, kind, begin, end, end if again is None else again, object, waker)


def figures(kernel, user):
    return compare.figures(compare.compare({1: kernel}, {1: user}))


class Comparison(unittest.TestCase):
    def test_the_same_waits_are_the_same_and_those_of_other_threads_are_not_looked_at(self):
        waits = [wait(0, 5 * MS), wait(6 * MS, 9 * MS)]
        told = compare.figures(compare.compare({1: waits, 2: [wait(0, 5 * MS, tid=2)]}, {1: waits, 3: []}))
        self.assertEqual((told["waits"], told["ends"], told["targets"], told["differ"]), (2, 2, 2, {}))
        self.assertTrue(all(met for *_, met in compare.bars(told)))

    def test_an_end_is_the_wake_up_or_when_the_thread_ran_again(self):
        kernel = [wait(0, 5 * MS, again=7 * MS)]
        for end, same in ((5 * MS + 49_000, 1), (7 * MS - 49_000, 1), (6 * MS, 0), (7 * MS + 51_000, 0)):
            self.assertEqual(figures(kernel, [wait(0, end)])["ends"], same, end)

    def test_what_is_not_there_is_neither(self):
        told = figures([wait(0, 5 * MS)], [wait(20 * MS, 25 * MS)])
        self.assertEqual((told["waits"], told["found"], told["ends"], told["targets"]), (1, 0, 0, 0))
        self.assertFalse(any(met for *_, met in compare.bars(told)))

    def test_each_difference_of_a_target_is_named(self):
        kernel = [wait(0, 5 * MS)]
        self.assertEqual(figures(kernel, [wait(0, 5 * MS, kind="wait.timer")])["differ"], {"kind: wait.lock, not wait.timer": 1})
        self.assertEqual(figures(kernel, [wait(0, 5 * MS, object="")])["differ"], {"object of wait.lock: absent": 1})
        self.assertEqual(figures(kernel, [wait(0, 5 * MS, waker=(8, 8))])["differ"], {"waker of wait.lock: another": 1})
        # Who served a file is the device's affair.
        read = [wait(0, 5 * MS, kind="file.read", waker=())]
        self.assertEqual(figures(read, [wait(0, 5 * MS, kind="file.read")])["targets"], 1)

    def test_runs_are_added_up(self):
        one = figures([wait(0, 5 * MS)], [wait(0, 5 * MS, object="")])
        told = compare.added([one, one])
        self.assertEqual((told["waits"], told["targets"], told["differ"]), (2, 0, {"object of wait.lock: absent": 2}))
        self.assertFalse(any(met for *_, met in compare.bars(compare.added([]))), "no wait proves nothing")

    def test_tables_are_read_as_they_are_exported(self):
        tables = {
            "tracks": "track,host,kind,role,pid,tid,name\n1,0,thread,client,5,5,a\n2,0,thread,client,6,6,b\n3,0,thread,recorder,9,9,r\n4,0,device,kernel,,,vda\n",
            "objects": "object,host,kind,name,attributes\n8,0,pipe,pipe:[1],\n9,0,lock,futex,\n",
            "spans": "\n".join([
                SPANS,
                "1,1,wait.lock,0,5000000,1,8,,,,,,2,task,0,10,",
                "2,1,wait.runqueue,5000000,6000000,1,,,,,,,,,0,1000000,",
                "3,1,file.write,7000000,12000000,3,,,,,,,,,5000000,,",
                "4,2,net.receive,0,9000000,1,,,,,,,,,0,0,",
                "5,2,wait.network,1000000,9000000,1,,,,,4,,4,,0,0,",
                "6,3,wait.timer,0,9000000,1,,,,,,,,,0,0,",
                "7,2,wait.lock,9000000,9500000,1,,,,,,,,,0,0,",
                "8,2,wait.lock,9500000,19500000,1,9,,,,,,,,0,0,",
            ]) + "\n",
        }
        with tempfile.TemporaryDirectory() as directory:
            for name, text in tables.items():
                with open(os.path.join(directory, f"{name}.csv"), "w") as out:
                    out.write(text)
            waits = compare.read(directory)
        self.assertEqual(waits, {5: [Wait(5, "wait.lock", 0, 5 * MS, 6 * MS, "pipe:[1]", (6, 6))], 6: [Wait(6, "wait.network", MS, 9 * MS, 9 * MS), Wait(6, "wait.lock", 9_500_000, 19_500_000, 19_500_000, "a lock")]})

    def test_the_usual_scenarios_are_there(self):
        with open(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "waits", "run")) as source:
            names = source.read().partition('USUAL = """')[2].partition('"""')[0].split()
        self.assertGreater(len(names), 30)
        scenario.load_all(SCENARIOS, names)


if __name__ == "__main__":
    unittest.main()
