"""What is made of the looks of a door: rates, times, and ratios with their intervals."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bench.harness import online  # noqa: E402


def looks(rates):
    """Looks every 100 ms at a flow with these rates, each for a second."""
    found, many = [{"at": 0.0, "bytes": 0}], 0
    for number, each in enumerate(rates):
        for tenth in range(1, 11):
            many += each // 10
            found.append({"at": number + tenth / 10, "bytes": many})
    return found


class Looks(unittest.TestCase):
    def test_a_rate_is_what_came_in_between_two_moments(self):
        self.assertAlmostEqual(online.rate(looks([100, 300]), 0, 2), 200)
        self.assertAlmostEqual(online.rate(looks([100, 300]), 1, 2), 300)

    def test_a_rate_is_reached_when_it_stays_for_a_while(self):
        self.assertAlmostEqual(online.reached_s(looks([100, 10, 10, 100, 100, 100]), 1.0, 95), 2.0, places=1)
        self.assertIsNone(online.reached_s(looks([100, 10, 10]), 1.0, 90))

    def test_ratios_have_their_mean_between_the_ends_of_the_interval(self):
        mean, (least, most) = online.interval([1.0, 1.02, 0.98, 1.01])
        self.assertTrue(least < mean < most and 0.97 < least and most < 1.04, (mean, least, most))


if __name__ == "__main__":
    unittest.main()
