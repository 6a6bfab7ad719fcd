"""The reason–act loop, which carries out the step for the current phase until the run is over.

The log alone determines the phase, so a resumed run continues where the log ends.

::

                ┌─────────┐ (a compaction)
                ▼         │
    idle ──► freeze ──► think ──► call ──► round ──► think …
                          │
                          └─────► check ──► think …   (an objection, or an answer that was cut off)

The run of a call that the user repeats begins in ``call``; after ``round``, it goes on in
``freeze``. A run ends in ``think`` (a limit is reached, or no model responds) or in ``check`` (the answer is
final). A stop, the time limit or an error ends a run in any phase.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Literal

import trio
from msgspec.structs import replace

from hilum.calls import end_calls, run_calls
from hilum.compaction import (
    RECALL,
    TARGET,
    cut_point,
    fit_request,
    least_room,
    message_size,
    plain_compaction,
    room,
    shorten_results,
    window_error,
    without_context,
)
from hilum.context import ContextRequest, fit, render
from hilum.errors import HilumError
from hilum.events import (
    Compacted,
    ErrorRaised,
    ModelFailed,
    PromptQueued,
    RoundEnded,
    RunEnded,
    RunStarted,
    State,
    UserNeeded,
)
from hilum.hooks import PLUGIN_EXCEPTIONS, PluginFailure, is_failure, open_nursery
from hilum.messages import (
    AssistantMessage,
    Block,
    Compaction,
    Image,
    Message,
    Text,
    ToolResult,
    UserMessage,
)
from hilum.model_calls import ModelCallDenied
from hilum.models import Model
from hilum.prompt import Note, encode_conversation, freeze_prompt, round_end
from hilum.refusals import CallOutcome, find_refusal
from hilum.repeated_calls import make_announcement
from hilum.repetition import failed_note
from hilum.routing import attempt
from hilum.tokens import TokenCalibrator

if TYPE_CHECKING:
    from hilum.agents import Agent

# Maximum number of objections in a run, because a plugin might object to every answer.
MAX_OBJECTIONS = 3
# Maximum number of characters of an unfinished answer that the log keeps.
MAX_UNFINISHED = 8_000
_UNFINISHED_WORD = re.compile(r"[!-~]{8,}\Z")
EMPTY_ANSWER = "Your answer was empty. Continue the task, or report what you found."
MAX_CONTINUATIONS = 3
# Kinds of failed model calls that the user may be able to fix.
NEEDS_USER = ("timeout", "too_slow", "rate_limit", "quota", "connect")
# Maximum number of compactions before one request: a plugin's first, then the kernel's own.
MAX_COMPACTIONS = 3
# The reasons why calls did not end, by state of their run.
_ENDINGS = {
    "interrupted": "hilum ended during the run",
    "stopped": "the run was stopped",
    "timed_out": "the run exceeded its time limit",
}
# Maximum number of files that the summary of an incomplete run lists by name.
MAX_FILES = 10
# Maximum number of characters of the model's last text in the summary of an incomplete run.
MAX_ANNOUNCED = 300
# In windows with fewer tokens than this, gathered context gets less than a quarter of the window.
SMALL_WINDOW = 32_768


async def drive(agent: Agent) -> None:
    """Work on the agent's run, or on its next queued prompt, until the run is over.

    The run ends when it is complete, stopped or out of time.
    """
    agent.starting = find_next_run(agent)
    agent.began = trio.current_time()
    limit = agent.limit("timeout") or inf
    agent.scope = trio.CancelScope(deadline=agent.began + limit)
    try:
        with agent.scope:
            await _carry_out(agent)
        if agent.scope.cancelled_caught:
            _end_cancelled(agent, agent.scope, limit)
    except BaseException as error:
        if not is_failure(error):
            raise
        _end_failed(agent, error)
    finally:
        agent.scope = None
        agent.starting = ""


def find_next_run(agent: Agent) -> str:
    """Return the id of the agent's run, or of its next prompt; empty if there is none.

    A prompt that was queued when an earlier process ended is not next until the user resumes it:
    the user may have forgotten it, or may now want something else first.
    """
    conversation = agent.conversation
    if conversation.run is not None:
        return conversation.run.id
    runs = agent.session.runs
    return next((prompt.run for prompt in conversation.queue if prompt.run in runs), "")


def _find_prompt(agent: Agent) -> PromptQueued:
    """Return the queued prompt whose run is starting."""
    return next(each for each in agent.conversation.queue if each.run == agent.starting)


async def _carry_out(agent: Agent) -> None:
    """Carry out step after step until the run is over."""
    conversation = agent.conversation
    if agent.starting == conversation.stopped_run and agent.scope is not None:
        # The earlier process ended while it was stopping this run.
        agent.scope.cancel()
        await trio.lowlevel.checkpoint()
    await agent.session.kernel.router.ready(agent)
    # A resumed run began in an earlier process.
    if conversation.run is None:
        await _begin(agent)
    while conversation.phase != "idle":
        # A stop during a step that cannot be cancelled takes effect here, before another request is
        # sent.
        await trio.lowlevel.checkpoint_if_cancelled()
        await _STEPS[conversation.phase](agent)


def _end_cancelled(agent: Agent, scope: trio.CancelScope, limit: float) -> None:
    """End a run that was stopped or exceeded its time limit."""
    # A stop and the time limit cancel the same scope, so only the deadline distinguishes them.
    if trio.current_time() < scope.deadline:
        give_up(agent, "stopped", "E_STOPPED", "The run was stopped.")
        return
    error = f"The run exceeded its time limit of {limit:g} seconds."
    hint = "Raise the setting `timeout` to give it more time."
    agent.emit(ErrorRaised(code="E_TIMEOUT", message=error, hint=hint))
    give_up(agent, "timed_out", "E_TIMEOUT", error)


def _end_failed(agent: Agent, error: BaseException) -> None:
    """End a run in which an error was raised.

    Raises:
        StoreError: The log is broken, so the end of the run cannot be written either.
    """
    broken = agent.session.journal.broken
    if broken is not None:
        raise broken from error
    if isinstance(error, HilumError):
        give_up(agent, "failed", error.code, error.message, error.hint)
        return
    # Any other exception is a defect in the kernel itself. The run ends; the session and its other
    # agents continue.
    agent.session.report(PluginFailure("kernel", agent.conversation.phase, error))
    text = f"The kernel failed: {type(error).__name__}: {error}"
    give_up(agent, "failed", "E_FAILED", text)


def give_up(agent: Agent, state: State, code: str, error: str, hint: str = "") -> None:
    """End a run that cannot continue, so that a later prompt can continue the conversation."""
    conversation = agent.conversation
    if conversation.run is None:
        # The run failed before its start was logged, for example because there is no model. The
        # event for its end needs one for its start.
        prompt = _find_prompt(agent)
        message = UserMessage(_prompt_parts(prompt)).without_image_data()
        started = RunStarted(text=prompt.text, message=message, repeats=prompt.repeats)
        agent.session.emit(started, agent, prompt.run)
    # Every call needs a result, because providers reject a conversation with a call that has no
    # result.
    end_calls(agent, code, _ENDINGS.get(state, "the run failed"))
    if conversation.phase == "round":
        agent.emit(RoundEnded(shortened=_shortened(agent)))
    end(agent, state, code=code, error=error, hint=hint)


def end(
    agent: Agent, state: State, *, code: str = "", error: str = "", hint: str = "", left: str = ""
) -> None:
    """Log the end of the agent's run."""
    run = agent.run
    is_complete = state == "completed"
    # A text that accompanies calls is a commentary and not the final answer.
    is_final = agent.conversation.phase == "check"
    if not is_final and not is_complete:
        left = _remaining_work(agent, left)
    ended = RunEnded(
        state=state,
        text=run.answer if is_final else "",
        commentary="" if is_final else run.answer,
        done="" if is_complete else _completed_work(agent),
        code=code,
        error=error,
        hint=hint,
        left=left,
        unfinished=_read_unfinished(agent),
        turns=run.turn,
        seconds=max(trio.current_time() - agent.began, 0.0),
        usage=run.usage,
    )
    agent.emit(ended)


