"""The charges of a session, folded from its log: one for each request to a model and each call.

The charge of a request divides the provider's counts among the parts of the request. The sums thus
agree with the provider's counts exactly; only the division relies on estimated sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from hilum import Usage
from hilum import events as ev
from hilum.messages import MAX_NUMBER, Price, check_number, check_usage

from hilum_trace.bill.conversation import Conversation
from hilum_trace.bill.division import divide
from hilum_trace.bill.parts import (
    MCP,
    UNKNOWN,
    Origin,
    Part,
    ToolPlugins,
    answer_parts,
    name_provider,
)
from hilum_trace.bill.requests import (
    SUB_AGENT,
    CallTimes,
    SentRequests,
    Unanswered,
    is_delegated,
    request_seconds,
)

# Relative prices of tokens, by which a known cost is divided if the prices are not known.
USUAL_PRICE = Price(input=1.0, output=5.0, cached=0.1, cache_write=1.25)


class Share(msgspec.Struct, frozen=True):
    """The tokens and the cost of a part of a request.

    ``input`` includes ``cached`` and ``cache_write``. ``cost`` is in US dollars, ``None`` if it is
    not known.
    """

    input: int = 0
    cached: int = 0
    cache_write: int = 0
    output: int = 0
    cost: float | None = None


class Charge(msgspec.Struct, frozen=True):
    """What happened in a session, at a time, for an agent.

    Attributes:
        at: Unix time in seconds.
        agent: Name of the agent.
        run: Id of its run.
        turn: Number of the turn in the run.
    """

    at: float
    agent: str
    run: str
    turn: int


class RequestCharge(Charge, frozen=True, kw_only=True):
    """A request to a model that was answered.

    Attributes:
        model: The name of the model.
        usage: The provider's counts.
        seconds: Seconds until the end of the response (see ``request_seconds``).
        shares: The division of the usage by origin.
        is_own: Whether a plugin made the request, which is no turn of the agent.
        is_delegated: Whether the model is the program of an agent, whose own requests count.
    """

    model: str
    usage: Usage
    seconds: float
    shares: dict[Origin, Share]
    is_own: bool = False
    is_delegated: bool = False


class CallCharge(Charge, frozen=True, kw_only=True):
    """A call of a tool that has ended.

    Attributes:
        tool: Name of the tool.
        plugin: Its plugin or MCP server (see ``name_provider``); empty if the call did not start.
        seconds: Seconds that the call ran.
        failed: Whether it failed or was denied.
    """

    tool: str
    plugin: str
    seconds: float
    failed: bool


class LostRequest(Charge, frozen=True, kw_only=True):
    """A request that was not answered, and that the provider may have charged for.

    Attributes:
        model: The name of the model.
        estimate: The estimated number of tokens in the request.
        seconds: Seconds until it ended.
        reason: The kind of failure (see ``ModelError``), or ``stopped``.
    """

    model: str
    estimate: int
    seconds: float
    reason: str


AnyCharge = RequestCharge | CallCharge | LostRequest


class ChargeFold:
    """Folds the events of a session, in order, into charges.

    Args:
        divided: Whether to divide each request among its parts, which takes most of the time.
            Otherwise, the whole usage is one share.

    Attributes:
        titles: What sub-agents were started for, by their names.
    """

    def __init__(self, *, divided: bool = True) -> None:
        self.titles: dict[str, str] = {}
        self._divided = divided
        self._plugins = ToolPlugins()
        self._conversations: dict[str, Conversation] = {}
        self._requests = SentRequests()
        self._calls = CallTimes()
        self._turns: dict[str, int] = {}
        self._started: dict[tuple[str, str], str] = {}

    def apply(self, event: ev.Event) -> AnyCharge | None:
        """Fold an event, and return the charge that it adds, if any."""
        if self._divided:
            self._change(event, self._conversation(event.agent))
        self._calls.apply(event)
        match event:
            case ev.ModelAnswered():
                return self._answer(event)
            case ev.ModelUsed():
                return self._use(event)
            case ev.CallStarted():
                provider = name_provider(event.plugin, event.call.name)
                self._started[event.agent, event.call.id] = provider
            case ev.CallDone():
                return self._end_call(event)
            case ev.PluginEvent(name="agents.queued", data=data):
                title = data.get("title")
                if isinstance(title, str) and title:
                    self.titles[str(data.get("actor", ""))] = title
            case ev.RunStarted() | ev.RunRetried():
                self._turns[event.agent] = 0
        unanswered = self._requests.apply(event)
        return self._lose(unanswered, event) if unanswered is not None else None

    def _change(self, event: ev.Event, talk: Conversation) -> None:
        """Fold what an event changes in a conversation, except for a response."""
        match event:
            case ev.AgentStarted():
                talk.begin(event.messages)
            case ev.RunStarted():
                talk.start_run(event)
            case ev.RunRetried():
                talk.retry_run()
            case ev.RunEnded():
                talk.end_run(event)
            case ev.CallStarted():
                self._plugins.add_call(event.agent, event.call, event.plugin)
            case ev.CallDone():
                talk.end_call(event.result, self._plugins.of_result(event.agent, event.result))
            case ev.PromptFrozen():
                talk.freeze(event)
            case ev.RoundEnded():
                talk.end_round(event)
            case ev.SteeringQueued():
                talk.steer(event)
            case ev.Compacted():
                talk.compact(event)

    def _conversation(self, agent: str) -> Conversation:
        if agent not in self._conversations:
            self._conversations[agent] = Conversation(self._plugins)
        return self._conversations[agent]

    def _lose(self, unanswered: Unanswered, event: ev.Event) -> LostRequest:
        sent = unanswered.sent
        return LostRequest(
            event.at,
            sent.agent,
            sent.run,
            self._turns.get(sent.agent, 0) + 1,
            model=sent.model,
            estimate=unanswered.estimate,
            seconds=unanswered.seconds,
            reason=unanswered.reason,
        )

    def _answer(self, event: ev.ModelAnswered) -> RequestCharge:
        usage = check_usage(event.usage)
        sent = self._requests.answer(event.agent)
        turn = self._turns.get(event.agent, 0) + 1
        self._turns[event.agent] = turn
        if self._divided:
            talk = self._conversation(event.agent)
            answer = answer_parts(event.message, self._plugins)
            shares = divide_usage(usage, event.price, talk, answer)
            talk.answer(answer)
        else:
            shares = {UNKNOWN: _whole(usage)}
        # This is the name with which hilum called the model; providers may return a different one.
        model = sent.model if sent is not None else event.message.model
        return RequestCharge(
            event.at,
            event.agent,
            event.run,
            turn,
            model=model,
            usage=usage,
            seconds=check_number(event.seconds),
            shares=shares,
            is_delegated=is_delegated(model),
        )

    def _use(self, event: ev.ModelUsed) -> RequestCharge | None:
        if event.purpose.startswith(SUB_AGENT):
            return None
        usage = check_usage(event.usage)
        plugin = event.plugin
        # A request of a server (sampling) names the server in its purpose.
        if plugin == MCP and event.purpose.startswith(f"{MCP} "):
            plugin = event.purpose
        origin = Origin("own request", plugin or None)
        return RequestCharge(
            event.at,
            event.agent,
            event.run,
            self._turns.get(event.agent, 0),
            model=event.model,
            usage=usage,
            seconds=request_seconds(event),
            shares={origin: _whole(usage)},
            is_own=True,
        )

    def _end_call(self, event: ev.CallDone) -> CallCharge:
        result = event.result
        return CallCharge(
            event.at,
            event.agent,
            event.run,
            self._turns.get(event.agent, 0),
            tool=result.name,
            plugin=self._started.pop((event.agent, result.call_id), ""),
            seconds=self._calls.end(event),
            failed=bool(result.code),
        )


def fold_charges(events: Iterable[ev.Event]) -> Iterator[AnyCharge]:
    """Yield the charges of a session from its events."""
    fold = ChargeFold()
    for event in events:
        charge = fold.apply(event)
        if charge is not None:
            yield charge


def _whole(usage: Usage) -> Share:
    """Return the whole usage of a request as one share."""
    return Share(usage.input, usage.cached, usage.cache_write, usage.output, usage.cost)


def divide_usage(
    usage: Usage, price: Price | None, talk: Conversation, answer: list[Part]
) -> dict[Origin, Share]:
    """Divide the counts of a request among the parts of the request and of the response.

    Providers cache a prefix of the request. The cached tokens are therefore those of its first
    parts, followed by those that were written to the cache.

    Args:
        usage: The provider's counts.
        price: The price of the tokens, if it is known.
        talk: The conversation as it was sent.
        answer: The parts of the response.
    """
    cached = min(usage.cached, usage.input)
    written = min(usage.cache_write, usage.input - cached)
    whole = talk.sizes.total()
    scale = whole / usage.input if usage.input else 0.0
    first = talk.prefix(cached * scale) if cached else {}
    upto = talk.prefix((cached + written) * scale) if written else first
    rest = _subtract(talk.sizes, upto)
    of_cached = divide(cached, first) or _unknown(cached)
    of_written = divide(written, _subtract(upto, first)) or _unknown(written)
    fresh = usage.input - cached - written
    of_fresh = divide(fresh, rest) or divide(fresh, talk.sizes) or _unknown(fresh)
    of_output = _divide_output(usage, answer)
    shares = {}
    for origin in {**of_cached, **of_written, **of_fresh, **of_output}:
        counts = (of_cached.get(origin, 0), of_written.get(origin, 0), of_fresh.get(origin, 0))
        shares[origin] = Share(sum(counts), counts[0], counts[1], of_output.get(origin, 0))
    return _add_costs(shares, usage, price)


def _subtract(whole: Mapping[Origin, float], part: Mapping[Origin, float]) -> dict[Origin, float]:
    return {origin: size - part.get(origin, 0.0) for origin, size in whole.items()}


def _unknown(tokens: int) -> dict[Origin, int]:
    return {UNKNOWN: tokens} if tokens else {}


def _divide_output(usage: Usage, answer: list[Part]) -> dict[Origin, int]:
    """Divide the tokens of a response among its text and its calls."""
    sizes: dict[Origin, float] = {}
    for part in answer:
        sizes[part.origin] = sizes.get(part.origin, 0.0) + part.size
    text = Origin("answer")
    # Reasoning is often not shown, so its size in the response is no measure.
    reasoning = min(usage.reasoning, usage.output)
    found = divide(usage.output - reasoning, sizes)
    left = usage.output - sum(found.values())
    if left:
        found[text] = found.get(text, 0) + left
    return found


def _add_costs(
    shares: dict[Origin, Share], usage: Usage, price: Price | None
) -> dict[Origin, Share]:
    """Add the cost of each part, in proportion to the prices of its tokens."""
    if usage.cost is None:
        return shares
    known = price if price is not None and _is_right(price) else USUAL_PRICE
    weights = {origin: _weight(share, known) for origin, share in shares.items()}
    whole = sum(weights.values())
    if not whole:
        if not shares:
            return {UNKNOWN: Share(cost=usage.cost)}
        weights = dict.fromkeys(shares, 1.0)
        whole = float(len(shares))
    return {
        origin: msgspec.structs.replace(share, cost=usage.cost * weights[origin] / whole)
        for origin, share in shares.items()
    }


def _weight(share: Share, price: Price) -> float:
    """Return what the tokens of a part cost at the given price."""
    usage = Usage(share.input, share.cached, share.cache_write, share.output)
    return price.cost(usage)


def _is_right(price: Price) -> bool:
    """Return whether all numbers of a price can be right."""
    prices = (price.input, price.output, price.cached or 0.0, price.cache_write or 0.0)
    return all(0 <= each <= MAX_NUMBER for each in prices)
