"""The map of the program: every hook, when it is called, how implementations combine, and what a
failure means.

An implementation is a function of the same name, marked with ``@hookimpl``, that takes the
arguments it wants. It is in a plugin's module, or a method of the instance that a plugin yields
from ``open_session``. Order: ``tryfirst``, plugin order, module before instance, ``trylast``.
Shapes:

- ``collect``: plain ``def``; every implementation gives an iterable; all are joined.
- ``gather``: all at once; answers in plugin order; ``None`` is left out.
- ``first``: one after another until one gives something other than ``None``.
- ``pipe``: each gets the value the one before gave; ``None`` leaves it as it is.
- ``filter``: a ``pipe`` of plain ``def``, which may be called in a thread and must not touch the
  session.
- ``gate``: all are asked; the strictest answer wins; a failure or a missed deadline counts as the
  strictest.
- ``supervised``: a lifespan: what is yielded is the plugin's instance, the rest runs when it
  closes.

Implementations of shape ``gate``, ``pipe`` and ``filter`` are gates. Those of an instance must be
declared in the plugin's module: ``gates = ("on_tool_call",)``. While a plugin with gates is not in
full working order, no call and no process runs.

Except for ``collect`` and ``filter``, an implementation may be ``def`` (runs inline, must not
block) or ``async def``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

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
    """What a gate says of a call: ``allow`` it, ``ask`` the user, or ``deny`` it.

    The strictest of all verdicts wins.

    Args:
        kind: What it says.
        reason: Why, for the user or the model.
        scope: With ``ask``: which calls a lasting yes holds for, as a rule that the user can read;
            else all of the tool.
        settled: With ``allow``: the user has settled this by a rule, so that the approval policy
            does not ask again.
        code: With ``deny``: what the result is marked with.
        arguments: With ``allow`` and ``ask``: the arguments that the call is to have instead of its
            own, all of them. They must fit the tool. All gates judge the rewritten call; it is what
            the user is asked about, and what runs.

    Raises:
        ValueError: The kind is not one of the three, or goes with none of these arguments.
        TypeError: A value is of the wrong type.
    """

    kind: Literal["allow", "ask", "deny"]
    reason: str = ""
    scope: str = ""
    settled: bool = False
    code: str = "E_DENIED"
    arguments: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(f"a verdict is one of {', '.join(_KINDS)}, not {self.kind!r}")
        for name in ("reason", "scope", "code"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(
                    f"the {name} of a verdict is a text, not {getattr(self, name)!r:.80}"
                )
        if not isinstance(self.settled, bool):
            raise TypeError(f"settled is True or False, not {self.settled!r:.80}")
        if self.arguments is not None and not isinstance(self.arguments, Mapping):
            raise TypeError(f"the arguments of a verdict are a mapping, not {self.arguments!r:.80}")
        if self.arguments is not None and self.kind == "deny":
            raise ValueError("a call that is denied gets no other arguments")

    @property
    def rank(self) -> int:
        """How strict it is."""
        return _KINDS.index(self.kind)


_KINDS = ("allow", "ask", "deny")


def allow(
    reason: str = "", *, settled: bool = False, arguments: Mapping[str, Any] | None = None
) -> Verdict:
    """Let the call run, with other arguments if any are given, unless somebody is stricter."""
    return Verdict("allow", reason, settled=settled, arguments=arguments)


def ask(reason: str, *, scope: str = "", arguments: Mapping[str, Any] | None = None) -> Verdict:
    """Let the user decide, about the call with other arguments if any are given."""
    return Verdict("ask", reason, scope, arguments=arguments)


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


# --- lifespans ------------------------------------------------------------------------------------


@hookspec(shape="supervised", deadline=30.0, fault="plugin off")
async def open_kernel(kernel: Kernel) -> AsyncIterator[object]:
    """Live as long as the kernel: connections and caches shared by all sessions.

    An async generator that yields once; what it yields is the plugin's kernel half
    (``kernel.half(Type)``). Code after the ``yield`` runs when the kernel closes. It runs in a task
    of its own: a crash ends this plugin and nothing else.
    """
    yield None


@hookspec(shape="supervised", deadline=30.0, fault="plugin off")
async def open_session(session: Session) -> AsyncIterator[object]:
    """Live as long as a session.

    What it yields is the plugin's half: an object whose ``@hookimpl`` methods join the session's
    hooks and whose state is the session's.

    A plain function that returns the half will do where nothing needs closing.
    """
    yield None


# --- what plugins provide -------------------------------------------------------------------------


@hookspec(shape="collect", fault="left out", gives=Provider)
def provide_models(kernel: Kernel) -> Iterable[Provider] | None:
    """Return providers of models; each serves the names that begin with its own and a slash."""


@hookspec(shape="first", deadline=30.0, fault="next one", gives=Store)
async def provide_store(kernel: Kernel) -> Store | None:
    """Return the store that keeps sessions. Without one they live in memory."""


@hookspec(shape="collect", fault="left out", gives=Tool)
def provide_tools(session: Session) -> Iterable[Tool] | None:
    """Return tools. Asked when the halves are open, and again after ``session.tools_changed()``."""


# --- a prompt on its way --------------------------------------------------------------------------


@hookspec(shape="first", deadline=10.0, fault="next one", gives=Interpretation)
async def interpret_prompt(session: Session, text: str) -> Interpretation | None:
    """Return what a prompt means: it addresses an agent, or is a command.

    ``None`` leaves it to the next, at last it is text.
    """


@hookspec(shape="gather", deadline=10.0, fault="left out", gives=Block, many=True)
async def gather_context(agent: Agent, request: ContextRequest) -> Sequence[Block] | None:
    """Return blocks of context for a prompt, once per run.

    They join the user's message, best first, within the budget.
    """


@hookspec(shape="gather", deadline=5.0, fault="last good layer", gives=Layer, many=True)
def build_prompt_layer(agent: Agent) -> Layer | Sequence[Layer] | None:
    """Return layers of the system prompt.

    Asked before each model call, so be quick and give the same text for the same state: what
    changes within a run becomes a note at the tail, and takes its place in the prompt at the next
    run.
    """


@hookspec(shape="first", deadline=300.0, fault="next one; at last plain dropping", gives=Trim)
async def trim_context(
    agent: Agent, messages: Sequence[Message], sizes: Sequence[int], budget: int
) -> Trim | None:
    """Plan how to make the conversation fit ``budget`` tokens, two fifths of what there is room
    for.

    The user's request of the current run, or of one that may be retried, and the last turn always
    stay. The request is at ``agent.conversation.kept_request``.

    Asked when it does not fit its model's window, or when somebody asks for it
    (``agent.conversation.trim_asked``). ``sizes`` are the tokens of each message, as far as known.
    """


@hookspec(shape="filter", deadline=30.0, fault="texts withheld", gives=str, many=True)
def redact_texts(texts: Sequence[str], origin: str) -> Sequence[str] | None:
    """Replace secrets in texts before they are logged: by ``[REDACTED:NAME]``, where the name says
    what it was.

    Asked once for all new texts of an event. Give as many texts, in the same order. The same text
    must always give the same result, and a result that is given again must stay as it is.

    ``origin`` is ``prompt`` for what the user says, ``model`` for the text and reasoning of a model
    and the prompts that it writes for other agents, ``arguments`` for those of its calls,
    ``result`` for what tools gave, after ``check_result`` has seen it with the call, and ``other``.

    Large texts come in a thread. While an implementation fails, texts are withheld: prompts are
    refused, and runs end.
    """


# --- tool calls -----------------------------------------------------------------------------------


@hookspec(shape="gate", deadline=10.0, fault="deny", gives=Verdict)
async def on_tool_call(agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
    """Allow a call, have the user asked, or deny it; ``None`` is no opinion.

    ``call.arguments`` are checked JSON by then.

    ``allow(arguments=…)`` and ``ask(…, arguments=…)`` rewrite the call. All gates then judge the
    rewritten one, until none rewrites it any more; a call that is rewritten without end is denied.
    """


@hookspec(shape="pipe", deadline=10.0, fault="deny", gives=Command, raises=(ToolDenied,))
async def wrap_process(session: Session, command: Command) -> Command | None:
    """Change a command before any plugin's child process starts: sandbox, environment.

    Raise ``ToolDenied`` to refuse it.
    """


@hookspec(shape="pipe", deadline=10.0, fault="result withheld", gives=ToolResult)
async def check_result(agent: Agent, call: ToolCall, result: ToolResult) -> ToolResult | None:
    """Change a result before it is logged and seen by anyone: redact, neutralise, shorten."""


@hookspec(shape="gather", deadline=5.0, fault="left out", gives=str)
async def remind(agent: Agent, results: Sequence[ToolResult]) -> str | None:
    """Return a short note for the tail after a round of calls."""


@hookspec(shape="gate", deadline=30.0, fault="object", gives=str)
async def check_answer(agent: Agent, message: AssistantMessage) -> str | None:
    """Object to a final answer: the text goes back to the model, which tries again (at most three
    times). ``None`` passes.
    """


HOOKS: dict[str, Spec] = {
    name: value.hilum_spec_info
    for name, value in dict(globals()).items()
    if hasattr(value, "hilum_spec_info")
}
