"""Whether a call ever runs past a gate that is not in working order.

Every gate, every way to fail and every face is tried.

Run: ``python tests/benchmarks/gates.py --jobs 2``. Prints a line per face; ends with 1 if anything
ran past a gate, if a face crashed, or if nothing ran with a gate in working order, which would make
the rest worthless. ``--every 10`` plays a sample, and ``--hole NAME`` first breaks hilum in a known
way, to show that the measurement finds it. The tests run a part of it.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TextIO

import attrs
import hilum
import hilum.__main__
import hilum.aio
import hilum.blocking
import hilum.hooks
import hilum.hooks.lifespans
import hilum.hooks.supervised
import hilum.plugins
import msgspec
import trio
from hilum.hookspecs import HOOKS

GATES = tuple(name for name, spec in HOOKS.items() if spec.guards)
SECRET = "the contents of the file"

# Real seconds after which a case counts as one that never ends.
CASE_SECONDS = 90
# Deadlines of hooks: in this process, and in a process that must import much first.
DEADLINE_SECONDS = 0.3
PROCESS_DEADLINE_SECONDS = 1.0
# Whether processes are copies of one that has imported everything: the benchmark starts thousands,
# a test a few real ones.
FORKS = False

# A model that first calls a harmless tool and then two others, and the tools: whatever they do
# leaves a file behind.
STAGE = f"""
import os
from pathlib import Path

import trio
import trio.testing
from hilum import Call, ModelError, hookimpl, tool
from hilum.messages import ToolMessage
from hilum.testing import ModelProvider, ScriptedModel, use

WARMED = trio.Event()


@tool(risk="read")
async def warm(call: Call) -> str:
    '''Let time pass, in which what waits for the first call can crash.'''
    Path(call.workspace.root, "warmed").touch()
    WARMED.set()
    await trio.testing.wait_all_tasks_blocked(0.02)
    return "warm"


@tool(risk="read")
def touch(call: Call) -> str:
    '''Touch a file.'''
    Path(call.workspace.root, "touched").touch()
    return "{SECRET}"


@tool(risk="read")
async def spawn(call: Call) -> str:
    '''Touch a file from a process.'''
    done = await call.processes.run(["touch", "spawned"])
    if done.returncode:
        Path(ROOT, "trouble").write_text(f"{{done.returncode}}: {{done.stderr}}")
    return "spawned"


def answer(request):
    if os.environ.get("STAGE_FAILS"):
        return ModelError("The key is wrong.", kind="auth")
    results = [message for message in request.messages if isinstance(message, ToolMessage)]
    if any("{SECRET}" in str(message) for message in results):
        Path(ROOT, "leaked").touch()
    if len(results) == 1:
        return use("touch") + use("spawn")
    return "The answer." if results else use("warm")


@hookimpl
async def interpret_prompt():
    await trio.sleep(0.02)  # as long as a fast model: what crashes right after it opened has crashed by then


@hookimpl
def provide_models():
    return [ModelProvider({{"model": ScriptedModel([answer] * 50)}}, name="stage")]


@hookimpl
def provide_tools(session):
    global ROOT
    ROOT = session.workspace.root
    return [warm, touch, spawn]
"""
RAN = {"warmed", "touched", "spawned", "leaked"}

# Known ways to let calls past a gate, as code that breaks hilum.
HOLES = {
    "": "",
    "a plugin that did not open leaves its gates open": """
import hilum.hooks
real = hilum.hooks.Table.record_failure
def fault(table, plugin, hook, error, reason=""):
    found = real(table, plugin, hook, error, reason)
    if hook == "open_session":
        table.reopen(plugin)
    return found
hilum.hooks.Table.record_failure = fault
""",
    "closed gates are not looked at": """
import hilum.plugins
hilum.plugins.GateTable.refusal = lambda hooks, gate="": ""
""",
    "a gate that fails has no objection": """
import hilum.hooks
real_call = hilum.hooks.Table._call
async def call(table, hook, impl, arguments):
    value = await real_call(table, hook, impl, arguments)
    return None if type(value).__name__ == "PluginFailure" else value
hilum.hooks.Table._call = call
real_filter = hilum.hooks.Table.filter
def filter(table, hook, over, **arguments):
    try:
        return real_filter(table, hook, over, **arguments)
    except Exception:
        return arguments[over]
