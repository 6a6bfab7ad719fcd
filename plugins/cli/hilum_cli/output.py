"""What ``hilum run`` writes for programs: the lines of ``stream-json``, the last of which is all
that ``json`` writes.

The schema is stable: see ``SCHEMA``. It is independent of the event log, whose classes may change.
``docs/make_output.py`` generates the reference and the JSON Schema from these classes.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec
from hilum.messages import Usage

from hilum_cli.progress import parse_arguments

SCHEMA = 1
"""Version of the schema.

Within a version lines and fields are only added; a program ignores what it does not know.
"""

End = Literal["completed", "partial_success", "failed", "stopped", "timed_out", "interrupted"]
CallState = Literal["running", "completed", "failed"]


def _tag(name: str) -> str:
    """Return the value of ``type`` for a class: ``RunStartedLine`` is ``run_started``."""
    words = name.removesuffix("Line")
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in words).lstrip("_")


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and cost of one or more model calls.

    Attributes:
        input: Tokens sent, including cached and cache_write.
        cached: Tokens read from the provider's cache.
        cache_write: Tokens written to the provider's cache.
        output: Tokens received, including reasoning.
        reasoning: Tokens of the model's reasoning.
        total: Input and output together.
        cost: US dollars; null where the price of the model is not known.
    """

    input: int
    cached: int
    cache_write: int
    output: int
    reasoning: int
    total: int
    cost: float | None


