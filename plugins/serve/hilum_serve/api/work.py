"""Operations that make agents work: prompts, messages, stops, retries and runs."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
import trio
from hilum import Image, PromptCommand, UsageError
from hilum.errors import E_BAD_ARGS, E_BUSY, E_STALE, E_UNKNOWN
from hilum.messages import Usage
from hilum.sharing import JoinedSession
from hilum.sharing.messages import Compact, Stop, Withdraw
from hilum_view import Card, Outcome, Prompt

from hilum_serve.api.shared_types import (
    AgentQuery,
    LongText,
    Name,
    NoResult,
    Seq,
    ShortText,
    StartedRun,
    carry_out,
    check_agent,
    describe_run,
    require_right,
)
from hilum_serve.hub import HostedSession
from hilum_serve.operations import Call, operation
from hilum_serve.problems import Problem

MAX_WAIT = 60.0
"""Maximum number of seconds that a request waits for the end of a run."""
MAX_BODY_WITH_IMAGES = 32_000_000
MAX_RUNS = 200
# Plugins whose commands only write a prompt for the agent.
_PROMPT_WRITERS = ("commands", "init", "skills")


# --- prompts ----------------------------------------------------------------------------------------


class GivenImage(msgspec.Struct, forbid_unknown_fields=True):
    """An image that comes with a prompt.

    Attributes:
        media_type: ``image/png``, ``image/jpeg``, ``image/gif`` or ``image/webp``.
        data: The file, as base64.
    """

    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: bytes


class NewPrompt(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A prompt for an agent.

    Attributes:
        text: The text. A text that begins with ``/`` may be a command of a plugin; commands that do
            more than write a prompt need the right ``administer``. Without that right, a text that
            begins with ``/`` and no listed command is read as data, as with ``piped``.
        agent: Name of the agent, unless the text addresses another one with ``@``.
        images: Images that come with the text.
        attached: Data from another program that comes with the text.
        piped: Whether another program wrote the text, which is then never a command and does not
            count as the user's words.
    """

    text: LongText
    agent: Name = "main"
    images: Annotated[list[GivenImage], msgspec.Meta(max_length=20)] = []
    attached: LongText = ""
    piped: bool = False


