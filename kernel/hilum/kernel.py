"""The kernel: a value that owns plugins, settings, models, the store and the warden. Wiring, nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import attrs
import msgspec
import trio

from hilum.errors import UsageError
from hilum.events import SessionOpened
from hilum.hooks import FAULTS, Fault, Observer
from hilum.lifespans import Lifespan, open_nursery
from hilum.models import Provider
from hilum.plugins import Host
from hilum.processes import Warden
from hilum.routing import Router
from hilum.session import Session
from hilum.settings import KernelSettings, Settings, load
from hilum.store import MemoryStore, SessionInfo, Store
from hilum.workspace import Workspace

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
    _sources: dict[str, Any]
    _nursery: trio.Nursery
    store: Store = attrs.field(factory=MemoryStore)
    sessions: dict[str, Session] = attrs.field(factory=dict)
    _lifespans: list[Lifespan] = attrs.field(factory=list)

    def settings(self, section: type[T]) -> T:
        """Give a plugin's settings, without those of any project but the one the kernel was opened for."""
        return self._settings.get(section)

    def explain(self) -> Sequence[Any]:
        """List every setting with its value and where it came from."""
        return self._settings.explain()

    def half(self, kind: type[T]) -> T | None:
        """Give a plugin's kernel half by its type, ``None`` if that plugin is not there."""
        return next((ls.half for ls in self._lifespans if isinstance(ls.half, kind)), None)

    def observe(self, observer: Observer) -> None:
        """Call a function after each hook implementation, model call and tool call."""
        self.observers.append(observer)

    @staticmethod
    def restore(kind: type[T], data: Mapping[str, Any]) -> T:
        """Make a domain object again from plain data in the log; unknown keys of later versions are left out."""
        return msgspec.convert(data, kind)

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
        settings = self._settings_for(root)
        if info is None:
            kind = kind or settings.get(KernelSettings).session_kind
            identity = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid4().hex[:8]}"
            info = SessionInfo(identity, str(root), kind, created=time.time(), updated=time.time())
            log = await self.store.create(info)
        else:
            log = await self.store.open(info.id)
        # Two nurseries: what agents do has ended before any plugin's half is closed.
        async with open_nursery() as halves:
            session = Session(self, log, info.id, Workspace(root), kind or info.kind, settings, halves)
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

    def _settings_for(self, root: Path) -> Settings:
        if not (root / ".hilum" / "settings.toml").exists():
            return self._settings
        return load(self.host.sections(), workspace=root, **self._sources)

    async def fork(self, session: str, upto: int | None = None) -> str:
        """Copy a session, or its events up to ``upto``, into a new one; gives its id."""
        old = await self.store.info(session)
        identity = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid4().hex[:8]}"
        title = f"{old.title} (fork)" if old.title else ""
        log = await self.store.create(
            SessionInfo(identity, old.workspace, old.kind, title, time.time(), time.time(), forked=old.id)
        )
        try:
            after = 0
            while events := list(await self.store.read(old.id, after)):
                after = events[-1].seq
                kept = [e for e in events if upto is None or e.seq <= upto]
                if kept and isinstance(kept[0], SessionOpened):
                    kept[0] = msgspec.structs.replace(kept[0], session=identity, forked=old.id)
                if kept:
                    log.append(kept)
        finally:
            await log.close()
        return identity

    async def start(self, wanted_store: Store | None) -> None:
        """Open the plugins' kernel halves; collect models and the store."""
        for plugin in self.host.plugins.values():
            function = getattr(plugin.module, "open_kernel", None)
            if plugin.state != "ready" or function is None or not hasattr(function, "hilum_impl"):
                continue
            lifespan = Lifespan(plugin.name)
            try:
                deadline = self.host.specs["open_kernel"].deadline
                await lifespan.open(self._nursery, function, (self,), deadline, self.crashed)
                self._lifespans.append(lifespan)
            except FAULTS as error:
                self.crashed(plugin.name, error)
        for plugin_name, provider in self.host.table.collect("provide_models", kernel=self):
            if callable(getattr(provider, "model", None)) and isinstance(getattr(provider, "name", None), str):
                self.router.add(provider)
            else:
                self.host.table.fault(
                    plugin_name, "provide_models", TypeError(f"a provider was expected, not {provider!r:.80}")
                )
        self.store = wanted_store or await self.host.table.first("provide_store", kernel=self) or self.store

    def add_provider(self, provider: Provider) -> None:
        """Add a provider of models by hand; it takes the place of one with its name."""
        self.router.replace(provider)

    def crashed(self, plugin: str, error: BaseException) -> None:
        """A plugin's kernel lifespan failed: it is off, in all sessions."""
        fault = Fault(plugin, "open_kernel", error, switched_off=True)
        self.host.fail(plugin, str(fault))
        self.faults.append(fault)
        for session in self.sessions.values():
            session.crashed(plugin, error)

    async def close(self) -> None:
        """Close the halves in reverse order, then the store."""
        for lifespan in reversed(self._lifespans):
            await lifespan.close()
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
    environ: Mapping[str, str] | None = None,
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
    environ = os.environ if environ is None else environ
    root = _folder(workspace) if workspace is not None else None
    faults: list[Fault] = []
    observers: list[Observer] = []
    host = Host(faults.append, observers)
    # The plugins to load stand in the settings, and the settings are checked against the plugins: read twice, and only the
    # second reading complains.
    sources: dict[str, Any] = {"overrides": overrides, "environ": environ}
    first = load([KernelSettings], workspace=root, known=None, strict=False, **sources).get(KernelSettings)
    host.find(plugins, first.plugins, without)
    host.load()
    sources["known"] = host.absent()
    loaded = load(host.sections(), workspace=root, **sources)
    options = loaded.get(KernelSettings)
    host.require(options.required)
    roles = {**options.roles, **({"default": options.model} if options.model else {})}
    async with Warden() as warden, open_nursery() as nursery:
        router = Router(roles, options.fallback)
        kernel = Kernel(host, options, router, warden, faults, observers, loaded, sources, nursery)
        try:
            await kernel.start(store)
            yield kernel
        finally:
            await kernel.close()
