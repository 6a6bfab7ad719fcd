"""What a session spent, folded from its log: in total, by agent and by plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

import msgspec
from hilum import Usage
from hilum import events as ev
from hilum.messages import Price, check_number
from hilum_view.budgets import SPENT, BudgetViews

from hilum_trace.bill.budgets.amounts import UNITS, Amount, Unit
from hilum_trace.bill.requests import (
    SUB_AGENT,
    CallTimes,
    SentRequests,
    Unanswered,
    request_seconds,
)

CHANGED = "budgets.changed"
"""Name of the event with which the user changes a budget of a session."""
WARNED = "budgets.warned"
"""Name of the event that warns the user of a budget that is nearly used up."""
PriceFinder = Callable[[str], Price | None]


class SpendingFold(msgspec.Struct, eq=False):
    """What the events of a session spent.

    Args:
        find_price: A function that returns the price of a model's tokens.
        after: Unix time before which events do not count.

    Attributes:
        last: Sequence number of the last event.
        total: What was spent by all agents and plugins.
        agents: The same by agent.
        plugins: What the plugins' own requests spent, by plugin.
        longest: Minutes that the longest request took.
        changes: The limits that the user changed in this session, by budget.
        shown: The budgets that the last events showed, by name and unit.
        warned: The limits that the user was warned of, by name and unit of the budget.
    """

    find_price: PriceFinder
    after: float = 0.0
    last: int = 0
    total: Amount = Amount()
    agents: dict[str, Amount] = {}
    plugins: dict[str, Amount] = {}
    longest: float = 0.0
    changes: dict[str, dict[Unit, float | None]] = {}
    shown: BudgetViews = msgspec.field(default_factory=BudgetViews)
    warned: dict[tuple[str, str], float] = {}
    _requests: SentRequests = msgspec.field(default_factory=SentRequests)
    _calls: CallTimes = msgspec.field(default_factory=CallTimes)

    def apply(self, events: Iterable[ev.Event]) -> None:
        """Add events, in order."""
        for event in events:
            self.last = event.seq
            self._apply(event)

    def _apply(self, event: ev.Event) -> None:
        self._calls.apply(event)
        unanswered = self._requests.apply(event)
        if unanswered is not None:
            self._lose(unanswered)
        match event:
            case ev.ModelAnswered():
                self._requests.answer(event.agent)
                self._add(event, amount_of(event.usage, event.seconds))
                self.longest = max(self.longest, make_amount(seconds=event.seconds).minutes)
            case ev.ModelUsed() if not event.purpose.startswith(SUB_AGENT):
                amount = amount_of(event.usage, request_seconds(event))
                self._add(event, amount, event.plugin)
                self.longest = max(self.longest, make_amount(seconds=event.seconds).minutes)
            case ev.CallDone():
                self._add(event, make_amount(seconds=self._calls.end(event)))
            case ev.PluginEvent(name=name) if name == CHANGED:
                self._change(event)
            case ev.PluginEvent(name=name) if name == SPENT:
                self.shown.apply(event)
            case ev.PluginEvent(name=name, data=data) if name == WARNED:
                limit = data.get("limit")
                if isinstance(limit, int | float):
                    self.warned[str(data.get("budget")), str(data.get("unit"))] = limit

    def _add(self, event: ev.Event, amount: Amount, plugin: str = "") -> None:
        if event.at >= self.after:
            self.charge(amount, event.agent, plugin)

    def charge(self, amount: Amount, agent: str, plugin: str = "") -> None:
        """Add an amount that an agent, or a plugin on its behalf, has spent."""
        self.total = self.total.plus(amount)
        self.agents[agent] = self.agents.get(agent, Amount()).plus(amount)
        if plugin:
            self.plugins[plugin] = self.plugins.get(plugin, Amount()).plus(amount)

    def _lose(self, request: Unanswered) -> None:
        """Add a request without an answer, for which the provider may charge its input."""
        sent = request.sent
        usage = Usage(input=request.estimate)
        price = self.find_price(sent.model)
        dollars = price.cost(usage) if price is not None else 0.0
        self._add(sent, make_amount(dollars, usage.total, request.seconds))

    def _change(self, event: ev.PluginEvent) -> None:
        budget = event.data.get("budget")
        unit = event.data.get("unit")
        limit = event.data.get("limit")
        if isinstance(budget, str) and unit in UNITS and _is_limit(limit):
            self.changes.setdefault(budget, {})[unit] = limit


def amount_of(usage: Usage, seconds: float = 0.0) -> Amount:
    """Return the amount of the provider's counts and a time."""
    tokens = check_number(usage.input) + check_number(usage.output)
    return make_amount(usage.cost or 0.0, tokens, seconds)


def make_amount(dollars: float = 0.0, tokens: int = 0, seconds: float = 0.0) -> Amount:
    """Return an amount of numbers from a log; each one that cannot be right is 0."""
    return Amount(check_number(dollars), check_number(tokens), check_number(seconds) / 60)


def _is_limit(limit: object) -> bool:
    if limit is None:
        return True
    return isinstance(limit, int | float) and 0 <= limit < inf
