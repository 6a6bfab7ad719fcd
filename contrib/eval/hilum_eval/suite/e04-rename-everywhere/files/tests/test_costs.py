import unittest
from unittest import mock

from desk import flights, hotels, money, report, trains
from desk.cache import cached_rate


class CostsTest(unittest.TestCase):
    def test_money(self):
        with mock.patch("desk.money.fetch_rate", return_value=2.0):
            self.assertEqual(money.Money(3, "EUR").to("USD"), money.Money(6.0, "USD"))

    def test_costs(self):
        self.assertEqual(hotels.night(100, "EUR", "USD").amount, 125.0)
        self.assertEqual(flights.ticket(10, "EUR", "CHF").amount, 9.5)
        self.assertEqual(trains.ticket(10, "USD", "EUR", 0.5).amount, 4.0)

    def test_report(self):
        self.assertIn("(rate 1.25)", report.line(2, "EUR", "USD"))
        self.assertEqual(cached_rate("EUR", "USD"), 1.25)
