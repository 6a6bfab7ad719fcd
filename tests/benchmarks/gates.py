"""Whether a call ever runs past a gate that is not in working order: every gate, every way to fail, every face.

Run: ``python tests/benchmarks/gates.py``. Prints a line per face; ends with 1 if anything ran. The tests run a part of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import attrs
import hilum
import hilum.aio
import hilum.blocking
import msgspec
import trio
from hilum.hookspecs import HOOKS

GATES = ("on_tool_call", "wrap_process", "check_result", "check_answer")
SECRET = "the contents of the file"

# A model that calls two tools, and the tools: whatever they do leaves a file behind.
STAGE = f"""
from pathlib import Path

import trio
from hilum import Call, hookimpl, tool
from hilum.messages import ToolMessage
from hilum.testing import ModelProvider, ScriptedModel, use


@tool(risk="read")
def touch(call: Call) -> str:
    '''Touch a file.'''
    Path(call.workspace.root, "touched").touch()
    return "{SECRET}"


@tool(risk="read")
async def spawn(call: Call) -> str:
    '''Touch a file from a process.'''
    await call.processes.run(["touch", "spawned"])
    return "spawned"


def answer(request):
    messages = request.messages
    if any("{SECRET}" in str(m) for m in messages if isinstance(m, ToolMessage)):
        Path(ROOT, "leaked").touch()
    return "The answer." if isinstance(messages[-1], ToolMessage) or len(messages) > 2 else use("touch") + use("spawn")


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
    return [touch, spawn]
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
}
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


def _opening(hook: str, body: str, after: str = "yield Keeper()") -> str:
    return OPEN.replace("{hook}", hook).replace("{body}", f"{body}\n    {after}")


def _cases() -> Iterator[tuple[str, str]]:
    """Yield the ways in which a plugin is not in working order before the first call, as name and source."""
    for name, error in ERRORS.items():
        yield f"import: {name}", f"{HEAD}{error}\n{MODULE}"
        yield f"open_kernel: {name}", HEAD + MODULE + _opening("open_kernel", error, "yield")
        yield f"open_session beside a module's gate: {name}", HEAD + MODULE + _opening("open_session", error, "yield")
        yield f"open_session: {name}", HEAD + INSTANCE + _opening("open_session", error)
        yield f"later: {name}", HEAD + INSTANCE + _opening("open_session", LATER.replace("{error}", error), "")
    yield "import: syntax", f"{HEAD}{MODULE}\ndef"
    yield "import: lacking", f"{HEAD}import a_module_that_is_not_there\n{MODULE}"
    yield "registration: argument", HEAD + MODULE.replace("():", "(misspelt):")
    yield "registration: hook", HEAD + MODULE + "@hookimpl\ndef on_toolcall(): ...\n"
    yield "registration: not marked", HEAD + MODULE.replace("@hookimpl\n", "")
    yield "registration: gates is a text", HEAD + INSTANCE.replace('("{gate}",)', '"{gate}"')
    yield "open_kernel: hangs", HEAD + MODULE + _opening("open_kernel", HANG, "yield")
    yield "open_session: hangs", HEAD + INSTANCE + _opening("open_session", HANG)
    yield "open_session: shields itself", HEAD + INSTANCE + _opening("open_session", SWALLOW)
    yield "open_session: yields nothing", HEAD + INSTANCE + _opening("open_session", "if 0: yield", "")
    yield "open_session: yields None", HEAD + INSTANCE + _opening("open_session", "", "yield None")
    yield "open_session: wrong type", HEAD + INSTANCE + _opening("open_session", "", "yield 42")
    yield "open_session: returns nothing", HEAD + INSTANCE + _opening("open_session", "", "return None")
    yield (
        "open_session: is no coroutine",
        HEAD + INSTANCE + _opening("open_session", "").replace("async def open", "def open"),
    )
    yield "open_session: is missing", HEAD + INSTANCE
    yield "instance: not declared", HEAD + INSTANCE.replace('gates = ("{gate}",)', "") + _opening("open_session", "")
    yield "instance: argument", HEAD + INSTANCE.replace("(self)", "(self, misspelt)") + _opening("open_session", "")
    yield "instance: not marked", HEAD + INSTANCE.replace("@hookimpl\n", "") + _opening("open_session", "")


