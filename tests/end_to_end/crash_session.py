"""A session to be killed: the program that runs it, the model that answers it, and what must hold
afterwards.

Run as a program it is the child: the real kernel with the SQLite store, or the one in PostgreSQL, the
chat gateway over loopback HTTP, the file and shell tools, and a plugin whose tools leave a line in a file each time
they run. ``trial`` kills it and has it resumed, and ``judge`` compares what is left with a run that
nobody disturbed.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio
from hilum import HilumError, StoreError, UsageError, hookimpl, tool
from hilum.errors import E_INTERRUPTED
from hilum.events import (
    AnyEvent,
    ApprovalAsked,
    CallDone,
    CallStarted,
    Compacted,
    ModelAnswered,
    PromptFrozen,
    PromptQueued,
    RunEnded,
    StateChanged,
    encode,
)
from hilum.hookspecs import ask
from hilum.messages import AssistantMessage, Layer, Text, ToolCall, Usage
from hilum.tools import Call

if TYPE_CHECKING:
    from hilum.store import Store
    from hilum_replay import Answer, WireRequest

PROMPTS = 3
WINDOW = 32_768
ACTIONS = 7
E_STORE_EXIT = StoreError("").exit_code
Deed = tuple[str, float]
# What the shell says of its duration is the only thing in a prompt that two undisturbed runs do not
# have in common.
SECONDS = re.compile(rb"after \d+\.\d s")


# --- the model: its answer is a function of how many answers the request holds --------------------


def _calls(turn: int, ran: str) -> list[tuple[str, dict[str, object]]]:
    """What the model wants in a turn.

    Each file is touched by the turns of one group of seven only.
    """
    group, action = divmod(turn, ACTIONS)
    file = f"notes/{group}.txt"
    shell = f"echo {identity(turn, 0)} >> {ran}; echo {turn} >> log-{turn}.txt; cat {file} 2>&1 | head -3"
    return [
        [("write_file", {"path": file, "content": f"one\ntwo {group}\n"}), ("mark_pure", {})],
        [("read_file", {"path": file})],
        [("edit_file", {"path": file, "old_string": "one", "new_string": f"uno {group}"})],
        [("run_terminal_cmd", {"command": shell})],
        [("mark_once", {}), ("mark_idempotent", {}), ("mark_pure", {})],
        [("mark_asked", {})],
        [("write_file", {"path": "rules.txt", "content": f"Rule {group}.\n"})],
    ][action]


def identity(turn: int, number: int) -> str:
    """A call's id; a short one would be replaced by the gateway."""
    return f"call-{turn:04}-{number}"


def answer(turn: int, turns: int, ran: str) -> AssistantMessage:
    """The answer of a turn: calls, and at the end of each prompt a text."""
    if turn in ends(turns):
        return AssistantMessage((Text(f"Part {turn} is done.", "model"),))
    calls = [
        ToolCall(identity(turn, n), name, json.dumps(args))
        for n, (name, args) in enumerate(_calls(turn, ran))
    ]
    return AssistantMessage((Text(f"Turn {turn}.", "model"), *calls), stop="calls")