def _read_unfinished(agent: Agent) -> str:
    """Return the text of the answer that the model was writing; empty if there is none."""
    text = agent.session.journal.read_answer(agent.name)
    # A secret is recognized only if it is complete, so the log gets no beginning of a long word.
    kept = _UNFINISHED_WORD.sub("", text[:MAX_UNFINISHED]).rstrip()
    return f"{kept} …" if len(text) > MAX_UNFINISHED else kept


def _completed_work(agent: Agent) -> str:
    """Describe which files the run's tools wrote, and how often each tool ran."""
    finished = agent.run.finished
    if not finished:
        return ""
    tools = Counter(call.tool for call in finished)
    failed = Counter(call.tool for call in finished if call.code)
    files: dict[str, None] = {}
    for call in finished:
        files |= dict.fromkeys(_written(agent, call))
    parts = []
    if files:
        listed = ", ".join(list(files)[:MAX_FILES])
        if len(files) > MAX_FILES:
            listed += f" and {len(files) - MAX_FILES} more"
        parts.append(f"Files written: {listed}.")
    counts = []
    for name, count in tools.most_common():
        failures = f" ({failed[name]} failed)" if failed[name] else ""
        counts.append(f"{name} × {count}{failures}")
    parts.append(f"Tools run: {', '.join(counts)}.")
    return " ".join(parts)