hilum.hooks.Table.filter = filter
""",
}
# What a process of Python runs first.
FIRST = """
import hilum.hooks.lifespans
import hilum.hooks.supervised
import msgspec
from hilum.hookspecs import HOOKS

for name, spec in list(HOOKS.items()):
    if spec.guards or spec.shape == "supervised":
        seconds = {seconds} * (2 if name == "open_session" else 1)
        HOOKS[name] = msgspec.structs.replace(spec, deadline=seconds)
hilum.hooks.supervised.GRACE_SECONDS = {seconds} / 2
hilum.hooks.lifespans.CLOSE_SECONDS = {seconds} / 2
{hole}
"""

HEAD = "import sys, time, trio\nfrom hilum import hookimpl\n"
MODULE = "@hookimpl\nasync def {gate}():\n    return None\n"
INSTANCE = """
gates = ("{gate}",)

class Keeper:
    @hookimpl
    async def {gate}(self):
        return None
"""
OPEN = "@hookimpl\nasync def {hook}():\n    {body}\n"
ERRORS = {
    "error": "raise OSError('no connection')",
    "exit": "sys.exit(3)",
    "interrupt": "raise KeyboardInterrupt",
    "group": "raise ExceptionGroup('g', [OSError('deep')])",
    "BaseException": "raise BaseException('odd')",
    "own BaseException": "raise type('Odd', (BaseException,), {})('odd')",
    "asyncio.CancelledError": "import asyncio; raise asyncio.CancelledError",
    "foreign trio.Cancelled": "raise trio.Cancelled._create(source='unknown')",
    "error without a text": "raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})",
    "exit group": "raise BaseExceptionGroup('g', [SystemExit(3)])",
    "interrupt group": "raise BaseExceptionGroup('g', [BaseExceptionGroup('h', [KeyboardInterrupt()]), OSError('x')])",
    "generator exit": "raise GeneratorExit",
}
LATE = "with trio.CancelScope(shield=True):\n        await trio.sleep({late})"
SWALLOW = "with trio.CancelScope(shield=True):\n        await trio.sleep(1e6)"
HANG = "await trio.sleep_forever()"
LATER = """
async with trio.open_nursery() as nursery:
        async def fall():
            await trio.lowlevel.checkpoint()
            {error}
        nursery.start_soon(fall)
        yield Keeper()
        nursery.cancel_scope.cancel()
