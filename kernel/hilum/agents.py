"""Agents of a session: their profiles, the tools that each may use, and modes."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec

from hilum.events import Event
from hilum.messages import Layer
from hilum.state import Conversation, RunState
from hilum.tools import RISKS, Tool, injected

if TYPE_CHECKING:
    import trio

    from hilum.prompt import EncodedConversation
    from hilum.session import Session


class ToolFilter(msgspec.Struct, frozen=True):
    """A selection of tools.

    Entries are names, patterns (``github__*``) or permission categories (``read``, ``write`` …).

    Args:
        allow: The only tools that are admitted; ``None`` admits all.
        deny: Tools that are never admitted, even if ``allow`` lists them.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()

    def admits(self, name: str, risk: str) -> bool:
        """Return whether a tool with this name and risk is admitted."""

        def names_tool(entry: str) -> bool:
            return entry == risk if entry in RISKS else fnmatchcase(name, entry)

        if self.allow is not None and not any(map(names_tool, self.allow)):
            return False
        return not any(map(names_tool, self.deny))


class Mode(msgspec.Struct, frozen=True):
    """A mode: which tools are available, and which of them need approval for each call.

    Args:
        name: For example ``plan``.
        tools: The tools that are available.
        ask: Permission categories whose calls need approval under every approval policy.
        description: One line that faces show.
    """

    name: str
    tools: ToolFilter = ToolFilter()
    ask: frozenset[str] = frozenset()
    description: str = ""


class Profile(msgspec.Struct, frozen=True):
    """The instructions, model, tools and limits of an agent.

    ``None`` means the session's setting.

    Args:
        name: Name, ``main`` for the session's own agent.
        prompt: Its instructions, a layer of its system prompt.
        model: ``provider/name`` or a role; empty for the session's model.
        tools: Which tools it may use.
        turns: Maximum number of model calls of a run.
        timeout: Maximum duration of a run, in seconds.
        token_limit: Maximum number of tokens of a run.
        cost_limit: Maximum cost of a run, in US dollars; ``None`` for no limit.
    """

    name: str = "main"
    prompt: str = ""
    model: str = ""
    tools: ToolFilter = ToolFilter()
    turns: int | None = None
    timeout: float | None = None
    token_limit: int | None = None
    cost_limit: float | None = None


class Agent(msgspec.Struct, eq=False):
    """An agent in a session, with a profile and a conversation.

    Attributes:
        name: Unique in the session.
        session: Its session.
        profile: Its instructions, model, tools and limits.
        parent: Name of the agent that created it; empty if there is none.
        conversation: Its messages and the state of its run.
        began: Time on trio's clock at which this process began to work on the run; the system clock
            may jump.
    """

    name: str
    session: Session
    profile: Profile
    parent: str = ""
    conversation: Conversation = msgspec.field(default_factory=Conversation)
    # msgspec gives each instance its own copy of an empty default.
    encoded: dict[str, EncodedConversation] = {}
    good_layers: dict[str, tuple[Layer, ...]] = {}
    starting: str = ""
    # Infinite until the run begins, so that the duration of a run that ends earlier is 0 seconds.
    began: float = float("inf")
    scope: trio.CancelScope | None = None

    @property
    def run(self) -> RunState:
        """The current run; one must exist."""
        assert self.conversation.run is not None
        return self.conversation.run

    def emit(self, event: Event) -> int:
        """Write an event for this agent; see ``Session.emit``."""
        return self.session.emit(event, self)

    @property
    def mode(self) -> Mode:
        """The session's current mode."""
        return self.session.mode

    @property
    def model(self) -> str:
        """The name or role of the agent's model."""
        return self.profile.model or self.session.model

    def limit(self, name: str) -> Any:
        """Return ``turns``, ``timeout`` or ``token_limit`` from the profile or the settings."""
        own = getattr(self.profile, name)
        # 0 in the profile is a value: it does not fall back to the setting.
        if own is None:
            return getattr(self.session.options, name)
        return own

    def tools(self) -> list[Tool]:
        """Return the tools that policy, mode and profile allow, in the order of their plugins."""
        # An empty filter admits every tool: leaving it out saves a check for each of them.
        filters = [each for each in (self.mode.tools, self.profile.tools) if each != ToolFilter()]
        # The policy denies all other calls, so their tools would only cost tokens.
        if self.session.approve == "readonly":
            filters.append(ToolFilter(allow=("read",)))
        tools = []
        for tool in self.session.tools.values():
            is_admitted = all(each.admits(tool.name, tool.risk) for each in filters)
            if is_admitted and tool.serves(self):
                tools.append(tool)
        return tools


injected[Agent] = lambda call: call.agent
