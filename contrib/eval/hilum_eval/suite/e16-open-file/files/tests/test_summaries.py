import unittest

from survey import ages, durations, scores


class SummariesTest(unittest.TestCase):
    def test_mean(self):
        for module in (ages, durations, scores):
            self.assertEqual(module.mean([2, 4]), 3)

    def test_empty_ages_and_scores(self):
        # An empty list of these is a mistake of the caller.
        for module in (ages, scores):
            with self.assertRaises(ZeroDivisionError):
                module.mean([])


if __name__ == "__main__":
    unittest.main()
