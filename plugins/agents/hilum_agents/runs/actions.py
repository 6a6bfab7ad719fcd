"""Actions on runs: ``run``, ``results``, ``result``, ``retry``, ``clear``, ``fork``, ``stop``."""

from __future__ import annotations

import gc
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import trio
from hilum import Kernel, Session, UsageError, open_kernel, open_standard_session
from hilum.command import say
from hilum.errors import E_BAD_ARGS, E_NOT_FOUND, describe_fault
from hilum.events import FINAL, PluginEvent, PluginFault
from hilum.store import UnreadableLog

from hilum_agents.command_context import JSON, Action, CommandContext, argument
from hilum_agents.runs import conversations, results
from hilum_agents.runs.jobs import RESULT, JobTable, no_single_job
from hilum_agents.runs.pool import stop_file
from hilum_agents.runs.runs import Runs

# Maximum number of sessions in a workspace to search, most recently used first.
MAX_SESSIONS = 50
# Seconds to wait for another process to accept a stop request.
STOP_TIMEOUT = 5.0
EXIT_CODES = {"completed": 0, "partial_success": 3, "timed_out": 124, "stopped": 130}


# --- sessions -------------------------------------------------------------------------------------


@attrs.frozen
class _StoredRuns:
    """The jobs in a stored session.

    Attributes:
        session: Id of the session.
        jobs: Its jobs.
        results: The jobs' results, by job id.
    """

    session: str
    jobs: JobTable
    results: dict[str, dict[str, Any]]


@attrs.frozen
class _StoredRun:
    """A job in a stored session: the ids of session and job, and the job's result, if any."""

    session: str
    id: str
    result: dict[str, Any] | None


def _current_runs(context: CommandContext) -> Runs | None:
    """Return the agent runs of the session in which the command was typed, if any."""
    if context.in_session is None:
        return None
    return _runs_of(context.in_session.session)


def _runs_of(session: Session) -> Runs:
    runs = session.plugin(Runs)
    if runs is None:
        raise UsageError(
            "The `scheduler` plugin is not loaded, so no agent can run.",
            hint="Load the `scheduler` plugin.",
        )
    return runs


async def _stored_runs(kernel: Kernel, workspace: Path) -> AsyncIterator[_StoredRuns]:
    """Yield the most recent sessions in a workspace in which agents ran."""
    sessions = await kernel.store.list(str(workspace))
    for info in sessions[:MAX_SESSIONS]:
        found = _StoredRuns(info.id, JobTable(), {})
        # What follows damage in one session is left out; the other sessions are not affected.
        with suppress(UnreadableLog):
            after = 0
            while page := await kernel.store.read(info.id, after):
                for event in page:
                    found.jobs.apply(event)
                    if isinstance(event, PluginEvent) and event.name == RESULT:
                        found.results[event.data["agent_id"]] = event.data
                after = page[-1].seq
        if found.jobs.by_id:
            yield found


async def _find(kernel: Kernel, context: CommandContext, name: str) -> _StoredRun:
    """Return the stored session's job whose id begins with a prefix.

    Raises:
        UsageError: No job matches, or several jobs do.
    """
    matching = []
    async for stored in _stored_runs(kernel, context.workspace):
        for identity in stored.jobs.by_id:
            if identity.startswith(name):
                result = stored.results.get(identity)
                matching.append(_StoredRun(stored.session, identity, result))
    if len(matching) != 1:
        raise no_single_job(name, len(matching), context.prog)
    return matching[0]


@asynccontextmanager
async def _opened(opening: AbstractAsyncContextManager[Session]) -> AsyncIterator[Session]:
    """Open a session, and exclude all objects loaded so far from garbage collection.

    A full collection of these objects would delay every agent by about 50 ms (see
    ``tests/benchmarks/scheduler.py``).
    """
    async with opening as session:
        gc.freeze()
        yield session


# --- run and retry --------------------------------------------------------------------------------