def _written(agent: Agent, call: CallOutcome) -> list[str]:
    """Return the paths that a call has written."""
    tool = agent.session.tools.get(call.tool)
    if tool is None:
        return []
    return [call.texts[name] for name in tool.writes if name in call.texts]


def _remaining_work(agent: Agent, left: str) -> str:
    """Describe the remaining work of a run that did not complete.

    The text contains the step that the model announced last, the calls that were cut off and those
    that had not begun, for example because they waited for an approval.
    """
    run = agent.run
    parts = [left] if left else []
    ended = [call for call in run.finished if call.code in ("E_STOPPED", "E_INTERRUPTED")]
    cut_off = [call.title for call in ended if call.began]
    not_run = [call.title for call in ended if not call.began]
    announced = " ".join(run.answer.split())
    if len(announced) > MAX_ANNOUNCED:
        announced = f"{announced[: MAX_ANNOUNCED - 1]}…"
    if announced:
        parts.append(f"The last announced step may be unfinished: {announced}")
    if cut_off:
        parts.append(f"Calls that were cut off: {', '.join(dict.fromkeys(cut_off))}.")
    if not_run:
        parts.append(f"Calls that were not run: {', '.join(dict.fromkeys(not_run))}.")
    return " ".join(parts)


async def _begin(agent: Agent) -> None:
    """Start the run of the next queued prompt, with the context gathered for it."""
    session = agent.session
    prompt = _find_prompt(agent)
    model = session.kernel.router.chain(agent)[0]
    # Gathered context only supports the task, so it must leave room for the work itself.
    window = session.kernel.router.model(model).info.window
    budget = window // 4 if window >= SMALL_WINDOW else window // 16
    state = dict(session.runs[prompt.run].state)
    request = ContextRequest(prompt.text, budget, state, prompt.piped, prompt.attached)
    blocks: list[Block] = []
    # The plugins by the identity of their blocks: blocks of two plugins may be equal.
    gathered_by: dict[int, str] = {}
    async with open_nursery() as nursery:
        if not agent.conversation.frozen.tools:
            nursery.start_soon(_describe_tools, agent)
        answers = await session.hooks.gather("gather_context", agent=agent, request=request)
    for plugin, given in answers:
        if isinstance(given, PluginFailure):
            continue
        own = [given] if isinstance(given, Block) else list(given)
        gathered_by |= dict.fromkeys(map(id, own), plugin)
        blocks += own
    fitting = fit(blocks, request.budget)
    context = [Text(render(block), f"context:{block.type}") for block in fitting]
    message = UserMessage((*_prompt_parts(prompt), *context))
    plugins = tuple(gathered_by[id(block)] for block in fitting)
    message = session.kernel.adapt_prompt(agent, message, plugins)
    # The log already contains the images in the event of the prompt.
    message = message.without_image_data()
    started = RunStarted(
        text=prompt.text,
        message=message,
        model=model,
        mode=agent.mode.name,
        repeats=prompt.repeats,
        gathered_by=plugins,
    )
    await session.redaction.prepare(started, by_model=bool(agent.parent))
    session.emit(started, agent, prompt.run)


