import unittest

from tickets.orders import check


class OrdersTest(unittest.TestCase):
    def test_accepted(self):
        self.assertEqual(check("Faust", 2, 10), "")

    def test_refused(self):
        self.assertIn("sold out", check("Faust", 4, 3))
        self.assertIn("more than 8", check("Faust", 9, 30))
        self.assertIn("begun", check("Faust", 1, 30, begun=True))


if __name__ == "__main__":
    unittest.main()
