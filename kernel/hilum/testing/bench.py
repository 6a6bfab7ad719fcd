"""The bench, a kernel with chosen plugins and a scripted model, isolated from the machine."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import attrs
import msgspec
import trio
import trio.testing

from hilum.events import AnyEvent, CallDone, CallStarted, Event, ModelAnswered, RunEnded
from hilum.hooks import PluginFailure
from hilum.kernel import Kernel, open_kernel
from hilum.messages import ToolResult
from hilum.models import Model, Request
from hilum.runs import Run
from hilum.session import Session
from hilum.store import Store
from hilum.temporary import open_temporary_folder
from hilum.testing.models import ModelProvider, ScriptedModel
from hilum.testing.script import Scripted, say, use

E = TypeVar("E", bound=Event)
FOREVER = 1e9  # seconds on a mock clock, which only a test that waits forever reaches


@attrs.frozen
class Observed:
    """A record of one call of a hook implementation or a tool.

    Attributes:
        kind: ``hook`` or ``tool``.
        name: Name of the hook or tool.
        plugin: Name of the plugin.
        seconds: Duration of the call in seconds of real time.
        error: The exception that the call raised.
    """

    kind: str
    name: str
    plugin: str
    seconds: float
    error: BaseException | None = None


@attrs.define(eq=False)
class Bench:
    """A test bench: a session in a separate kernel, with its history. ``open_bench`` creates it.

    Attributes:
        kernel: The kernel.
        session: A session in the kernel.
        model: The model ``scripted/model``.
        workspace: The session's folder.
        folder: The bench's own folder, which contains ``workspace``, ``config``, ``data`` and
            ``home``.
        observed: All calls of hook implementations and tools.
        patience: Maximum number of real seconds that ``run``, ``call`` and ``wait_for`` wait.
    """

    kernel: Kernel
    session: Session
    model: Model
    workspace: Path
    folder: Path
    patience: float = 30.0
    observed: list[Observed] = attrs.field(factory=list, repr=False)
    _events: list[AnyEvent] = attrs.field(factory=list, repr=False)
    _faults_allowed: bool = False

    # --- doing ------------------------------------------------------------------------------------

    async def run(self, text: str, **options: Any) -> RunEnded:
        """Prompt the session and wait until the run ends; the arguments are those of ``prompt``.

        Raises:
            trio.TooSlowError: The run does not end in time.
        """
        with self.guard():
            return await self.session.run(text, **options)

    async def start(self, text: str, **options: Any) -> Run:
        """Prompt the session without waiting. The arguments are those of ``Session.prompt``."""
        return await self.session.prompt(text, **options)

    async def call(self, tool: str, /, **arguments: Any) -> ToolResult:
        """Call one tool as the model would, through the real loop with all its gates and limits.

        Args:
            tool: Name of the tool.
            arguments: Arguments of the call.

        Returns:
            The result of the call, as the model reads it.
        """
        if not isinstance(self.model, ScriptedModel):
            raise TypeError("bench.call needs a ScriptedModel.")
        seen = len(self.events)
        self.model.next(use(tool, **arguments), say("Done."))
        ended = await self.run(f"Call {tool}.")
        for event in self.events[seen:]:
            if isinstance(event, CallDone):
                return event.result
        raise AssertionError(
            f"{tool} was not called: the run ended as {ended.state}. {ended.error}"
        )

    async def wait_for(
        self, kind: type[E], where: Callable[[E], bool] = lambda _: True, *, after: int = 0
    ) -> E:
        """Wait for an event.

        Args:
            kind: The type of the event.
            where: A function that returns whether an event is the right one.
            after: Sequence number after which to search; 0 also finds past events.

        Raises:
            trio.TooSlowError: The event does not occur in time.
        """
        with self.guard():
            async for event in self.session.events(after):
                if isinstance(event, kind) and where(event):
                    return event
        raise AssertionError(f"The session closed without {kind.__name__}.")

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Raise ``trio.TooSlowError`` if the block takes longer than ``patience``.

        On a mock clock, the error is raised if the block can never end.
        """
        mock = isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
        with trio.fail_after(FOREVER if mock else self.patience):
            yield

    # --- looking ----------------------------------------------------------------------------------

    @property
    def events(self) -> list[AnyEvent]:
        """All events in the session so far."""
        while page := self.session.journal.since(self._events[-1].seq if self._events else 0):
            self._events += page
        return self._events

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of one type, oldest first."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def results(self) -> list[ToolResult]:
        """The results of the calls that ended, in the order in which the model made them."""
        asked = [
            (answer.agent, call.id)
            for answer in self.of(ModelAnswered)
            for call in answer.message.calls
        ]
        ended = {(done.agent, done.result.call_id): done.result for done in self.of(CallDone)}
        return [ended[key] for key in dict.fromkeys(asked) if key in ended]

    def result(self, of: str) -> ToolResult:
        """Return the last result of a tool, or the result of one call.

        Args:
            of: Name of the tool, or id of the call.

        Raises:
            AssertionError: No such call has ended.
        """
        for result in reversed(self.results):
            if of in (result.name, result.call_id):
                return result
        ended = [result.name for result in self.results]
        raise AssertionError(f"No call of {of!r} ended; these did: {ended}.")

    def calls(self, name: str) -> list[Observed]:
        """Return the calls of a hook or tool, each with its plugin and outcome."""
        return [observed for observed in self.observed if observed.name == name]

    @property
    def requests(self) -> Sequence[Request]:
        """The requests that the model received, oldest first."""
        if not isinstance(self.model, ScriptedModel):
            raise TypeError("Only a ScriptedModel keeps its requests.")
        return self.model.requests

    @property
    def faults(self) -> list[PluginFailure]:
        """The failures of plugins so far."""
        return self.kernel.faults

    def allow_faults(self) -> None:
        """Accept failures of plugins, so that the test does not fail because of them."""
        self._faults_allowed = True

    def assert_tool_called(self, name: str, /, **arguments: Any) -> ToolResult:
        """Check that a tool ran, and return its last result.

        Args:
            name: Name of the tool.
            arguments: Arguments that the call must have; it may have others.

        Raises:
            AssertionError: The tool did not run, or not with these arguments. The message lists the
                calls that ran.
        """
        ran = [event.call for event in self.of(CallStarted)]
        for call in reversed(ran):
            given = msgspec.json.decode(call.arguments or "{}")
            if call.name == name and given.items() >= arguments.items():
                return self.result(call.id)
        given_arguments = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        listed = "\n".join(f"  {call.name} {call.arguments}" for call in ran) or "  nothing"
        raise AssertionError(f"{name}({given_arguments}) did not run. This did:\n{listed}")

    def unexpected(self) -> str:
        """Describe the failures that were not allowed; empty if there are none."""
        if self._faults_allowed or not self.faults:
            return ""
        listed = "\n".join(f"  {fault.plugin}, {fault.hook}: {fault}" for fault in self.faults)
        return f"Plugins failed (call bench.allow_faults() if this is expected):\n{listed}"


