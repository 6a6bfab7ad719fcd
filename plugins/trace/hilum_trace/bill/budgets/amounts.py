"""Amounts of dollars, tokens and seconds, their limits, and the decision about a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

Unit = Literal["dollars", "tokens", "minutes"]
UNITS: tuple[Unit, ...] = ("dollars", "tokens", "minutes")


class Amount(NamedTuple):
    """What requests and calls used."""

    dollars: float = 0.0
    tokens: int = 0
    minutes: float = 0.0

    def plus(self, other: Amount) -> Amount:
        """Return the sum of two amounts."""
        return Amount(
            self.dollars + other.dollars,
            self.tokens + other.tokens,
            self.minutes + other.minutes,
        )

    def of(self, unit: Unit) -> float:
        """Return the amount in one unit."""
        return float(getattr(self, unit))


class Limits(NamedTuple):
    """The limits of a budget; ``None`` stands for no limit."""

    dollars: float | None = None
    tokens: float | None = None
    minutes: float | None = None

    def set_units(self) -> Iterator[tuple[Unit, float]]:
        """Yield the units that have limits, with their limits."""
        for unit in UNITS:
            limit = getattr(self, unit)
            if limit is not None:
                yield unit, limit

    def replace(self, unit: Unit, limit: float | None) -> Limits:
        """Return the limits with another limit in one unit."""
        return Limits(**{**self._asdict(), unit: limit})


class Estimate(NamedTuple):
    """What a request will use.

    Attributes:
        least: What it uses at least, which is its input.
        most: What it uses at most, with the longest possible response.
    """

    least: Amount
    most: Amount


class Exceeded(NamedTuple):
    """A limit that does not allow a request."""

    unit: Unit
    limit: float
    spent: float
    needed: float

    @property
    def is_reached(self) -> bool:
        """Whether the budget is used up, and not only too small for this request."""
        return self.spent >= self.limit


class Decision(NamedTuple):
    """Whether a request may be sent.

    Attributes:
        exceeded: The limit that does not allow the request, if there is one.
        must_wait: Whether the requests in flight decide if there is room for the request.
    """

    exceeded: Exceeded | None = None
    must_wait: bool = False


def decide(limits: Limits, spent: Amount, in_flight: list[Estimate], request: Estimate) -> Decision:
    """Decide whether a budget allows a request.

    A request whose input does not fit is refused. One request may use the rest of the budget,
    whatever its output: only this request can exceed the budget. Other requests are sent at the
    same time only if there is room for the longest responses to all of them; otherwise, they wait.

    Args:
        limits: The limits of the budget.
        spent: What was used.
        in_flight: The requests that have not ended.
        request: The request.
    """
    reserved = Amount()
    for each in in_flight:
        reserved = reserved.plus(each.most)
    must_wait = False
    for unit, limit in limits.set_units():
        most = request.most.of(unit)
        # A model that costs nothing may also be used when the dollars are spent.
        if not most:
            continue
        used = spent.of(unit)
        least = request.least.of(unit)
        if used >= limit or used + least > limit:
            return Decision(Exceeded(unit, limit, used, least))
        whole = used + reserved.of(unit) + most
        if in_flight and whole > limit:
            must_wait = True
    return Decision(must_wait=must_wait)
