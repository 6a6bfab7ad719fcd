import unittest

from journey.route import describe, find_route

LINES = {"Ostend": {"Bruges": 15}, "Bruges": {"Ghent": 25, "Ostend": 15}, "Ghent": {"Brussels": 35}}


class RouteTest(unittest.TestCase):
    def test_route(self):
        self.assertEqual(find_route(LINES, "Ostend", "Ghent"), (["Ostend", "Bruges", "Ghent"], 40))

    def test_text(self):
        self.assertEqual(describe(["Ostend", "Ghent"], 75), "Ostend to Ghent, 1 h 15 min")
        self.assertEqual(describe(["Ostend"], 0), "Ostend: you are there")


if __name__ == "__main__":
    unittest.main()