async def _describe_tools(agent: Agent) -> None:
    """Compute the descriptions of the session's tools, which the first prompt needs.

    Gathering the context mostly waits for other processes, such as Git.
    """
    for tool in list(agent.session.tools.values()):
        if not tool.deferred:
            # If a tool cannot be described, the prompt reports it.
            with suppress(*PLUGIN_EXCEPTIONS):
                tool.spec  # noqa: B018
        await trio.lowlevel.checkpoint()


def _prompt_parts(prompt: PromptQueued) -> tuple[Text | Image, ...]:
    """Return a prompt as message parts, each marked with its author.

    Attached data is put in a block that the data itself cannot close.
    """
    if prompt.repeats is not None:
        return (make_announcement(prompt.repeats.call),)
    text = Text(prompt.text, "piped" if prompt.piped else "user")
    if not prompt.attached:
        return (text, *prompt.images)
    return (text, Text(render(Block("stdin", prompt.attached)), "piped"), *prompt.images)


async def _freeze(agent: Agent) -> None:
    model = agent.session.kernel.router.current(agent)
    agent.emit(await freeze_prompt(agent, agent.run.cause, model))


async def _think(agent: Agent) -> None:
    """Call the model once, unless a limit is reached or the conversation must be compacted."""
    reached = _reached_limit(agent)
    if reached is not None:
        code, limit = reached
        hint = "All finished work is kept. Send a message to continue."
        error = f"The limit of {limit} was reached."
        end(agent, "partial_success", code=code, error=error, hint=hint)
        return
    frozen = agent.conversation.frozen
    model = agent.session.kernel.router.current(agent)
    if frozen.mode != agent.mode.name:
        agent.emit(await freeze_prompt(agent, "mode", model))
    elif frozen.model != model:
        agent.emit(await freeze_prompt(agent, "model", model))
    if await _compact(agent, model):
        return
    try:
        failed = await attempt(agent)
    except ModelCallDenied as error:
        end(agent, "partial_success", code=error.code, error=error.message, hint=error.hint)
        return
    if failed is None:
        return
    if failed.action == "retry":
        await trio.sleep(failed.wait)
    # After "fallback" and "compact", the phase is still "think", so the loop repeats this step.
    elif failed.action == "give_up":
        _give_up_model(agent, failed)


def _reached_limit(agent: Agent) -> tuple[str, str] | None:
    """Return the error code and the limit that the run has reached; ``None`` if it may continue."""
    run = agent.run
    turns = agent.limit("turns")
    if run.turn >= turns:
        return "E_TURN_LIMIT", f"{turns} turns"
    tokens = agent.limit("token_limit")
    if tokens and run.usage.total >= tokens:
        return "E_TOKEN_LIMIT", f"{tokens} tokens"
    dollars = agent.profile.cost_limit
    # The comparison is not `>=`, so that a limit of 0 dollars allows models that cost nothing.
    if dollars is not None and (run.usage.cost or 0.0) > dollars:
        return "E_COST_LIMIT", f"{dollars:g} US dollars"
    return None


def _give_up_model(agent: Agent, failed: ModelFailed) -> None:
    """End a run because its model calls fail permanently."""
    run = agent.run
    if failed.code == "E_LLM_AUTH" or failed.kind in NEEDS_USER:
        message = f"{failed.message} {failed.hint}".strip()
        agent.emit(UserNeeded(code=failed.code, message=message))
    error = failed.message
    # The error of the fallback alone would hide why the chosen model was not used.
    if run.first_failure and run.first_failure != error:
        error = f"{run.first_failure} The fallback {failed.model} failed, too: {error}"
    give_up(agent, "failed", failed.code, error, failed.hint)


async def compact_idle(agent: Agent) -> None:
    """Carry out a compaction that was requested while the agent is idle.

    A compaction that changes nothing is also logged, because the face waits for the event.
    """
    try:
        with trio.CancelScope() as agent.scope:
            await agent.session.kernel.router.ready(agent)
            await _compact(agent, agent.session.kernel.router.current(agent))
    except PLUGIN_EXCEPTIONS as error:
        message = f"The conversation was not compacted: {str(error) or repr(error)}"
        agent.emit(ErrorRaised(code=getattr(error, "code", "E_FAILED"), message=message))
    agent.scope = None
    if agent.conversation.compaction_requested is not None:
        agent.emit(Compacted(cause="asked"))


