"""Agents: who works in a session, what each may use, and in which mode."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec

from hilum.events import Event
from hilum.messages import Layer
from hilum.state import Conversation, RunState
from hilum.tools import RISKS, Tool, injected

if TYPE_CHECKING:
    import trio

    from hilum.prompt import Pieces
    from hilum.session import Session


class ToolFilter(msgspec.Struct, frozen=True):
    """Which tools may be used.

    Entries are names, patterns (``github__*``) or what a tool touches (``read``, ``write`` …).

    Args:
        allow: Only these; ``None`` for all.
        deny: Never these, whatever ``allow`` says.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()

    def admits(self, name: str, risk: str) -> bool:
        """Return whether a tool of this name and risk passes."""

        def named(entries: Sequence[str]) -> bool:
            return any(e == risk if e in RISKS else fnmatchcase(name, e) for e in entries)

        return (self.allow is None or named(self.allow)) and not named(self.deny)


class Mode(msgspec.Struct, frozen=True):
    """A way of working: which tools there are, and which of them are asked for each time.

    Args:
        name: For example ``plan``.
        tools: The tools there are.
        ask: Risks whose calls the user confirms, whatever the approval policy.
        description: One line for faces.
    """

    name: str
    tools: ToolFilter = ToolFilter()
    ask: frozenset[str] = frozenset()
    description: str = ""


class Profile(msgspec.Struct, frozen=True):
    """What an agent is: its instructions, model, tools and limits.

    ``None`` takes the session's setting.

    Args:
        name: Name, ``main`` for the session's own agent.
        prompt: Instructions of its own, a layer of its system prompt.
        model: ``provider/name`` or a role; empty for the session's model.
        tools: Which tools it may use.
        turns: Most model calls of a run.
        timeout: Seconds a run may take.
        token_limit: Tokens a run may use.
        cost_limit: US dollars a run may cost; ``None`` for any.
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
    """An actor in a session: a profile and a conversation of its own.

    Attributes:
        name: Unique in the session.
        session: Its session.
        profile: What it is.
        parent: Name of the agent that made it, empty for none.
        conversation: Its messages and where its run stands.
        began: When this process took up its run, on trio's clock: the wall's may jump.
    """

    name: str
    session: Session
    profile: Profile
    parent: str = ""
    conversation: Conversation = msgspec.field(default_factory=Conversation)
    pieces: dict[str, Pieces] = {}
    good_layers: dict[str, tuple[Layer, ...]] = {}
    starting: str = ""
    began: float = float("inf")
    scope: trio.CancelScope | None = None

    @property
    def run(self) -> RunState:
        """The run it is on; for those who act within one."""
        assert self.conversation.run is not None
        return self.conversation.run

    def emit(self, event: Event) -> int:
        """Write an event of this agent's, see ``Session.emit``."""
        return self.session.emit(event, self)

    @property
    def mode(self) -> Mode:
        """The mode the session is in."""
        return self.session.mode

    @property
    def model(self) -> str:
        """Name or role of the model it asks."""
        return self.profile.model or self.session.model

    def limit(self, name: str) -> Any:
        """Return a limit (``turns``, ``timeout``, ``token_limit``): the profile's, else the
        setting.
        """
        own = getattr(self.profile, name)
        if own is None:
            return getattr(self.session.options, name)
        return own

    def tools(self) -> list[Tool]:
        """Return the tools it may use now, by policy, mode and profile, in the order they were
        provided.
        """
        own = [f for f in (self.mode.tools, self.profile.tools) if f != ToolFilter()]
        if self.session.approve == "readonly":
            own.append(ToolFilter(allow=("read",)))
        return [
            t
            for t in self.session.tools.values()
            if t.serves(self) and all(f.admits(t.name, t.risk) for f in own)
        ]


injected[Agent] = lambda call: call.agent
