import unittest

from shop.prices import price_list


class PricesTest(unittest.TestCase):
    def test_list(self):
        self.assertEqual(price_list(), "coffee  6.25\nsugar   1.00\ntea     4.50")


if __name__ == "__main__":
    unittest.main()