def _failing() -> Iterator[tuple[str, str]]:
    """Yield the ways in which a gate fails when it is asked."""
    for name, error in {**ERRORS, "hangs": HANG, "shields itself": SWALLOW, "wrong type": "return 42"}.items():
        yield f"asked: {name}", HEAD + MODULE.replace("return None", error)
        yield (
            f"instance asked: {name}",
            (
                HEAD
                + INSTANCE.replace("return None", error.replace("\n    ", "\n        "))
                + _opening("open_session", "")
            ),
        )


OPENING = dict(_cases())
ASKED = dict(_failing())
WORKING = {"module": HEAD + MODULE, "instance": HEAD + INSTANCE + _opening("open_session", "")}
SLOW = ("hangs", "shields itself")


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
        own = {name: value for name, value in os.environ.items() if not name.startswith(("HILUM_", "XDG_"))}
        return own | {"HOME": str(self.folder / "home"), "PYTHONPATH": str(self.folder), "HILUM_APPROVE": "auto"}

    @classmethod
    def make(cls, folder: Path, gate: str, source: str, metadata: bool = False) -> Site:
        """Install a plugin ``gatekeeper`` with a source for a gate."""
        site = cls(folder)
        for path in (site.workspace, folder / "home"):
            path.mkdir(parents=True)
        for name, text in (("stage", STAGE), ("gatekeeper", source.replace("{gate}", gate))):
            (folder / f"hilum_{name}.py").write_text(textwrap.dedent(text))
            info = folder / f"hilum_{name}-1.0.dist-info"
            info.mkdir()
            points = f"[hilum]\n{name} = hilum_{name}\n"
            points += f"[hilum.gates]\n{name} = hilum_{name}:gates\n" if metadata and name == "gatekeeper" else ""
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
        return {path.name for path in self.workspace.iterdir()} & {"touched", "spawned", "leaked"}


# --- faces: each runs one prompt, and returns the state in which it ended ---------------------------------------------------


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


def on_standard(site: Site) -> str:
    """The standard session of an embedder, with all that is installed."""

    async def main() -> str:
        async with hilum.open_standard_session(site.workspace, approve="auto", **_options(site)) as session:
            return (await session.run("Go.")).state

    return trio.run(main)


def _process(site: Site, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hilum", *arguments],
        input=given, capture_output=True, text=True, env=site.environ, cwd=site.workspace, timeout=120, check=False,
    )  # fmt: skip


def on_run(site: Site, form: str = "text") -> str:
    """``hilum run``."""
    done = _process(site, "run", "Go.", "--model", "stage/model", "--output-format", form)
    assert "Traceback" not in done.stderr, done.stderr
    return {0: "completed"}.get(done.returncode, str(done.returncode))


def on_agents(site: Site) -> str:
    """``hilum agents run``."""
    (site.workspace / ".hilum" / "agents").mkdir(parents=True, exist_ok=True)
    file = site.workspace / ".hilum" / "agents" / "helper.md"
    file.write_text("---\nname: helper\ndescription: Helps.\n---\nHelp.\n")
    _process(site, "trust", str(site.workspace))
    done = _process(site, "agents", "run", "helper", "Go.", "--model", "stage/model", "--approve", "auto")
    assert "Traceback" not in done.stderr, done.stderr
    return {0: "completed"}.get(done.returncode, str(done.returncode))


