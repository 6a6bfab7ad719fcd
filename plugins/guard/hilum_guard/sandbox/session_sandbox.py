"""Wrap every child process of a session in a sandbox with a clean environment."""

from __future__ import annotations

import functools
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import attrs
import trio
from hilum import (
    Command,
    Layer,
    ToolDenied,
    ToolError,
    environment,
    make_temporary_folder,
    remove_folder,
    sweep_temporary_folders,
)

from hilum_guard.file_names import is_below, resolve_listed
from hilum_guard.sandbox import control_groups, sandbox_policy, sandbox_probe
from hilum_guard.sandbox.enforcement import Enforcement
from hilum_guard.sandbox.loopback import Loopback
from hilum_guard.sandbox.masks import Masks, sweep_masks
from hilum_guard.sandbox.placeholders import Placeholders, add_git_settings
from hilum_guard.sandbox.sandbox_prompt import describe_sandbox
from hilum_guard.sandbox.shared_work import SharedWork
from hilum_guard.sandbox.sockets import find_sockets
from hilum_guard.sandbox.spares import SparePool, State, find_limit, read_state
from hilum_guard.settings import GuardSettings
from hilum_guard.thread_turns import ThreadTurns
from hilum_guard.watching import recovery
from hilum_guard.watching.executed_files import MASKED
from hilum_guard.watching.run_markers import RunMarker
from hilum_guard.watching.sandbox_observer import SandboxObserver
from hilum_guard.watching.watch_thread import WatchThread
from hilum_guard.watching.workspace_watcher import WorkspaceWatcher

if TYPE_CHECKING:
    from hilum import Session

    from hilum_guard.sandbox.sandbox_policy import SandboxPolicy

BACKGROUND = "HILUM_BACKGROUND"
"""Environment variable that marks a command started in the background."""
_OFF = Enforcement(reasons=("The sandbox is switched off (guard.sandbox).",))
_PROMPT_ORDER = 25


class ProtectedPaths(NamedTuple):
    """Paths that commands must not access, in addition to the paths that the guard itself protects.

    All paths are absolute and contain no links.

    Attributes:
        protected: Paths that cannot be written to, including everything in them.
        hidden: Paths that cannot even be read.
        rules: For a path that a rule of the user denies: the rule, as messages show it.
    """

    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    rules: Mapping[str, str] = MappingProxyType({})


class ExtraAccess(NamedTuple):
    """The extra permissions of one command. Hidden and protected paths remain hidden and protected.

    Attributes:
        network: Whether the command may use the network.
        cache: A writable folder for the caches of the command's tools; created if it does not
            exist.
        environment: Variables that the command receives although they look like secrets.
        off: Whether the command runs without a sandbox. Secrets are still removed from its
            environment.
        shown: Paths in temporary folders that the command may read, if the sandbox has its own
            temporary folders.
        read_only: Whether the command may write only to the cache and to temporary folders.
        required: What the sandbox must enforce, or the command does not start; None for nothing.
    """

    network: bool = False
    cache: str = ""
    environment: tuple[str, ...] = ()
    off: bool = False
    shown: tuple[str, ...] = ()
    read_only: bool = False
    required: Enforcement | None = None


class PreparedCommand(NamedTuple):
    """A command in the sandbox, for which the workspace was prepared.

    Attributes:
        command: The command before it was wrapped.
        policy: Its permissions.
        used_secrets: The hidden files that it may read.
        wrapped: The command in the sandbox.
        state: The state of what its sandbox depends on; None if there are no spares for it.
    """

    command: Command
    policy: SandboxPolicy
    used_secrets: frozenset[str]
    wrapped: Command
    state: State | None