""".strip()
MIDWAY = LATER.replace(
    "await trio.lowlevel.checkpoint()", "await sys.modules['hilum_stage'].WARMED.wait()"
)


def _opening(hook: str, body: str, after: str = "yield Keeper()") -> str:
    return OPEN.replace("{hook}", hook).replace("{body}", f"{body}\n    {after}")


def _cases() -> Iterator[tuple[str, str]]:
    """Yield the ways in which a plugin is not in working order before the first call, as name and
    source.
    """
    for name, error in ERRORS.items():
        yield f"import: {name}", f"{HEAD}{error}\n{MODULE}"
        yield f"open_kernel: {name}", HEAD + MODULE + _opening("open_kernel", error, "yield")
        yield (
            f"open_session beside a module's gate: {name}",
            HEAD + MODULE + _opening("open_session", error, "yield"),
        )
        yield f"open_session: {name}", HEAD + INSTANCE + _opening("open_session", error)
        yield (
            f"later: {name}",
            HEAD + INSTANCE + _opening("open_session", LATER.replace("{error}", error), ""),
        )
    yield "import: syntax", f"{HEAD}{MODULE}\ndef"
    yield "import: lacking", f"{HEAD}import a_module_that_is_not_there\n{MODULE}"
    yield "registration: argument", HEAD + MODULE.replace("():", "(misspelt):")
    yield "registration: hook", HEAD + MODULE + "@hookimpl\ndef on_toolcall(): ...\n"
    yield "registration: not marked", HEAD + MODULE.replace("@hookimpl\n", "")
    yield "registration: gates is a text", HEAD + INSTANCE.replace('("{gate}",)', '"{gate}"')
    yield "open_kernel: hangs", HEAD + MODULE + _opening("open_kernel", HANG, "yield")
    yield "open_session: hangs", HEAD + INSTANCE + _opening("open_session", HANG)
    yield "open_session: shields itself", HEAD + INSTANCE + _opening("open_session", SWALLOW)
    yield "open_session: late", HEAD + INSTANCE + _opening("open_session", LATE)
    yield (
        "open_session: late beside a module's gate",
        HEAD + MODULE + _opening("open_session", LATE, "yield"),
    )
    yield (
        "open_session: yields nothing",
        HEAD + INSTANCE + _opening("open_session", "if 0: yield", ""),
    )
    yield "open_session: yields None", HEAD + INSTANCE + _opening("open_session", "", "yield None")
    yield "open_session: wrong type", HEAD + INSTANCE + _opening("open_session", "", "yield 42")
    yield (
        "open_session: returns nothing",
        HEAD + INSTANCE + _opening("open_session", "", "return None"),
    )
    yield (
        "open_session: is no coroutine",
        HEAD + INSTANCE + _opening("open_session", "").replace("async def open", "def open"),
    )
    yield "open_session: is missing", HEAD + INSTANCE
    yield (
        "instance: not declared",
        HEAD + INSTANCE.replace('gates = ("{gate}",)', "") + _opening("open_session", ""),
    )
    yield (
        "instance: argument",
        HEAD + INSTANCE.replace("(self)", "(self, misspelt)") + _opening("open_session", ""),
    )
    yield (
        "instance: not marked",
        HEAD + INSTANCE.replace("@hookimpl\n", "") + _opening("open_session", ""),
    )


def _failing() -> Iterator[tuple[str, str]]:
    """Yield the ways in which a gate fails when it is asked."""
    others = {
        "hangs": HANG,
        "shields itself": SWALLOW,
        "wrong type": "return 42",
        "true": "return True",
        "unknown verdict": "from hilum import Verdict; return Verdict('alow')",
    }
    for name, error in {**ERRORS, **others}.items():
        yield f"asked: {name}", HEAD + MODULE.replace("return None", error)
        yield (
            f"instance asked: {name}",
            (
                HEAD
                + INSTANCE.replace("return None", error.replace("\n    ", "\n        "))
                + _opening("open_session", "")
            ),
        )


def _crashing() -> Iterator[tuple[str, str]]:
    """Yield the ways in which a plugin crashes after its gate has let a call pass."""
    for name, error in ERRORS.items():
        yield (
            f"midway: {name}",
            HEAD + INSTANCE + _opening("open_session", MIDWAY.replace("{error}", error), ""),
        )
    waits = "await sys.modules['hilum_stage'].WARMED.wait()"
    module = "async with trio.open_nursery() as nursery:\n        nursery.start_soon(fall)\n        yield\n"
    fall = f"async def fall():\n    {waits}\n    raise OSError('gone')\n"
    yield (
        "midway: beside a module's gate",
        HEAD + MODULE + fall + OPEN.format(hook="open_session", body=module),
    )
    yield (
        "midway: kernel's lifespan",
        HEAD + MODULE + fall + OPEN.format(hook="open_kernel", body=module),
    )


OPENING = dict(_cases())
ASKED = dict(_failing())
CRASHING = dict(_crashing())
SOURCES = OPENING | ASKED | CRASHING
WORKING = {"module": HEAD + MODULE, "instance": HEAD + INSTANCE + _opening("open_session", "")}


@attrs.frozen
class Site:
    """A folder with an installed gate and a stage for it, and a workspace."""

    folder: Path

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a process that finds the plugins."""
        own = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HILUM_", "XDG_"))
        }
        return own | {
            "HOME": str(self.folder / "home"),
            "PYTHONPATH": str(self.folder),
            "HILUM_APPROVE": "auto",
            "HILUM_MODEL": "stage/model",
        }

    @classmethod
    def make(
        cls,
        folder: Path,
        gate: str,
        source: str,
        metadata: bool = False,
        seconds: float = PROCESS_DEADLINE_SECONDS,
        hole: str = "",
    ) -> Site:
        """Install a plugin ``gatekeeper`` with a source for a gate.

        Args:
            folder: Where to make the site.
            gate: The hook that guards.
            source: Source of the plugin, with ``{gate}`` in the place of its name.
            metadata: Whether the metadata of the plugin's distribution declares its gates.
            seconds: Deadline of hooks in processes.
            hole: Name of the hole that processes have.
        """
        site = cls(folder)
        for path in (site.workspace, folder / "home"):
            path.mkdir(parents=True)
        if (
            HOOKS[gate].shape == "filter"
        ):  # a plain function; one with an await in it cannot even be imported
            source = source.replace("async def {gate}", "def {gate}")
        first = FIRST.format(seconds=seconds, hole=HOLES[hole])
        (folder / "sitecustomize.py").write_text(first)
        for name, text in (("stage", STAGE), ("gatekeeper", source.replace("{gate}", gate))):
            (folder / f"hilum_{name}.py").write_text(textwrap.dedent(text))
            info = folder / f"hilum_{name}-1.0.dist-info"
            info.mkdir()
            points = f"[hilum]\n{name} = hilum_{name}\n"
            points += (
                f"[hilum.gates]\n{name} = hilum_{name}:gates\n"
                if metadata and name == "gatekeeper"
                else ""
            )
            (info / "entry_points.txt").write_text(points)
        return site

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Have this process find the plugins, and forget them."""
        sys.path.insert(0, str(self.folder))
        try:
            yield
        finally:
            sys.path.remove(str(self.folder))
            for name in ("hilum_stage", "hilum_gatekeeper"):
                sys.modules.pop(name, None)

    def ran(self) -> set[str]:
        """What happened that a gate should have judged."""
        return {path.name for path in self.workspace.iterdir()} & RAN


# --- faces: each runs one prompt, and returns the state in which it ended -------------------------


def _options(site: Site) -> dict[str, object]:
    return {"model": "stage/model", "store": hilum.store.MemoryStore(), "environ": site.environ}


def on_trio(site: Site) -> str:
    """The kernel's own interface."""

    async def main() -> str:
        async with (
            hilum.open_kernel(["stage", "gatekeeper"], **_options(site)) as kernel,
            kernel.open_session(site.workspace) as session,
        ):
            return (await session.run("Go.")).state

    return trio.run(main)