@asynccontextmanager
async def open_bench(
    *plugins: object,
    answers: Sequence[Scripted] = (),
    model: Model | None = None,
    models: Mapping[str, Model] | None = None,
    settings: Mapping[str, object] | None = None,
    files: Mapping[str, str | bytes] | None = None,
    workspace: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    store: Store | None = None,
    resume: str = "",
    kind: Literal["main", "shared", "headless"] = "main",
    mode: str | None = None,
    approve: Literal["ask_first", "auto", "readonly"] = "auto",
    faults: bool = False,
    patience: float = 30.0,
) -> AsyncIterator[Bench]:
    """Open a kernel and a session that are isolated from this machine.

    The bench has none of the user's plugins, settings and keys, and a separate home folder.

    Leaving the block checks that no plugin failed unexpectedly and that no process was left behind.

    Args:
        plugins: Modules, objects, and names of installed plugins; no other plugins are loaded.
        answers: The model's responses (see ``ScriptedModel``).
        model: A model to use instead of a ``ScriptedModel``. The model's name is
            ``scripted/model``.
        models: Further models, by the part of their names after ``scripted/``.
        settings: Settings by dotted key.
        files: Files to write into the workspace, by relative path.
        workspace: The folder to work in; a new one by default.
        folder: Where to create the bench's folders; a temporary one by default.
        environ: Variables to set in the environment.
        store: The store of sessions; by default, that of a plugin or, if there is none, memory.
        resume: Id of a session in ``store`` to resume. A resumed session works in its original
            folder, so pass the same ``folder`` to both benches.
        kind: Kind of the session.
        mode: Initial mode.
        approve: The approval policy.
        faults: Whether plugins may fail.
        patience: Maximum number of real seconds that ``run``, ``call`` and ``wait_for`` wait.

    Raises:
        AssertionError: A plugin failed, or a process that the warden did not start was left
            running. (Raised when the block is left.)
    """
    model = model if model is not None else ScriptedModel(answers)
    chosen = dict(settings or {})
    chosen.setdefault("model", "scripted/model")
    # The events of a test must not depend on the load of the machine.
    chosen.setdefault("slow_hook", 0)
    before = _children()
    with _base(folder) as base, _environment(base, environ or {}):
        root = Path(workspace) if workspace is not None else base / "workspace"
        _write(root, files or {})
        bench = None
        try:
            async with open_kernel(
                plugins, settings=chosen, workspace=root, store=store, environ=os.environ
            ) as kernel:
                # The scripted models are added after the plugins, so that none of the plugins'
                # providers can take the name.
                kernel.router.replace(ModelProvider({"model": model, **(models or {})}))
                observed: list[Observed] = []
                kernel.observe(lambda *call: observed.append(Observed(*call)))
                opened = kernel.open_session(
                    root, resume=resume, kind=kind, mode=mode, approve=approve
                )
                async with opened as session:
                    bench = Bench(
                        kernel,
                        session,
                        model,
                        session.workspace.root,
                        base,
                        patience,
                        observed,
                        faults_allowed=faults,
                    )
                    yield bench
                    bench.events  # noqa: B018 - reads them while the log is open
        except Exception as error:
            if bench is not None and (text := bench.unexpected()):
                error.add_note(text)
            raise
        text = bench.unexpected()
        if text:
            raise AssertionError(text)
        left = sorted(_children() - before)
        if left:
            listed = "\n".join(f"  {pid}: {_command(pid)}" for pid in left)
            raise AssertionError(
                f"Processes were left running (start them with session.processes):\n{listed}"
            )


