"""The tokens and cost of a session, by model, agent, plugin and tool."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from hilum import estimate
from hilum.events import CallDone, CallStarted, Event, ModelAnswered, ModelStarted, ModelUsed
from hilum.messages import Usage

from hilum_view.usage import usage_of

# The purpose of model calls that are an agent's own turns.
MAIN_WORK = "conversation"


class Spent(msgspec.Struct):
    """The model calls of one model, agent or purpose.

    Attributes:
        calls: Number of model calls.
        usage: Their tokens and cost.
    """

    calls: int = 0
    usage: Usage = Usage()

    def add(self, usage: Usage) -> None:
        """Add a model call."""
        self.calls += 1
        self.usage += usage


class ToolUse(msgspec.Struct):
    """The calls of one tool, or of the tools of one plugin.

    Attributes:
        calls: Number of calls that ended.
        failed: Number of calls that failed or were denied.
        seconds: Their duration.
        tokens: Estimated tokens in the results of the calls, which later requests contain.
    """

    calls: int = 0
    failed: int = 0
    seconds: float = 0.0
    tokens: int = 0


class Spending(msgspec.Struct):
    """The tokens and cost of a session, calculated from its events.

    Attributes:
        models: By model, provider/name.
        agents: By agent.
        purposes: By purpose, which is ``conversation`` for the agents' own turns, otherwise the
            purpose for which a plugin called a model, such as ``summary``.
        tools: By tool.
        plugins: The same calls, by the plugin that provides the tool; the name is empty for calls
            that were rejected before they ran.
    """

    models: dict[str, Spent] = {}
    agents: dict[str, Spent] = {}
    purposes: dict[str, Spent] = {}
    tools: dict[str, ToolUse] = {}
    plugins: dict[str, ToolUse] = {}
    _models_in_use: dict[str, str] = {}
    _plugins_in_use: dict[tuple[str, str], str] = {}

    def apply(self, event: Event) -> None:
        """Add an event."""
        if isinstance(event, ModelStarted):
            self._models_in_use[event.agent] = event.model
        elif isinstance(event, CallStarted):
            self._plugins_in_use[event.agent, event.call.id] = event.plugin
        elif isinstance(event, CallDone):
            self._add_call(event)
        used = usage_of(event)
        if used is not None:
            self._add_usage(event, used)

    def _add_usage(self, event: Event, used: Usage) -> None:
        model = ""
        purpose = MAIN_WORK
        if isinstance(event, ModelUsed):
            model = event.model
            purpose = event.purpose
        elif isinstance(event, ModelAnswered):
            # This is the name with which hilum called the model, because providers may return a
            # different name.
            model = self._models_in_use.get(event.agent) or event.message.model
        self.models.setdefault(model, Spent()).add(used)
        self.agents.setdefault(event.agent, Spent()).add(used)
        self.purposes.setdefault(purpose, Spent()).add(used)

    def _add_call(self, event: CallDone) -> None:
        plugin = self._plugins_in_use.pop((event.agent, event.result.call_id), "")
        tokens = estimate(event.result.text)
        for table, key in ((self.tools, event.result.name), (self.plugins, plugin)):
            row = table.setdefault(key, ToolUse())
            row.calls += 1
            row.failed += bool(event.result.code)
            row.seconds += event.seconds
            row.tokens += tokens


def compute_spending(events: Iterable[Event]) -> Spending:
    """Calculate the tokens and cost of a session from its events."""
    spending = Spending()
    for event in events:
        spending.apply(event)
    return spending