async def _compact(agent: Agent, name: str) -> bool:
    """Compact the conversation if it exceeds the model's window, or if the user requests it.

    Returns:
        Whether anything changed.

    Raises:
        UsageError: ``"E_WINDOW"``, the window cannot hold the system prompt, the tools and the
            request.
    """
    run = agent.conversation.run
    try:
        model = agent.session.kernel.router.model(name)
    except PLUGIN_EXCEPTIONS:
        return False  # The following request reports what is wrong with the model.
    encoded = encode_conversation(agent, model)
    calibrator = agent.conversation.calibrator(name)
    message_tokens = calibrator.tokens(encoded.size)
    fixed_tokens = calibrator.total(encoded.total) - message_tokens
    available = room(model.info, fixed_tokens)
    if run is not None:
        _check_window(agent, model, fixed_tokens, available)
    cause = _cause(agent)
    fits = message_tokens <= available and cause not in ("too_long", "asked")
    exhausted = run is not None and run.compactions >= MAX_COMPACTIONS
    if not encoded.sizes or fits or exhausted:
        return False
    sizes = [calibrator.tokens(size) + 1 for size in encoded.sizes]
    compacted = await _plan_compaction(agent, calibrator, sizes, message_tokens, available)
    if compacted is None:
        return False
    await agent.session.redaction.prepare(compacted)
    agent.emit(compacted)
    return True


async def _plan_compaction(
    agent: Agent, calibrator: TokenCalibrator, sizes: list[int], message_tokens: int, available: int
) -> Compacted | None:
    """Return what a compaction would change; ``None`` if it would change nothing.

    Args:
        agent: The agent.
        calibrator: The calibrator that estimates tokens for the model.
        sizes: Number of tokens in each message.
        message_tokens: Number of tokens in all messages.
        available: Number of tokens that messages may take.
    """
    cause = _cause(agent)
    messages = list(agent.conversation.messages)
    index = agent.conversation.kept_request
    quoted = None
    if index is not None and cause != "asked":
        # The request may take a share of the window, even if the provider refused the conversation.
        # A provider that refuses a small conversation counts tokens differently, and shortening a
        # request with a few words would only damage it.
        quoted = _quote_request(messages[index], available, calibrator)
        if quoted is not None:
            messages[index] = quoted
            sizes[index] = message_size(quoted, calibrator.text) + 1
    target = (
        message_tokens
        if cause == "asked" and message_tokens <= available
        else min(available, message_tokens)
    )
    budget = int(target * TARGET)
    planner, plan = await _planned(agent, messages, sizes, budget)
    if plan is None:
        if message_tokens <= available and cause == "asked":
            return None  # no plugin has a plan, and a compaction is not necessary
        plan = plain_compaction(
            messages,
            sizes,
            budget,
            request=index,
            measure=calibrator.text,
            recall=_recall(agent),
        )
    if not plan.upto and not plan.thinned and quoted is None:
        return None
    return Compacted(
        upto=plan.upto,
        summary=plan.summary if plan.upto else "",
        thinned=plan.thinned,
        before=message_tokens,
        cause=cause,
        request=quoted,
        plugin=planner,
    )


def _quote_request(request: Message, share: int, calibrator: TokenCalibrator) -> UserMessage | None:
    """Return the user's request shortened to its share; ``None`` if it can be kept in full."""
    if not isinstance(request, UserMessage):
        return None
    fitted = fit_request(request, share, calibrator.text)
    return fitted if fitted != request else None


