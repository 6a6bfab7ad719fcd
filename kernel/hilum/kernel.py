"""The kernel: a value that owns plugins, settings, models, the store and the warden. Wiring, nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import attrs
import msgspec
import trio
from hilum_hooks import FAULTS, Fault, Lifespans, Observer, open_nursery

from hilum.errors import UsageError
from hilum.events import SessionOpened
from hilum.hookspecs import PROJECT
from hilum.plugins import Host
from hilum.processes import Warden
from hilum.routing import Router
from hilum.session import Session
from hilum.settings import FILE, KernelSettings, Settings, load
from hilum.store import Log, MemoryStore, SessionInfo, Store

T = TypeVar("T")


@attrs.define(eq=False)
class Kernel:
    """A kernel with its plugins loaded. Made by ``open_kernel``.

    Attributes:
        host: The plugins and how they are doing.
        options: The kernel's own settings.
        router: The models.
        store: Where sessions are kept.
        warden: Owner of all processes.
        faults: Every fault of a plugin so far.
        observers: Called after each hook implementation, model call and tool call with kind, name, plugin, seconds, error.
        sessions: The open sessions by id.
    """

    host: Host
    options: KernelSettings
    router: Router
    warden: Warden
    faults: list[Fault]
    observers: list[Observer]
    _settings: Settings
    _read: Callable[..., Settings]
    _nursery: trio.Nursery
    store: Store = attrs.field(factory=MemoryStore)
    sessions: dict[str, Session] = attrs.field(factory=dict)
    _lifespans: Lifespans = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._lifespans = Lifespans("open_kernel", self, self.crashed, PROJECT)

    def settings(self, section: type[T]) -> T:
        """Give a plugin's settings, without those of any project but the one the kernel was opened for."""
        return self._settings.get(section)

    def explain(self) -> Sequence[Any]:
        """List every setting with its value and where it came from."""
        return self._settings.explained

    def half(self, kind: type[T]) -> T | None:
        """Give a plugin's kernel half by its type, ``None`` if that plugin is not there."""
        return self._lifespans.half(kind)

    def observe(self, observer: Observer) -> None:
        """Call a function after each hook implementation, model call and tool call."""
        self.observers.append(observer)

    @asynccontextmanager
    async def open_session(
        self,
        workspace: str | os.PathLike[str] = ".",
        *,
        resume: str = "",
        kind: str = "",
        mode: str | None = None,
        model: str | None = None,
        approve: str | None = None,
    ) -> AsyncIterator[Session]:
        """Open a session; leaving the block closes it and ends everything it started.

        Args:
            workspace: The folder to work in; a resumed session keeps its own.
            resume: Id of a session to go on with (or the beginning of it).
            kind: ``main``, ``shared`` or ``headless``; the setting ``session_kind`` by default.
            mode: Mode to be in; the setting by default.
            model: ``provider/name``; the setting by default.
            approve: ``ask_first``, ``auto`` or ``readonly``; the setting by default.

        Raises:
            UsageError: The folder, mode or model is not there.
            StoreError: No such session, or another process has it open.
        """
        info = await self.store.info(resume) if resume else None
        root = _folder(info.workspace if info else workspace)
        settings = self._read(workspace=root) if (root / ".hilum" / FILE).exists() else self._settings
        if info is None:
            info, log = await self._create(str(root), kind or settings.get(KernelSettings).session_kind)
        else:
            log = await self.store.open(info.id)
        # Two nurseries: what agents do has ended before any plugin's half is closed.
        async with open_nursery() as halves:
            info = msgspec.structs.replace(info, kind=kind or info.kind)
            session = Session(self, log, info, root, settings, halves)
            try:
                async with open_nursery() as session.work:
                    await session.start()
                    # A resumed session may be in a mode that is gone; it then stands for reading only.
                    mode = mode or (None if resume else session.mode.name)
                    session.set(mode=mode, model=model, approve=approve)
                    self.sessions[session.id] = session
                    yield session
            finally:
                opened = self.sessions.pop(session.id, None)
                await session.close()
                if not opened and not resume:
                    with trio.CancelScope(shield=True):
                        await self.store.delete(session.id)  # nobody ever saw it

    async def _create(self, workspace: str, kind: str, title: str = "", forked: str = "") -> tuple[SessionInfo, Log]:
        now, identity = time.time(), f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(4).hex()}"
        info = SessionInfo(identity, workspace, kind, title, now, now, forked=forked)
        return info, await self.store.create(info)

    async def fork(self, session: str, upto: int | None = None) -> str:
        """Copy a session, or its events up to ``upto``, into a new one; gives its id."""
        old = await self.store.info(session)
        new, log = await self._create(old.workspace, old.kind, old.title and f"{old.title} (fork)", old.id)
        try:
            while events := await self.store.read(old.id, log.last):
                kept = [event for event in events if upto is None or event.seq <= upto]
                if kept and isinstance(kept[0], SessionOpened):
                    kept[0] = msgspec.structs.replace(kept[0], session=new.id, forked=old.id)
                log.append(kept)
                if len(kept) < len(events):
                    break
        finally:
            await log.close()
        return new.id

    async def start(self, wanted_store: Store | None) -> None:
        """Open the plugins' kernel halves; collect models and the store."""
        for plugin in self.host.plugins.values():
            try:
                if plugin.state == "ready":
                    await self._lifespans.open(plugin.name, plugin.module, self._nursery)
            except FAULTS as error:
                self.crashed(plugin.name, error)
        for _, provider in self.host.table.collect("provide_models", kernel=self):
            self.router.add(provider)
        self.store = wanted_store or await self.host.table.first("provide_store", kernel=self) or self.store

    def crashed(self, plugin: str, error: BaseException) -> None:
        """A plugin's kernel lifespan failed: it is off, in all sessions."""
        fault = Fault(plugin, "open_kernel", error, switched_off=True)
        self.host.fail(plugin, str(fault))
        self.faults.append(fault)
        for session in self.sessions.values():
            session.halves.crashed(plugin, error)

    async def close(self) -> None:
        """Close the halves in reverse order, then the store."""
        await self._lifespans.close()
        with trio.CancelScope(shield=True):
            await self.store.close()