class NewMessage(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A message that an agent reads during its current run.

    Attributes:
        text: The text.
        agent: Name of the agent.
    """

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=500_000)]
    agent: Name = "main"


class QueuedMessage(msgspec.Struct, frozen=True):
    """A message that waits until the agent reads it.

    Attributes:
        id: Id of the message.
    """

    id: str


@operation(
    "POST",
    "/api/sessions/{session}/prompts",
    rights="prompt",
    body=NewPrompt,
    returns=StartedRun,
    status=202,
    max_body=MAX_BODY_WITH_IMAGES,
)
async def prompt(call: Call[None, NewPrompt]) -> StartedRun:
    """Prompt an agent; the run starts now or after the agent's earlier prompts."""
    given = call.body
    session = call.hosted.session
    check_agent(session, given.agent)
    piped = given.piped or not _may_interpret(call, given.text)
    images = [Image(image.media_type, image.data) for image in given.images]
    run = await session.prompt(
        given.text, agent=given.agent, piped=piped, attached=given.attached, images=images
    )
    return describe_run(run)


def _may_interpret(call: Call[Any, Any], text: str) -> bool:
    """Return whether plugins may interpret a text of the user as a command.

    Only the plugins know for certain what a command is: a prompt of an MCP server also has names
    that are not listed, and the list of a session that another process has open is that of the
    beginning. So a user who may not give all commands may give only those that are listed.

    Raises:
        Problem: The text is a command that needs more rights (403).
    """
    typed = text.lstrip()
    if call.user.may("administer") or not typed.startswith("/"):
        return True
    typed = typed[1:].casefold()
    word = typed.split(None, 1)[0] if typed.strip() else ""
    is_listed = False
    for plugin, command in call.hosted.session.list_commands():
        name = command.name.casefold()
        if needs_administer(plugin, command):
            # Names may contain spaces, colons and dots, so a name ends where a word ends.
            if re.match(re.escape(name) + r"(?![\w-])", typed):
                require_right(call, "administer", f"The command /{command.name}")
        elif command.mark == "/" and word == name:
            is_listed = True
    return is_listed


def needs_administer(plugin: str, command: PromptCommand) -> bool:
    """Return whether a command does more than write a prompt.

    Commands such as ``/mcp`` start programs and change settings.
    """
    return command.mark == "/" and plugin not in _PROMPT_WRITERS


@operation(
    "POST",
    "/api/sessions/{session}/steering",
    rights="prompt",
    body=NewMessage,
    returns=QueuedMessage,
    status=202,
)
async def steer(call: Call[None, NewMessage]) -> QueuedMessage:
    """Send a message that an agent reads during its current run."""
    check_agent(call.hosted.session, call.body.agent)
    if not call.body.text.strip():
        raise Problem(400, E_BAD_ARGS, "The message is empty.", "Write what the agent should know.")
    try:
        identity = await call.hosted.session.steer(call.body.text, agent=call.body.agent)
    except UsageError as error:
        # The session was checked above, so the agent is not working any more.
        raise Problem(409, E_BUSY, error.message, error.hint) from None
    return QueuedMessage(identity)


@operation(
    "DELETE",
    "/api/sessions/{session}/steering/{message}",
    rights="prompt",
    query=AgentQuery,
    returns=NoResult,
)
async def withdraw_message(call: Call[AgentQuery, None]) -> NoResult:
    """Take back a message that the agent has not read."""
    message = call.path["message"]
    agent = call.query.agent
    session = call.hosted.session
    check_agent(session, agent)
    if isinstance(session, JoinedSession):
        # Only the process that has the session open knows whether the agent has read it.
        waited = bool((await session.request(Withdraw(message, agent))).result)
    else:
        waited = session.withdraw(message, agent=agent)
    if not waited:
        raise Problem(
            409, E_BUSY, "The message does not wait.", "The agent has read it, or its run ended."
        )
    return NoResult()


# --- runs -------------------------------------------------------------------------------------------


class StopRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What to stop.

    Attributes:
        agent: The only agent to stop; empty for all agents.
        run: Id of the only run to stop; empty for all runs, with queued prompts.
    """

    agent: Annotated[str, msgspec.Meta(max_length=200)] = ""
    run: Annotated[str, msgspec.Meta(max_length=200)] = ""


class RetryRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What to retry.

    Attributes:
        agent: The agent whose last run ended early.
    """

    agent: Name = "main"


class CompactRequest(msgspec.Struct, forbid_unknown_fields=True):
    """How to compact a conversation.

    Attributes:
        agent: Name of the agent.
        focus: The subject on which the summary concentrates.
    """

    agent: Name = "main"
    focus: ShortText = ""


class StartedRuns(msgspec.Struct, frozen=True):
    """Runs that continue."""

    runs: list[StartedRun]


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A run: an agent's work on one prompt.

    Attributes:
        id: Id of the run.
        agent: Name of the agent.
        prompt: The prompt.
        began: Unix time; 0 if the run has not begun.
        running: Whether the run waits or is working.
        state: How the run ended; ``queued`` or ``running`` while it has not, and ``interrupted``
            if an earlier process ended in the middle of it.
        text: The final answer.
        commentary: The model's last text, if there is no final answer.
        done: The finished work of a run that did not complete.
        left: The remaining work.
        code: The error code, if the run did not complete.
        error: Why it did not complete.
        hint: The next step.
        turns: Number of model calls.
        seconds: Duration.
        usage: Tokens and cost.
    """

    id: str
    agent: str
    prompt: str
    began: float
    running: bool
    state: str
    text: str = ""
    commentary: str = ""
    done: str = ""
    left: str = ""
    code: str = ""
    error: str = ""
    hint: str = ""
    turns: int = 0
    seconds: float = 0.0
    usage: Usage = Usage()


class RunList(msgspec.Struct, frozen=True):
    """The runs of a session, oldest first; at most the newest 200."""

    runs: list[RunFacts]


class RunQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How to ask for a run.

    Attributes:
        wait: Maximum number of seconds to wait for the end of the run.
    """

    wait: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT)] = 0.0


@operation(
    "POST",
    "/api/sessions/{session}/stop",
    rights="prompt",
    body=StopRequest,
    returns=NoResult,
)
async def stop(call: Call[None, StopRequest]) -> NoResult:
    """Stop runs with everything that they started, and drop queued prompts."""
    if call.body.agent:
        check_agent(call.hosted.session, call.body.agent)
    agent = call.body.agent
    run = call.body.run
    session = call.hosted.session
    await carry_out(session, Stop(agent, run), lambda: session.stop(agent, run=run))
    return NoResult()


@operation(
    "POST",
    "/api/sessions/{session}/retry",
    rights="prompt",
    body=RetryRequest,
    returns=StartedRun,
    status=202,
)
async def retry(call: Call[None, RetryRequest]) -> StartedRun:
    """Continue the last run of an agent if it ended before it was complete."""
    session = call.hosted.session
    check_agent(session, call.body.agent)
    if not session.agents[call.body.agent].conversation.retryable:
        raise Problem(
            409,
            E_BUSY,
            "The agent has no run that ended early.",
            "Send a prompt to continue the conversation.",
        )
    run = await session.retry(call.body.agent)
    return describe_run(run)


