"""The kernel, which owns the plugins, settings, models, the store and the warden.

The kernel only connects these parts.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import attrs
import trio
from msgspec.structs import replace

from hilum.agents import Agent
from hilum.copy_titles import name_copy
from hilum.errors import PluginError, StoreError, UsageError
from hilum.events import AnyEvent, PluginEvent, PromptQueued, RunEnded, RunStarted, SessionOpened
from hilum.fork_restrictions import ForkRestrictions
from hilum.hooks import Lifespans, Observer, PluginFailure, open_nursery, split_failure
from hilum.hookspecs import HOOKS, PROJECT
from hilum.messages import UserMessage
from hilum.plugin_objects import tools_plugin
from hilum.plugins import Host
from hilum.processes import Warden
from hilum.routing import Router
from hilum.session import Session, check_kind
from hilum.settings import (
    FILE,
    KernelSettings,
    Settings,
    home_folder,
    load,
    use_environment,
)
from hilum.store import Log, MemoryStore, SessionInfo, Store, spell_folder, unspell_folder
from hilum.tools import Call, Output, Tool
from hilum.workspace import Workspace, check_workspace

T = TypeVar("T")
PromptAdapter = Callable[["Agent", UserMessage, Sequence[str]], UserMessage]
Reminders = list[tuple[str, str]]
"""Names of plugins, each with its reminder for the model."""
MAX_FAULTS_KEPT = 200
READ_AT_ONCE = 1000
"""Maximum number of events that are read at once while a session is copied."""


@attrs.define(eq=False)
class Kernel:
    """A kernel with its plugins loaded, created by ``open_kernel``.

    Attributes:
        host: The plugins and their states.
        options: The kernel's own settings.
        router: The models.
        store: The store of sessions.
        warden: The owner of all child processes.
        faults: The latest failures of plugins, without their tracebacks.
        observers: Functions that are called after each hook implementation, model call and tool
            call with kind, name, plugin, seconds and error.
        sessions: The sessions that are open or opening, by id.
        environ: The environment that the plugins see, and that determines the user's folders.
        workspace: The folder whose project settings apply; ``None`` for no project.
        expects_prompt: Whether the face sends a prompt as soon as a session is open. Plugins may
            then prepare for the prompt while the session opens.
        run_tool: The function that runs a tool for a call that may run. A replay sets another one,
            which answers some of the calls from the recorded log.
        adapt_prompt: The function that returns the message with which a run begins, given the
            agent, the message with its gathered context, and the plugin of each gathered block. A
            replay sets one that returns the recorded context.
        adapt_reminders: The function that returns the reminders after a round of calls, given the
            agent and the plugins' reminders as pairs of plugin and text. A replay sets one that
            returns the reminders of the user's rules, which it does not have.
    """

    host: Host
    options: KernelSettings
    router: Router
    warden: Warden
    faults: list[PluginFailure]
    observers: list[Observer]
    _settings: Settings
    _read: Callable[..., Settings]
    environ: Mapping[str, str]
    workspace: Path | None
    store: Store = attrs.field(factory=MemoryStore)
    sessions: dict[str, Session] = attrs.field(factory=dict)
    expects_prompt: bool = False
    run_tool: Callable[[Tool, Call], Awaitable[Output]] = Tool.run
    adapt_prompt: PromptAdapter = lambda _agent, message, _plugins: message
    adapt_reminders: Callable[[Agent, Reminders], Reminders] = lambda _, reminders: reminders
    _lifespans: Lifespans = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._lifespans = Lifespans(
            "open_kernel", self, self.crashed, PROJECT, HOOKS["open_kernel"].deadline
        )

    def settings(self, section: type[T]) -> T:
        """Return a plugin's settings for the project that the kernel was opened for.

        Settings of other projects are not included.
        """
        return self._settings.get(section)

    def read_settings(self, root: Path) -> Settings:
        """Return the settings for sessions in a folder.

        Args:
            root: The folder, as a resolved path.
        """
        # The kernel's settings include the project that the kernel was opened for.
        reusable = self.workspace in (None, root) and not (root / ".hilum" / FILE).exists()
        return self._settings if reusable else self._read(workspace=root)

    def explain(self) -> Sequence[Any]:
        """List every setting with its value and its source."""
        return self._settings.explained

    @property
    def ignored(self) -> Sequence[str]:
        """Return a sentence for each ignored setting in the project's file.

        The project is the one that the kernel was opened for.
        """
        return self._settings.ignored

    def plugin(self, kind: type[T]) -> T | None:
        """Return the kernel instance of a type; ``None`` if there is no such instance."""
        return self._lifespans.plugin(kind)

    def observe(self, observer: Observer) -> None:
        """Register a function to call after each hook implementation, model call and tool call."""
        self.observers.append(observer)

    @asynccontextmanager
    async def open_session(
        self,
        workspace: str | os.PathLike[str] = ".",
        *,
        resume: str = "",
        kind: str = "",
        attended: bool | None = None,
        mode: str | None = None,
        model: str | None = None,
        approve: str | None = None,
    ) -> AsyncIterator[Session]:
        """Open a session; leaving the block closes it and ends everything it started.

        Args:
            workspace: The folder to work in; a resumed session keeps its own.
            resume: Id of the session to resume, or the beginning of the id.
            kind: The kind of session (``main``, ``shared`` or ``headless``); the setting
                ``session_kind`` by default.
            attended: Whether a user is present to answer requests for approval and questions; by
                default, true unless the kind is ``headless``.
            mode: Initial mode; the setting by default.
            model: The model, as ``provider/name``; the setting by default.
            approve: The approval policy (``ask_first``, ``auto`` or ``readonly``); the setting by
                default.

        Raises:
            UsageError: The folder, kind, mode, model or approval policy does not exist, or the
                folder is the whole file system.
            StoreError: The session does not exist, or another process has it open.
        """
        check_kind(kind)
        info = await self.store.info(resume) if resume else None
        root = _folder(unspell_folder(info.workspace) if info else workspace)
        settings = self.read_settings(root)
        for folder in Workspace(root, settings.get(KernelSettings).extra_roots).roots:
            check_workspace(folder)
        if info is None:
            kind = kind or settings.get(KernelSettings).session_kind
            info, log = await self._create(spell_folder(root), kind)
        else:
            log = await self.store.open(info.id)
        try:
            if kind:
                info = replace(info, kind=kind)
            with use_environment(self.environ):
                session = Session(self, log, info, root, settings)
            if attended is not None:
                session.attended = attended
        except BaseException:
            # If opening fails, the lease must be released; otherwise the session could never be
            # opened again.
            with trio.CancelScope(shield=True):
                await log.close()
            raise
        opened = False
        # The session is registered before its plugins open. A plugin whose kernel instance crashes
        # meanwhile is then also switched off in this session, with its gates closed.
        self.sessions[session.id] = session
        # The nursery is left first, so that the agents' tasks end before any plugin instance is
        # closed.
        try:
            async with open_nursery() as nursery:
                await session._open(nursery)
                _note_ignored_settings(session, settings)
                _warn_of_home(session)
                # A resumed session may be in a mode that no longer exists, and then allows only
                # reading.
                mode = mode or (None if resume else session.mode.name)
                session.set(mode=mode, model=model, approve=approve)
                opened = True
                yield session
        finally:
            del self.sessions[session.id]
            await session._close()
            if session._discarded or (not opened and not resume):
                # Nothing happened in the session, or the new session was never used.
                with trio.CancelScope(shield=True):
                    await self.store.delete(session.id)

    async def _create(
        self, workspace: str, kind: str, title: str = "", forked: str = ""
    ) -> tuple[SessionInfo, Log]:
        now = time.time()
        # The time makes ids sortable and easy to complete; the random part distinguishes sessions
        # that different processes create within the same second.
        identity = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(4).hex()}"
        info = SessionInfo(identity, workspace, kind, title, now, now, forked=forked)
        return info, await self.store.create(info)

    async def fork(
        self,
        session: str,
        upto: int | None = None,
        *,
        queued: bool = True,
        grants: bool = True,
    ) -> str:
        """Copy a session, or its events up to ``upto``, into a new one, and return its id.

        The copy allows no more than the session allows now: approvals that were revoked after
        ``upto`` stay revoked, and a stricter approval policy stays in force. Its title says that it
        is a copy, and from which prompt it continues.

        Args:
            session: Id of the session, or the beginning of the id.
            upto: Sequence number of the last event to copy; all events by default.
            queued: Whether to keep prompts that are still queued at ``upto``. Otherwise queued
                prompts do not run in the copy.
            grants: Whether the copy keeps the session's lasting approvals. A later revocation in
                the session does not reach the copy.
        """
        old = await self.store.info(session)
        left_out = set() if queued else await self._find_queued(old.id, upto)
        new, log = await self._create(old.workspace, old.kind, forked=old.id)
        try:
            # The copy keeps all sequence numbers.
            settings = self.read_settings(Path(unspell_folder(old.workspace)))
            policy = settings.get(KernelSettings).approve
            restrictions = ForkRestrictions(upto, policy, grants=grants)
            last = 0
            prompts = 0
            while events := await self._read_to_copy(old.id, last, upto, restrictions):
                last = events[-1].seq
                restrictions.apply(events)
                kept = [event for event in events if upto is None or event.seq <= upto]
                prompts += sum(_is_prompt(event) for event in kept)
                if kept:
                    log.append([_adapt_to_fork(event, new.id, old.id, left_out) for event in kept])
            for number, event in enumerate(restrictions.events(), log.last + 1):
                log.append([replace(event, seq=number, at=time.time())])
            await log.flush()
            if old.title:
                is_whole = upto is None or upto >= last
                taken = {info.title for info in await self.store.list(old.workspace)}
                title = name_copy(old.title, taken, next_prompt=0 if is_whole else prompts + 1)
                await self.store.rename(new.id, title)
        finally:
            await log.close()
        return new.id

    async def _read_to_copy(
        self, session: str, after: int, upto: int | None, restrictions: ForkRestrictions
    ) -> Sequence[AnyEvent]:
        """Return the next events of a session that is copied; empty if there are none.

        Damage after the last event to copy does not prevent the copy, but then it is unknown what
        the session allows now.
        """
        if upto is None or after < upto:
            limit = READ_AT_ONCE if upto is None else min(upto - after, READ_AT_ONCE)
            return await self.store.read(session, after, limit)
        try:
            return await self.store.read(session, after, READ_AT_ONCE)
        except StoreError:
            restrictions.assume_strictest()
            return ()

    async def _find_queued(self, session: str, upto: int | None) -> set[str]:
        """Return the ids of the runs whose prompts were still queued after an event."""
        waiting: set[str] = set()
        last = 0
        while upto is None or last < upto:
            limit = READ_AT_ONCE if upto is None else min(upto - last, READ_AT_ONCE)
            events = await self.store.read(session, last, limit)
            if not events:
                break
            for event in events:
                if isinstance(event, PromptQueued):
                    waiting.add(event.run)
                elif isinstance(event, RunStarted | RunEnded):
                    waiting.discard(event.run)
            last = events[-1].seq
        return waiting

    async def start(self, wanted_store: Store | None) -> None:
        """Open the plugins' kernel instances; collect models and the store."""
        for plugin in self.host.plugins.values():
            if plugin.state != "ready":
                continue
            try:
                with use_environment(self.environ):
                    # An object from another distribution must not replace hilum's own only because
                    # it has the same methods.
                    await self._lifespans.open(
                        plugin.name, plugin.module, preferred=plugin.is_standard
                    )
            except BaseException as error:
                failure, rest = split_failure(error)
                if failure is None or rest is not None:
                    raise
                self.crashed(plugin.name, failure)
        table = self.host.table
        for _, provider in table.collect("provide_models", kernel=self):
            self.router.add(provider)
        provided = wanted_store or await table.first("provide_store", kernel=self)
        if provided:
            self.store = provided

    def crashed(self, plugin: str, error: BaseException) -> None:
        """Switch a plugin off in all sessions, because its kernel lifespan failed."""
        fault = PluginFailure(plugin, "open_kernel", error, switched_off=True)
        self.host.fail(plugin, fault)
        self.keep_fault(fault)
        for session in list(self.sessions.values()):
            session._instances.crashed(plugin, error)

    def keep_fault(self, fault: PluginFailure) -> None:
        """Add a failure to ``faults``."""
        _keep(self.faults, fault)

    async def close(self) -> None:
        """Close the instances in reverse order, then the store."""
        await self._lifespans.close()
        with trio.CancelScope(shield=True):
            await self.store.close()