def _folder(workspace: str | os.PathLike[str]) -> Path:
    root = Path(workspace).expanduser().absolute()
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise UsageError(f"The workspace {root} {what}.", hint="Name an existing folder.")
    return root.resolve()


@asynccontextmanager
async def open_kernel(
    plugins: Sequence[object] | None = None,
    *,
    without: Sequence[str] = (),
    model: str = "",
    settings: Mapping[str, object] | None = None,
    workspace: str | os.PathLike[str] | None = None,
    store: Store | None = None,
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[Kernel]:
    """Open a kernel; leaving the block closes every session and ends everything it started.

    Args:
        plugins: Names of installed plugins, and modules or objects that are plugins; ``None`` takes all that are installed.
        without: Names of installed plugins to leave out, beside those that the settings block.
        model: ``provider/name``; short for the setting ``model``.
        settings: Settings that win over all others, by dotted key: ``{"turns": 5, "shell.timeout": 20}``.
        workspace: Folder whose project settings hold for the kernel, too.
        store: Where to keep sessions; by default what a plugin provides, else memory.
        environ: Environment to read settings from; the process's by default.

    Raises:
        SettingsError: The settings have mistakes; all of them are named.
        UsageError: A plugin is named that is not installed.
    """
    overrides = dict(settings or {}) | ({"model": model} if model else {})
    read = partial(load, overrides=overrides, environ=environ)
    root = _folder(workspace) if workspace is not None else None
    faults: list[Fault] = []
    observers: list[Observer] = []
    host = Host(faults.append, observers)
    # The plugins to load stand in the settings, and the settings are checked against the plugins: read twice, and only the
    # second reading complains.
    first = read([KernelSettings], workspace=root, known=None, strict=False).get(KernelSettings)
    host.find(plugins, first.plugins, without)
    host.load()
    read = partial(read, host.sections(), known=host.absent())
    loaded = read(workspace=root)
    options = loaded.get(KernelSettings)
    host.require(options.required)
    roles = options.roles | ({"default": options.model} if options.model else {})
    async with Warden() as warden, open_nursery() as nursery:
        router = Router(roles, options.fallback)
        kernel = Kernel(host, options, router, warden, faults, observers, loaded, read, nursery)
        try:
            await kernel.start(store)
            yield kernel
        finally:
            await kernel.close()