def on_asyncio(site: Site) -> str:
    """``hilum.aio``."""

    async def main() -> str:
        async with (
            hilum.aio.open_kernel(["stage", "gatekeeper"], **_options(site)) as kernel,
            kernel.open_session(site.workspace) as session,
        ):
            return (await session.run("Go.")).state

    return asyncio.run(main())


def on_blocking(site: Site) -> str:
    """``hilum.blocking``."""
    with (
        hilum.blocking.open_kernel(["stage", "gatekeeper"], **_options(site)) as kernel,
        kernel.open_session(site.workspace) as session,
    ):
        return session.run("Go.").state


def on_modules(site: Site, bare: bool = False) -> str:
    """``open_kernel`` with modules in the place of names, or with the gate itself, which then has
    no lifespan.
    """
    stage = importlib.import_module("hilum_stage")
    try:
        gatekeeper: Any = importlib.import_module("hilum_gatekeeper")
    except BaseException:  # the embedder's own import, in its own code
        return "not imported"
    given = gatekeeper.Keeper() if bare and hasattr(gatekeeper, "Keeper") else gatekeeper

    async def main() -> str:
        async with (
            hilum.open_kernel([stage, given], **_options(site)) as kernel,
            kernel.open_session(site.workspace) as session,
        ):
            return (await session.run("Go.")).state

    return trio.run(main)


def on_standard(site: Site) -> str:
    """The standard session of an embedder, with all that is installed."""

    async def main() -> str:
        async with hilum.open_standard_session(
            site.workspace, approve="auto", **_options(site)
        ) as session:
            return (await session.run("Go.")).state

    return trio.run(main)


@attrs.define
class HilumProcess:
    """``hilum`` in a process of its own, with its standard streams.

    Attributes:
        stdin: Where it reads.
        stdout: What it prints.
        errors: The file with what it says on standard error.
        wait: Waits for its end and returns its exit code.
    """

    stdin: TextIO
    stdout: TextIO
    errors: Path
    wait: Callable[[], int]

    @property
    def stderr(self) -> str:
        """What it said on standard error until now."""
        return self.errors.read_text()