def on_mcp(site: Site) -> str:
    """``hilum mcp serve``: a client calls both tools."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "touch", "arguments": {}}},
        {"id": 3, "method": "tools/call", "params": {"name": "spawn", "arguments": {}}},
    ]
    command = [sys.executable, "-m", "hilum", "mcp", "serve", "--approve", "auto"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=site.environ, cwd=site.workspace,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        waits = {message["id"] for message in messages if "id" in message}
        with suppress(BrokenPipeError):  # it does not start with a broken guard
            for message in messages:
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
                process.stdin.flush()
        for line in process.stdout:
            found = json.loads(line)
            if SECRET in line:
                (site.workspace / "leaked").touch()
            waits.discard(found.get("id"))
            if not waits:
                break
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.wait(60)
        text = process.stderr.read() if process.stderr is not None else ""
        assert "Traceback" not in text, text
    return "not served" if waits else "served"


INSIDE: dict[str, Callable[[Site], str]] = {
    "kernel on trio": on_trio,
    "kernel on asyncio": on_asyncio,
    "kernel in plain code": on_blocking,
    "standard session": on_standard,
}
PROCESSES: dict[str, Callable[[Site], str]] = {
    "hilum run": on_run,
    "hilum run, json": partial(on_run, form="json"),
    "hilum agents run": on_agents,
    "hilum mcp serve": on_mcp,
}


@contextmanager
def short_deadlines(seconds: float = 0.3) -> Iterator[None]:
    """Have all hooks of this process miss their deadlines sooner."""
    saved, grace = dict(HOOKS), hilum_grace(seconds)
    try:
        for name, spec in saved.items():
            if spec.guards or spec.shape == "supervised":
                HOOKS[name] = msgspec.structs.replace(spec, deadline=2 * seconds if name == "open_session" else seconds)
        yield
    finally:
        HOOKS.update(saved)
        hilum_grace(grace)


def hilum_grace(seconds: float) -> float:
    """Set the time that a cancelled task of a plugin has, and return what it was."""
    import hilum_hooks.lifespans
    import hilum_hooks.supervised

    old = hilum_hooks.supervised.GRACE_SECONDS
    hilum_hooks.supervised.GRACE_SECONDS = hilum_hooks.lifespans.CLOSE_SECONDS = seconds
    return old


def past_the_gate(site: Site, gate: str, opening: bool, state: str, face: str) -> set[str]:
    """Return what happened although the gate was not in working order."""
    ran = site.ran()
    if opening:
        return ran
    judged = {"on_tool_call": {"touched", "spawned", "leaked"}, "wrap_process": {"spawned"}, "check_result": {"leaked"}}
    if gate == "check_answer":  # every run ends with an answer that nobody has checked
        return {"completed"} if state == "completed" and "mcp" not in face else set()
    return ran & judged[gate]


def play(face: str, folder: Path, gate: str, name: str) -> set[str]:
    """Run one case; returns what got past the gate."""
    opening = name in OPENING
    site = Site.make(folder, gate, (OPENING if opening else ASKED)[name])
    if face in INSIDE:
        with site.importable():
            state = INSIDE[face](site)
    else:
        state = PROCESSES[face](site)
    return past_the_gate(site, gate, opening, state, face)


def main() -> int:
    """Run all of it."""
    failed = 0
    for face in (*INSIDE, *PROCESSES):
        began, count, wrong = time.perf_counter(), 0, []
        for name in (*OPENING, *ASKED):
            for gate in GATES if face in INSIDE else GATES[:1]:
                if face in PROCESSES and name.endswith(SLOW):
                    continue
                with tempfile.TemporaryDirectory(prefix="hilum-gates-") as made:
                    if face in INSIDE:
                        with short_deadlines():
                            past = play(face, Path(made, "site"), gate, name)
                    else:
                        past = play(face, Path(made, "site"), gate, name)
                count += 1
                if past:
                    wrong.append(f"{gate}, {name}: {', '.join(sorted(past))}")
        failed += len(wrong)
        print(f"{face:22} {count:4} cases, {len(wrong)} past the gate, {time.perf_counter() - began:.0f} s", flush=True)
        for line in wrong:
            print(f"    {line}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