def ends(turns: int) -> list[int]:
    """The turns, counted from 0, that end a prompt."""
    return [turns * (n + 1) // PROMPTS - 1 for n in range(PROMPTS)]


def answered(body: bytes) -> int:
    """How many answers came before a request, as its last answer says: earlier ones may have been
    compacted.
    """
    said = [str(m["content"]) for m in json.loads(body)["messages"] if m["role"] == "assistant"]
    return int(said[-1].split()[1].rstrip(".")) + 1 if said else 0


def script(turns: int, ran: str) -> Callable[[WireRequest], Answer]:
    """The model: it also counts tokens, in a way that corrects the kernel's own guess."""
    from hilum_replay import Answer

    def reply(asked: WireRequest) -> Answer:
        return Answer(
            answer(answered(asked.body), turns, ran), Usage(input=len(asked.body) // 3, output=20)
        )

    return reply


# --- the child ------------------------------------------------------------------------------------


class Marks:
    """Tools that leave their call's id in a file each time they run, a rule that changes, a note
    each round.
    """

    def __init__(self, ran: str) -> None:
        self._file = os.open(ran, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def _mark(self, call: Call) -> str:
        await trio.sleep(0.001)
        os.write(self._file, f"{call.id}\n".encode())
        await trio.sleep(0.001)
        return f"ran {call.id}" + " and more" * 450

    @tool(risk="execute", effect="once")
    async def mark_once(self, call: Call) -> str:
        """Leave a mark; not to be repeated."""
        return await self._mark(call)

    @tool(risk="execute", effect="once")
    async def mark_asked(self, call: Call) -> str:
        """Leave a mark; not to be repeated, and the user is asked."""
        return await self._mark(call)

    @tool(risk="write", effect="idempotent")
    async def mark_idempotent(self, call: Call) -> str:
        """Leave a mark; repeating it does no harm."""
        return await self._mark(call)

    @tool(risk="read", effect="pure")
    async def mark_pure(self, call: Call) -> str:
        """Leave a mark; changes nothing."""
        return await self._mark(call)

    @hookimpl
    def provide_tools(self):  # type: ignore[no-untyped-def]
        return [self.mark_once, self.mark_asked, self.mark_idempotent, self.mark_pure]

    @hookimpl
    def on_tool_call(self, tool):  # type: ignore[no-untyped-def]
        return ask("It wants to.") if tool.name == "mark_asked" else None

    @hookimpl
    def build_prompt_layer(self, agent):  # type: ignore[no-untyped-def]
        rules = agent.session.workspace.root / "rules.txt"
        return Layer(40, "rules", rules.read_text() if rules.exists() else "No rule.")

    @hookimpl
    def remind(self, results):  # type: ignore[no-untyped-def]
        return f"Remember {results[0].call_id}."


def murderous(log, when: str, number: int):  # type: ignore[no-untyped-def]
    """Make a log end this process with SIGKILL before or after it appends the event with that
    number.
    """
    append = log.append

    def deadly(events: Sequence[AnyEvent]) -> None:
        hit = any(event.seq == number for event in events)
        if hit and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        append(events)
        if hit:
            os.kill(os.getpid(), signal.SIGKILL)

    log.append = deadly
    return log


class DeadlyStore:
    """A store with logs that kill."""

    def __init__(self, store, when: str, number: int) -> None:  # type: ignore[no-untyped-def]
        self._store, self._deed = store, (when, number)

    def __getattr__(self, name: str):  # type: ignore[no-untyped-def]
        return getattr(self._store, name)

    async def create(self, info):  # type: ignore[no-untyped-def]
        return murderous(await self._store.create(info), *self._deed)

    async def open(self, session: str):  # type: ignore[no-untyped-def]
        return murderous(await self._store.open(session), *self._deed)


def make_store(data: Path, database: str) -> Store:
    """Return the store of a trial: a file in the folder, or a database."""
    if database:
        from hilum_postgres import PostgresStore

        return PostgresStore(database)
    from hilum_store import SqliteStore

    return SqliteStore(data / "sessions.db")


async def child(
    url: str,
    workspace: str,
    data: str,
    ran: str,
    resume: str,
    when: str,
    number: int,
    database: str,
) -> None:
    """Run the session, or go on with it, and write every event that a reader sees to standard
    output.
    """
    import hilum
    import hilum_files
    import hilum_models
    import hilum_prompt
    import hilum_shell

    os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
    if when == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (number, resource.RLIM_INFINITY))
    store = DeadlyStore(make_store(Path(data), database), when, number)
    plugins = [hilum_files, hilum_models, hilum_prompt, hilum_shell, Marks(ran)]
    # A small window, so that the conversation is compacted now and then.
    models = {"openai/m": {"window": WINDOW}}
    settings = {"model": "openai/m", "approve": "auto", "turns": 1000, "models.models": models}
    environ = os.environ | {"HILUM_CONFIG": data, "HILUM_DATA": data}
    async with (
        hilum.open_kernel(plugins, settings=settings, store=store, environ=environ) as kernel,  # type: ignore[arg-type]
        trio.open_nursery() as readers,
        kernel.open_session(workspace, resume=resume) as session,
    ):
        readers.start_soon(show, session)
        for run in session.resume():
            await run.wait()
        asked = sum(
            isinstance(event, PromptQueued) for event in await store.read(session.id, 0, 10**6)
        )
        for prompt in range(asked, PROMPTS):
            await session.run(f"Part {prompt}.")


async def show(session) -> None:  # type: ignore[no-untyped-def]
    """Write what a reader sees, and give the user's answers."""
    async for event in session.events():
        os.write(1, encode(event) + b"\n")
        if isinstance(event, ApprovalAsked):
            with suppress(UsageError):  # one of the time before the crash
                session.answer(event.id, True)


# --- a trial --------------------------------------------------------------------------------------


@attrs.frozen
class Life:
    """One process of a trial: what it showed, the requests it sent, and what was on disk when it
    was gone.
    """

    shown: list[bytes]
    bodies: list[bytes]
    stored: list[AnyEvent]
    ran: Counter[str]
    killed: bool
    errors: str


@attrs.frozen
class Trial:
    """A session from its start to its end, with the deaths in between, and the workspace's files at
    the end.
    """

    lives: list[Life]
    files: dict[str, str]

    @property
    def events(self) -> list[AnyEvent]:
        """The log at the end."""
        return self.lives[-1].stored


async def trial(turns: int, deeds: Sequence[Deed] = (), database: str = "") -> Trial:
    """Run a session to its end, cut off on the way.

    Args:
        turns: How many answers the model gives.
        deeds: How each process ends: ``("before", n)`` or ``("after", n)`` an event,
            ``("at", seconds)``, or ``("full", bytes)``, the size at which no file can grow any
            more. The last process is left in peace.
        database: The URL of an empty database; by default, the session is in a file.
    """
    with tempfile.TemporaryDirectory(prefix="crash-") as name:
        folder, lives = Path(name), []
        for deed in (*deeds, ("never", 0.0)):
            lives.append(await live(folder, turns, deed, database))
            if not lives[-1].killed:
                break
        root = folder / "work"
        return Trial(
            lives, {str(p.relative_to(root)): p.read_text() for p in root.rglob("*") if p.is_file()}
        )


async def live(folder: Path, turns: int, deed: Deed, database: str) -> Life:
    """Start the child, and wait until it dies or is done."""
    from hilum_replay import serve

    data, work, ran = folder / "data", folder / "work", folder / "ran.txt"
    data.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    store = make_store(data, database)
    known = await store.list()
    when, number = deed
    kill = ("never", "0") if when == "at" else (when, str(int(number)))
    async with serve(script(turns, str(ran)), keep=10_000) as server:
        resume = known[0].id if known else ""
        argv = [
            sys.executable,
            __file__,
            f"{server.url}/v1",
            str(work),
            str(data),
            str(ran),
            resume,
            *kill,
            database,
        ]
        shown, code, errors = await watch(argv, number if when == "at" else None)
        assert not server.failures, server.failures
        bodies = [normal(body, folder) for body in server.bodies]
    stored: list[AnyEvent] = []
    for info in await store.list():
        await wait_until_free(store, info.id)
        while page := await store.read(info.id, len(stored)):
            stored += page
    await store.close()
    assert code in (0, E_STORE_EXIT if when == "full" else -signal.SIGKILL), errors
    counts = Counter(ran.read_text().split() if ran.exists() else ())
    return Life(shown.split(b"\n")[:-1], bodies, stored, counts, code != 0, errors)


async def wait_until_free(store: Store, session: str) -> None:
    """Wait until nothing writes a session any more: a server notices a moment later who is dead."""
    with trio.fail_after(2):
        while await store.is_open(session):  # noqa: ASYNC110 (a server does it)
            await trio.sleep(0.005)


async def watch(argv: list[str], seconds: float | None) -> tuple[bytes, int, str]:
    """Run a child; kill it so many seconds after it showed its first event.

    Gives what it wrote, its code, its errors.
    """
    shown, errors = bytearray(), bytearray()
    process = await trio.lowlevel.open_process(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    assert process.stderr

    async def complaints(stream: trio.abc.ReceiveStream) -> None:
        async for piece in stream:
            errors.extend(piece)

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(complaints, process.stderr)
            async with trio.open_nursery() as killer:

                async def murder(delay: float) -> None:
                    await trio.sleep(delay)
                    process.kill()

                async for piece in process.stdout:
                    if seconds is not None and not shown:
                        killer.start_soon(murder, seconds)
                    shown += piece
                killer.cancel_scope.cancel()
            code = await process.wait()
    finally:
        with trio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.wait()
            await process.stdout.aclose()
            await process.stderr.aclose()
    return bytes(shown), code, errors.decode()


def normal(body: bytes, folder: Path) -> bytes:
    """A request as it would be in any folder, and with any duration of a command."""
    return SECONDS.sub(b"after 0.0 s", body.replace(os.fsencode(folder), b"{folder}"))


# --- the verdict ----------------------------------------------------------------------------------


def judge(found: Trial, undisturbed: Trial, turns: int) -> Counter[str]:
    """Check everything that was promised; give what happened, counted.

    Raises:
        AssertionError: Something that was promised does not hold.
    """
    seen: Counter[str] = Counter(kills=sum(life.killed for life in found.lives), trials=1)
    events = found.events
    cut_off: set[str] = set()
    repeated: set[str] = set()
    for life in found.lives:
        stored = [encode(event) for event in life.stored]
        assert life.shown == stored[: len(life.shown)], "a reader saw what is not in the log"
        assert life.stored == events[: len(life.stored)], "the log's past changed"
        assert [event.seq for event in life.stored] == list(range(1, len(stored) + 1)), (
            "the log has a gap"
        )
        done = {event.result.call_id for event in life.stored if isinstance(event, CallDone)}
        started = {
            e.call.id: e.effect
            for e in life.stored
            if isinstance(e, CallStarted) and e.call.id not in done
        }
        cut_off |= {call for call, effect in started.items() if effect == "once"}
        again = {call for call in done if life.ran[call] != found.lives[-1].ran[call]}
        assert not again, f"finished calls ran again: {again}"
        repeated |= {call for call, effect in started.items() if effect == "idempotent"}
        seen["repeated"] += sum(effect != "once" for effect in started.values())
    seen["cut off"] = len(cut_off)
    seen["compactions"] = sum(isinstance(event, Compacted) for event in events)
    ended = [event for event in events if isinstance(event, RunEnded)]
    assert [event.state for event in ended] == ["completed"] * PROMPTS, ended
    judge_calls(found, cut_off)
    judge_prompts(found, undisturbed, turns, tainted(cut_off) | repeated)
    judge_files(found, undisturbed, cut_off)
    return seen


def judge_calls(found: Trial, cut_off: set[str]) -> None:
    """Every call ended once.

    None that must not be repeated ran twice; the model was told of those cut off.
    """
    results = [event.result for event in found.events if isinstance(event, CallDone)]
    assert len({result.call_id for result in results}) == len(results), "a call ended twice"
    codes = {result.call_id: result.code for result in results}
    effects = {
        event.call.id: event.effect for event in found.events if isinstance(event, CallStarted)
    }
    assert effects.keys() == codes.keys()
    for call, count in found.lives[-1].ran.items():
        assert count == 1 or effects[call] != "once", f"{call} ran {count} times"
    told = {call for call, code in codes.items() if code == E_INTERRUPTED}
    assert told == cut_off, f"cut off {cut_off}, told {told}"
    wrong = [
        (result.call_id, result.text)
        for result in results
        if result.code and result.call_id not in tainted(cut_off)
    ]
    assert not wrong, f"calls failed: {wrong}"


def tainted(cut_off: set[str]) -> set[str]:
    """The calls whose results may differ: those cut off, and what looks at the file of an edit that
    was.
    """
    follow = {identity(turn + 1, 0) for turn in map(turn_of, cut_off) if turn % ACTIONS == 2}
    return cut_off | follow


def turn_of(call: str) -> int:
    """The turn a call belongs to."""
    return int(call.split("-")[1])


def judge_prompts(found: Trial, undisturbed: Trial, turns: int, others: set[str]) -> None:
    """Each request is the one of the undisturbed run, and begins with the bytes of the one before
    it in its run.

    The results of ``others`` may differ: of calls cut off, and of idempotent calls that were
    repeated (a file written again with the same content says so).
    """
    wanted = {answered(body): body for body in undisturbed.lives[0].bodies}
    sealed, compacted = (
        rebuilt(found.events),
        rebuilt(undisturbed.events, Compacted) | rebuilt(found.events, Compacted),
    )
    before = b""
    for body in (body for life in found.lives for body in life.bodies):
        turn = answered(body)
        if turn not in sealed:
            assert body.startswith(before), (
                f"the prompt of turn {turn} changed what was sent before"
            )
        before = body.removesuffix(b"]}")
        skip = {call for call in others if turn_of(call) < turn}
        if not skip:
            assert body == wanted[turn], f"the prompt of turn {turn} is another one"
        elif turn < min(
            compacted, default=turns
        ):  # another result has another length, and compactions come elsewhere
            assert without(body, skip) == without(wanted[turn], skip), (
                f"the prompt of turn {turn} is another one"
            )


def rebuilt(events: Sequence[AnyEvent], kind: type = PromptFrozen) -> set[int]:
    """The turns before which the prompt was built anew, or compacted."""
    found, turn = set(), 0
    for event in events:
        turn += isinstance(event, ModelAnswered)
        if isinstance(event, kind):
            found.add(turn)
    return found


def without(body: bytes, calls: set[str]) -> object:
    """A request without the results of some calls."""
    data = json.loads(body)
    data["messages"] = [
        message for message in data["messages"] if message.get("tool_call_id") not in calls
    ]
    return data


def judge_files(found: Trial, undisturbed: Trial, cut_off: set[str]) -> None:
    """The files are those of the undisturbed run; a change that was cut off is there or is not."""
    either: dict[str, tuple[str | None, ...]] = {}
    for turn in map(turn_of, cut_off):
        group = turn // ACTIONS
        if turn % ACTIONS == 2:
            either[f"notes/{group}.txt"] = (f"one\ntwo {group}\n", f"uno {group}\ntwo {group}\n")
        elif turn % ACTIONS == 3:
            either[f"log-{turn}.txt"] = (None, "", f"{turn}\n")
    for name in found.files.keys() | undisturbed.files.keys():
        allowed = either.get(name, (undisturbed.files.get(name),))
        assert found.files.get(name) in allowed, (
            f"{name} is {found.files.get(name)!r}, not one of {allowed}"
        )


def boundaries(undisturbed: Trial, kind: type = object) -> list[Deed]:
    """Every event boundary of a run: before and after each time that something (of a kind) is
    appended.
    """
    found = (event for event in undisturbed.events if isinstance(event, kind))
    numbers = [event.seq for event in found if not isinstance(event, StateChanged)]
    return [(when, float(number)) for number in numbers for when in ("before", "after")]


def instants(undisturbed: Trial, dice: random.Random, count: int) -> list[list[Deed]]:
    """Random instants to kill at, one to three lives each."""
    seconds = undisturbed.events[-1].at - undisturbed.events[0].at
    return [
        [("at", dice.uniform(0, seconds)) for _ in range(dice.choice((1, 1, 2, 3)))]
        for _ in range(count)
    ]


async def judge_all(
    turns: int,
    undisturbed: Trial,
    plans: Sequence[Sequence[Deed]],
    workers: int = 2,
    make_database: Callable[[], str] = str,
) -> Counter[str]:
    """Carry out trials, some at once, and judge each; give what happened, added up.

    Raises:
        AssertionError: With the plan of the trial in which something did not hold.
    """
    total: Counter[str] = Counter()
    waiting = list(reversed(plans))

    async def work() -> None:
        while waiting:
            plan = waiting.pop()
            try:
                total.update(judge(await trial(turns, plan, make_database()), undisturbed, turns))
            except AssertionError as error:
                raise AssertionError(f"{plan}: {error}") from error

    async with trio.open_nursery() as nursery:
        for _ in range(workers):
            nursery.start_soon(work)
    return total


if __name__ == "__main__":
    url, workspace, data, ran, resume, when, number, database = sys.argv[1:]
    try:
        trio.run(child, url, workspace, data, ran, resume, when, int(number), database)
    except* HilumError as group:
        for error in group.exceptions:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(E_STORE_EXIT)