@contextmanager
def _base(folder: str | os.PathLike[str] | None) -> Iterator[Path]:
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        yield Path(folder).resolve()
        return
    with open_temporary_folder("bench") as made:
        yield made.resolve()


@contextmanager
def _environment(base: Path, extra: Mapping[str, str]) -> Iterator[None]:
    """Hide the user's settings, keys and home folder.

    The environment is restored at the end of the block.
    """
    saved = dict(os.environ)
    for name in saved:
        # With one of the user's keys, a test could send requests that cost money.
        if name.startswith(("HILUM_", "XDG_")) or name.endswith(
            ("_API_KEY", "_BASE_URL", "_TOKEN")
        ):
            del os.environ[name]
    for name, where in (("HILUM_CONFIG", "config"), ("HILUM_DATA", "data"), ("HOME", "home")):
        (base / where).mkdir(exist_ok=True)
        os.environ[name] = str(base / where)
    os.environ.update(extra)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


def _write(root: Path, files: Mapping[str, str | bytes]) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def _children() -> set[int]:
    """Return the running children of this process; empty if the system does not report them."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        try:
            found.update(int(pid) for pid in path.read_text().split())
        except OSError:  # the thread has just ended
            continue
    return {pid for pid in found if _alive(pid)}


def _alive(pid: int) -> bool:
    """Return whether a process runs, and is not a zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    # The state follows the program's name, which is in parentheses (proc(5)).
    state = status.rpartition(") ")[2][:1]
    return state not in ("Z", "X", "")


def _command(pid: int) -> str:
    """Return the command line of a process."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return "?"
    return words.replace(b"\0", b" ").decode(errors="replace").strip()