def _is_prompt(event: AnyEvent) -> bool:
    """Return whether an event begins a run of the main agent with a prompt that the user typed."""
    return isinstance(event, RunStarted) and event.agent == "main" and event.repeats is None


def _adapt_to_fork(event: AnyEvent, new: str, old: str, left_out: set[str]) -> AnyEvent:
    """Return an event in the form in which a copy of its session contains it.

    Args:
        event: The event.
        new: Id of the copy.
        old: Id of the session that is copied.
        left_out: Ids of the runs whose prompts are left out.
    """
    if isinstance(event, SessionOpened):
        return replace(event, session=new, forked=old)
    if isinstance(event, PromptQueued) and event.run in left_out:
        # Another event replaces the prompt, because sequence numbers have no gaps.
        return PluginEvent(
            name="fork.prompt_left_out", agent=event.agent, seq=event.seq, at=event.at
        )
    return event


def _note_ignored_settings(session: Session, settings: Settings) -> None:
    """Inform the user about settings in the project's file that have no effect."""
    if settings.ignored:
        lines = ["Settings of the project that are ignored:", *settings.ignored]
        say = "\n  ".join(lines)
        session.note("settings.ignored", say=say, ignored=list(settings.ignored))


def _warn_of_home(session: Session) -> None:
    """Inform the user if commands can change the user's home folder."""
    root = session.workspace.root
    with use_environment(session.kernel.environ):
        home = Path(os.path.realpath(home_folder()))
    if not home.is_relative_to(root):
        return
    what = "is" if root == home else "contains"
    session.note(
        "workspace.home",
        say=(
            f"The workspace {what} your home folder: commands can change everything in it, except"
            " files that other programs execute, as far as hilum knows them. Start hilum in the"
            " folder of a project instead, or pass --workspace DIR."
        ),
    )