def _start(site: Site, arguments: Sequence[str], environ: Mapping[str, str]) -> HilumProcess:
    """Start ``hilum`` as a program, or as a copy of this process, which has imported it already."""
    errors = site.folder / "stderr"
    with errors.open("w") as file:
        if not FORKS:
            process = subprocess.Popen(
                [sys.executable, "-m", "hilum", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env=environ,
                cwd=site.workspace,
            )
            assert process.stdin is not None
            assert process.stdout is not None
            return HilumProcess(
                process.stdin, process.stdout, errors, partial(process.wait, CASE_SECONDS)
            )
        reads, stdin = os.pipe()
        stdout, writes = os.pipe()
        identity = os.fork()
        if identity == 0:
            os.close(stdin)
            os.close(stdout)
            for number, descriptor in enumerate((reads, writes, file.fileno())):
                os.dup2(descriptor, number)
            _be_hilum(site, arguments, environ)
        os.close(reads)
        os.close(writes)
    return HilumProcess(
        os.fdopen(stdin, "w"), os.fdopen(stdout), errors, partial(_exit_code, identity)
    )


def _exit_code(identity: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(identity, 0)[1])


def _be_hilum(site: Site, arguments: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Be a process that has just begun to run ``hilum``."""
    code = 1
    try:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        os.chdir(site.workspace)
        os.environ.clear()
        os.environ.update(environ)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        sys.argv = ["hilum", *arguments]
        sys.path[:0] = [str(site.workspace), str(site.folder)]
        exec((site.folder / "sitecustomize.py").read_text(), {})
        code = hilum.__main__.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
            (site.folder / "modules").write_text("\n".join(sys.modules))
        os._exit(code)


def _process(site: Site, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``hilum`` to its end, with nothing on its standard input."""
    process = _start(site, arguments, site.environ | environ)
    process.stdin.close()
    with process.stdout:
        text = process.stdout.read()
    return subprocess.CompletedProcess(arguments, process.wait(), text, process.stderr)


def on_run(site: Site, form: str = "text") -> str:
    """``hilum run``."""
    done = _process(site, "run", "Go.", "--model", "stage/model", "--output-format", form)
    assert "Traceback" not in done.stderr, done.stderr
    return {0: "completed"}.get(done.returncode, str(done.returncode))


def _define_agent(site: Site) -> None:
    folder = site.folder / "home" / ".config" / "hilum" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "helper.md").write_text("---\nname: helper\ndescription: Helps.\n---\nHelp.\n")


def on_agents(site: Site) -> str:
    """``hilum agents run``."""
    _define_agent(site)
    done = _process(site, "agents", "run", "helper", "Go.", "--approve", "auto")
    assert "Traceback" not in done.stderr, done.stderr
    return {0: "completed"}.get(done.returncode, str(done.returncode))


def on_retry(site: Site) -> str:
    """``hilum agents retry``: an agent fails while the gate is in working order, and is started
    again when it is not.
    """
    _define_agent(site)
    file = site.folder / "hilum_gatekeeper.py"
    broken = file.read_text()
    file.write_text(WORKING["module"].replace("{gate}", "on_tool_call"))
    failed = _process(
        site, "agents", "run", "helper", "Go.", "--json", "--approve", "auto", STAGE_FAILS="yes"
    )
    file.write_text(broken)
    if not failed.stdout:  # something else than the gate kept it from beginning
        return f"refused with {failed.returncode}"
    identity = json.loads(failed.stdout)["agent_id"]
    done = _process(site, "agents", "retry", identity)
    assert "Traceback" not in done.stderr, done.stderr
    return {0: "completed"}.get(done.returncode, str(done.returncode))


def on_mcp(site: Site) -> str:
    """``hilum mcp serve``: a client calls both tools."""
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    calls = [
        {"id": number, "method": "tools/call", "params": {"name": name, "arguments": {}}}
        for number, name in ((2, "warm"), (3, "touch"), (4, "spawn"))
    ]
    messages: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        calls[0],
    ]
    waits = {1, 2, 3, 4}
    process = _start(site, ("mcp", "serve", "--approve", "auto"), site.environ)

    def send(messages: Sequence[dict[str, object]]) -> None:
        with suppress(BrokenPipeError):  # it does not start with a broken guard
            for message in messages:
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
                process.stdin.flush()

    send(messages)
    with process.stdout:
        for line in process.stdout:
            found = json.loads(line)
            if SECRET in line:
                (site.workspace / "leaked").touch()
            waits.discard(found.get("id"))
            if found.get("id") == 2:
                send(calls[1:])
            if not waits:
                break
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.wait()
    assert "Traceback" not in process.stderr, process.stderr
    return "not served" if waits else "served"


