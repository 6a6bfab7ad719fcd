"""Reports for the accountants."""

from desk.rates import fetch_rate, fetch_rates

# The column names are part of the exchange format of the accountants.
COLUMNS = ("amount", "currency", "fetch_rate_date")


def line(amount, currency, target):
    """Return a line: the amount, and the rate that fetch_rate returned."""
    factor = fetch_rate(currency, target)
    return f"{amount:.2f} {currency} = {amount * factor:.2f} {target} (rate {factor})"


def table(currency):
    """Return all rates of a currency, one a line."""
    return "\n".join(f"{target} {rate}" for target, rate in sorted(fetch_rates(currency).items()))
