"""The strips that make each writer's bytes local: the vectors, and random claims against a model that knows each byte.

Run by mpi/tests/run, or: python3 -m unittest mpi/tests/test_strips.py (after make -C mpi)
"""

import json
import os
import random
import subprocess
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "build", "thalweg-strips")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def answers(cases):
    done = subprocess.run([PROGRAM], input=json.dumps(cases), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def strips_of(text):
    """[(datafile, bytes)] of the parameter `strips`."""
    strips = []
    for item in text.split(";"):
        datafile, size = item.split(":")
        strips.append((int(datafile), int(size[:-1]) * UNITS[size[-1]] if size[-1] in UNITS else int(size)))
    return strips


def target_of_each_byte(answer, length):
    cycle = [answer["targets"][datafile] for datafile, size in strips_of(answer["strips"]) for _ in range(size)]
    return [cycle[x % len(cycle)] for x in range(length)]


def target_of_byte(answer, x):
    x %= answer["cycle_bytes"]
    for datafile, size in strips_of(answer["strips"]):
        if x < size:
            return answer["targets"][datafile]
        x -= size


def claims_of_each_byte(case, length):
    """For each byte the targets of those who write it, by the definition of views and parts rather than by sweeping over them."""
    claims = [set() for _ in range(length)]
    for writer, start, end in case.get("parts", []):
        for x in range(start, min(end, length)):
            claims[x].add(case["targets"][writer])
    for writer, view in enumerate(case.get("views", [])):
        for tile in range(-(view["displacement"] // max(view["extent"], 1)) - 2, length // max(view["extent"], 1) + 2):
            for offset, size in view["runs"]:
                for x in range(size):
                    at = view["displacement"] + tile * view["extent"] + offset + x
                    if 0 <= at < length:
                        claims[at].add(case["targets"][writer])
    return claims


def bytes_of_write(write):
    """Where a write's bytes are in the file: by going through all that can be seen, byte by byte."""
    seen, base = [], write["displacement"]
    if not write["length"]:
        return []
    while len(seen) < write["position"] + write["length"]:
        seen += [base + offset + x for offset, size in write["runs"] for x in range(size)]
        base += write["extent"]
    return seen[write["position"]:write["position"] + write["length"]]


class Strips(unittest.TestCase):
    def test_vectors(self):
        with open(os.path.join(HERE, "vectors.json")) as file:
            cases = json.load(file)
        for case, answer in zip(cases, answers(cases), strict=True):
            with self.subTest(case["name"]):
                self.assertEqual(answer, case["expect"])

    def held_against_the_model(self, case, answer, length):
        if "refused" in answer:
            self.assertFalse(any(len(c) == 1 for c in claims_of_each_byte(case, length)), case)
            return
        datafiles = [datafile for datafile, _ in strips_of(answer["strips"])]
        self.assertEqual(sorted(set(datafiles)), list(range(len(answer["targets"]))), "every datafile has a strip")
        self.assertEqual(len(set(answer["targets"])), len(answer["targets"]), "no target twice")
        self.assertEqual(sum(size for _, size in strips_of(answer["strips"])), answer["cycle_bytes"])
        claims = claims_of_each_byte(case, length)
        where = target_of_each_byte(answer, length)
        self.assertEqual(answer["claimed_bytes"], sum(len(c) > 0 for c in claims), case)
        self.assertEqual(answer["local_bytes"], sum(c == {t} for c, t in zip(claims, where)), case)
        if "text_bytes" in case["options"]:
            self.assertLessEqual(len(answer["strips"]), case["options"]["text_bytes"])
        else:
            self.assertEqual(answer["local_bytes"], sum(len(c) == 1 for c in claims), "whatever is one node's own is local")

    def test_random_parts_are_local_where_they_can_be(self):
        draw = random.Random(20050711)
        cases = []
        for _ in range(600):
            writers = draw.randint(1, 6)
            cycle = draw.choice([1, 2, 7, 60, 64, 200, 512])
            options = {"smallest_strip_bytes": 1, "gap_bytes": draw.choice([1, 5, 40]), "piece_bytes": draw.choice([1, 3, 16])}
            parts = []
            for _ in range(draw.randint(1, 12)):
                start = draw.randrange(cycle)
                parts.append([draw.randrange(writers), start, start + draw.randint(0, cycle)])
            cases.append({"targets": [draw.randrange(4) for _ in range(writers)], "cycle_bytes": cycle, "parts": parts, "options": options})
        for case, answer in zip(cases, answers(cases), strict=True):
            self.held_against_the_model(case, answer, case["cycle_bytes"])

    def test_random_views_with_holes_are_local_where_they_can_be(self):
        draw = random.Random(1964)
        cases = []
        for _ in range(300):
            writers = draw.randint(1, 4)
            extent = draw.choice([8, 12, 30])
            views = []
            for _ in range(writers):
                runs, at = [], draw.randint(0, 3)
                while at < extent - 1 and len(runs) < 4:
                    size = draw.randint(1, min(4, extent - 1 - at))
                    runs.append([at, size])
                    at += size + draw.randint(1, 5)
                views.append({"displacement": draw.randint(0, 40), "extent": extent, "runs": runs})
            if not any(view["runs"] for view in views):
                continue
            options = {"smallest_strip_bytes": 1, "gap_bytes": 2, "piece_bytes": 2}
            cases.append({"targets": [draw.randrange(3) for _ in range(writers)], "views": views, "options": options})
        repeated = 0
        for case, answer in zip(cases, answers(cases), strict=True):
            extent = case["views"][0]["extent"]
            claims = claims_of_each_byte(case, extent)
            if all(len(c) < 2 for c in claims):
                repeated += 1
                self.held_against_the_model(case, answer, extent)
            elif "refused" not in answer:
                alone = sum(len(c) == 1 for c in claims) / sum(len(c) > 0 for c in claims)
                self.assertGreaterEqual(answer["local_bytes"] / answer["claimed_bytes"], alone, "no less is local than if they repeated")
        self.assertTrue(30 < repeated < len(cases) - 30, repeated)

    def test_random_first_writes_are_local_where_they_can_be(self):
        draw = random.Random(2026)
        cases = []
        for _ in range(600):
            writes, region = [], draw.choice([0, 0, 11, 40])
            for w in range(draw.randint(1, 4)):
                runs, at = [], draw.randint(0, 6)
                for _ in range(draw.randint(0, 3)):
                    size = draw.randint(1, 5)
                    runs.append([at, size])
                    at += size + draw.randint(1, 5)
                extent = draw.choice([at, max([1, *(o + n - runs[0][0] for o, n in runs)])])
                view = draw.choice([{"extent": 1, "runs": [[0, 1]]}, {"extent": extent, "runs": runs}])
                length = draw.choice([0, draw.randint(1, 30), 24]) if view["runs"] else 0
                writes.append({"displacement": draw.choice([w * region, draw.randint(0, 9)]), **view, "position": draw.choice([0, w * 24]), "length": length})
            if any(write["length"] for write in writes):
                options = {"smallest_strip_bytes": 1, "gap_bytes": 2, "piece_bytes": 8}
                cases.append({"targets": [draw.randrange(3) for _ in writes], "writes": writes, "options": options})
        for case, answer in zip(cases, answers(cases), strict=True):
            written = [(target, x) for target, write in zip(case["targets"], case["writes"], strict=True) for x in bytes_of_write(write)]
            writers = {}
            for target, x in written:
                writers.setdefault(x, set()).add(target)
            alone = sum(len(writers[x]) == 1 for _, x in written)
            if "refused" in answer:
                self.assertEqual(alone, 0, case)
                continue
            local = sum(target_of_byte(answer, x) == target for target, x in written)
            self.assertEqual((answer["claimed_bytes"], answer["local_bytes"]), (len(written), local), case)
            self.assertGreaterEqual(local, alone, case)

    def test_of_one_writer_among_several_nothing_is_foreseen(self):
        everything = {"displacement": 0, "extent": 1, "runs": [[0, 1]], "position": 0}
        (answer,) = answers([{"targets": [0, 1], "writes": [{**everything, "length": 5000}, {**everything, "length": 0}]}])
        strips = strips_of(answer["strips"])
        self.assertEqual((strips[0], answer["targets"], answer["local_bytes"]), ((0, 2 << 20), [0, 1], 5000))
        self.assertEqual(sum(size for datafile, size in strips if datafile == 1), 32 << 20, "what comes behind it goes to both")

    def test_a_coarse_text_says_truly_what_is_local(self):
        draw = random.Random(7)
        cases = []
        for _ in range(12):
            parts, at = [], 0
            while at < 100_000:
                size = draw.choice([100, 700, 5000, 9000])
                parts.append([draw.randrange(3), at, at + size])
                at += size
            options = {"smallest_strip_bytes": 1, "text_bytes": draw.choice([40, 80, 160])}
            cases.append({"targets": [2, 0, 1], "cycle_bytes": at, "parts": parts, "options": options})
        for case, answer in zip(cases, answers(cases), strict=True):
            self.held_against_the_model(case, answer, case["cycle_bytes"])

    def test_many_runs_end_in_a_text_that_can_be_kept(self):
        parts = [[i % 2, 600 * i + i % 7, 600 * i + 600] for i in range(100_000)]
        (answer,) = answers([{"targets": [0, 1], "cycle_bytes": 600 * 100_000, "parts": parts}])
        self.assertLessEqual(len(answer["strips"]), 48 << 10)


if __name__ == "__main__":
    unittest.main()