INSIDE: dict[str, Callable[[Site], str]] = {
    "kernel on trio": on_trio,
    "kernel on asyncio": on_asyncio,
    "kernel in plain code": on_blocking,
    "kernel with modules": on_modules,
    "kernel with objects": partial(on_modules, bare=True),
    "standard session": on_standard,
}
PROCESSES: dict[str, Callable[[Site], str]] = {
    "hilum run": on_run,
    "hilum run, json": partial(on_run, form="json"),
    "hilum agents run": on_agents,
    "hilum agents retry": on_retry,
    "hilum mcp serve": on_mcp,
}


@contextmanager
def short_deadlines(seconds: float = DEADLINE_SECONDS) -> Iterator[None]:
    """Have all hooks of this process miss their deadlines sooner."""
    saved = dict(HOOKS)
    grace = set_grace(seconds)
    try:
        for name, spec in saved.items():
            if spec.guards or spec.shape == "supervised":
                HOOKS[name] = msgspec.structs.replace(
                    spec, deadline=2 * seconds if name == "open_session" else seconds
                )
        yield
    finally:
        HOOKS.update(saved)
        set_grace(grace)


def set_grace(seconds: float) -> float:
    """Set the time that a cancelled task of a plugin has, and return what it was."""
    old = hilum.hooks.supervised.GRACE_SECONDS
    hilum.hooks.supervised.GRACE_SECONDS = seconds
    hilum.hooks.lifespans.CLOSE_SECONDS = seconds
    return old


@contextmanager
def hole_in_hilum(name: str) -> Iterator[None]:
    """Break hilum in this process, by the name of a hole; nothing without one."""
    places = [(hilum.hooks.Table, name) for name in ("record_failure", "_call", "filter")]
    places.append((hilum.plugins.GateTable, "refusal"))
    saved = [(owner, attribute, getattr(owner, attribute)) for owner, attribute in places]
    exec(HOLES[name], {})
    try:
        yield
    finally:
        for owner, attribute, value in saved:
            setattr(owner, attribute, value)


def past_the_gate(site: Site, gate: str, name: str, state: str, face: str) -> set[str]:
    """Return what happened although the gate was not in working order."""
    ran = site.ran()
    if name in OPENING:
        return ran
    if name in CRASHING:
        # The first call began while all was well, and made the plugin crash. On a busy machine, another
        # gate may have refused that call, because it missed its short deadline.
        return ran - {"warmed"} if "warmed" in ran else set()
    if gate == "check_answer":  # every run ends with an answer that nobody has checked
        return {"completed"} if state == "completed" and face != "hilum mcp serve" else set()
    judged = {
        "redact_texts": RAN,  # the prompt cannot be written, so nothing begins
        "on_tool_call": RAN,
        "wrap_process": {"spawned"},
        "check_result": {"leaked"},
    }
    return ran & judged[gate]


def run_face(face: str, site: Site) -> str:
    """Run one prompt at a face; returns the state in which it ended."""
    if face in PROCESSES:
        return PROCESSES[face](site)
    with site.importable():
        try:
            return INSIDE[face](site)
        except hilum.HilumError as error:
            return f"refused with {error.code}"


def play(face: str, folder: Path, gate: str, name: str, hole: str = "") -> set[str]:
    """Run one case; returns what got past the gate."""
    seconds = DEADLINE_SECONDS if face in INSIDE else PROCESS_DEADLINE_SECONDS
    # Longer than the deadline, and ended before the task would be left behind.
    source = SOURCES[name].replace("{late}", str(2.5 * seconds))
    site = Site.make(folder, gate, source, hole=hole)
    with short_deadlines(), hole_in_hilum(hole):
        state = run_face(face, site)
    return past_the_gate(site, gate, name, state, face)


def play_working(face: str, folder: Path, gate: str, place: str) -> set[str]:
    """Run a case with a gate in working order; returns what did not happen."""
    site = Site.make(folder, gate, WORKING[place], metadata=place == "instance", seconds=20.0)
    state = run_face(face, site)
    missing = RAN - site.ran()
    trouble = site.workspace / "trouble"
    if trouble.exists():
        missing.add(f"its command failed: {trouble.read_text()}")
    if face != "hilum mcp serve" and state != "completed":
        missing.add(f"it ended as {state}")
    return missing


# --- all of it ------------------------------------------------------------------------------------


Case = tuple[str, str, str, str]
"""Face, gate, name of the case and name of the hole."""