async def _run(options: Namespace, context: CommandContext) -> int:
    prompt = " ".join(options.prompt)
    names = [name.strip() for name in options.name.split(",")]
    # In a script, an empty name usually comes from a variable without a value.
    if not all(names):
        raise UsageError(
            f"{options.name!r} contains an empty name of an agent.",
            code=E_BAD_ARGS,
            hint="`hilum agents list` shows the agents.",
        )
    wanted = [(name, prompt) for name in names]
    wanted += [(name, also) for name, also in options.also]
    runs = _current_runs(context)
    if runs is None:
        return await _run_in_new_session(wanted, options, context)
    if options.model:
        raise UsageError(
            "In a session, agents use the session's model, so --model has no effect.",
            hint="Set the model in the agent's file.",
        )
    if options.kind:
        raise UsageError("The kind of an open session cannot be changed.", hint="Leave out --kind.")
    for name, identity in await _begin(runs, wanted, options.timeout):
        step = runs.status(identity)["current_step"]
        context.say(f"{name} was started as {identity}: {step}")
    return 0


async def _run_in_new_session(
    wanted: list[tuple[str, str]],
    options: Namespace,
    context: CommandContext,
) -> int:
    for name, _ in wanted:
        await context.entry(name)  # report an unknown agent before a missing model
    opening = open_standard_session(
        context.workspace,
        kind=options.kind,
        attended=context.asks,
        model=options.model,
        approve=options.approve,
        extra_plugins=[Path(path) for path in options.plugin],
        without=options.no_plugin,
    )
    async with _opened(opening) as session:
        runs = _runs_of(session)
        # The event number is read before the agents begin, so that the display misses no event.
        after = session.journal.last
        _report_faults(session)
        begun = await _begin(runs, wanted, options.timeout)
        identities = [identity for _, identity in begun]
        return await _watch(runs, identities, after, context, options.json)


def _report_faults(session: Session) -> None:
    """Report plugins that failed while the session was opening."""
    for event in session.journal.since(0):
        if isinstance(event, PluginFault):
            say(
                f"hilum: {describe_fault(event.plugin, event.hook, event.error)}",
                to=sys.stderr,
            )


async def _begin(
    runs: Runs,
    wanted: list[tuple[str, str]],
    timeout: float | None,
) -> list[tuple[str, str]]:
    """Start all given agents, or none if any of them cannot run.

    Returns:
        The name and the job id of each agent.
    """
    for name, _ in wanted:
        await runs.prepare(name)
    return [(name, await runs.start(name, prompt, timeout=timeout)) for name, prompt in wanted]


async def _retry(options: Namespace, context: CommandContext) -> int:
    runs = _current_runs(context)
    if runs is not None:
        context.say(f"The agent was started again as {await runs.retry(options.id)}.")
        return 0
    async with open_kernel(workspace=context.workspace) as kernel:
        stored = await _find(kernel, context, options.id)
    opening = open_standard_session(
        context.workspace,
        resume=stored.session,
        attended=context.asks,
        needs_model=False,
    )
    async with _opened(opening) as session:
        # If there is no model, the action fails here, before the job is changed.
        await session.kernel.router.default()
        runs = _runs_of(session)
        after = session.journal.last
        runs.abandon()  # of the interrupted jobs, only this one should continue
        identity = await runs.retry(stored.id)
        return await _watch(runs, [identity], after, context, options.json)


