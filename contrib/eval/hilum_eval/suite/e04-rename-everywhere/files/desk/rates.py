"""Exchange rates."""

from desk.metrics import count

_RATES = {("EUR", "USD"): 1.25, ("USD", "EUR"): 0.8, ("EUR", "CHF"): 0.95}


def fetch_rate(source, target):
    """Return the rate between two currencies."""
    # Dashboards show this counter, so its name stays as it is.
    count("fetch_rate")
    if source == target:
        return 1.0
    if (source, target) not in _RATES:
        raise LookupError(f"no rate from {source} to {target}")
    return _RATES[source, target]


def fetch_rates(source):
    """Return all rates of a currency, see fetch_rate."""
    return {target: fetch_rate(source, target) for base, target in _RATES if base == source}
