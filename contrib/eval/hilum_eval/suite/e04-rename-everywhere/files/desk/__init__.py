"""Costs of journeys."""

from desk.rates import fetch_rate, fetch_rates

__all__ = ["fetch_rate", "fetch_rates"]