class NeverEndedError(Exception):
    """A case took too long."""


def all_cases(faces: Sequence[str], hole: str = "", every: int = 1) -> list[Case]:
    """Return all cases of some faces, or each ``every``-th, starting elsewhere for each face."""
    found: list[Case] = []
    for start, face in enumerate(faces):
        cases = [(face, gate, name, hole) for name, gate in itertools.product(SOURCES, GATES)]
        if (
            face == "kernel with objects"
        ):  # an object has no lifespan, and was imported by whoever passes it
            cases = [case for case in cases if case[2].startswith("instance asked")]
        if face == "hilum run, json":  # the same run with another output: the gates by turns
            cases = [
                case
                for number, case in enumerate(cases)
                if number // len(GATES) % len(GATES) == number % len(GATES)
            ]
        found += cases[start % every :: every]
    return found


def working_cases(faces: Sequence[str], every: int = 1) -> list[Case]:
    """Return cases with a gate in working order; what is named is where the gate is."""
    found = [(face, gate, place, "") for face in faces for gate in GATES for place in WORKING]
    # An object has no lifespan.
    found = [case for case in found if case[0] != "kernel with objects" or case[2] == "module"]
    return found[:: min(every, 3)]


def _wrong_with(case: Case, folder: Path) -> set[str]:
    face, gate, name, hole = case
    if name in WORKING:
        return play_working(face, folder, gate, name)
    return play(face, folder, gate, name, hole)


def _carry_out(case: Case) -> tuple[Case, str]:
    """Run a case in a worker; returns what was wrong with it, empty for nothing."""

    def expire(*_: object) -> None:
        raise NeverEndedError(f"it took more than {CASE_SECONDS} seconds")

    signal.signal(signal.SIGALRM, expire)
    signal.alarm(CASE_SECONDS)
    try:
        with tempfile.TemporaryDirectory(prefix="hilum-gates-", ignore_cleanup_errors=True) as made:
            folder = Path(made, "site")
            wrong = _wrong_with(case, folder)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and multiprocessing.parent_process() is None:
            raise
        return case, f"crashed: {type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    return case, ", ".join(sorted(wrong))


def _carry_out_all(cases: Sequence[Case], jobs: int) -> Iterator[tuple[Case, str]]:
    if jobs == 1:
        yield from map(_carry_out, cases)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(_carry_out, cases, chunksize=4)


def preload(face: str) -> None:
    """Import what a face imports, so that the processes of its cases begin with it."""
    global FORKS
    FORKS = True
    with tempfile.TemporaryDirectory(prefix="hilum-gates-") as made:
        site = Site.make(Path(made, "site"), "on_tool_call", WORKING["module"], seconds=20.0)
        run_face(face, site)
        names = (site.folder / "modules").read_text().split()
    for name in names:
        if name not in ("__main__", "hilum_stage", "hilum_gatekeeper"):
            with suppress(ImportError):
                importlib.import_module(name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all of it; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="play each N-th case only"
    )
    parser.add_argument("--face", default="", help="play only faces with this in their name")
    parser.add_argument("--hole", default="", choices=tuple(HOLES), help="break hilum first")
    options = parser.parse_args(arguments)
    faces = [face for face in (*INSIDE, *PROCESSES) if options.face in face]
    found = 0
    for face in faces:
        began = time.perf_counter()
        if face in PROCESSES:
            preload(face)
        working = working_cases([face], options.every) if not options.hole else []
        cases = [*working, *all_cases(faces, options.hole, options.every)]
        cases = [case for case in cases if case[0] == face]
        wrong: list[str] = []
        held = 0
        for (_, gate, name, _), text in _carry_out_all(cases, options.jobs):
            if text.startswith("crashed") or (name in WORKING and text):
                held += 1
            if text:
                missing = "did not happen with a working gate: " if name in WORKING else ""
                wrong.append(f"{gate}, {name}: {missing}{text}")
        found += len(wrong)
        past = f"{len(wrong) - held} past the gate, {held} crashed or without effect"
        counts = f"{len(cases) - len(working):4} cases and {len(working)} with a working gate"
        print(f"{face:22} {counts}: {past}, {time.perf_counter() - began:.0f} s", flush=True)
        for line in sorted(wrong)[: 20 if options.hole else None]:
            print(f"    {line}", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