class ToolCallData(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call: in ``call_started`` as it runs, elsewhere as the model wrote it.

    Attributes:
        id: Unique within one answer of one agent.
        name: Name of the tool.
        arguments: The arguments; empty where the model did not write a JSON object.
        invalid_arguments: The text that the model wrote, where it is not a JSON object; else empty.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    invalid_arguments: str


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the system prompt.

    Attributes:
        name: Name of the layer.
        characters: Its length.
        text: Its text; empty without --include-prompt.
    """

    name: str
    characters: int
    text: str


class ToolData(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the model was offered.

    Attributes:
        name: Name of the tool.
        description: What the model reads; empty without --include-prompt.
        parameters: JSON Schema of the arguments; empty without --include-prompt.
    """

    name: str
    description: str
    parameters: dict[str, Any]


class ContextData(msgspec.Struct, frozen=True, kw_only=True):
    """A block of context that was added to the user's prompt.

    Attributes:
        source: Kind of the block, for example context:open_file.
        characters: Its length.
        text: Its text; empty without --include-prompt.
    """

    source: str
    characters: int
    text: str


class CallSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call and how it ended.

    Attributes:
        id: Unique within one answer of one agent.
        name: Name of the tool.
        arguments: The arguments; empty where the model did not write a JSON object.
        invalid_arguments: The text that the model wrote, where it is not a JSON object; else empty.
        agent: Name of the agent.
        turn: Number of the agent's model call that asked for it, from 1.
        state: How it ended; running where the run ended first.
        code: Error code; empty on success.
        seconds: How long it took.
        result: The text that the model got.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    invalid_arguments: str
    agent: str
    turn: int
    state: CallState
    code: str
    seconds: float
    result: str


class AgentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that was started in the run, and how it ended.

    Attributes:
        agent_id: What hilum agents result and stop take.
        agent: Name of its definition.
        title: What it worked on.
        owner: Name of the agent that started it; empty for the user.
        status: How it ended.
        seconds: How long it took.
        text: Its answer.
        error: What went wrong; null if nothing did.
    """

    agent_id: str
    agent: str
    title: str
    owner: str
    status: str
    seconds: float
    text: str
    error: dict[str, Any] | None


class AgentAction(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of an agent that ended.

    Attributes:
        tool: Name of the tool.
        arguments: The arguments as the model wrote them, cut where they are long.
        code: Error code; empty where it succeeded.
        seconds: How long it ran.
    """

    tool: str
    arguments: str
    code: str
    seconds: float


class AgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """What hilum agents run, retry and result write with --json: what an agent found.

    Several are a list of these.

    Attributes:
        agent_id: What hilum agents result and stop take.
        agent: Name of its definition.
        status: How it ended.
        current_step: How it ended, in words.
        progress: 0 to 1.
        text: Its answer.
        gathered: What it found out, where it did not complete.
        files_made: Paths of files that it created, relative to the workspace.
        files_changed: Paths of files that it changed.
        files_deleted: Paths of files that it deleted.
        actions: Its tool calls; of very many the first ones.
        tools_used: Number of its tool calls.
        turns: Number of its model calls.
        seconds: How long it took.
        usage: Tokens that it used.
        cost: US dollars that it used, as far as prices are known.
        error: What went wrong, with code, message and hint; null if nothing did.
        done: Items of its todo list that are done.
        not_done: What is not done.
        run: Id of its run.
        owner: Name of the agent that started it; empty for the user.
    """

    agent_id: str
    agent: str
    status: End
    current_step: str
    progress: float
    text: str
    gathered: str
    files_made: list[str]
    files_changed: list[str]
    files_deleted: list[str]
    actions: list[AgentAction]
    tools_used: int
    turns: int
    seconds: float
    usage: Tokens
    cost: float
    error: dict[str, str] | None
    done: list[str]
    not_done: list[str]
    run: str
    owner: str


class FaultSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A failure of a plugin.

    Attributes:
        plugin: Name of the plugin.
        hook: The hook or step that failed; load where the plugin was not loaded at all.
        error: What happened.
        switched_off: Whether the plugin is off from here on.
    """

    plugin: str
    hook: str
    error: str
    switched_off: bool


class InterruptedRun(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier run of the session that was cut off, and was ended to make way for the new prompt.

    Attributes:
        run: Its id.
        agent: Name of its agent.
        prompt: What the user had asked for.
        calls: Names of the tools whose calls were cut off.
    """

    run: str
    agent: str
    prompt: str
    calls: list[str]


class ServiceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A background command that was running when the run ended.

    Attributes:
        id: Its name, for example s1.
        command: The command line.
        state: ended where it ended with the run, running where --keep-services keeps it.
    """

    id: str
    command: str
    state: Literal["ended", "running"]


class Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=_tag):
    """A line. ``type`` says which.

    Attributes:
        seq: Number of the event in the session's log; 0 for what is not an event of the log.
        at: Unix time in seconds.
        agent: Name of the agent; empty for the session's own events.
        run: Id of the run; empty for the session's own events.
    """

    seq: int = 0
    at: float = 0.0
    agent: str = ""
    run: str = ""


class SessionLine(Line, frozen=True, kw_only=True):
    """The first line of a run whose session could be opened.

    Attributes:
        schema: Version of this schema.
        version: Version of hilum.
        session: Id of the session.
        workspace: Folder of the workspace.
        kind: Kind of the session.
        mode: Mode of the session.
        model: Model of the session, provider/name; empty where the provider chooses.
        approve: Approval policy.
        resumed: Whether an earlier session is continued.
    """

    schema: int
    version: str
    session: str
    workspace: str
    kind: str
    mode: str
    model: str
    approve: str
    resumed: bool


class SessionChangedLine(Line, frozen=True, kw_only=True):
    """Mode, model or approval policy changed; null for what stays.

    Attributes:
        mode: The new mode.
        model: The new model.
        approve: The new approval policy.
    """

    mode: str | None
    model: str | None
    approve: str | None


class AgentStartedLine(Line, frozen=True, kw_only=True):
    """An agent joined the session.

    Attributes:
        parent: Name of the agent that started it; empty for the main agent.
    """

    parent: str


class RunStartedLine(Line, frozen=True, kw_only=True):
    """An agent began to work on a prompt.

    Attributes:
        text: The prompt.
        model: Model that it uses, provider/name.
        mode: Mode that it works in.
        context: What was added to the prompt.
        retries: Id of the run that this one continues; empty where it has a prompt of its own.
    """

    text: str
    model: str
    mode: str
    context: list[ContextData]
    retries: str


class PromptBuiltLine(Line, frozen=True, kw_only=True):
    """The system prompt and the list of tools were built.

    Attributes:
        cause: Why now: run, trim, mode or model.
        mode: Mode that it was built for.
        model: Model that it was built for.
        layers: The system prompt's parts.
        tools: The tools.
    """

    cause: str
    mode: str
    model: str
    layers: list[Layer]
    tools: list[ToolData]


class ModelStartedLine(Line, frozen=True, kw_only=True):
    """A request goes to the model.

    A new attempt means that what was shown of the one before is void.

    Attributes:
        model: The model, provider/name.
        turn: Number of the model call in the run, from 1.
        attempt: Number of the attempt, from 1.
        estimated_tokens: Estimated size of the request.
    """

    model: str
    turn: int
    attempt: int
    estimated_tokens: int


class ModelFailedLine(Line, frozen=True, kw_only=True):
    """A request failed.

    Attributes:
        model: The model.
        attempt: Number of the attempt.
        code: Error code.
        message: What happened.
        hint: What to do.
        action: What hilum does: retry, fallback, trim or give_up.
        wait: Seconds until the next attempt.
        next: The next model, with the action fallback.
    """

    model: str
    attempt: int
    code: str
    message: str
    hint: str
    action: str
    wait: float
    next: str


class ModelAnsweredLine(Line, frozen=True, kw_only=True):
    """A whole answer of the model.

    Attributes:
        model: The model that answered.
        text: The text.
        calls: The tool calls that it asks for.
        stop: Why it ended: end, calls, length or refusal.
        usage: What it used.
        first: Seconds until the first byte.
        seconds: Seconds in all.
    """

    model: str
    text: str
    calls: list[ToolCallData]
    stop: str
    usage: Tokens
    first: float
    seconds: float


class ModelUsedLine(Line, frozen=True, kw_only=True):
    """A plugin asked a model for an agent: for a summary, for example.

    Attributes:
        model: The model.
        purpose: What for.
        usage: What it used.
        seconds: How long it took.
    """

    model: str
    purpose: str
    usage: Tokens
    seconds: float


class ApprovalAskedLine(Line, frozen=True, kw_only=True):
    """A call waits for the user's approval.

    Attributes:
        id: Id of the approval.
        call: The call.
        risk: What the tool touches: read, write, execute or network.
        reason: Why it is asked.
        scope: What a lasting approval would hold for.
        seconds: Time for the answer, counted from when the question is shown.
    """

    id: str
    call: ToolCallData
    risk: str
    reason: str
    scope: str
    seconds: float


class ApprovalShownLine(Line, frozen=True, kw_only=True):
    """The question of an approval is before the user.

    Attributes:
        id: Id of the approval.
        deadline: Unix time at which the call is denied without an answer.
    """

    id: str
    deadline: float


class ApprovalAnsweredLine(Line, frozen=True, kw_only=True):
    """An approval was given or denied.

    Attributes:
        id: Id of the approval.
        accepted: Whether the call may run.
        reason: Why not.
        by: Who answered: user, timeout, headless or stop.
        remember: For how long it holds: once, session or always.
    """

    id: str
    accepted: bool
    reason: str
    by: str
    remember: str


class CallStartedLine(Line, frozen=True, kw_only=True):
    """A call is about to run.

    Attributes:
        call: The call as it runs.
        risk: What the tool touches: read, write, execute or network.
        plugin: Plugin of the tool.
        original: The call as the model wrote it, where plugins changed its arguments; else null.
        rewritten_by: Names of the plugins that changed its arguments.
    """

    call: ToolCallData
    risk: str
    plugin: str
    original: ToolCallData | None
    rewritten_by: list[str]


class CallDoneLine(Line, frozen=True, kw_only=True):
    """A call ended, was denied or was skipped.

    Attributes:
        call_id: Id of the call.
        name: Name of the tool.
        state: completed or failed.
        code: Error code; empty on success.
        result: The text that the model gets.
        seconds: How long it took.
        data: Data of the tool for faces.
    """

    call_id: str
    name: str
    state: CallState
    code: str
    result: str
    seconds: float
    data: dict[str, Any]


class NotesLine(Line, frozen=True, kw_only=True):
    """Notes that were added for the model after a round of calls.

    Attributes:
        notes: Their texts.
        objected: Whether they object to an answer that would have been the last.
        shortened: Ids of the calls whose results were too large for the model's window and were
            shortened.
    """

    notes: list[str]
    objected: bool
    shortened: list[str]


class CompactedLine(Line, frozen=True, kw_only=True):
    """The conversation was shortened to fit the model's window.

    Attributes:
        cause: Why: window, model, too_long or asked.
        before: Estimated tokens before.
        removed: Number of messages that were replaced by the summary.
        shortened: Number of results that were shortened.
        summary: Text of the summary.
    """

    cause: str
    before: int
    removed: int
    shortened: int
    summary: str


class StateChangedLine(Line, frozen=True, kw_only=True):
    """The state of an agent changed.

    Attributes:
        state: The new state.
        previous: The state before.
    """

    state: str
    previous: str


class UserNeededLine(Line, frozen=True, kw_only=True):
    """Something that only the user can settle.

    Attributes:
        code: Error code.
        message: What it is.
    """

    code: str
    message: str


class ErrorLine(Line, frozen=True, kw_only=True):
    """An error that does not end the run by itself.

    Attributes:
        code: Error code.
        message: What happened.
        hint: What to do.
    """

    code: str
    message: str
    hint: str


class FaultLine(Line, frozen=True, kw_only=True):
    """A plugin failed, or was not loaded.

    Attributes:
        plugin: Name of the plugin.
        hook: The hook or step that failed; load where the plugin was not loaded at all.
        error: What happened.
        switched_off: Whether the plugin is off from here on.
    """

    plugin: str
    hook: str
    error: str
    switched_off: bool


class PluginEventLine(Line, frozen=True, kw_only=True):
    """An event of a plugin, or an event of the log that this schema has no line for.

    Attributes:
        name: Name of the event, plugin.what.
        data: Its data; the plugin's documentation describes it.
    """

    name: str
    data: dict[str, Any]


class RunEndedLine(Line, frozen=True, kw_only=True):
    """A run of an agent ended. It may be that of a sub-agent: the last line is ``result``.

    Attributes:
        state: How it ended.
        text: The answer.
        commentary: What the model said last, where that is no answer.
        done: What was done, where the run did not complete.
        code: Error code where it did not complete.
        error: What happened.
        hint: What to do.
        left: What is not done.
        turns: Number of model calls.
        seconds: How long it took.
        usage: What it used.
    """

    state: End
    text: str
    commentary: str
    done: str
    code: str
    error: str
    hint: str
    left: str
    turns: int
    seconds: float
    usage: Tokens


class DeltaLine(Line, frozen=True, kw_only=True):
    """A piece of output on its way.

    ``seq`` is that of the event that it belongs to; what was missed is in a later line.

    Attributes:
        kind: text, thinking or arguments of a model's answer; output of a running call.
        text: The piece.
        call_id: Id of the call, with arguments and output.
    """

    kind: Literal["text", "thinking", "arguments", "output"]
    text: str
    call_id: str


class ResultLine(Line, frozen=True, kw_only=True):
    """The last line, in every case. With ``--output-format json`` it is the only one.

    Attributes:
        schema: Version of this schema.
        version: Version of hilum; empty where a signal came before it was known.
        session: Id of the session; empty where none was opened.
        workspace: Folder of the workspace.
        kind: Kind of the session; empty where none was opened.
        model: Model that was used last, provider/name.
        state: How the run ended.
        text: The answer.
        commentary: What the model said last, where that is no answer.
        done: What was done, where the run did not complete.
        code: Error code; empty where the run completed.
        error: What happened; empty where the run completed.
        hint: What to do.
        left: What is not done.
        turns: Number of model calls of the agent.
        seconds: How long the run took.
        usage: What this run used, sub-agents included.
        session_usage: What the session has used: all runs, all agents.
        session_runs: Number of prompts that the session has worked on, this one included.
        calls: The tool calls of the run, sub-agents included.
        agents: The agents that ended in the run.
        faults: Plugins that failed or were not loaded.
        denied: Number of calls that were denied because nobody was there to approve them.
        interrupted: Earlier runs of the session that were cut off and are not resumed.
        redacted: Names of the secrets that were replaced in the prompt before the model got it.
        files_changed: Paths of files that calls changed, relative to the workspace; null where they
            are not recorded.
        services: Background commands that were running at the end.
        exit_code: Exit code of the process.
    """

    schema: int = SCHEMA
    version: str = ""
    session: str = ""
    workspace: str = ""
    kind: str = ""
    model: str = ""
    state: End = "failed"
    text: str = ""
    commentary: str = ""
    done: str = ""
    code: str = ""
    error: str = ""
    hint: str = ""
    left: str = ""
    turns: int = 0
    seconds: float = 0.0
    usage: Tokens = msgspec.field(default_factory=lambda: tokens(Usage()))
    session_usage: Tokens = msgspec.field(default_factory=lambda: tokens(Usage()))
    session_runs: int = 0
    calls: list[CallSummary] = []
    agents: list[AgentSummary] = []
    faults: list[FaultSummary] = []
    denied: int = 0
    interrupted: list[InterruptedRun] = []
    redacted: list[str] = []
    files_changed: list[str] | None = None
    services: list[ServiceSummary] = []
    exit_code: int = 1


LINES: tuple[type[Line], ...] = (
    SessionLine,
    SessionChangedLine,
    AgentStartedLine,
    RunStartedLine,
    PromptBuiltLine,
    ModelStartedLine,
    ModelFailedLine,
    ModelAnsweredLine,
    ModelUsedLine,
    ApprovalAskedLine,
    ApprovalShownLine,
    ApprovalAnsweredLine,
    CallStartedLine,
    CallDoneLine,
    NotesLine,
    CompactedLine,
    StateChangedLine,
    UserNeededLine,
    ErrorLine,
    FaultLine,
    PluginEventLine,
    RunEndedLine,
    DeltaLine,
    ResultLine,
)


def encode(line: Line) -> bytes:
    """Return a line as JSON with its newline. Every field is there, empty ones included."""
    data = msgspec.json.encode(line)
    # JSON escapes most of what a terminal obeys, but neither DEL nor the controls from U+0080 on.
    return (
        re.sub(rb"\x7f|\xc2[\x80-\x9f]", lambda match: b"\\u%04x" % ord(match[0].decode()), data)
        + b"\n"
    )


def tokens(usage: Usage) -> Tokens:
    """Convert what a provider counted."""
    return Tokens(
        input=usage.input,
        cached=usage.cached,
        cache_write=usage.cache_write,
        output=usage.output,
        reasoning=usage.reasoning,
        total=usage.total,
        cost=usage.cost,
    )


def arguments_of(text: str) -> tuple[dict[str, Any], str]:
    """Return the arguments of a call as an object; else an empty object and the text."""
    arguments = parse_arguments(text)
    if arguments is None:
        return {}, text
    return arguments, ""
