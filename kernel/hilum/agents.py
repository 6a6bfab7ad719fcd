"""The agents of a session: their profiles, the tools that they may use, and modes."""

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
        """Return whether the filter admits a tool with the given name and risk."""

        def names_tool(entry: str) -> bool:
            return entry == risk if entry in RISKS else fnmatchcase(name, entry)

        if self.allow is not None and not any(map(names_tool, self.allow)):
            return False
        return not any(map(names_tool, self.deny))


class Mode(msgspec.Struct, frozen=True):
    """A mode, which decides which tools are available and which calls need approval.

    Args:
        name: For example ``plan``.
        tools: The tools that are available.
        ask: Permission categories whose calls need approval under every approval policy.
        description: A one-line description for faces to show.
    """

    name: str
    tools: ToolFilter = ToolFilter()
    ask: frozenset[str] = frozenset()
    description: str = ""


class Profile(msgspec.Struct, frozen=True):
    """The instructions, model, tools and limits of an agent.

    A value of ``None`` means that the session's setting applies.

    Args:
        name: Name of the agent; ``main`` for the session's own agent.
        prompt: The agent's instructions, which become a layer of its system prompt.
        model: ``provider/name`` or a role; empty for the session's model.
        tools: The tools that the agent may use.
        turns: Maximum number of model calls in a run.
        timeout: Maximum duration of a run, in seconds.
        token_limit: Maximum number of tokens that a run may use.
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
        session: The session that the agent belongs to.
        profile: The agent's instructions, model, tools and limits.
        parent: Name of the agent that created this one; empty if no agent did.
        conversation: The agent's messages and the state of its run.
        began: Time on trio's clock at which this process began to work on the run. (The system
            clock may jump.)
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
        """The agent's current run, which must exist."""
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
        """Return the effective limit ``turns``, ``timeout`` or ``token_limit``."""
        own = getattr(self.profile, name)
        # Only None falls back to the setting: 0 in the profile is a value.
        if own is None:
            return getattr(self.session.options, name)
        return own

    def tools(self) -> list[Tool]:
        """Return the tools that policy, mode and profile allow, in the order of their plugins."""
        # An empty filter admits every tool, so leaving it out saves one check per tool.
        filters = [each for each in (self.mode.tools, self.profile.tools) if each != ToolFilter()]
        # The policy denies all other calls, so their tools would only cost tokens.
        if self.session.approve == "readonly":
            filters.append(ToolFilter(allow=("read",)))
        tools = []
        for tool in self.session.tools.values():
            if filters and not all(each.admits(tool.name, tool.risk) for each in filters):
                continue
            if tool.serves(self):
                tools.append(tool)
        return tools


injected[Agent] = lambda call: call.agent
