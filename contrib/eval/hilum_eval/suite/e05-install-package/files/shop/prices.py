"""Price lists."""

from tabular_lines import align

PRICES = {"tea": 4.5, "coffee": 6.25, "sugar": 1.0}


def price_list():
    """Return the price list as text."""
    return align([(name, f"{price:.2f}") for name, price in sorted(PRICES.items())])
