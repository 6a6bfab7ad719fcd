"""All hooks and how they are called. Read this first to find your way through the program.

Each specification states when the hook is called, how implementations are combined, and what a
failure means.

An implementation is a function with the hook's name that is marked with ``@hookimpl`` and takes any
of the hook's arguments. An implementation is defined in a plugin's module, or as a method of the
instance that a plugin yields from ``open_session``. Implementations marked ``tryfirst`` are called
first and those marked ``trylast`` last; all others are called in the order of the plugins, and
those of a plugin's module before those of its instance. The shape of a hook decides how its
implementations are called and combined:

- ``collect``: every implementation is a plain ``def`` and returns an iterable; the results are
  joined.
- ``gather``: all implementations are called at the same time; the results are in the order of the
  plugins, without ``None``.
- ``first``: the implementations are called one after another until one returns a value other than
  ``None``.
- ``pipe``: each implementation receives the value of the previous one; ``None`` leaves the value
  unchanged.
- ``filter``: a ``pipe`` of plain ``def`` functions, which may be called in a thread and must not
  use the session.
- ``gate``: all implementations are called, and the strictest verdict wins; a failure or a missed
  deadline counts as the strictest verdict.
- ``supervised``: a generator that yields the plugin's instance and is resumed when the session or
  the kernel closes.

Implementations of the shapes ``gate``, ``pipe`` and ``filter`` are gates. Gates of an instance must
be declared in the plugin's module: ``gates = ("on_tool_call",)``. While any part of a plugin with
gates does not work, no call and no process runs.

Except for ``collect`` and ``filter``, an implementation may be an ``async def``, or a ``def`` that
runs inline and must not block. An ``async def`` runs in a task, which costs a tenth of a
millisecond; a ``def`` that returns an awaitable only if there is something to wait for saves the
task in all other cases.

An implementation that waits for something with a time limit of its own, such as a program of the
user, may have a longer deadline than its hook: ``hilum.hooks.hook_deadline`` marks it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pluggy

from hilum.context import ContextRequest
from hilum.errors import ToolDenied, UsageError
from hilum.hooks import Spec, Specifier, specifier
from hilum.messages import AssistantMessage, Block, Compaction, Layer, Message, ToolCall, ToolResult
from hilum.model_calls import ModelCall, ModelCallDenied
from hilum.models import Provider
from hilum.processes import Command
from hilum.store import Store
from hilum.tools import Tool

if TYPE_CHECKING:
    from hilum.agents import Agent
    from hilum.kernel import Kernel
    from hilum.session import Session

PROJECT = "hilum"
hookimpl: pluggy.HookimplMarker = pluggy.HookimplMarker(PROJECT)
hookspec: Specifier = specifier(PROJECT)


class Verdict(msgspec.Struct, frozen=True):
    """A gate's verdict on a call: ``allow`` it, ``ask`` the user, or ``deny`` it.

    The strictest of all verdicts wins.

    Args:
        kind: The verdict.
        reason: The reason for the verdict, for the user or the model.
        scope: With ``ask``: the calls that a lasting approval covers, as a rule that the user can
            read; by default, all calls of the tool.
        rule: With ``ask``: a rule that allows such calls without asking, as ``hilum permissions
            allow`` takes it. hilum shows the rule if no user is present to answer.
        by_policy: With ``ask``: whether only the approval policy ``ask_first`` asks, so that the
            call would run under ``auto``.
        settled: With ``allow``: whether one of the user's rules decided this, so that the approval
            policy does not ask for approval.
        code: With ``deny``: the error code of the call's result.
        arguments: With ``allow`` and ``ask``: a complete set of arguments, which replace those of
            the call. The arguments must fit the tool. The rewritten call is the one that all gates
            judge, that the user is asked about, and that runs.
        effects: With ``allow`` and ``ask``: what the call does although its arguments do not say
            so, for example the commands in a script that it runs. If another effect is found after
            the user approved the call, the call is denied.
        dangers: The dangerous ones of such effects. If the user approves the call with other
            arguments, only these effects are compared.
        once_only: With ``allow`` and ``ask``: whether the user can approve only this call, for
            example because the call destroys something. The user can give no lasting approval, and
            none that was given earlier covers the call.

    Raises:
        ValueError: The kind is unknown, or it does not allow these arguments.
        TypeError: A value has the wrong type.
    """

    kind: Literal["allow", "ask", "deny"]
    reason: str = ""
    scope: str = ""
    settled: bool = False
    code: str = "E_DENIED"
    arguments: Mapping[str, Any] | None = None
    rule: str = ""
    effects: frozenset[str] = frozenset()
    dangers: frozenset[str] = frozenset()
    once_only: bool = False
    by_policy: bool = False

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(f"a verdict is one of {', '.join(_KINDS)}, not {self.kind!r}")
        for name in ("reason", "scope", "code", "rule"):
            text = getattr(self, name)
            if not isinstance(text, str):
                raise TypeError(f"the {name} of a verdict is a text, not {text!r:.80}")
        for name in ("settled", "once_only", "by_policy"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise TypeError(f"{name} is True or False, not {value!r:.80}")
        for name in ("effects", "dangers"):
            texts = getattr(self, name)
            if not isinstance(texts, frozenset):
                raise TypeError(f"the {name} of a verdict are a frozenset, not {texts!r:.80}")
        if self.arguments is None:
            return
        if not isinstance(self.arguments, Mapping):
            raise TypeError(f"the arguments of a verdict are a mapping, not {self.arguments!r:.80}")
        if self.kind == "deny":
            raise ValueError("a call that is denied gets no other arguments")

    @property
    def rank(self) -> int:
        """The strictness of the verdict, as a number to compare."""
        return _KINDS.index(self.kind)


# The kinds of verdict from the mildest to the strictest; the index is the rank.
_KINDS = ("allow", "ask", "deny")


def allow(
    reason: str = "", *, settled: bool = False, arguments: Mapping[str, Any] | None = None
) -> Verdict:
    """Allow the call, with new arguments if any are given. A stricter verdict wins."""
    return Verdict("allow", reason, settled=settled, arguments=arguments)


def ask(reason: str, *, scope: str = "", arguments: Mapping[str, Any] | None = None) -> Verdict:
    """Ask the user to approve the call, with new arguments if any are given."""
    return Verdict("ask", reason, scope, arguments=arguments)


def deny(reason: str, *, code: str = "E_DENIED") -> Verdict:
    """Refuse the call; the reason goes to the model."""
    return Verdict("deny", reason, code=code)


class Interpretation(msgspec.Struct, frozen=True):
    """The meaning of a prompt.

    Args:
        text: The text for the agent.
        agent: Name of the agent that the prompt addresses.
        reply: The text to show if the prompt was a command, which has been carried out; in that
            case, no agent runs.
        attached: Data that comes with the text and that the user did not write, such as the output
            of a command. The agent reads this data as a separate block.
    """

    text: str
    agent: str = "main"
    reply: str | None = None
    attached: str = ""


class PromptCommand(msgspec.Struct, frozen=True):
    """A command that a plugin carries out when a prompt begins with it, such as ``/mcp``.

    If ``mark`` is ``@``, the command is instead a name that a prompt can mention, such as an
    agent's.

    Args:
        name: The text that the prompt begins with, without the mark.
        summary: A one-line summary of what the command does.
        arguments: The command's arguments as shown to users, for example ``[NAME]``.
        words: Possible first words of the arguments, for completion.
        mark: ``/`` or ``@``.
    """

    name: str
    summary: str = ""
    arguments: str = ""
    words: tuple[str, ...] = ()
    mark: Literal["/", "@"] = "/"


# --- lifespans ------------------------------------------------------------------------------------


@hookspec(shape="supervised", deadline=30.0, on_failure="plugin off")
async def open_kernel(kernel: Kernel) -> AsyncIterator[object]:
    """Create the plugin's instance for the kernel, such as connections that all sessions share.

    The hook is an async generator that yields one object, the plugin's kernel instance
    (``kernel.plugin(Type)``). Code after the ``yield`` runs when the kernel closes. The generator
    runs in a separate task, so a crash ends only this plugin.
    """
    yield None


@hookspec(shape="supervised", deadline=30.0, on_failure="plugin off")
async def open_session(session: Session) -> AsyncIterator[object]:
    """Create the plugin's instance for a session.

    The hook yields the instance: an object whose ``@hookimpl`` methods join the session's hooks and
    whose state belongs to the session.

    If nothing needs closing, a plain function that returns the instance suffices.
    """
    yield None


# --- models, stores and tools ---------------------------------------------------------------------


@hookspec(shape="collect", on_failure="left out", returns=Provider)
def provide_models(kernel: Kernel) -> Iterable[Provider] | None:
    """Return providers of models.

    Each provider serves the models whose names begin with the provider's name and a slash.
    """


@hookspec(shape="first", deadline=30.0, on_failure="next one", returns=Store)
async def provide_store(kernel: Kernel) -> Store | None:
    """Return a store for sessions. Without a store, sessions are kept in memory only."""


@hookspec(shape="collect", on_failure="left out", returns=Tool)
def provide_tools(session: Session) -> Iterable[Tool] | None:
    """Return tools.

    The hook is called when the plugins' instances are open, and after ``session.tools_changed()``.
    """


# --- prompts --------------------------------------------------------------------------------------


# The deadline is long, because a command may run programs and ask the user before that.
@hookspec(
    shape="first",
    deadline=7_200.0,
    on_failure="next one",
    returns=Interpretation,
    raises=(UsageError,),
)
async def interpret_prompt(session: Session, text: str, agent_name: str) -> Interpretation | None:
    """Return the meaning of a prompt that addresses an agent or is a command.

    ``None`` leaves the prompt to the next plugin. A prompt that no plugin interprets is plain text.
    ``agent_name`` is the agent that gets the prompt if the text addresses no other one.
    An implementation may ask the user, but must return at once for a prompt that it does not
    interpret. Raise ``UsageError`` to refuse a command, or ``PromptDenied`` to refuse any prompt:
    the prompt is then not sent.
    """


@hookspec(shape="collect", on_failure="left out", returns=PromptCommand)
def list_commands(session: Session) -> Iterable[PromptCommand] | None:
    """List the commands that the plugin's ``interpret_prompt`` carries out in a session.

    Faces show and complete these commands. If a face has a command of the same name, the face's
    command takes precedence. The hook is called whenever a face shows its commands, so an
    implementation must be fast.
    """


@hookspec(shape="gather", deadline=10.0, on_failure="left out", returns=Block, returns_many=True)
async def gather_context(agent: Agent, request: ContextRequest) -> Sequence[Block] | None:
    """Return blocks of context for a prompt; called once per run.

    The blocks with the highest priority that fit the budget are added to the user's message.
    """


@hookspec(
    shape="gather", deadline=5.0, on_failure="last good layer", returns=Layer, returns_many=True
)
def build_prompt_layer(agent: Agent) -> Layer | Sequence[Layer] | None:
    """Return layers of the system prompt.

    The hook is called before each model call, so an implementation must be fast and return the same
    text for the same state. If a layer changes within a run, the new text is added to the end of
    the conversation as a note; from the next run on, it is part of the prompt.
    """


@hookspec(
    shape="first",
    deadline=300.0,
    on_failure="next one, finally the kernel's own plan",
    returns=Compaction,
)
async def trim_context(
    agent: Agent, messages: Sequence[Message], sizes: Sequence[int], budget: int
) -> Compaction | None:
    """Plan how to make the conversation fit ``budget`` tokens.

    The budget is two fifths of the tokens that messages may take.

    The last turn and the user's request (in the current run, or in a run that may be retried) are
    always kept. The index of the request is ``agent.conversation.kept_request``.

    The hook is called when the conversation exceeds the model's window, or when the user requests a
    compaction (``agent.conversation.compaction_requested``). ``sizes`` contains the estimated
    number of tokens in each message.
    """


@hookspec(
    shape="filter", deadline=30.0, on_failure="texts withheld", returns=str, returns_many=True
)
def redact_texts(texts: Sequence[str], origin: str) -> Sequence[str] | None:
    """Replace secrets in texts before they are logged.

    Replace each secret with ``[REDACTED:NAME]``, where the name describes the secret.

    The hook is called once for all new texts in an event. Return the same number of texts, in the
    same order. The same text must always have the same result, and a result that is passed in again
    must be returned unchanged.

    ``origin`` is ``prompt`` for the user's texts, ``model`` for a model's text and reasoning and
    for prompts that a model writes for other agents, ``arguments`` for the arguments of tool calls,
    ``result`` for tool results (after ``check_result``), and ``other`` for everything else.

    For large texts, the hook is called in a thread. While an implementation fails, texts are
    withheld: prompts are refused and runs end.
    """


@hookspec(shape="gate", deadline=7_200.0, on_failure="deny", returns=ModelCallDenied)
async def on_model_call(agent: Agent, call: ModelCall) -> ModelCallDenied | None:
    """Refuse a request to a model before it is sent; ``None`` admits it.

    The hook is called for each request of an agent, retries included, and for each request that a
    plugin makes with ``ask_model``. If another program does an agent's work, the hook is called for
    each request that the program makes. A refused request of an agent ends its run as
    ``partial_success`` with the code, message and hint of the returned error; for a plugin, the
    error is raised by ``ask_model``.

    ``call.on_end`` registers a function that is called when the request has ended, for example to
    replace a reserved amount by the amount that was used. An implementation may wait for other
    requests to end.
    """


# --- tool calls -----------------------------------------------------------------------------------


@hookspec(shape="gate", deadline=10.0, on_failure="deny", returns=Verdict)
async def on_tool_call(agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
    """Allow a call, ask the user to approve it, or deny it; ``None`` means no opinion.

    ``call.arguments`` is JSON that fits the tool.

    ``allow(arguments=…)`` and ``ask(…, arguments=…)`` rewrite the call. All gates then judge the
    rewritten call, until no gate rewrites it again; a call that is rewritten too often is denied.
    """


@hookspec(shape="pipe", deadline=10.0, on_failure="deny", returns=Command, raises=(ToolDenied,))
async def wrap_process(session: Session, command: Command) -> Command | None:
    """Change the command of any child process before it starts, such as its sandbox or environment.

    Raise ``ToolDenied`` to refuse the command.
    """


@hookspec(shape="pipe", deadline=10.0, on_failure="result withheld", returns=ToolResult)
async def check_result(agent: Agent, call: ToolCall, result: ToolResult) -> ToolResult | None:
    """Change a result before it is logged or shown: redact, neutralize or shorten it."""


@hookspec(shape="gather", deadline=5.0, on_failure="left out", returns=str)
async def remind(agent: Agent, results: Sequence[ToolResult]) -> str | None:
    """Return a short note to add to the conversation after a round of calls."""


@hookspec(shape="gate", deadline=30.0, on_failure="object", returns=str)
async def check_answer(agent: Agent, message: AssistantMessage) -> str | None:
    """Object to a final answer, or return ``None`` to let it pass.

    The objection goes back to the model, which tries again, at most three times.
    """


HOOKS: dict[str, Spec] = {
    name: value.hilum_spec_info
    for name, value in dict(globals()).items()
    if hasattr(value, "hilum_spec_info")
}
