"""The map of the program: every hook, when it is called, how implementations combine, and what a failure means.

An implementation is a function of the same name, marked with ``@hookimpl``, that takes the arguments it wants. It stands in
a plugin module, or on the half a plugin yields from ``open_session``. Order: ``tryfirst``, plugin order, module before half,
``trylast``. Shapes:

- ``collect``: plain ``def``; every implementation gives an iterable; all are joined.
- ``gather``: all at once; answers in plugin order; ``None`` is left out.
- ``first``: one after another until one gives something other than ``None``.
- ``pipe``: each gets the value the one before gave; ``None`` leaves it as it is.
- ``gate``: all are asked; the strictest answer wins; a failure or a missed deadline counts as the strictest.
- ``supervised``: a lifespan: what is yielded is the plugin's half, the rest runs when it closes.

Except for ``collect``, an implementation may be ``def`` (runs inline, must not block) or ``async def``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec
import pluggy
from hilum_hooks import Spec, specifier

from hilum.context import ContextRequest
from hilum.errors import ToolDenied
from hilum.messages import AssistantMessage, Block, Layer, Message, ToolCall, ToolResult, Trim
from hilum.models import Provider
from hilum.processes import Command
from hilum.store import Store
from hilum.tools import Tool

if TYPE_CHECKING:
    from hilum.agents import Agent
    from hilum.kernel import Kernel
    from hilum.session import Session

PROJECT = "hilum"
hookimpl = pluggy.HookimplMarker(PROJECT)
hookspec = specifier(PROJECT)


class Verdict(msgspec.Struct, frozen=True):
    """What a gate says of a call: ``allow`` it, ``ask`` the user, or ``deny`` it. The strictest of all verdicts wins.

    Args:
        kind: What it says.
        reason: Why, for the user or the model.
        scope: With ``ask``: which calls a lasting yes holds for, as a rule that the user can read; else all of the tool.
        settled: With ``allow``: the user has settled this by a rule, so that the approval policy does not ask again.
        code: With ``deny``: what the result is marked with.
    """

    kind: Literal["allow", "ask", "deny"]
    reason: str = ""
    scope: str = ""
    settled: bool = False
    code: str = "E_DENIED"

    @property
    def rank(self) -> int:
        """How strict it is."""
        return ("allow", "ask", "deny").index(self.kind)


def allow(reason: str = "", *, settled: bool = False) -> Verdict:
    """Let the call run, unless somebody is stricter."""
    return Verdict("allow", reason, settled=settled)


def ask(reason: str, *, scope: str = "") -> Verdict:
    """Let the user decide."""
    return Verdict("ask", reason, scope)


def deny(reason: str, *, code: str = "E_DENIED") -> Verdict:
    """Refuse the call; the reason goes to the model."""
    return Verdict("deny", reason, code=code)


class Interpretation(msgspec.Struct, frozen=True):
    """What a prompt means.

    Args:
        text: The text for the agent.
        agent: Name of the agent it addresses.
        reply: Set when the prompt was a command that is done: the text to show; no agent runs.
    """

    text: str
    agent: str = "main"
    reply: str | None = None


# --- lifespans -----------------------------------------------------------------------------------------------------------


@hookspec(shape="supervised", deadline=30.0, fault="plugin off")
async def open_kernel(kernel: Kernel) -> AsyncIterator[object]:
    """Live as long as the kernel: connections and caches shared by all sessions.

    An async generator that yields once; what it yields is the plugin's kernel half (``kernel.half(Type)``). Code after the
    ``yield`` runs when the kernel closes. It runs in a task of its own: a crash ends this plugin and nothing else.
    """
    yield None


@hookspec(shape="supervised", deadline=30.0, fault="plugin off")
async def open_session(session: Session) -> AsyncIterator[object]:
    """Live as long as a session. What it yields is the plugin's half: an object whose ``@hookimpl`` methods join the
    session's hooks and whose state is the session's.

    A plain function that returns the half will do where nothing needs closing.
    """
    yield None


# --- what plugins provide ------------------------------------------------------------------------------------------------


@hookspec(shape="collect", fault="left out", gives=Provider)
def provide_models(kernel: Kernel) -> Iterable[Provider] | None:
    """Give providers of models; each serves the names that begin with its own and a slash."""


@hookspec(shape="first", deadline=30.0, fault="next one", gives=Store)
async def provide_store(kernel: Kernel) -> Store | None:
    """Give the store that keeps sessions. Without one they live in memory."""


@hookspec(shape="collect", fault="left out", gives=Tool)
def provide_tools(session: Session) -> Iterable[Tool] | None:
    """Give tools. Asked when the halves are open, and again after ``session.tools_changed()``."""


# --- a prompt on its way -------------------------------------------------------------------------------------------------


@hookspec(shape="first", deadline=10.0, fault="next one", gives=Interpretation)
async def interpret_prompt(session: Session, text: str) -> Interpretation | None:
    """Say what a prompt means: it addresses an agent, or is a command. ``None`` leaves it to the next, at last it is text."""


@hookspec(shape="gather", deadline=10.0, fault="left out", gives=Block, many=True)
async def gather_context(agent: Agent, request: ContextRequest) -> Sequence[Block] | None:
    """Give blocks of context for a prompt, once per run. They join the user's message, best first, within the budget."""


@hookspec(shape="gather", deadline=5.0, fault="last good layer", gives=Layer, many=True)
def build_prompt_layer(agent: Agent) -> Layer | Sequence[Layer] | None:
    """Give layers of the system prompt. Asked before each model call, so be quick and give the same text for the same state:
    what changes within a run becomes a note at the tail, and takes its place in the prompt at the next run.
    """


@hookspec(shape="first", deadline=300.0, fault="next one; at last plain dropping", gives=Trim)
async def trim_context(agent: Agent, messages: Sequence[Message], sizes: Sequence[int], budget: int) -> Trim | None:
    """Say how to make the conversation fit ``budget`` tokens, half of what there is room for.

    Asked when it does not fit its model's window, or when somebody asks for it (``agent.conversation.trim_asked``).
    ``sizes`` are the tokens of each message, as far as known.
    """


# --- tool calls ----------------------------------------------------------------------------------------------------------


@hookspec(shape="gate", deadline=10.0, fault="deny", gives=Verdict)
async def on_tool_call(agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
    """Allow a call, have the user asked, or deny it; ``None`` is no opinion. ``call.arguments`` are checked JSON by then."""


@hookspec(shape="pipe", deadline=10.0, fault="deny", gives=Command, raises=(ToolDenied,))
async def wrap_process(session: Session, command: Command) -> Command | None:
    """Change a command before any plugin's child process starts: sandbox, environment. Raise ``ToolDenied`` to refuse it."""


@hookspec(shape="pipe", deadline=10.0, fault="result withheld", gives=ToolResult)
async def check_result(agent: Agent, call: ToolCall, result: ToolResult) -> ToolResult | None:
    """Change a result before it is logged and seen by anyone: redact, neutralise, shorten."""


@hookspec(shape="gather", deadline=5.0, fault="left out", gives=str)
async def remind(agent: Agent, results: Sequence[ToolResult]) -> str | None:
    """Give a short note for the tail after a round of calls."""


@hookspec(shape="gate", deadline=30.0, fault="object", gives=str)
async def check_answer(agent: Agent, message: AssistantMessage) -> str | None:
    """Object to a final answer: the text goes back to the model, which tries again (at most three times). ``None`` passes."""


HOOKS: dict[str, Spec] = {
    name: value.hilum_spec_info for name, value in dict(globals()).items() if hasattr(value, "hilum_spec_info")
}
