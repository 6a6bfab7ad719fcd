import unittest

from desk.metrics import COUNTERS
from desk.rates import fetch_rate, fetch_rates


class RatesTest(unittest.TestCase):
    def test_rate(self):
        self.assertEqual(fetch_rate("EUR", "USD"), 1.25)
        self.assertEqual(fetch_rate("USD", "USD"), 1.0)

    def test_unknown(self):
        with self.assertRaises(LookupError):
            fetch_rate("USD", "CHF")

    def test_all(self):
        self.assertEqual(fetch_rates("EUR"), {"USD": 1.25, "CHF": 0.95})

    def test_counter(self):
        before = COUNTERS.get("fetch_rate", 0)
        fetch_rate("EUR", "USD")
        self.assertEqual(COUNTERS["fetch_rate"], before + 1)