def _keep(faults: list[PluginFailure], fault: PluginFailure) -> None:
    # A plugin that fails repeatedly must not exhaust the memory in a long session.
    faults.append(fault.without_frames())
    del faults[:-MAX_FAULTS_KEPT]


def _folder(workspace: str | os.PathLike[str]) -> Path:
    """Return the resolved path of a workspace.

    Raises:
        UsageError: The path is not an existing folder.
    """
    root = Path(os.path.expanduser(workspace)).absolute()
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise UsageError(f"The workspace {root} {what}.", hint="Name an existing folder.")
    return root.resolve()


def _load_without_project(
    sections: Iterable[type], *, workspace: Path | None = None, **options: Any
) -> Settings:
    """Return the settings as ``load`` does, but never read those of a project."""
    return load(sections, **options)


@asynccontextmanager
async def open_kernel(
    plugins: Sequence[object] | None = None,
    *,
    extra_plugins: Sequence[object] = (),
    without: Sequence[str] = (),
    tools: Iterable[Tool | Callable[..., Any]] = (),
    model: str = "",
    settings: Mapping[str, object] | None = None,
    workspace: str | os.PathLike[str] | None = None,
    store: Store | None = None,
    environ: Mapping[str, str] = os.environ,
    project_plugins: Sequence[str] = (),
    required: Sequence[str] = (),
    project_settings: bool = True,
    expects_prompt: bool = False,
) -> AsyncIterator[Kernel]:
    """Open a kernel; leaving the block closes every session and ends everything it started.

    Args:
        plugins: Names of installed plugins; modules, objects and functions with hook
            implementations; and Python files. ``None`` selects all installed plugins.
        extra_plugins: Further plugins, in addition to ``plugins``.
        without: Names of plugins to leave out, in addition to plugins that the settings block.
        tools: Tools for every session: functions, or tools that ``tool`` created.
        model: The model, as ``provider/name``; short for the setting ``model``.
        settings: Settings that take precedence over all others, by dotted key:
            ``{"turns": 5, "shell.timeout": 20}``.
        workspace: Folder whose project settings also apply to the kernel.
        store: Where to keep sessions; by default, in a plugin's store or, if there is none, in
            memory.
        environ: The environment from which settings are read and which commands inherit. The
            environment also determines the home, configuration, data and cache folders. The default
            is the environment of the process.
        project_plugins: Plugin files of the project, which the user trusts.
        required: Distributions without which no call runs, in addition to those in the setting
            ``required``.
        project_settings: Whether settings of projects are read at all.
        expects_prompt: Whether the face sends a prompt as soon as a session is open (see
            ``Kernel.expects_prompt``).

    Raises:
        SettingsError: The settings have mistakes; all of them are listed.
        UsageError: A named plugin does not exist, or an object cannot be a plugin.
        PluginError: An object that was passed as a plugin has mistakes, or two distributions
            provide plugins with the same name.
    """
    overrides = dict(settings or {})
    if model:
        overrides["model"] = model
    reader = load if project_settings else _load_without_project
    read = partial(reader, overrides=overrides, environ=environ)
    root = _folder(workspace) if workspace is not None else None
    faults: list[PluginFailure] = []
    observers: list[Observer] = []
    host = Host(partial(_keep, faults), observers, environ)
    extra = list(extra_plugins)
    tools = list(tools)
    if tools:
        extra.append(tools_plugin(tools))
    # The settings determine which plugins are loaded, and the plugins declare which settings are
    # valid. The settings are therefore read twice, and only the second reading reports mistakes.
    first = read([KernelSettings], workspace=root, known=None, strict=False).get(KernelSettings)
    host.find(plugins, first.plugins, without, extra, project_plugins)
    if host.clashes:
        hint = (
            "Or block the plugin by name: plugins.block in settings.toml, --no-plugin, or"
            " without=[…] in a program."
        )
        raise PluginError(" ".join(host.clashes), hint=hint)
    with use_environment(environ):
        host.load()
    read = partial(read, host.sections(), known=host.absent())
    loaded = read(workspace=root)
    options = loaded.get(KernelSettings)
    # Required plugins are checked after loading, because hilum must also refuse all calls if one of
    # them did not load.
    host.require(dict.fromkeys((*options.required, *required)))
    roles = dict(options.roles)
    if options.model:
        roles["default"] = options.model
    # The warden is the outermost context, so that processes end after the plugins that started them
    # have closed.
    async with Warden() as warden:
        router = Router(roles, options.fallback)
        kernel = Kernel(
            host, options, router, warden, faults, observers, loaded, read, environ, root
        )
        kernel.expects_prompt = expects_prompt
        try:
            await kernel.start(store)
            yield kernel
        finally:
            await kernel.close()
