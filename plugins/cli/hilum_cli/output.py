"""The machine-readable output of ``hilum run``: the lines of ``stream-json``.

``json`` writes only the last line.

The schema is stable: see ``SCHEMA``. The schema is independent of the event log, whose classes may
change, so some lines do not have the names of their events. ``docs/make_output.py`` generates the
reference and the JSON Schema from these classes.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec
from hilum.messages import Usage
from hilum_view import parse_arguments

SCHEMA = 1
"""Version of the schema.

Within a version, lines and fields are only added; programs must ignore unknown ones.
"""

End = Literal["completed", "partial_success", "failed", "stopped", "timed_out", "interrupted"]
CallState = Literal["running", "completed", "failed"]


def _tag(name: str) -> str:
    """Return the value of ``type`` for a class, such as ``run_started`` for ``RunStartedLine``."""
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
        total: Sum of input and output.
        cost: Cost in US dollars; null if the price of the model is unknown.
    """

    input: int
    cached: int
    cache_write: int
    output: int
    reasoning: int
    total: int
    cost: float | None


class ToolCallData(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call: in ``call_started`` as it runs, in all other lines as written by the model.

    Attributes:
        id: Id of the call, unique within one answer from one agent.
        name: Name of the tool.
        arguments: The arguments; empty if the model did not write a JSON object.
        invalid_arguments: The arguments as text if they are not a JSON object; otherwise empty.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    invalid_arguments: str


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the system prompt.

    Attributes:
        name: Name of the layer.
        characters: Length of the text in characters.
        text: The text; empty without --include-prompt.
    """

    name: str
    characters: int
    text: str


class ToolData(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that was offered to the model.

    Attributes:
        name: Name of the tool.
        description: The description that the model reads; empty without --include-prompt.
        parameters: JSON Schema of the arguments; empty without --include-prompt.
    """

    name: str
    description: str
    parameters: dict[str, Any]


class ContextData(msgspec.Struct, frozen=True, kw_only=True):
    """A block of context that was added to the user's prompt.

    Attributes:
        source: Kind of the block, for example context:open_file.
        characters: Length of the text in characters.
        text: The text; empty without --include-prompt.
    """

    source: str
    characters: int
    text: str


class CallSummary(ToolCallData, frozen=True, kw_only=True):
    """A tool call and its outcome.

    Attributes:
        agent: Name of the agent.
        turn: Number of the agent's model call that requested the tool call, starting at 1.
        state: Final state; running if the run ended first.
        code: Error code; empty on success.
        seconds: Duration in seconds.
        result: The text that the model received.
    """

    agent: str
    turn: int
    state: CallState
    code: str
    seconds: float
    result: str


class AgentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that was started during the run, and its outcome.

    Attributes:
        agent_id: Id of the agent, as accepted by `hilum agents result` and `stop`.
        agent: Name of the agent's definition.
        title: Task of the agent in a few words.
        owner: Name of the agent that started this agent; empty if the user did.
        status: Final status.
        seconds: Duration in seconds.
        text: Answer of the agent.
        error: The error; null if there is none.
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
    """A tool call by an agent that has ended.

    Attributes:
        tool: Name of the tool.
        arguments: The arguments as written by the model, truncated if they are long.
        code: Error code; empty on success.
        seconds: Duration in seconds.
    """

    tool: str
    arguments: str
    code: str
    seconds: float


class AgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's result, as written by `hilum agents run`, `retry` and `result` with --json.

    Several results are written as a list.

    Attributes:
        agent_id: Id of the agent, as accepted by `hilum agents result` and `stop`.
        agent: Name of the agent's definition.
        status: Final status.
        current_step: Description of how the agent ended.
        progress: Progress from 0 to 1.
        text: Answer of the agent.
        gathered: Findings of the agent, if it did not complete.
        files_made: Paths of files that the agent created, relative to the workspace.
        files_changed: Paths of files that the agent changed.
        files_deleted: Paths of files that the agent deleted.
        actions: Tool calls of the agent; if there are very many, only the first ones.
        tools_used: Number of the agent's tool calls.
        turns: Number of the agent's model calls.
        seconds: Duration in seconds.
        usage: Tokens that the agent used.
        cost: Cost in US dollars, as far as prices are known.
        error: The error with code, message and hint; null if there is none.
        done: Completed items in the agent's todo list.
        not_done: Unfinished items in the agent's todo list.
        run: Id of the agent's run.
        owner: Name of the agent that started this agent; empty if the user did.
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
        hook: The hook or step that failed; load if the plugin was not loaded.
        error: The error in one sentence.
        switched_off: Whether the plugin was disabled as a result.
    """

    plugin: str
    hook: str
    error: str
    switched_off: bool


class InterruptedRun(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier run of the session that was interrupted, and that the new prompt ended.

    Attributes:
        run: Id of the interrupted run.
        agent: Name of the agent.
        prompt: The prompt of the interrupted run.
        calls: Names of the tools whose calls were interrupted.
    """

    run: str
    agent: str
    prompt: str
    calls: list[str]


class ServiceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A background command that was running when the run ended.

    Attributes:
        id: Name of the command, for example s1.
        command: The command line.
        state: State of the command, either ended (with the run) or running (with --keep-services).
    """

    id: str
    command: str
    state: Literal["ended", "running"]


class Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=_tag):
    """A line of output; ``type`` is its kind.

    Attributes:
        seq: Number of the event in the session's log; 0 if the line is not a log event.
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
        model: Model of the session, provider/name; empty if the provider chooses.
        approve: Approval policy.
        resumed: Whether an earlier session was resumed.
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
    """The session's mode, model or approval policy changed; unchanged fields are null.

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
        parent: Name of the agent that started this agent; empty for the main agent.
    """

    parent: str


class RunStartedLine(Line, frozen=True, kw_only=True):
    """An agent began working on a prompt.

    Attributes:
        text: The prompt.
        model: Model that the agent uses, provider/name.
        mode: Mode of the run.
        context: The context that was added to the prompt.
        retries: Id of the run that this run continues; empty for a run with its own prompt.
        repeats: Id of the failed call that the run repeats; empty for a run with its own prompt.
    """

    text: str
    model: str
    mode: str
    context: list[ContextData]
    retries: str
    repeats: str


class PromptBuiltLine(Line, frozen=True, kw_only=True):
    """The system prompt and the list of tools were built.

    Attributes:
        cause: Why the prompt was built: run, compaction, mode or model.
        mode: Mode for which the prompt was built.
        model: Model for which the prompt was built.
        layers: The parts of the system prompt.
        tools: The tools.
    """

    cause: str
    mode: str
    model: str
    layers: list[Layer]
    tools: list[ToolData]


class ModelStartedLine(Line, frozen=True, kw_only=True):
    """A request was sent to the model.

    A new attempt invalidates the streamed output of the previous attempt.

    Attributes:
        model: The model, provider/name.
        turn: Number of the model call in the run, starting at 1.
        attempt: Number of the attempt, starting at 1.
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
        message: The error in one sentence.
        hint: What the user can do.
        action: How hilum reacts: retry, fallback, compact or give_up.
        wait: Seconds until the next attempt.
        next: The next model, if the action is fallback.
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
    """A complete answer from the model.

    Attributes:
        model: The model that answered.
        text: The text of the answer.
        calls: The tool calls that the model requests.
        stop: Why the answer ended: end, calls, length or refusal.
        usage: Tokens and cost.
        first: Seconds until the first byte of the response.
        seconds: Total duration in seconds.
    """

    model: str
    text: str
    calls: list[ToolCallData]
    stop: str
    usage: Tokens
    first: float
    seconds: float


class ModelUsedLine(Line, frozen=True, kw_only=True):
    """A plugin called a model on behalf of an agent, for example for a summary.

    Attributes:
        model: The model.
        purpose: The purpose of the call.
        usage: Tokens and cost.
        seconds: Duration in seconds.
    """

    model: str
    purpose: str
    usage: Tokens
    seconds: float


class ApprovalAskedLine(Line, frozen=True, kw_only=True):
    """A call is waiting for the user's approval.

    Attributes:
        id: Id of the approval.
        call: The call.
        risk: The permission category of the tool: read, write, execute or network.
        reason: Why approval is needed.
        scope: The calls that a lasting approval would cover.
        seconds: Time limit for the answer in seconds, which starts when the question is shown.
    """

    id: str
    call: ToolCallData
    risk: str
    reason: str
    scope: str
    seconds: float


class ApprovalShownLine(Line, frozen=True, kw_only=True):
    """The approval question is being shown to the user.

    Attributes:
        id: Id of the approval.
        deadline: Unix time at which the call is denied if there is no answer.
    """

    id: str
    deadline: float


class ApprovalAnsweredLine(Line, frozen=True, kw_only=True):
    """An approval was given or denied.

    Attributes:
        id: Id of the approval.
        accepted: Whether the call may run.
        reason: Why the call was denied.
        by: Who answered: user, timeout, headless or stop.
        remember: How long the answer applies: once, session or always.
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
        risk: The permission category of the tool: read, write, execute or network.
        plugin: Name of the plugin that provides the tool.
        original: The call as written by the model if plugins changed its arguments; otherwise null.
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
        result: The text that the model receives.
        seconds: Duration in seconds.
        data: The tool's data for faces.
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
        notes: Texts of the notes.
        objected: Whether the notes object to an answer that would otherwise have ended the run.
        shortened: Ids of the calls whose results were too large for the model's window and were
            shortened.
    """

    notes: list[str]
    objected: bool
    shortened: list[str]


class CompactedLine(Line, frozen=True, kw_only=True):
    """The conversation was shortened to fit the model's window.

    Attributes:
        cause: Reason: window, model, too_long or asked.
        before: Estimated tokens before the compaction.
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
        previous: The previous state.
    """

    state: str
    previous: str


class UserNeededLine(Line, frozen=True, kw_only=True):
    """A problem that only the user can resolve.

    Attributes:
        code: Error code.
        message: Description of the problem.
    """

    code: str
    message: str


class ErrorLine(Line, frozen=True, kw_only=True):
    """An error that does not end the run.

    Attributes:
        code: Error code.
        message: The error in one sentence.
        hint: What the user can do.
    """

    code: str
    message: str
    hint: str


class FaultLine(Line, frozen=True, kw_only=True):
    """A plugin failed, or was not loaded.

    Attributes:
        plugin: Name of the plugin.
        hook: The hook or step that failed; load if the plugin was not loaded.
        error: The error in one sentence.
        switched_off: Whether the plugin was disabled as a result.
    """

    plugin: str
    hook: str
    error: str
    switched_off: bool


class PluginEventLine(Line, frozen=True, kw_only=True):
    """An event from a plugin, or an event in the log for which this schema has no line.

    Attributes:
        name: Name of the event, such as plan.todos; kernel.… for other events in the log.
        data: Data of the event, as described in the plugin's documentation.
    """

    name: str
    data: dict[str, Any]


class RunEndedLine(Line, frozen=True, kw_only=True):
    """An agent's run ended, possibly that of a sub-agent; the last line of output is ``result``.

    Attributes:
        state: How the run ended.
        text: The answer.
        commentary: The last text that the model wrote, if it is not an answer.
        done: The completed work, if the run did not complete.
        code: Error code if the run did not complete.
        error: The error in one sentence.
        hint: What the user can do.
        left: The remaining work.
        unfinished: Text of the answer that the model was writing when the run ended.
        turns: Number of model calls.
        seconds: Duration in seconds.
        usage: Tokens and cost.
    """

    state: End
    text: str
    commentary: str
    done: str
    code: str
    error: str
    hint: str
    left: str
    unfinished: str
    turns: int
    seconds: float
    usage: Tokens


class DeltaLine(Line, frozen=True, kw_only=True):
    """A chunk of streaming output.

    ``seq`` is the number of the event to which the chunk belongs; a later line contains the
    complete output.

    Attributes:
        kind: Kind of output: text, thinking or arguments from a model, or output from a running
            call.
        text: The chunk.
        call_id: Id of the call, if the kind is arguments or output.
    """

    kind: Literal["text", "thinking", "arguments", "output"]
    text: str
    call_id: str


class ResultLine(Line, frozen=True, kw_only=True):
    """The last line of output; always written, and the only one with ``--output-format json``.

    Attributes:
        schema: Version of this schema.
        version: Version of hilum; empty if a signal arrived before the version was known.
        session: Id of the session; empty if none was opened.
        workspace: Folder of the workspace.
        kind: Kind of the session; empty if none was opened.
        model: Model that was used last, provider/name.
        state: How the run ended.
        text: The answer.
        commentary: The last text that the model wrote, if it is not an answer.
        done: The completed work, if the run did not complete.
        code: Error code; empty if the run completed.
        error: The error; empty if the run completed.
        hint: What the user can do.
        left: The remaining work.
        turns: Number of the agent's model calls.
        seconds: Duration of the run in seconds.
        usage: Tokens and cost of this run, including its sub-agents.
        session_usage: Tokens and cost of all runs and agents in the session.
        session_runs: Number of prompts processed in the session, including this one.
        calls: The tool calls of the run, including its sub-agents' calls.
        agents: The agents that ended during the run.
        faults: Plugins that failed or were not loaded.
        denied: Number of calls that were denied because nobody could approve them.
        denied_rules: Rules that would have allowed the denied calls, as accepted by
            ``hilum permissions allow``.
        interrupted: Earlier runs of the session that were cut off and are not resumed.
        redacted: Names of the secrets that were replaced in the prompt before it was sent to the
            model.
        files_changed: Paths of files that calls changed, relative to the workspace; null if changes
            are not recorded.
        services: Background commands that were running at the end of the run.
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
    denied_rules: list[str] = []
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
    """Return a line as JSON with a trailing newline, including all empty fields."""
    data = msgspec.json.encode(line)
    # JSON escapes most terminal control characters, but neither DEL nor those from U+0080 on.
    return re.sub(rb"\x7f|\xc2[\x80-\x9f]", _escape, data) + b"\n"


def _escape(match: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(match[0].decode())


def tokens(usage: Usage) -> Tokens:
    """Convert token usage reported by a provider."""
    return msgspec.convert(usage, Tokens, from_attributes=True)


def arguments_of(text: str) -> tuple[dict[str, Any], str]:
    """Return a call's arguments as an object, or their text if they are not an object."""
    arguments = parse_arguments(text)
    if arguments is None:
        return {}, text
    return arguments, ""