@operation(
    "POST",
    "/api/sessions/{session}/resume",
    rights="prompt",
    returns=StartedRuns,
    status=202,
)
async def resume(call: Call[None, None]) -> StartedRuns:
    """Continue the runs and prompts that were left when the session last ended."""
    session = call.hosted.session
    if isinstance(session, JoinedSession):
        runs = await session.request_resume()
    else:
        runs = session.resume()
    return StartedRuns([describe_run(run) for run in runs])


class RepeatQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which call to repeat.

    Attributes:
        entry: Id of the call's entry; null for the last call with the id.
    """

    entry: Seq | None = None


def find_card(hosted: HostedSession, identity: str, entry: int | None) -> Card | None:
    """Return a call of a session.

    Args:
        hosted: The session.
        identity: Id of the call. Models may use an id again, and agents the same ids.
        entry: Id of the call's entry; ``None`` for the last call with the id.
    """
    for card in reversed(hosted.view.cards):
        if card.call.id == identity and entry in (None, card.id):
            return card
    return None


@operation(
    "POST",
    "/api/sessions/{session}/calls/{call}/repeat",
    rights="prompt",
    query=RepeatQuery,
    returns=StartedRun,
    status=202,
)
async def repeat_call(call: Call[RepeatQuery, None]) -> StartedRun:
    """Repeat a failed call with the same arguments, through all checks and approvals."""
    entry = call.query.entry
    if entry is not None:
        await call.hosted.catch_up()
        newest = find_card(call.hosted, call.path["call"], None)
        if newest is not None and newest.id != entry:
            raise Problem(
                409,
                E_STALE,
                "Another call with the same id has been made since.",
                "Ask the agent to do it again.",
            )
    run = await call.hosted.session.repeat_call(call.path["call"])
    return describe_run(run)


@operation(
    "POST",
    "/api/sessions/{session}/compact",
    rights="prompt",
    body=CompactRequest,
    returns=NoResult,
    status=202,
)
async def compact(call: Call[None, CompactRequest]) -> NoResult:
    """Compact a conversation: now, or before the agent's next request."""
    agent = call.body.agent
    focus = call.body.focus
    session = call.hosted.session
    check_agent(session, agent)
    await carry_out(session, Compact(agent, focus), lambda: session.compact(agent, focus=focus))
    return NoResult()


@operation("GET", "/api/sessions/{session}/runs", rights="watch", returns=RunList)
async def list_runs(call: Call[None, None]) -> RunList:
    """List the runs of a session."""
    await call.hosted.catch_up()
    return RunList(list(find_runs(call.hosted).values())[-MAX_RUNS:])


@operation(
    "GET",
    "/api/sessions/{session}/runs/{run}",
    rights="watch",
    query=RunQuery,
    returns=RunFacts,
)
async def get_run(call: Call[RunQuery, None]) -> RunFacts:
    """Return a run and its result; with ``wait``, wait for its end first."""
    hosted = call.hosted
    identity = call.path["run"]
    live = hosted.session.runs.get(identity)
    if live is not None and call.query.wait:
        with trio.move_on_after(call.query.wait):
            await live.wait()
    await hosted.catch_up()
    found = find_runs(hosted).get(identity)
    if found is None:
        raise Problem(404, E_UNKNOWN, "There is no such run in this session.")
    return found


def find_runs(hosted: HostedSession) -> dict[str, RunFacts]:
    """Return the runs of a session by id, oldest first."""
    session = hosted.session
    found: dict[str, RunFacts] = {}
    for entry in hosted.view.entries:
        if isinstance(entry, Prompt) and not entry.steers:
            is_live = entry.run in session.runs
            found[entry.run] = RunFacts(
                id=entry.run,
                agent=entry.agent,
                prompt=entry.typed or entry.text,
                began=entry.at,
                running=is_live,
                state="running" if is_live else "interrupted",
            )
        elif isinstance(entry, Outcome):
            found[entry.run] = _describe_end(entry, found.get(entry.run))
    for actor in hosted.view.actors.values():
        for run, text in actor.queued.items():
            is_live = run in session.runs
            found[run] = RunFacts(
                id=run,
                agent=actor.name,
                prompt=text,
                began=0.0,
                running=is_live,
                state="queued" if is_live else "interrupted",
            )
    return found


def _describe_end(entry: Outcome, begun: RunFacts | None) -> RunFacts:
    end = entry.end
    return RunFacts(
        id=entry.run,
        agent=entry.agent,
        prompt=begun.prompt if begun is not None else "",
        began=begun.began if begun is not None else 0.0,
        running=False,
        state=end.state,
        text=end.text,
        commentary=end.commentary,
        done=end.done,
        left=end.left,
        code=end.code,
        error=end.error,
        hint=end.hint,
        turns=end.turns,
        seconds=end.seconds,
        usage=end.usage,
    )