@asynccontextmanager
async def _watch_nothing(
    session: Session,
    agents: Sequence[str],
    after: int,
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    yield trio.lowlevel.checkpoint


async def _watch(
    runs: Runs,
    identities: list[str],
    after: int,
    context: CommandContext,
    json: bool,
) -> int:
    """Show agents until all have ended, then print their results.

    Returns:
        The first nonzero exit code, or 0.
    """
    actors = [runs.actor(identity) for identity in identities]
    async with (context.watch or _watch_nothing)(runs.session, actors, after) as end_display:
        ended = [await _last_result(runs, identity) for identity in identities]
        # The display ends first, so that it does not mix with the results.
        await end_display()
        _show_all(ended, context, json)
    codes = [_exit_code(result) for result in ended]
    return next((code for code in codes if code), 0)


async def _last_result(runs: Runs, identity: str) -> dict[str, Any]:
    """Return the result of an agent's last job, once the job's background agents have ended."""
    while True:
        result = await runs.wait(identity)
        identity = await runs.after(identity)
        if not identity:
            return result


def _show_all(ended: list[dict[str, Any]], context: CommandContext, json: bool) -> None:
    if len(ended) == 1:
        _show(ended[0], context, json)
    elif json:
        context.say_json(ended)
    else:
        for number, result in enumerate(ended):
            if number:
                context.say("")
            status = result["status"].replace("_", " ")
            context.say(f"── {result['agent']} ({result['agent_id']}): {status}")
            _show(result, context, json)


def _show(result: dict[str, Any], context: CommandContext, json: bool) -> None:
    if json:
        context.say_json(result)
    else:
        context.say(results.tell(result))


def _exit_code(result: dict[str, Any]) -> int:
    return EXIT_CODES.get(result["status"], 1)


# --- results --------------------------------------------------------------------------------------


async def _results(options: Namespace, context: CommandContext) -> int:
    runs = _current_runs(context)
    if runs is not None:
        rows = runs.list()
    else:
        rows = await _stored_rows(context)
        rows.sort(key=lambda row: row["started"])
    if options.json:
        context.say_json(rows)
        return 0
    for row in rows:
        context.say(_row_text(row))
    if not rows:
        context.say("No agent has run here.")
    return 0


async def _stored_rows(context: CommandContext) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    async with open_kernel(workspace=context.workspace) as kernel:
        async for stored in _stored_runs(kernel, context.workspace):
            found = [
                job.status_data() | {"session": stored.session}
                for job in stored.jobs.by_id.values()
            ]
            unfinished = [row for row in found if row["status"] not in FINAL]
            if unfinished and not await kernel.store.is_open(stored.session):
                # No process has the session open, so none of the session's agents is running
                # anymore.
                step = f"interrupted; `hilum run --resume {stored.session}` continues it"
                for row in unfinished:
                    row.update(status="interrupted", current_step=step)
            rows += found
    return rows


def _row_text(row: dict[str, Any]) -> str:
    started = time.strftime("%m-%d %H:%M", time.localtime(row["started"]))
    name = row["agent"]
    if row["title"]:
        name += f": {row['title']}"
    status = row["status"]
    line = f"{row['agent_id']}  {started}  {status:20} {row['progress']:4.0%}  {name}"
    if status == "completed":
        return line
    return f"{line}  {row['current_step']}".rstrip()


async def _result(options: Namespace, context: CommandContext) -> int:
    runs = _current_runs(context)
    if runs is not None:
        result = await runs.result(options.id)
    else:
        result = await _stored_result(context, options.id)
    _show(result, context, options.json)
    return 0


async def _stored_result(context: CommandContext, name: str) -> dict[str, Any]:
    async with open_kernel(workspace=context.workspace) as kernel:
        stored = await _find(kernel, context, name)
        if stored.result is not None:
            return stored.result
        if await kernel.store.is_open(stored.session):
            message = f"The agent {stored.id} has no result yet."
            hint = "Try again when it has ended."
        else:
            message = f"The agent {stored.id} was interrupted and has no result."
            hint = f"`hilum run --resume {stored.session}` continues it."
        raise UsageError(message, code=E_NOT_FOUND, hint=hint)


# --- conversations --------------------------------------------------------------------------------


async def _clear(options: Namespace, context: CommandContext) -> int:
    runs = _current_runs(context)
    name = options.name.casefold()
    if runs is not None:
        existed = runs.clear(name)
    else:
        existed = conversations.clear(context.workspace, name)
    if existed:
        context.say(f"The conversation of {options.name} was deleted.")
    else:
        context.say(f"{options.name} has no conversation here.")
    return 0


async def _fork(options: Namespace, context: CommandContext) -> int:
    conversations.fork(context.workspace, options.name.casefold(), options.new.casefold())
    context.say(f"{options.new} continues from a copy of {options.name}'s conversation.")
    return 0


# --- stop -----------------------------------------------------------------------------------------


async def _stop(options: Namespace, context: CommandContext) -> int:
    runs = _current_runs(context)
    if runs is not None:
        runs.stop(options.id)
        context.say("Stopped.")
        return 0
    if not options.id:
        raise UsageError(
            "hilum agents stop requires the id of an agent.",
            hint="`hilum agents results` lists the ids.",
        )
    async with open_kernel(workspace=context.workspace) as kernel:
        stored = await _find(kernel, context, options.id)
    if stored.result is not None:
        context.say(f"The agent {stored.id} has ended: {stored.result['status']}.")
    else:
        await _request_stop(stored.id)
        context.say(f"The agent {stored.id} is being stopped.")
    return 0


async def _request_stop(identity: str) -> None:
    """Ask the process that runs an agent to stop the agent.

    Raises:
        UsageError: No process accepted the request.
    """
    path = stop_file(identity)
    await trio.to_thread.run_sync(_touch, path)
    with trio.move_on_after(STOP_TIMEOUT):
        while path.exists():  # noqa: ASYNC110 - another process deletes it
            await trio.sleep(0.1)
        return
    path.unlink(missing_ok=True)
    raise UsageError(
        f"No process runs the agent {identity}: it was interrupted.",
        hint=f"`hilum agents retry {identity}` continues it.",
    )


def _touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


_ID = argument("id", metavar="ID")
_NAME = argument("name", metavar="NAME")
ACTIONS = {
    "run": Action(
        _run,
        "Start one or more agents and wait for them: run NAME PROMPT.",
        (
            JSON,
            argument(
                "name",
                metavar="NAME[,NAME…]",
                help="the agent; several agents get the same prompt",
            ),
            argument("prompt", nargs="+", metavar="PROMPT", help="the task"),
            argument(
                "--also",
                nargs=2,
                action="append",
                default=[],
                metavar=("NAME", "PROMPT"),
                help="another agent to run at the same time",
            ),
            argument("--timeout", type=float, metavar="SECONDS", help="time limit of each agent"),
            argument(
                "--model",
                default="",
                help="provider/name or a role, for agents without a model",
            ),
            argument(
                "--approve",
                choices=("auto", "readonly"),
                default=None,
                help="allow or deny all calls that need approval",
            ),
            argument(
                "--kind",
                default="",
                choices=("main", "shared", "headless"),
                help="kind of session, to which rules can refer: `shared` can be read by others,"
                " `headless` cannot ask anybody",
            ),
            argument(
                "--plugin",
                action="append",
                default=[],
                metavar="FILE",
                help="load a plugin from a file",
            ),
            argument(
                "--no-plugin",
                action="append",
                default=[],
                metavar="NAME",
                help="do not load a plugin",
            ),
        ),
    ),
    "results": Action(
        _results,
        "List finished, running and waiting agents of recent sessions here.",
        (JSON,),
    ),
    "result": Action(
        _result,
        "Show a result: text, files, finished and unfinished work.",
        (
            JSON,
            _ID,
        ),
    ),
    "retry": Action(
        _retry,
        "Continue an agent that failed or was interrupted.",
        (
            JSON,
            _ID,
        ),
    ),
    "clear": Action(
        _clear,
        "Delete an agent's conversation in this workspace.",
        (_NAME,),
    ),
    "fork": Action(
        _fork,
        "Copy an agent's conversation to another agent: fork NAME NEW.",
        (
            _NAME,
            argument("new", metavar="NEW", help="the agent that gets the copy"),
        ),
    ),
    "stop": Action(
        _stop,
        "Stop an agent, in whichever process it runs.",
        (
            argument(
                "id",
                metavar="ID",
                nargs="?",
                default="",
                help="id of the agent; by default all agents in the session",
            ),
        ),
    ),
}