def _check_window(agent: Agent, model: Model, fixed_tokens: int, available: int) -> None:
    """Check that the prompt, the tools and the request fit in the model's window.

    Raises:
        UsageError: The prompt, the tools and the request do not fit.
    """
    conversation = agent.conversation
    run = agent.run
    calibrator = conversation.calibrator(model.info.name)
    index = conversation.request
    request = None if index is None else conversation.messages[index]
    size = 0
    if isinstance(request, UserMessage):
        size = message_size(without_context(request), calibrator.text)
    # A request that takes more than half of the available tokens is shortened only after the first
    # turn.
    wanted = min(size, available // 2) if run.turn else size
    if wanted + least_room(model.info) <= available:
        return
    layers = conversation.frozen.layers
    prompt = sum(calibrator.text(layer.text) for layer in layers)
    error = window_error(model.info, prompt, max(fixed_tokens - prompt, 0), size)
    if run.first_failure:
        error.message = f"{run.first_failure} The fallback cannot be used: {error.message}"
    raise error


async def _planned(
    agent: Agent, messages: Sequence[Message], sizes: Sequence[int], budget: int
) -> tuple[str, Compaction | None]:
    """Return the name of a plugin and its plan of a compaction.

    The name is empty and the plan is ``None`` if no plugin has a plan that helps. If a compaction
    was just carried out and was not enough, plugins are not called again.
    """
    run = agent.conversation.run
    if run is not None and run.compactions:
        return "", None
    plugin, plan = await agent.session.hooks.first_with_plugin(
        "trim_context", agent=agent, messages=tuple(messages), sizes=tuple(sizes), budget=budget
    )
    if plan is None:
        return "", None
    upto = cut_point(messages, plan.upto)
    if not upto and not plan.thinned:
        return "", None
    return plugin, Compaction(upto, plan.summary, plan.thinned)


def _cause(agent: Agent) -> Literal["window", "model", "too_long", "asked"]:
    """Return the cause of the current compaction."""
    conversation = agent.conversation
    run = conversation.run
    if run is not None and run.failed is not None and run.failed.action == "compact":
        return "too_long"
    if conversation.compaction_requested is not None:
        return "asked"
    if conversation.frozen.cause == "model" and not any(agent.run.size):
        return "model"
    return "window"


async def _round(agent: Agent) -> None:
    """Close a round of calls with the notes for the model.

    The notes contain the plugins' reminders, and report changes and repeated failures.
    """
    run = agent.run
    failures = agent.conversation.failures
    results = _results(agent)
    reminders = await agent.session.hooks.gather("remind", agent=agent, results=results)
    pairs = []
    for plugin, text in reminders:
        if text and not isinstance(text, PluginFailure):
            pairs.append((plugin, text))
    pairs = agent.session.kernel.adapt_reminders(agent, pairs)
    notes = [Note(text, plugin) for plugin, text in pairs]
    for failed in failures.reached():
        agent.emit(UserNeeded(code=failed.code, message=failed_note(failed)))
    # Notes about failures come after the plugins' reminders, because the last note has the most
    # weight for a model.
    notes += [Note(text) for text in failures.due()]
    turns = agent.limit("turns")
    # Without a note, the model could spend the last turn on a call whose result it never reads.
    if run.turn == turns - 1 and turns > 1:
        last = "One turn is left. Call no more tools: say what is done and what is left to do."
        notes.append(Note(last))
    ended = replace(await round_end(agent, notes), shortened=_shortened(agent))
    await agent.session.redaction.prepare(ended)
    # Steering messages are collected last, so that messages that arrived meanwhile are included.
    agent.emit(replace(ended, steering=_steering(agent)))


def _steering(agent: Agent) -> tuple[str, ...]:
    """Return the ids of the user's steering messages that the agent has not read."""
    return tuple(message.id for message in agent.conversation.steering)


def _results(agent: Agent) -> list[ToolResult]:
    """Return the results of the round's calls, in call order."""
    return [state.done.result for state in agent.run.calls.values() if state.done]


def _shortened(agent: Agent) -> dict[str, str]:
    """Return shorter texts for the round's results that are too large for the model's window."""
    results = _results(agent)
    if not results:
        return {}
    try:
        name = agent.session.kernel.router.current(agent)
        model = agent.session.kernel.router.model(name)
        encoded = encode_conversation(agent, model)
    except PLUGIN_EXCEPTIONS:
        return {}  # The next request reports what is wrong with the model.
    calibrator = agent.conversation.calibrator(name)
    message_tokens = calibrator.tokens(encoded.size)
    fixed_tokens = calibrator.total(encoded.total) - message_tokens
    free = room(model.info, fixed_tokens) - message_tokens
    return shorten_results(results, model.info.window, free, calibrator.text, recall=_recall(agent))


def _recall(agent: Agent) -> str:
    """Return how the agent calls the tool that rereads results; empty if it has no such tool."""
    if all(tool.name != RECALL for tool in agent.tools()):
        return ""
    # A tool that is not in the tool list is deferred.
    if any(spec.name == RECALL for spec in agent.conversation.frozen.tools):
        return RECALL
    return f"call_tool with {RECALL}"


async def _check(agent: Agent) -> None:
    """Continue an answer that was cut off, or let plugins check a complete answer."""
    run = agent.run
    message = agent.conversation.messages[-1]
    assert isinstance(message, AssistantMessage)
    if run.cut and run.continued < MAX_CONTINUATIONS:
        note = (
            "Your answer was cut off at the output limit. Continue exactly where it stopped; repeat"
            " nothing."
        )
        ended = await round_end(agent, [Note(note)])
        agent.emit(replace(ended, continued=True))
        return
    # Plugins check the complete answer, not only its last piece.
    if run.continued:
        others = [part for part in message.parts if not isinstance(part, Text)]
        message = replace(message, parts=(*others, Text(run.answer, "model")))
    found = await _objections(agent, message)
    objections = [note.text for note in found]
    # If a stop arrives after the checks have ended, the run must still end as stopped.
    await trio.lowlevel.checkpoint_if_cancelled()
    if objections and run.objections < MAX_OBJECTIONS and not run.cut:
        ended = await round_end(agent, found, objected=True)
        agent.emit(replace(ended, steering=_steering(agent)))
        return
    if agent.conversation.steering and not run.cut:
        # The user has sent a steering message, with which the run continues. Plugins will check the
        # next answer.
        ended = await round_end(agent, [])
        steering = _steering(agent)
        # The user may have withdrawn all messages while the layers were compared.
        if steering:
            agent.emit(replace(ended, steering=steering))
            return
    _end_answered(agent, message, objections)


async def _objections(agent: Agent, message: AssistantMessage) -> list[Note]:
    """Return the objections to a final answer."""
    found: list[Note] = []
    checks = await agent.session.hooks.gather("check_answer", agent=agent, message=message)
    for plugin, value in checks:
        if isinstance(value, PluginFailure):
            text = f"The plugin {plugin}, which checks answers, failed: {value}."
            found.append(Note(text, plugin))
        elif value:
            found.append(Note(value, plugin))
    if message.stop == "end" and not message.text.strip():
        found.append(Note(EMPTY_ANSWER))
    return found


def _end_answered(agent: Agent, message: AssistantMessage, objections: Sequence[str]) -> None:
    """End a run with its last answer.

    Args:
        agent: The agent.
        message: The answer.
        objections: Objections to the answer, which the model could not resolve.
    """
    run = agent.run
    # A plugin that is off could not object, so the run must not look complete.
    off = agent.session.hooks.closed.get("check_answer", {})
    reasons = []
    for objection in objections:
        # ``EMPTY_ANSWER`` is an instruction to the model, but these reasons are for the user.
        if objection == EMPTY_ANSWER:
            objection = (
                "The model's answer was empty, even after it had been asked for another one"
                f" {run.objections} times."
            )
        reasons.append(objection)
    for name, why in off.items():
        reasons.append(f"The plugin {name}, which checks answers, is off ({why}).")
    if reasons:
        code = "E_PLUGIN" if off else "E_FAILED"
        end(agent, "partial_success", code=code, error=reasons[0], left="; ".join(reasons))
    elif run.cut:
        error = (
            "The answer is not complete: it was cut off at the output limit"
            f" {run.continued + 1} times."
        )
        hint = "Ask for the rest, or for a shorter answer."
        left = "The end of the answer."
        end(agent, "partial_success", code="E_OUTPUT_LIMIT", error=error, hint=hint, left=left)
    elif message.stop == "refusal":
        hint = "Rephrase the prompt, or choose another model."
        end(agent, "failed", code="E_FAILED", error="The model refused to answer.", hint=hint)
    else:
        _end_with_refused_calls(agent)


def _end_with_refused_calls(agent: Agent) -> None:
    """End a run as completed, or as a partial success if calls that it needed were refused."""
    refusal = find_refusal(agent.run.finished, agent.session.approve)
    if refusal is None:
        end(agent, "completed")
        return
    end(
        agent,
        "partial_success",
        code=refusal.code,
        error=refusal.error,
        hint=refusal.hint,
        left=refusal.left,
    )


_STEPS = {"freeze": _freeze, "think": _think, "call": run_calls, "round": _round, "check": _check}
