"""``hilum agents run|results|result|retry|clear|stop``, and the same behind ``/agents`` in a
session.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from hilum import Kernel, Session, UsageError, open_kernel, open_standard_session
from hilum.errors import E_NOT_FOUND
from hilum.events import FINAL, PluginEvent, PluginFault
from hilum.store import is_open
from hilum_commandline import say

from hilum_agents.managing import ACTIONS, Desk, make_parser, parse
from hilum_agents.runs import kept, results
from hilum_agents.runs.actors import stop_file
from hilum_agents.runs.half import Runs
from hilum_agents.runs.records import RESULT, Ledger, status_of

SESSIONS = 50
"""Sessions of a workspace that are looked through, last used first."""
EXITS = {"completed": 0, "partial_success": 3, "timed_out": 124, "stopped": 130}


# --- the stored -----------------------------------------------------------------------------------


@asynccontextmanager
async def _kernel(desk: Desk) -> AsyncIterator[Kernel]:
    async with open_kernel(workspace=desk.workspace) as kernel:
        yield kernel


def _here(desk: Desk) -> Runs | None:
    """The half of the session the command was given in."""
    if desk.in_session is None:
        return None
    return _half(desk.in_session.session)


def _half(session: Session) -> Runs:
    half = session.half(Runs)
    if half is None:
        raise UsageError("No agents can run here.", hint="Load the plugin scheduler.")
    return half


async def _stored(
    kernel: Kernel, desk: Desk
) -> AsyncIterator[tuple[str, Ledger, dict[str, dict[str, Any]]]]:
    """Yield the sessions of the workspace in which agents ran: id, what the log says, and the
    results by agent id.
    """
    for info in (await kernel.store.list(str(desk.workspace)))[:SESSIONS]:
        ledger = Ledger()
        found = dict[str, dict[str, Any]]()
        after = 0
        while page := await kernel.store.read(info.id, after):
            for event in page:
                ledger.apply(event)
                if isinstance(event, PluginEvent) and event.name == RESULT:
                    found[event.data["agent_id"]] = event.data
            after = page[-1].seq
        if ledger.entries:
            yield info.id, ledger, found


async def _find(kernel: Kernel, desk: Desk, name: str) -> tuple[str, str, dict[str, Any] | None]:
    """Find an agent that ran, by the beginning of its id; gives session, id and result.

    Raises:
        UsageError: There is none, or there are several.
    """
    found = [
        (session, entry.id, known.get(entry.id))
        async for session, ledger, known in _stored(kernel, desk)
        for entry in ledger.entries.values()
        if entry.id.startswith(name)
    ]
    if len(found) != 1:
        if found:
            what = "More than one agent that ran begins with"
        else:
            what = "No agent that ran has the id"
        raise UsageError(
            f"{what} {name!r}.", code=E_NOT_FOUND, hint=f"{desk.prog} results lists them."
        )
    return found[0]


# --- actions --------------------------------------------------------------------------------------


@asynccontextmanager
async def _frozen(opened: AbstractAsyncContextManager[Session]) -> AsyncIterator[Session]:
    async with opened as session:
        # What is loaded stays: a collection that went through it would hold up every agent for 50
        # ms
        gc.freeze()
        yield session


async def _run(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "run")
    parser.add_argument(
        "name", metavar="NAME[,NAME…]", help="who; several names are given the same to do"
    )
    parser.add_argument("prompt", nargs="+", metavar="PROMPT", help="what it is to do")
    parser.add_argument(
        "--also",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "PROMPT"),
        help="another one beside it",
    )
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="the longest each may take"
    )
    parser.add_argument(
        "--model", default="", help="provider/name or a role, for those whose file names none"
    )
    parser.add_argument(
        "--approve",
        choices=("auto", "readonly"),
        default=None,
        help="let calls that are asked for run, or refuse them",
    )
    parser.add_argument(
        "--kind",
        default="",
        choices=("main", "shared", "headless"),
        help=(
            "kind of the session, which rules may name: shared where others read along; headless"
            " asks nobody"
        ),
    )
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="load a plugin from a file, too",
    )
    parser.add_argument(
        "--no-plugin", action="append", default=[], metavar="NAME", help="leave a plugin out"
    )
    options = parse(parser, argv, desk)
    wanted = [
        (name.strip(), " ".join(options.prompt)) for name in options.name.split(",") if name.strip()
    ]
    wanted += [(name, prompt) for name, prompt in options.also]
    half = _here(desk)
    if half is not None:
        if options.model:
            raise UsageError(
                "In a session its model is taken.", hint="An agent's file can name another."
            )
        if options.kind:
            raise UsageError("A session keeps its kind.", hint="Leave out --kind.")
        for name, identity in await _begin(half, wanted, options.timeout):
            desk.say(f"{name} was started as {identity}: {half.status(identity)['current_step']}")
        return 0
    for name, _ in wanted:
        await desk.entry(
            name
        )  # what is wrong with a name is told before what is wrong with the model
    opened = open_standard_session(
        desk.workspace,
        kind=options.kind,
        attended=desk.asks,
        model=options.model,
        approve=options.approve,
        extra_plugins=[Path(path) for path in options.plugin],
        without=options.no_plugin,
    )
    async with _frozen(opened) as session:
        half = _half(session)
        after = session.journal.last
        for fault in session.journal.since(0):
            if isinstance(fault, PluginFault):
                say(
                    f"hilum: the plugin {fault.plugin} failed in {fault.hook}: {fault.error}",
                    to=sys.stderr,
                )
        begun = await _begin(half, wanted, options.timeout)
        return await _watched(half, [identity for _, identity in begun], after, desk, options.json)


async def _begin(
    half: Runs, wanted: list[tuple[str, str]], timeout: float | None
) -> list[tuple[str, str]]:
    """Start agents, or none where one of them cannot be; gives name and id of each."""
    for name, _ in wanted:
        await half.prepare(name)
    return [(name, await half.start(name, prompt, timeout=timeout)) for name, prompt in wanted]


async def _last(half: Runs, identity: str) -> dict[str, Any]:
    """Wait for an agent, and for what it leaves in the background, which wakes it again.

    Gives its last result.
    """
    while True:
        result = await half.wait(identity)
        identity = await half.after(identity)
        if not identity:
            return result


async def _retry(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "retry")
    parser.add_argument("id", metavar="ID")
    options = parse(parser, argv, desk)
    half = _here(desk)
    if half is not None:
        desk.say(f"It was started again as {await half.retry(options.id)}.")
        return 0
    async with _kernel(desk) as kernel:
        where, identity, _ = await _find(kernel, desk, options.id)
    opened = open_standard_session(
        desk.workspace, resume=where, attended=desk.asks, needs_model=False
    )
    async with _frozen(opened) as session:
        await session.kernel.router.default()
        half = _half(session)
        after = session.journal.last
        half.scheduler.settle(resumed=False)
        return await _watched(half, [await half.retry(identity)], after, desk, options.json)


@asynccontextmanager
async def _unseen(
    session: Session, agents: Sequence[str], after: int
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    yield trio.lowlevel.checkpoint


async def _watched(half: Runs, started: list[str], after: int, desk: Desk, json: bool) -> int:
    """Show agents until all have ended, then what they found.

    Gives the first exit code that is not 0.
    """
    actors = [half.scheduler.ledger.find(identity).actor for identity in started]
    async with (desk.watch or _unseen)(half.session, actors, after) as end:
        ended = [await _last(half, identity) for identity in started]
        await end()
        if len(ended) == 1:
            return _show(ended[0], desk, json)
        if json:
            desk.say_json(ended)
            return next((code for each in ended if (code := EXITS.get(each["status"], 1))), 0)
        codes = []
        for number, result in enumerate(ended):
            status = result["status"].replace("_", " ")
            desk.say(
                ("\n" if number else "") + f"── {result['agent']} ({result['agent_id']}): {status}"
            )
            codes.append(_show(result, desk, json=False))
        return next((code for code in codes if code), 0)


def _show(result: dict[str, Any], desk: Desk, json: bool) -> int:
    if json:
        desk.say_json(result)
    else:
        desk.say(results.tell(result))
    return EXITS.get(result["status"], 1)


async def _results(argv: list[str], desk: Desk) -> int:
    options = parse(make_parser(desk, "results"), argv, desk)
    half = _here(desk)
    if half is not None:
        rows = half.list()
    else:
        rows = list[dict[str, Any]]()
        async with _kernel(desk) as kernel:
            async for session, ledger, _ in _stored(kernel, desk):
                states = [
                    {**status_of(entry), "session": session} for entry in ledger.entries.values()
                ]
                working = [row for row in states if row["status"] not in FINAL]
                if working and not await is_open(kernel.store, session):
                    for row in working:
                        row["status"] = "interrupted"
                        row["current_step"] = f"cut off; hilum run --resume {session} continues it"
                rows += states
        rows.sort(key=lambda row: row["started"])
    if options.json:
        desk.say_json(rows)
        return 0
    for row in rows:
        at = time.strftime("%m-%d %H:%M", time.localtime(row["started"]))
        step = "" if row["status"] == "completed" else f"  {row['current_step']}"
        name = f"{row['agent']}: {row['title']}" if row["title"] else row["agent"]
        desk.say(
            f"{row['agent_id']}  {at}  {row['status']:20} {row['progress']:4.0%}  {name}{step}".rstrip()
        )
    if not rows:
        desk.say("No agent has run here.")
    return 0


async def _result(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "result")
    parser.add_argument("id", metavar="ID")
    options = parse(parser, argv, desk)
    half = _here(desk)
    if half is not None:
        result: dict[str, Any] | None = await half.result(options.id)
    else:
        async with _kernel(desk) as kernel:
            session, identity, result = await _find(kernel, desk, options.id)
            if result is None and not await is_open(kernel.store, session):
                hint = f"hilum run --resume {session} continues it."
                raise UsageError(
                    f"The agent {identity} was cut off and has no result.",
                    code=E_NOT_FOUND,
                    hint=hint,
                )
        if result is None:
            hint = "Ask again when it has ended."
            raise UsageError(
                f"The agent {identity} has no result yet.", code=E_NOT_FOUND, hint=hint
            )
    assert result is not None
    _show(result, desk, options.json)
    return 0


async def _clear(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "clear", json=False)
    parser.add_argument("name", metavar="NAME")
    options = parse(parser, argv, desk)
    half = _here(desk)
    name = options.name.casefold()
    there = half.clear(name) if half is not None else kept.clear(desk.workspace, name)
    desk.say(
        f"{options.name} has forgotten its conversation."
        if there
        else f"{options.name} has no conversation here."
    )
    return 0


async def _fork(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "fork", json=False)
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("new", metavar="NEW", help="the agent that gets a copy of the conversation")
    options = parse(parser, argv, desk)
    kept.fork(desk.workspace, options.name.casefold(), options.new.casefold())
    desk.say(f"{options.new} goes on from what {options.name} was told and said.")
    return 0


async def _stop(argv: list[str], desk: Desk) -> int:
    parser = make_parser(desk, "stop", json=False)
    parser.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        default="",
        help="all agents of the session, if none is given",
    )
    options = parse(parser, argv, desk)
    half = _here(desk)
    if half is not None:
        half.stop(options.id)
        desk.say("Stopped.")
        return 0
    if not options.id:
        raise UsageError(
            "hilum agents stop takes the id of an agent.", hint="hilum agents results lists them."
        )
    async with _kernel(desk) as kernel:
        _, identity, result = await _find(kernel, desk, options.id)
    if result is not None:
        desk.say(f"The agent {identity} is {result['status']} already.")
        return 0
    path = stop_file(identity)
    await trio.to_thread.run_sync(_touch, path)
    with trio.move_on_after(5):
        while path.exists():  # noqa: ASYNC110 - another process takes it away
            await trio.sleep(0.1)
        desk.say(f"The agent {identity} is being stopped.")
        return 0
    path.unlink(missing_ok=True)
    raise UsageError(
        f"No process runs the agent {identity}.",
        hint=f"It was cut off: hilum agents retry {identity}.",
    )


def _touch(path: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


ACTIONS.update(
    run=(_run, "start one or several agents: hilum agents run NAME PROMPT"),
    results=(_results, "what ran, runs and waits, in the last sessions here"),
    result=(_result, "what one found: text, files, what is done and what is not"),
    retry=(_retry, "go on with one that failed or was cut off, from where it stood"),
    clear=(_clear, "have an agent forget its conversation in this workspace"),
    fork=(_fork, "have another agent go on from a copy of an agent's conversation: fork NAME NEW"),
    stop=(_stop, "stop an agent, in whatever process it runs"),
)