class Sandbox:
    """A session's sandbox.

    Args:
        workspace: Root of the workspace.
        settings: The user's settings.
        folder: A folder used only by this session; the commands' temporary folder is created in it.
        note: A function that is called once with the enforcement, before the first command.
        enforced: What is enforced; overrides the result of ``probe``.

    Attributes:
        watch: The watcher, which makes inert the files that commands leave for other programs to
            execute.
        protected: The paths that the most recent command could not write to.
        denied: The rules that denied paths to the most recent command, by path.
        extra_protected: Functions that return additional paths to protect, by the requester's name.
            Threads call them.
        extra_access: The extra permissions of individual commands, by their words.
        find_used_secrets: Returns the hidden files that a command in a folder may read.
        observer: Receives the sandbox's reports.
        spares: The spare sandboxes; None if there are none.
        turns: Run the functions that judge calls, and prepare and check commands, in a thread.
        has_requested: Whether a model has been asked. Before, it has chosen no program and no
            arguments.
    """

    def __init__(
        self,
        workspace: Path,
        settings: GuardSettings,
        folder: str,
        note: Callable[[Enforcement], None] = lambda _: None,
        enforced: Enforcement | None = None,
    ) -> None:
        self.workspace = workspace
        self.settings = settings
        self.folder = folder
        self.temp = os.path.join(folder, "tmp")
        self.extra_protected: dict[str, Callable[[], ProtectedPaths]] = {}
        self.extra_access: dict[tuple[str, ...], ExtraAccess] = {}
        self.find_used_secrets: Callable[[tuple[str, ...], str], frozenset[str]] = (
            lambda argv, folder: frozenset()
        )
        self.observer = SandboxObserver()
        self.spares: SparePool | None = None
        self.turns = ThreadTurns()
        self.has_requested = False
        self.protected: tuple[str, ...] = ()
        self.denied: dict[str, str] = {}
        self._note = note
        self._enforced = enforced
        # The bubblewrap that was tried, as `identify_bubblewrap` returns it.
        self._tried: tuple[int, ...] | None = None
        self._masks = Masks()
        self._placeholders = Placeholders(os.path.join(folder, "placeholders"))
        self._unwanted = set[str]()
        # Commands may start at the same time: the first command tries the sandbox, and the others
        # wait for the result.
        self._lock = trio.Lock()
        self._preparing = SharedWork[PreparedCommand](self.turns)
        self._loopback = Loopback()
        self._root = os.path.realpath(workspace)
        self._mark = RunMarker(self._root)
        writable = sandbox_policy.find_writable(workspace, settings)
        self.watch = WorkspaceWatcher(
            writable,
            os.path.realpath(self.temp),
            mark=self._mark,
            # The observer changes when the session begins.
            report=lambda sentences: self.observer.report_undone(sentences),
            uses_events=True,
        )
        self._follower: WatchThread | None = None

    @property
    def known(self) -> Enforcement | None:
        """What is enforced for this session's commands, or None if not determined yet.

        Also None if bubblewrap was replaced: a command must not be judged by what the old one
        enforced. Blocks.
        """
        return None if self._is_outdated() else self._enforced

    async def enforced(self) -> Enforcement:
        """Return what is enforced for this session's commands."""
        # Each command asks, and to acquire a lock takes a turn of the event loop.
        known = self._enforced
        if known is not None and not self._is_outdated():
            return known
        async with self._lock:
            if self._enforced is None or self._is_outdated():
                if self.settings.sandbox == "off":
                    self._enforced = _OFF
                else:
                    tried = sandbox_probe.identify_bubblewrap()
                    self._enforced = await trio.to_thread.run_sync(sandbox_probe.probe)
                    # Until now, the earlier result counted as outdated.
                    self._tried = tried
                self._note(self._enforced)
        return self._enforced

    def _is_outdated(self) -> bool:
        """Return whether bubblewrap was replaced since the sandboxes were tried."""
        return self._tried is not None and self._tried != sandbox_probe.identify_bubblewrap()

    def distrust(self) -> None:
        """Try the sandboxes again before the next command, because this one failed. Blocks."""
        sandbox_probe.forget()
        self._enforced = None

    def build_prompt_layer(self) -> Layer:
        """Return the part of the system prompt that describes where commands run.

        Before the first command, the description says what the system most likely enforces, because
        trying the sandbox takes time.
        """
        return Layer(_PROMPT_ORDER, "sandbox", describe_sandbox(self._presumed(), self.settings))

    def describe_kind(self) -> str:
        """Return the kind of sandbox in one word; empty if there is no sandbox."""
        return self._presumed().by

    def _presumed(self) -> Enforcement:
        """Return what is enforced or, before the first command, will most likely be enforced."""
        if self._enforced is not None:
            return self._enforced
        if self.settings.sandbox == "off":
            return _OFF
        return sandbox_probe.presume_enforcement()

    # --- commands ---------------------------------------------------------------------------------

    async def wrap_process(self, command: Command, judged: Enforcement | None = None) -> Command:
        """Wrap a command in the sandbox with a clean environment.

        Args:
            command: The command.
            judged: What the sandbox had to enforce when the command's call was judged; None if the
                command belongs to no judged call.

        Raises:
            ToolDenied: The user, the judgement or the caller requires more than this system can
                enforce.
        """
        from hilum_guard.sandbox.backends import INSTALL_ADVICE  # with the first command
        from hilum_guard.sandbox.environment import CACHES, clean_environment

        enforced = await self.enforced()
        is_required = self.settings.sandbox == "required"
        if is_required and not enforced.whole:
            reason = enforced.reasons[0] if enforced.reasons else ""
            raise ToolDenied(
                f"guard.sandbox is required, and this system cannot enforce all of it. {reason}",
                hint=INSTALL_ADVICE,
            )
        extra = self.extra_access.get(command.argv, ExtraAccess())
        # Bubblewrap may have been replaced, or have failed, since the command was judged.
        if any(least and not enforced.covers(least) for least in (judged, extra.required)):
            reason = enforced.reasons[0] if enforced.reasons else "There is no sandbox."
            raise ToolDenied(
                f"The sandbox no longer enforces what was assumed when this command was judged."
                f" {reason}",
                hint="Run the command again, so that it is judged anew.",
            )
        passed = (*self.settings.pass_environment, *extra.environment)
        env = clean_environment(command.env, environment(), passed)
        clean = Command(command.argv, command.cwd, env, read_only=command.read_only)
        # If the sandbox is required, not even an approval lets a command run outside it.
        if not enforced.by or (extra.off and not is_required):
            return clean
        # bubblewrap mounts the session's folder at /tmp; the other sandboxes cannot move a folder.
        temp = "/tmp" if enforced.by == "bubblewrap" else self.temp
        caches = extra.cache or f"{temp}/cache"
        for name, folder in CACHES.items():
            # A cache location that the user or a plugin has set is kept.
            env.setdefault(name, f"{caches}/{folder}")
        if self.watch.alive() > 1:
            # Commands that start at the same time ask now, and share the same permissions.
            await trio.lowlevel.checkpoint()
        prepared = await self._preparing.run(
            (command.read_only, BACKGROUND in env, enforced, extra),
            partial(self._prepare, clean, enforced, extra),
        )
        if prepared.command is clean:
            return prepared.wrapped
        return await self.turns.run(partial(self._wrap_alike, clean, enforced, extra, prepared))

    def _wrap_alike(
        self, command: Command, enforced: Enforcement, extra: ExtraAccess, prepared: PreparedCommand
    ) -> Command:
        """Return a command in the sandbox with the permissions of another command. Blocks."""
        if self.find_used_secrets(command.argv, command.cwd) != prepared.used_secrets:
            return self._prepare(command, enforced, extra).wrapped
        if not prepared.wrapped.reports or not _differs_in_arguments(command, prepared.command):
            wrapped, _ = self._wrap(command, prepared.policy, enforced, extra)
            return wrapped
        # Everything else in the command line was found out after this command had been requested.
        sandbox = prepared.wrapped.argv[: -len(prepared.command.argv)]
        wrapped = attrs.evolve(prepared.wrapped, argv=(*sandbox, *command.argv), take_spare=None)
        return self._offer_spare(command, wrapped, prepared.policy, prepared.state)

    def _prepare(
        self, command: Command, enforced: Enforcement, extra: ExtraAccess
    ) -> PreparedCommand:
        """Prepare the workspace for a command, and return the command in the sandbox. Blocks."""
        os.makedirs(self.temp, mode=0o700, exist_ok=True)
        git_folders: list[str] = []
        if BACKGROUND in command.env:
            # Long-running services do not need to write to the Git folder, and a folder that is
            # read-only as a whole stays read-only when the user's Git replaces a file in it.
            git_folders += filter(None, map(self.watch.git_folder, self.watch.roots))
        roots = sandbox_policy.find_writable(self.workspace, self.settings)
        watched: list[str] = []
        if self.watch.dirty or not _leaves_nothing(command, enforced, extra):
            watched = self._begin_watching(enforced, command, roots, git_folders)
        watched += git_folders
        used_secrets = self.find_used_secrets(command.argv, command.cwd)
        policy = self._make_policy(command, enforced, extra, roots, watched, used_secrets)
        self._unwanted.update(policy.unwanted)
        if not command.read_only:
            self.protected = policy.protected
        wrapped, state = self._wrap(command, policy, enforced, extra)
        return PreparedCommand(command, policy, used_secrets, wrapped, state)

    def _wrap(
        self, command: Command, policy: SandboxPolicy, enforced: Enforcement, extra: ExtraAccess
    ) -> tuple[Command, State | None]:
        """Return a command in the sandbox, and the state of what its sandbox depends on. Blocks.

        The state is None if there are no spares for the command.
        """
        from hilum_guard.sandbox.backends import wrap  # with the first command
        from hilum_guard.sandbox.bubblewrap import make_spare

        wrapped = wrap(_add_settings(command, policy), policy, enforced)
        # Only bubblewrap reports. A sandbox with extra permissions is built for one command.
        if self.spares is None or not wrapped.reports or extra != ExtraAccess():
            return wrapped, None
        try:
            state = read_state(make_spare(command, wrapped))
        except OSError:
            return wrapped, None
        return self._offer_spare(command, wrapped, policy, state), state

    def _offer_spare(
        self, command: Command, wrapped: Command, policy: SandboxPolicy, state: State | None
    ) -> Command:
        """Return a wrapped command that runs in a spare sandbox if there is one for it."""
        if self.spares is None or state is None:
            return wrapped
        return self.spares.offer(_add_settings(command, policy), wrapped, state, policy.unwanted)

    def _put_masks(self, roots: Sequence[str]) -> list[str]:
        """Create missing folders that programs would use, so that commands cannot create them.

        Args:
            roots: The folders that commands may write to.

        Returns:
            The masks that did not exist before this call, or were not locked.
        """
        put = []
        for path in sandbox_policy.find_masks(roots, self._masks.holds):
            is_file = os.path.basename(path) in sandbox_policy.MASKED_FILES
            if self._masks.put(path, file=is_file):
                put.append(path)
        return put

    def _begin_watching(
        self,
        enforced: Enforcement,
        command: Command,
        roots: Sequence[str],
        git_folders: Sequence[str],
    ) -> list[str]:
        """Watch the workspace while a command runs, and return the paths to protect.

        Args:
            enforced: What the sandbox enforces.
            command: The command.
            roots: The folders that commands may write to.
            git_folders: The folders that will be read-only for a service.
        """
        self.recover()
        closed = None
        if BACKGROUND in command.env:
            # Only mounts are known to keep a folder closed, whatever the user does in it.
            closed = git_folders if enforced.by == "bubblewrap" else ()
        # The watcher must know the state before the command, so `watch.begin` comes before the
        # command starts.
        if enforced.by == "bubblewrap":
            watched, _ = self.watch.begin(
                partial(self._put_masks, roots), closed=closed, writes=not command.read_only
            )
        else:
            watched, _ = self.watch.begin(closed=closed, writes=not command.read_only)
        if self.watch.unmarked:
            self.observer.report_unmarked(self.watch.unmarked)
        if self.watch.truncated:
            self.observer.report_truncated()
        if self._follower is None:
            self._follower = WatchThread(self.watch, self.observer)
        self._follower.wake()
        return watched

    def _make_policy(
        self,
        command: Command,
        enforced: Enforcement,
        extra: ExtraAccess,
        roots: Sequence[str],
        watched: list[str],
        used_secrets: frozenset[str],
    ) -> SandboxPolicy:
        """Return a command's current permissions."""
        configured = sandbox_policy.make_policy(
            self.workspace,
            self.settings,
            self.temp,
            roots,
            is_early=_is_git_look(command) and not self.has_requested,
        )
        policy = _fit_to(configured, command, extra)
        added = self._find_added_paths()
        if not command.read_only:
            self.denied = dict(added.rules)
        hidden = {*policy.hidden, *added.hidden}
        sockets: list[str] = []
        program = ""
        if enforced.by == "bubblewrap":  # in other sandboxes, commands cannot open Unix sockets
            sockets = self._find_hidden_sockets()
            hidden.update(sockets)
            program = self._write_filter()
        existing = sandbox_policy.select_writable(policy, [*watched, *added.protected])
        protected = _select_outermost((*policy.protected, *existing))
        hidden -= used_secrets
        placeholders: dict[str, str] = {}
        # In other sandboxes, Git still sees the size of hidden files.
        if enforced.by == "bubblewrap":
            in_workspace = [path for path in hidden if is_below(path, self.watch.roots)]
            placeholders = self._placeholders.create(in_workspace, configured.writable)
        network = policy.network or extra.network
        # A command that only reads the workspace needs no servers of the session. `git status` for
        # the first prompt would wait 7 ms for the loopback.
        has_own_network = command.read_only and enforced.by == "bubblewrap"
        return attrs.evolve(
            policy,
            ignored=tuple(self._find_ignored(protected)),
            filter=program,
            group=control_groups.create_group(self.settings.processes),
            loopback=() if network or has_own_network else self._join_loopback(enforced),
            network=network,
            protected=protected,
            hidden=tuple(hidden),
            sockets=tuple(path for path in sockets if is_below(path, policy.writable)),
            placeholders=tuple(placeholders.items()),
        )

    def search_ahead(self) -> None:
        """Find the secrets in the home folders, so that a command does not wait for it. Blocks."""
        roots = sandbox_policy.find_writable(self.workspace, self.settings)
        sandbox_policy.make_policy(self.workspace, self.settings, self.temp, roots)

    def _find_added_paths(self) -> ProtectedPaths:
        """Return the paths that plugins protect and hide in addition to the guard's own."""
        protected: list[str] = []
        hidden: list[str] = []
        denied: dict[str, str] = {}
        # The event loop may add an entry in the meantime.
        for find_paths in list(self.extra_protected.values()):
            paths = find_paths()
            protected += paths.protected
            hidden += paths.hidden
            denied |= paths.rules
        return ProtectedPaths(tuple(protected), tuple(hidden), denied)

    def _find_ignored(self, protected: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the masks in working trees, each with the folder that the sandbox shows instead.

        Git would try to remove an empty folder: `git stash -u` and `git clean -d` would fail at the
        mount point, and `git stash -u` would leave the changes that it saved in the files.
        """
        masks = [path for path in protected if os.path.basename(path) in MASKED]
        masks = [path for path in masks if os.path.isdir(path) and sandbox_policy.is_empty(path)]
        if not masks:
            return
        shown = os.path.join(self.folder, "ignored")
        with suppress(FileExistsError):
            os.mkdir(shown, mode=0o700)
            Path(shown, ".gitignore").write_text("*\n", encoding="utf-8")
        for path in masks:
            yield path, shown

    def _find_hidden_sockets(self) -> list[str]:
        """Return the sockets of the user's services, except those that the user made visible."""
        readable = resolve_listed(self.settings.readable, self._root)
        return [path for path in find_sockets(self.watch.roots) if path not in readable]

    def _join_loopback(self, enforced: Enforcement) -> tuple[str, ...]:
        """Return the namespaces of the session's loopback; empty if the loopback cannot be shared.

        Raises:
            ToolError: The loopback cannot be created. The command must not run without the
                loopback, because it would then reach another network.
        """
        if not enforced.shared or enforced.network != "namespace":
            return ()
        from hilum_guard.sandbox.backends import make_loopback_command

        try:
            return self._loopback.paths(make_loopback_command(enforced.by))
        except OSError as error:
            self.distrust()
            message = f"The sandbox's network could not be created: {error}."
            raise ToolError(message, code="E_CMD_FAIL", hint="Run the command again.") from error

    async def prepare_network(self) -> None:
        """Create the session's loopback ahead of the first command."""
        if self.settings.network == "full":
            return
        # If it cannot be created, the first command tries again and reports why.
        with suppress(OSError, ToolError):
            await trio.to_thread.run_sync(self._prepare_network)

    def _prepare_network(self) -> None:
        self._join_loopback(sandbox_probe.probe())

    async def open_listener(self, *, network: bool = False) -> socket.socket:
        """Return a socket on which hilum listens at 127.0.0.1 for the commands of this session.

        Args:
            network: Whether the commands that connect use the machine's network (see
                ``ExtraAccess``). By default, they use the session's loopback, and nothing else can
                connect.

        Raises:
            ToolError: Commands of this session cannot connect to hilum.
        """
        enforced = await self.enforced()
        uses_network = network or self.settings.network == "full" or not enforced.network
        if not uses_network and not (enforced.shared and enforced.network == "namespace"):
            raise ToolError(
                "On this system, sandboxed programs cannot connect to hilum: commands do not share"
                " a loopback.",
                code="E_CMD_FAIL",
                hint="Install bubblewrap and util-linux (nsenter), or allow the network.",
            )
        loopback: tuple[str, ...] = ()
        if not uses_network:
            loopback = await trio.to_thread.run_sync(self._join_loopback, enforced)
        from hilum_guard.sandbox.bubblewrap import find_interpreter, join_loopback
        from hilum_guard.sandbox.loopback_listener import open_listener

        try:
            return await trio.to_thread.run_sync(
                open_listener, join_loopback(loopback), find_interpreter()
            )
        except OSError as error:
            message = f"hilum cannot listen in the sandbox's network: {error}."
            raise ToolError(message, code="E_CMD_FAIL", hint="Try again.") from error

    def _write_filter(self) -> str:
        """Write the system call filter to a file, and return its path.

        The path is empty if there is no filter for this architecture.
        """
        from hilum_guard.sandbox.backends import make_namespace_filter

        program = make_namespace_filter()
        path = os.path.join(self.folder, "filter")
        if program and not os.path.exists(path):
            with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
                file.write(program)
            os.replace(file.name, path)  # another command may be starting
        return path if program else ""

    # --- the end ----------------------------------------------------------------------------------

    def recover(self) -> None:
        """Undo the changes that killed sessions' commands left in this workspace. Blocks."""
        sentences = recovery.recover(self._root, self._mark)
        if sentences:
            self.observer.report_recovered(sentences)

    def close(self) -> None:
        """Check the workspace one last time and remove what the session created. Blocks.

        Every step runs, even if another step fails.
        """
        with ExitStack() as steps:  # the stack runs the steps in reverse order
            # The removal of the folder is added first, so it runs last: the other steps use the
            # folder.
            steps.callback(remove_folder, self.folder)
            steps.callback(self._masks.close)
            steps.callback(self._remove_unwanted)
            steps.callback(self._mark.close)
            steps.callback(self.watch.close)
            steps.callback(self.watch.settle)
            steps.callback(self._loopback.close)
            if self._follower is not None:
                steps.callback(self._check_last)
                steps.callback(self._follower.stop)

    def _remove_unwanted(self) -> None:
        for path in self._unwanted:  # a killed command may have left a file behind
            with suppress(OSError):
                os.unlink(path)

    def _check_last(self) -> None:
        try:
            sentences = self.watch.check(everywhere=True)
        except Exception as error:  # the user is informed, and the other steps still run
            self.observer.report_failure(error)
            return
        self.watch.note_reported(sentences)


@functools.cache
def sweep() -> None:
    """Remove what killed sessions left, once per process. Blocks."""
    sweep_masks()
    control_groups.sweep_groups()
    sweep_temporary_folders()


def _fit_to(policy: SandboxPolicy, command: Command, extra: ExtraAccess) -> SandboxPolicy:
    """Return the configured permissions as they are for one command, with its extra permissions."""
    writable = policy.writable
    protected = policy.protected
    shown = tuple(map(os.path.realpath, extra.shown))
    if command.read_only:
        # A workspace in a temporary folder would not be visible otherwise.
        shown += writable
        # Everything else is read-only anyway.
        writable = protected = ()
    elif extra.read_only:
        protected = (*protected, *writable)
    if extra.cache:
        os.makedirs(extra.cache, mode=0o700, exist_ok=True)
        writable = (*writable, os.path.realpath(extra.cache))
    return attrs.evolve(policy, writable=writable, protected=protected, shown=shown)


def _add_settings(command: Command, policy: SandboxPolicy) -> Command:
    """Return a command with the settings that Git needs for placeholders, if there are any."""
    if not policy.placeholders:
        return command
    return attrs.evolve(command, env=add_git_settings(command.env))


def _differs_in_arguments(command: Command, other: Command) -> bool:
    """Return whether two commands differ in nothing but the arguments of their program."""
    return attrs.evolve(command, argv=other.argv) == other and command.argv[0] == other.argv[0]


def _is_git_look(command: Command) -> bool:
    """Return whether a command is a Git that only reads, which the first request waits for.

    A language server, which only reads, too, may outlive the first request.
    """
    return command.read_only and os.path.basename(command.argv[0]) == "git"


def _leaves_nothing(command: Command, enforced: Enforcement, extra: ExtraAccess) -> bool:
    """Return whether a command cannot leave files for other programs, so that no scan is needed.

    In a project of 20,000 files, the scan before `git status` took 70 ms of the time to the first
    request (tests/benchmarks/real_project.py).
    """
    if BACKGROUND in command.env or extra.cache:
        return False
    # Only bubblewrap makes the workspace read-only.
    return command.read_only and enforced.by == "bubblewrap"


def _select_outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that are not inside another of the given paths."""
    found: list[str] = []
    for path in sorted(set(paths), key=len):
        # A read-only mount inside another one would only waste time.
        if not is_below(path, found):
            found.append(path)
    return tuple(found)


@asynccontextmanager
async def open_sandbox(session: Session) -> AsyncIterator[Sandbox]:
    """Open a session's sandbox; on exit, remove what it created."""
    folder, held = await trio.to_thread.run_sync(make_temporary_folder)

    noted: list[Enforcement] = []

    def note(found: Enforcement) -> None:
        data = attrs.asdict(found)
        if noted and not found.covers(noted[-1]):
            reason = found.reasons[0] if found.reasons else ""
            data["say"] = f"The sandbox of this session has become weaker. {reason}".rstrip()
        noted.append(found)
        session.note("guard.sandbox", **data)

    settings = session.settings(GuardSettings)
    # The extra roots belong to the workspace, so they are writable and watched as the root is.
    extra_roots = [str(root) for root in session.workspace.roots[1:]]
    writable = [*settings.writable, *extra_roots]
    settings = attrs.evolve(settings, writable=writable)  # type: ignore[misc]  # `section` is attrs
    sandbox = Sandbox(session.workspace.root, settings, folder, note)
    limit = find_limit(settings.spare_sandboxes, settings.processes)
    if limit:
        sandbox.spares = SparePool(session.processes.start_spare, limit)
    try:
        yield sandbox
    finally:
        # Even a cancelled session must undo what its commands left for other programs, and remove
        # its masks from the workspace.
        with trio.CancelScope(shield=True):
            try:
                await trio.to_thread.run_sync(sandbox.close)
            finally:
                os.close(held)
