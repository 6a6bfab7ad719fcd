"""The sandbox of child processes: what of it this system can enforce, and every command wrapped in
it.

bubblewrap where it works, else Landlock; ``sandbox-exec`` on macOS; elsewhere nothing, which is
said and never silent.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import attrs
import trio
from hilum import Agent, Command, Layer, ToolDenied, ToolError, environment, hookimpl

from hilum_guard import groups, policy, seccomp
from hilum_guard.following import Follower
from hilum_guard.layer import describe
from hilum_guard.leftovers import Masks, make_folder, sweep_folders, sweep_masks
from hilum_guard.marks import Mark
from hilum_guard.recovery import recover
from hilum_guard.settings import GuardSettings
from hilum_guard.sockets import find_sockets
from hilum_guard.watching import Watch

if TYPE_CHECKING:
    from hilum import Session

    from hilum_guard.loopback import Loopback
    from hilum_guard.policy import Policy

__all__ = [
    "Enforced",
    "GuardSettings",
    "Held",
    "Sandbox",
    "Wider",
    "describe",
    "open_session",
    "probe",
    "report",
    "wrap",
]

BACKGROUND = "HILUM_BACKGROUND"
"""The variable that marks a command that is started in the background."""
_INSTALL = "Install bubblewrap with the system's package manager, and let it make user namespaces."
_START = "import sys; sys.path.append(sys.argv[1]); import landlock; landlock.%s(*sys.argv[2:])"
_ALONE = "Each command has a loopback of its own, with what it starts: {}."


@attrs.frozen
class Enforced:
    """What of the sandbox is really enforced.

    Args:
        by: ``bubblewrap``, ``landlock`` or ``sandbox-exec``; empty for none.
        files: Whether writes outside and reads of secrets are refused.
        protected: Whether the protected paths inside the workspace stay read-only.
        network: Whether the network is kept away: ``namespace``, where the loopback works,
            ``filter``, where nothing does, or empty.
        processes: Whether other processes can neither be signalled, traced nor read.
        limits: Whether the number of processes is limited.
        reasons: What is not enforced and why, or works differently; a sentence each.
        shared: Whether the commands of a session share a loopback of their own.
    """

    by: str = ""
    files: bool = False
    protected: bool = False
    network: str = ""
    processes: bool = False
    limits: bool = False
    reasons: tuple[str, ...] = ()
    shared: bool = False

    @property
    def whole(self) -> bool:
        """Whether everything that keeps a command in is enforced."""
        return bool(self.files and self.protected and self.network and self.processes)


class Held(NamedTuple):
    """Paths that commands must leave alone, beyond what the guard itself protects: absolute,
    without links.

    Attributes:
        protected: They cannot be written to, nor anything in them.
        hidden: They cannot even be read.
    """

    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


class Wider(NamedTuple):
    """What one command may do beyond the others. What is hidden or protected stays so.

    Attributes:
        network: It reaches the network.
        cache: A folder for the caches of its tools, which it may write to; made where it is not
            there.
        environment: Variables that it gets though they look like secrets.
        off: It runs in no sandbox. Its environment is cleaned all the same.
        shown: Paths in folders of temporary files that it may read, where a sandbox has such
            folders of its own.
    """

    network: bool = False
    cache: str = ""
    environment: tuple[str, ...] = ()
    off: bool = False
    shown: tuple[str, ...] = ()


_OFF = Enforced(reasons=("The sandbox is switched off (guard.sandbox).",))


@functools.cache
def probe() -> Enforced:
    """Tell what this system can enforce, by trying it.

    The first call blocks for tens of milliseconds.
    """
    reason = bubblewrap_enforced()
    if not isinstance(reason, str):
        return reason
    if sys.platform == "darwin":
        from hilum_guard import seatbelt

        missing = seatbelt.trial()
        if not missing:
            untried = (
                "The profile for macOS has not been tried by its authors.",
                "The number of processes is not limited.",
            )
            return Enforced("sandbox-exec", True, True, "namespace", True, False, untried)
        return Enforced(reasons=(f"Nothing: {missing}.",))
    found = landlock_enforced(reason)
    if not isinstance(found, str):
        return found
    return Enforced(reasons=(f"Nothing: {reason}; {found}.",))


def presumed() -> Enforced:
    """Tell what this system most likely enforces, without trying it: for what is said before the
    first command.
    """
    if probe.cache_info().currsize:
        return probe()
    if sys.platform == "darwin":
        return Enforced("sandbox-exec", True, True, "namespace", True)
    if sys.platform != "linux":
        return Enforced()
    from hilum_guard import bubblewrap

    if bubblewrap.find():
        return Enforced(
            "bubblewrap", True, True, "namespace", True, shared=bool(bubblewrap.nsenter())
        )
    from hilum_guard import landlock

    if landlock.abi():
        return Enforced("landlock", True, False, "namespace", True, shared=True)
    return Enforced()


def bubblewrap_enforced() -> Enforced | str:
    """Tell what bubblewrap enforces here, or why it does not work."""
    from hilum_guard import bubblewrap, loopback

    tried = bool(bubblewrap.find() and bubblewrap.nsenter())
    shared = tried and loopback.works(bubblewrap.maker(), lambda paths: not bubblewrap.trial(paths))
    if not shared and (reason := bubblewrap.trial()):
        return reason
    limits, reasons = _limits()
    if not shared:
        reasons += (
            _ALONE.format(
                "no other can be joined" if tried else "nsenter (util-linux) is not installed"
            ),
        )
    return Enforced("bubblewrap", True, True, "namespace", True, limits, reasons, shared)


def landlock_enforced(instead: str = "") -> Enforced | str:
    """Tell what Landlock enforces here, or why it does not work.

    Args:
        instead: Why the better sandbox does not work.
    """
    if sys.platform != "linux":
        return "Landlock exists for Linux only"
    from hilum_guard import landlock, loopback

    version = landlock.abi()
    if not version:
        return "this kernel has no Landlock"
    shared = loopback.works(_maker("landlock"), lambda paths: _starts(True, version, paths))
    apart = shared or _starts(True, version)
    filtered = _starts(False, version)
    if not (apart or filtered):
        return "Landlock's sandbox cannot be started"
    limits, reasons = _limits()
    filters = _filters(())
    reasons = (
        *([f"bubblewrap is not used: {instead}."] if instead else []),
        (
            "Protected paths in the workspace (.git/hooks, .git/config, .hilum, .vscode …) can be"
            " written to, so that with approve = auto commands that are not known to be harmless"
            " are asked for."
        ),
        (
            "Modes, owners and times of the user's files outside can be changed, and names of"
            " hidden files be listed."
        ),
        *(
            []
            if version >= 3
            else ["Files outside can be emptied, though not written to: the kernel is too old."]
        ),
        *(
            []
            if apart
            else ["Commands cannot even use the loopback: there is no network namespace."]
        ),
        *([_ALONE.format("no other can be joined")] if apart and not shared else []),
        *(
            []
            if version >= 6
            else ["Other processes of the user can be signalled: the kernel is too old."]
        ),
        (
            "Commands cannot open Unix sockets."
            if filters
            else "Unix sockets of the user's services can be connected to."
        ),
        *reasons,
    )
    network = "namespace" if apart else "filter" if filters else ""
    return Enforced("landlock", version >= 3, False, network, version >= 6, limits, reasons, shared)


def _limits() -> tuple[bool, tuple[str, ...]]:
    if os.getuid():
        return True, ()
    if groups.make(GuardSettings().processes):
        return True, ()
    return False, (
        (
            "The number of processes is not limited: root has no such limit, and no control group"
            " can be made."
        ),
    )


def _starts(apart: bool, version: int, shared: tuple[str, ...] = ()) -> bool:
    spec = _spec((version, (), (), apart, apart, shared, _filters(()), 1024, 1024, {}))
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [*_launcher(), spec, "/bin/sh", "-c", ":"], capture_output=True, timeout=4
        )
        return done.returncode == 0
    return False


def _launcher(name: str = "main") -> tuple[str, ...]:
    from hilum_guard import bubblewrap

    return (
        bubblewrap.interpreter(),
        "-I",
        "-S",
        "-c",
        _START % name,
        os.path.dirname(os.path.abspath(__file__)),
    )


def _maker(by: str) -> list[str]:
    from hilum_guard import bubblewrap, loopback

    if by == "bubblewrap":
        return bubblewrap.maker()
    return [*_launcher("make"), loopback.HOLD]


def _spec(parts: tuple[object, ...]) -> str:
    import marshal

    return marshal.dumps(parts).hex()  # type: ignore[arg-type]


def _filters(families: tuple[int, ...]) -> bytes:
    machine = os.uname().machine
    if machine in seccomp.ARCHITECTURES:
        return seccomp.program(machine, families)
    return b""


def confine(command: Command, policy: Policy, network: str = "namespace") -> Command:
    """Return the command that runs a command under Landlock.

    Args:
        command: What to run.
        policy: What it may do.
        network: What keeps the network away, as in ``Enforced``.
    """
    from hilum_guard import landlock
    from hilum_guard.environment import split

    apart = network == "namespace"
    filters = _filters(seccomp.ALL if not (apart or policy.network) else seccomp.LOCAL)
    writable = (*policy.writable, policy.temp)
    outer, inner = split(command.env | {"TMPDIR": policy.temp})
    rest = (policy.loopback, filters, policy.processes, policy.file_size, inner)
    spec = _spec((landlock.abi(), writable, policy.hidden, apart, not policy.network, *rest))
    argv = (*_launcher(), spec, *command.argv)
    join = groups.script(policy.group)
    if join:
        argv = ("/bin/sh", "-c", f'{join} exec "$@"', "hilum-group", *argv)
    return Command(argv, command.cwd, outer)


def wrap(command: Command, policy: Policy, enforced: Enforced | None = None) -> Command:
    """Return the command that runs a command in the best sandbox there is.

    Without any, the command itself.

    Args:
        command: What to run.
        policy: What it may do.
        enforced: What to use, if not what ``probe`` found.
    """
    found = enforced or probe()
    if not found.by:
        return command
    program = command.argv[0]
    path = command.env.get("PATH", os.defpath)
    if "/" not in program and shutil.which(program, path=path) is None:
        # It is refused as it would be without a sandbox: this folder is nowhere and no command can
        # make it.
        return Command(command.argv, command.cwd, command.env | {"PATH": "/proc/nowhere"})
    if found.by == "landlock":
        return confine(command, policy, found.network)
    from hilum_guard import bubblewrap, seatbelt

    if found.by == "bubblewrap":
        return bubblewrap.wrap(command, policy)
    return seatbelt.wrap(command, policy)


def report() -> list[tuple[str, str, str]]:
    """Return rows for ``hilum doctor``: what, how it is, and what to do.

    May block for tens of milliseconds.
    """
    found = probe()
    if found.by in ("bubblewrap", "sandbox-exec") or sys.platform != "linux":
        advice = ""
    else:
        advice = _INSTALL
    if not found.by and sys.platform != "linux":
        advice = "Let hilum ask before commands; on Windows, run it in WSL2."
    yes = f"enforced by {found.by}"
    network = {"filter": f"{yes}, without loopback", "": "not enforced"}.get(found.network, yes)
    return [
        ("sandbox: files", yes if found.files else "not enforced", "" if found.files else advice),
        (
            "sandbox: protected paths",
            yes if found.protected else "not enforced",
            "" if found.protected else advice,
        ),
        ("sandbox: network", network, "" if found.network == "namespace" else advice),
        (
            "sandbox: processes",
            yes if found.processes else "not enforced",
            "" if found.processes else advice,
        ),
        *(("sandbox: note", reason, "") for reason in found.reasons),
    ]


class Sandbox:
    """A session's sandbox: wraps every child process, and gives each a clean environment.

    Args:
        workspace: Root of the workspace.
        settings: The user's settings.
        folder: A folder of this session alone; in it, the one for temporary files.
        note: Called once with what ``probe`` found, before the first command.
        enforced: What to use, if not what ``probe`` finds.

    Attributes:
        watch: Makes inert what commands leave for other programs to execute.
        protected: What the last command could not write to.
        on_made_inert: Called from a thread with sentences on what was made inert.
        on_recovered: Called from a thread with sentences on what commands of a killed session left.
        on_truncated: Called from a thread where the workspace has more folders than are looked at.
        on_unmarked: Called from a thread with the reason why it cannot be remembered that commands
            run.
        on_replaced: Called from a thread with held paths that running commands are no longer kept
            from.
        on_failed: Called from a thread with what a look at the workspace failed with.
    """

    def __init__(
        self,
        workspace: Path,
        settings: GuardSettings,
        folder: str,
        note: Callable[[Enforced], None] = lambda _: None,
        enforced: Enforced | None = None,
    ) -> None:
        self.workspace = workspace
        self.settings = settings
        self.folder = folder
        self.temp = os.path.join(folder, "tmp")
        self._note = note
        self._enforced = enforced
        self._masks = Masks()
        self._unwanted = set[str]()
        self._lock = trio.Lock()
        self._loopback: Loopback | None = None
        self.held: dict[str, Callable[[], Held]] = {}
        self.wider: dict[tuple[str, ...], Wider] = {}
        self.uses: Callable[[tuple[str, ...], str], frozenset[str]] = lambda argv, folder: (
            frozenset()
        )
        self._root = os.path.realpath(workspace)
        self._mark = Mark(self._root)
        self.watch = Watch(
            policy.writable(workspace, settings), os.path.realpath(self.temp), mark=self._mark
        )
        self.protected: tuple[str, ...] = ()
        self._follower: Follower | None = None
        self.on_made_inert: Callable[[list[str]], None] = lambda _: None
        self.on_recovered: Callable[[list[str]], None] = lambda _: None
        self.on_unmarked: Callable[[str], None] = lambda _: None
        self.on_truncated: Callable[[], None] = lambda: None
        self.on_replaced: Callable[[list[str]], None] = lambda _: None
        self.on_failed: Callable[[Exception], None] = lambda _: None

    @property
    def known(self) -> Enforced | None:
        """What is enforced for this session's commands; None while nobody has looked."""
        return self._enforced

    async def enforced(self) -> Enforced:
        """Tell what is enforced for this session's commands."""
        async with self._lock:
            if self._enforced is None:
                if self.settings.sandbox == "off":
                    self._enforced = _OFF
                else:
                    self._enforced = await trio.to_thread.run_sync(probe)
                self._note(self._enforced)
        return self._enforced

    @hookimpl(trylast=True)
    async def wrap_process(self, command: Command) -> Command:
        """Return a command a clean environment and put it into the sandbox.

        Raises:
            ToolDenied: The user requires the whole sandbox, and this system has not got it.
        """
        from hilum_guard.environment import CACHES, clean

        enforced = await self.enforced()
        if self.settings.sandbox == "required" and not enforced.whole:
            reason = enforced.reasons[0] if enforced.reasons else ""
            raise ToolDenied(
                f"guard.sandbox is required, and this system cannot enforce all of it. {reason}",
                hint=_INSTALL,
            )
        wider = self.wider.get(command.argv, Wider())
        env = clean(
            command.env, environment(), (*self.settings.pass_environment, *wider.environment)
        )
        if not enforced.by or (wider.off and self.settings.sandbox != "required"):
            return Command(command.argv, command.cwd, env)
        if self._loopback is None:
            from hilum_guard.loopback import Loopback

            self._loopback = Loopback()
        temp = "/tmp" if enforced.by == "bubblewrap" else self.temp
        for name, folder in CACHES.items():
            env.setdefault(name, f"{wider.cache or f'{temp}/cache'}/{folder}")
        return await trio.to_thread.run_sync(
            self._wrapped, Command(command.argv, command.cwd, env), enforced, wider
        )

    @hookimpl
    def build_prompt_layer(self, agent: Agent) -> Layer:
        """Tell the model where its commands run: what is presumed until the first command, and then
        what is found.
        """
        found = self._enforced or (_OFF if self.settings.sandbox == "off" else presumed())
        return Layer(25, "sandbox", describe(found, self.settings))

    def _wrapped(self, command: Command, enforced: Enforced, wider: Wider) -> Command:
        os.makedirs(self.temp, mode=0o700, exist_ok=True)
        filters = ""
        if enforced.by == "bubblewrap":
            filters = self._filter(_filters(seccomp.UNSPACED))
            # What is not there could be made, so it is put there, empty, until the end.
            for path in policy.masked(policy.writable(self.workspace, self.settings)):
                self._masks.put(path, file=os.path.basename(path) in policy.MASKED_FILES)
        self.recover()
        watched, said = self.watch.begin()
        if said:
            self.on_made_inert(said)
        if self.watch.unmarked:
            self.on_unmarked(self.watch.unmarked)
        if self.watch.truncated:
            self.on_truncated()
        self._follow()
        made = policy.make_policy(self.workspace, self.settings, self.temp)
        if BACKGROUND in command.env:
            # Nothing that a service does for hours needs to write there, and a folder that is
            # read-only as a whole stays so when the user's Git replaces a file in it.
            watched += [path for root in self.watch.roots if (path := self.watch.git_folder(root))]
        held = [give() for give in list(self.held.values())]  # the event loop may add one meanwhile
        sockets: list[str] = []
        if enforced.by == "bubblewrap":  # the others open no Unix sockets at all
            readable = {
                os.path.realpath(os.path.expanduser(path)) for path in self.settings.readable
            }
            sockets = [path for path in find_sockets() if path not in readable]
        if wider.cache:
            os.makedirs(wider.cache, mode=0o700, exist_ok=True)
            made = attrs.evolve(made, writable=(*made.writable, os.path.realpath(wider.cache)))
        network = made.network or wider.network
        made = attrs.evolve(
            made,
            filter=filters,
            group=groups.make(self.settings.processes),
            loopback=() if network else self._join(enforced),
            network=network,
            shown=tuple(os.path.realpath(path) for path in wider.shown),
            protected=tuple(
                _outermost(
                    (
                        *made.protected,
                        *policy.inside(made, (*watched, *(p for h in held for p in h.protected))),
                    )
                )
            ),
            hidden=tuple(
                {*made.hidden, *sockets, *(p for h in held for p in h.hidden)}
                - self.uses(command.argv, command.cwd)
            ),
        )
        self._unwanted.update(made.unwanted)
        self.protected = made.protected
        return wrap(command, made, enforced)

    def _join(self, enforced: Enforced) -> tuple[str, ...]:
        """Return what to join for the session's loopback.

        Nothing where that cannot be, or there is the whole network.
        """
        if not (self._loopback and enforced.shared) or enforced.network != "namespace":
            return ()
        try:
            return self._loopback.paths(_maker(enforced.by))
        except OSError as error:
            message = f"The network of the sandbox could not be made: {error}."
            raise ToolError(message, code="E_CMD_FAIL", hint="Run the command again.") from error

    def _filter(self, program: bytes) -> str:
        """Write the filter down where no command can write, and give its path.

        Empty if there is none.
        """
        path = os.path.join(self.folder, "filter")
        if program and not os.path.exists(path):
            with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
                file.write(program)
            os.replace(file.name, path)  # another command may be starting
        return path if program else ""

    def _follow(self) -> None:
        """Look at the workspace several times a second from now on, while commands run."""
        if self._follower is None:
            self._follower = Follower(self.watch, self._made_inert, self._replaced, self._failed)
        self._follower.wake()

    def _made_inert(self, said: list[str]) -> None:
        self.on_made_inert(said)

    def _replaced(self, paths: list[str]) -> None:
        self.on_replaced(paths)

    def _failed(self, error: Exception) -> None:
        self.on_failed(error)

    def recover(self) -> None:
        """Look at what commands of sessions that were killed in this workspace left.

        Blocks; without any it takes no time.
        """
        said = recover(self._root)
        if said:
            self.on_recovered(said)

    def close(self) -> None:
        """Remove what was put into the workspace, where it is still empty, and the session's
        folder. Blocks.

        Every step is done, also where another one fails.
        """
        with ExitStack() as steps:  # the last one that is added is done first
            steps.callback(shutil.rmtree, self.folder, ignore_errors=True)
            steps.callback(self._masks.close)
            steps.callback(self._remove_unwanted)
            steps.callback(self._mark.close)
            steps.callback(self.watch.settle)
            if self._loopback:
                steps.callback(self._loopback.close)
            if self._follower is not None:
                steps.callback(self._look_last)
                steps.callback(self._follower.stop)

    def _remove_unwanted(self) -> None:
        for path in self._unwanted:  # a command that was killed may have left it
            with suppress(OSError):
                os.unlink(path)

    def _look_last(self) -> None:
        try:
            said = self.watch.check(everywhere=True)
        except Exception as error:  # told, and the rest of the session is put away as ever
            self.on_failed(error)
            return
        if said:
            self.on_made_inert(said)
            self.watch.note_told(said)  # the session is closing: nobody comes back to say so


@functools.cache
def sweep() -> None:
    """Remove what sessions that were killed have left. Once in a process. Blocks."""
    sweep_masks()
    groups.sweep_groups()
    sweep_folders()


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the paths without those that are inside of another one."""
    found: dict[str, None] = {}
    for path in sorted(paths, key=len):
        if not any(path == each or path.startswith(f"{each}/") for each in found):
            found[path] = None
    return tuple(found)


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Sandbox]:
    """Wrap this session's child processes, until it closes."""
    folder, held = await trio.to_thread.run_sync(make_folder)

    def note(found: Enforced) -> None:
        session.note("guard.sandbox", **attrs.asdict(found))

    sandbox = Sandbox(session.workspace.root, session.settings(GuardSettings), folder, note)
    try:
        yield sandbox
    finally:
        with trio.CancelScope(shield=True):
            try:
                await trio.to_thread.run_sync(sandbox.close)
            finally:
                os.close(held)
