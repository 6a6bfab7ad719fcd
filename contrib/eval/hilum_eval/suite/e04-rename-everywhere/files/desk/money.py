"""Amounts of money."""

from dataclasses import dataclass

from desk.rates import fetch_rate


@dataclass(frozen=True)
class Money:
    """An amount in a currency."""

    amount: float
    currency: str

    def to(self, currency):
        """Return the amount in another currency."""
        return Money(round(self.amount * fetch_rate(self.currency, currency), 2), currency)
