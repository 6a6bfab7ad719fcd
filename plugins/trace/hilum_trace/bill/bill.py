"""The bill: charges added up by model, agent, plugin, tool, turn, day, project or session."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, get_args

import msgspec

from hilum_trace.bill.charges import (
    AnyCharge,
    CallCharge,
    LostRequest,
    RequestCharge,
    Share,
)
from hilum_trace.bill.parts import Origin
from hilum_trace.bill.requests import is_delegated

Dimension = Literal["plugin", "agent", "model", "tool", "turn", "day", "project", "session"]
DIMENSIONS: tuple[str, ...] = get_args(Dimension)

# Names of rows that stand for no plugin or tool. The parentheses keep them apart from real names.
PROMPTS = "(your prompts)"
ANSWERS = "(the model's answers)"
KERNEL = "(hilum)"
NOT_RECORDED = "(not recorded)"
NO_TOOL = "(no tool)"
TOOLS = "(tools)"
# Longest title of a sub-agent in the name of its row, in characters.
MAX_TITLE = 40
_KERNEL_ROWS = {"prompt": PROMPTS, "answer": ANSWERS}


class ChargedSession(NamedTuple):
    """The session that a charge comes from: its id and folder, and the titles of its sub-agents."""

    id: str
    project: str
    titles: Mapping[str, str] = {}


class BilledAmount(msgspec.Struct):
    """Tokens, cost and time that were added up.

    Attributes:
        input: Input tokens, including ``cached`` and ``cache_write``.
        cost: The known cost in US dollars.
        unpriced: Tokens whose cost is not known.
        requests: Number of answered requests to models.
        calls: Number of tool calls that ended.
        failed: Number of tool calls that failed or were denied.
        seconds: Seconds that models took to answer and tools to run.
        kinds: Tokens by the kind of part (see ``Origin``).
    """

    input: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    cost: float = 0.0
    unpriced: int = 0
    requests: int = 0
    calls: int = 0
    failed: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = msgspec.field(default_factory=Counter)

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input + self.output

    @property
    def cached_share(self) -> float:
        """The share of the input that the provider read from its cache."""
        return self.cached / self.input if self.input else 0.0

    def add_share(self, origin: Origin, share: Share) -> None:
        """Add the tokens and the cost of a part of a request."""
        self.input += share.input
        self.cached += share.cached
        self.cache_write += share.cache_write
        self.output += share.output
        self.kinds[origin.kind] += share.input + share.output
        if share.cost is None:
            self.unpriced += share.input + share.output
        else:
            self.cost += share.cost

    def add_request(self, charge: RequestCharge) -> None:
        """Add an answered request and the time that it took."""
        # A request to a program goes to no provider; the program's own requests are counted.
        self.requests += not charge.is_delegated
        self.seconds += charge.seconds

    def add_call(self, charge: CallCharge) -> None:
        """Add a tool call and the time that it took."""
        self.calls += 1
        self.failed += charge.failed
        self.seconds += charge.seconds


class Row(NamedTuple):
    """A line of the bill."""

    name: str
    amount: BilledAmount


class Bill:
    """The charges of any number of sessions, added up by one dimension.

    Args:
        by: The dimension.

    Attributes:
        total: The sum over all charges.
        uncounted: Number of answered requests whose tokens the provider did not count.
        lost: Number of requests without an answer that the provider may have charged for.
        lost_tokens: Estimated number of tokens in these requests.
        unreadable: What is wrong with logs that could not be read to their ends.
    """

    def __init__(self, by: Dimension) -> None:
        self.by: Dimension = by
        self.total = BilledAmount()
        self.uncounted = 0
        self.lost = 0
        self.lost_tokens = 0
        self.unreadable: list[str] = []
        self._amounts: dict[str, BilledAmount] = {}
        self._runs: dict[tuple[str, str], dict[str, int]] = {}

    @property
    def is_divided(self) -> bool:
        """Whether the bill needs requests that are divided among their parts."""
        return self.by in ("plugin", "tool")

    def add(self, charge: AnyCharge, session: ChargedSession) -> None:
        """Add a charge."""
        if isinstance(charge, LostRequest):
            self._add_lost(charge, session)
            return
        if isinstance(charge, CallCharge):
            self.total.add_call(charge)
            self._amount(self._name(charge, session)).add_call(charge)
            return
        if not charge.usage.total and not charge.is_delegated:
            self.uncounted += 1
        self.total.add_request(charge)
        for origin, share in charge.shares.items():
            self.total.add_share(origin, share)
        if self.is_divided:
            self._add_by_origin(charge)
            return
        amount = self._amount(self._name(charge, session))
        amount.add_request(charge)
        for origin, share in charge.shares.items():
            amount.add_share(origin, share)

    def rows(self) -> list[Row]:
        """Return the lines, the most expensive first; by tokens if no cost is known."""
        rows = [Row(name, amount) for name, amount in self._amounts.items()]
        is_known = any(row.amount.cost for row in rows)

        def weight(row: Row) -> tuple[float, float, float]:
            amount = row.amount
            return (amount.cost if is_known else 0.0, amount.tokens, amount.seconds)

        return sorted(rows, key=weight, reverse=True)

    def _add_lost(self, charge: LostRequest, session: ChargedSession) -> None:
        """Add a request without an answer: its time, and that it is missing in the sums."""
        # A request to a program that was stopped is missing nothing but time.
        if not is_delegated(charge.model):
            self.lost += 1
            self.lost_tokens += charge.estimate
        self.total.seconds += charge.seconds
        self._amount(self._name(charge, session)).seconds += charge.seconds

    def _add_by_origin(self, charge: RequestCharge) -> None:
        """Add the parts of a request to the rows of their plugins or tools."""
        for origin, share in charge.shares.items():
            name = plugin_row(origin) if self.by == "plugin" else origin.tool or NO_TOOL
            self._amount(name).add_share(origin, share)
        if self.by == "tool":
            self._amount(NO_TOOL).add_request(charge)
        elif charge.is_own:
            for origin in charge.shares:
                self._amount(plugin_row(origin)).add_request(charge)
        else:
            self._amount(ANSWERS).add_request(charge)

    def _name(self, charge: AnyCharge, session: ChargedSession) -> str:
        """Return the name of the row that a charge belongs to."""
        match self.by:
            case "agent":
                title = " ".join(session.titles.get(charge.agent, "").split())
                if len(title) > MAX_TITLE:
                    title = f"{title[: MAX_TITLE - 1]}…"
                return f"{charge.agent}: {title}" if title else charge.agent
            case "day":
                return time.strftime("%Y-%m-%d", time.localtime(charge.at))
            case "project":
                return session.project
            case "session":
                return session.id
            case "turn":
                return self._turn_name(charge, session)
        if isinstance(charge, LostRequest) and self.is_divided:
            return ANSWERS if self.by == "plugin" else NO_TOOL
        if not isinstance(charge, CallCharge):
            return charge.model or NOT_RECORDED
        if self.by == "model":
            return TOOLS
        if self.by == "tool":
            return charge.tool
        return charge.plugin or KERNEL

    def _turn_name(self, charge: AnyCharge, session: ChargedSession) -> str:
        runs = self._runs.setdefault((session.id, charge.agent), {})
        prompt = runs.setdefault(charge.run, len(runs) + 1)
        return f"{session.id} {charge.agent}, prompt {prompt}, turn {charge.turn}"

    def _amount(self, name: str) -> BilledAmount:
        if name not in self._amounts:
            self._amounts[name] = BilledAmount()
        return self._amounts[name]


def plugin_row(origin: Origin) -> str:
    """Return the name of the row of a part of a request in a bill by plugin."""
    if origin.plugin:
        return origin.plugin
    if origin.plugin is None:
        return NOT_RECORDED
    return _KERNEL_ROWS.get(origin.kind, KERNEL)


def largest_kinds(amount: BilledAmount, limit: int = 2) -> Iterator[tuple[str, float]]:
    """Yield the kinds of parts that most of the tokens belong to, each with its share."""
    for kind, tokens in amount.kinds.most_common(limit):
        if amount.tokens and tokens:
            yield kind, tokens / amount.tokens
