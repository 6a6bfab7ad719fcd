"""The standard session: what every face opens, and what an embedder opens who wants the same.

It has all installed plugins, the plugins of the project if it is trusted, and no call runs without
the guard.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

from hilum.discovery import all_entry_points, entry_points, normal
from hilum.errors import E_UNKNOWN, UsageError
from hilum.events import PluginFault
from hilum.kernel import Kernel, open_kernel
from hilum.session import Session, check_kind
from hilum.settings import KernelSettings, load, use_environment
from hilum.store import Store, unspell_folder
from hilum.tools import Tool

LAST = "last"
GUARD = "hilum-guard"
UNGUARDED = (
    "It is left out by choice (--plugins, --no-plugin, plugins.allow, plugins.block). No call is"
    " judged or sandboxed."
)
TRUST = "hilum.trust"
"""Group of entry points: functions that take a folder and return why what it brings along may not
run, empty if it may.
"""


@asynccontextmanager
async def open_standard_session(
    workspace: str | os.PathLike[str] = ".",
    *,
    resume: str = "",
    kind: str = "",
    attended: bool | None = None,
    mode: str | None = None,
    model: str = "",
    approve: str | None = None,
    plugins: Sequence[object] | None = None,
    extra_plugins: Sequence[object] = (),
    without: Sequence[str] = (),
    tools: Iterable[Tool | Callable[..., Any]] = (),
    required: Sequence[str] = (),
    settings: Mapping[str, object] | None = None,
    store: Store | None = None,
    environ: Mapping[str, str] = os.environ,
    needs_model: bool = True,
    prepare: Callable[[Kernel], object] | None = None,
) -> AsyncIterator[Session]:
    """Open a kernel and a session in it as ``hilum run`` does; leaving the block ends everything.

    Args:
        workspace: The folder to work in; a resumed session keeps its own, with the plugins and
            settings of its project.
        resume: Id of a session to resume, or its beginning; ``last`` for the last one of the
            folder.
        kind: ``main``, ``shared`` or ``headless``; the setting ``session_kind`` by default.
        attended: Whether somebody is there to answer questions. Where nobody is, a ``main`` session
            becomes ``headless``; ``shared`` says who reads along, and stays. By default everybody
            but a ``headless`` session is answered.
        mode: Mode to be in; the setting by default.
        model: ``provider/name``; the setting by default.
        approve: ``ask_first``, ``auto`` or ``readonly``; the setting by default.
        plugins: As for ``open_kernel``. Where they are named, only they are loaded, and the guard
            only if it is among them.
        extra_plugins: Modules, objects, functions and files beside them.
        without: Names of plugins to leave out.
        tools: Functions, and what ``tool`` makes of them.
        required: Distributions without which no call runs, besides the guard and those of the
            setting ``required``. Only who leaves the guard out by name (``without``, the setting
            ``plugins.block``) runs calls without it.
        settings: Settings that win over all others, by dotted key.
        store: Where to keep sessions; by default what a plugin provides.
        environ: As for ``open_kernel``.
        needs_model: Whether a new session without any model is an error.
        prepare: Called with the kernel before the session is made, so that a mistake leaves no
            empty session behind.

    Raises:
        SettingsError: The settings have mistakes.
        UsageError: The folder, a plugin, the mode or the model is not there, or there is no session
            to resume.
        PluginError: A plugin that was passed does not fit.
        StoreError: No such session, or another process has it open.
    """
    # The last session of a folder is one of that folder; any other may be of another project.
    if resume and resume != LAST:
        installed = all_entry_points(
            "hilum"
        )  # `without` may name plugins of the project, which this kernel does not know
        opened = partial(
            open_kernel,
            plugins,
            extra_plugins=extra_plugins,
            without=[name for name in without if normal(name) in installed],
            settings=settings,
            environ=environ,
        )
        workspace = await _folder_of(resume, store, opened)
    with use_environment(environ):
        files, refused = await trio.to_thread.run_sync(
            partial(project_plugins, Path(workspace), without, environ)
        )
    # A plugin of the project may be left out by name whether or not it would be loaded.
    ours = {normal(name) for name in refused}
    without = [name for name in without if normal(name) not in ours]
    refused = {name: why for name, why in refused.items() if why}
    named = {normal(name) for name in plugins or () if isinstance(name, str)}
    if plugins is None or normal(GUARD) in named:
        required = [GUARD, *required]
    async with open_kernel(
        plugins,
        extra_plugins=extra_plugins,
        without=without,
        tools=tools,
        settings=settings,
        workspace=workspace,
        store=store,
        environ=environ,
        project_plugins=files,
        required=required,
    ) as kernel:
        if prepare is not None:
            prepare(kernel)
        identity = await find_session(kernel, resume, workspace) if resume else ""
        if model:
            kernel.router.model(model)
            kernel.router.roles["default"] = model
        elif needs_model and not resume:
            kernel.router.model(await kernel.router.default())
        check_kind(kind)
        if attended is not None:
            kind, attended = await _kind(kernel, kind, identity, attended)
        async with kernel.open_session(
            workspace,
            resume=identity,
            kind=kind,
            attended=attended,
            mode=mode,
            model=model or None,
            approve=approve,
        ) as session:
            for name, reason in refused.items():
                session.emit(PluginFault(plugin=name, hook="load", error=reason, switched_off=True))
            if not _is_guarded(kernel):
                session.emit(
                    PluginFault(plugin="guard", hook="load", error=UNGUARDED, switched_off=True)
                )
            yield session


async def _folder_of(
    session: str, store: Store | None, opened: Callable[[], AbstractAsyncContextManager[Kernel]]
) -> str:
    """Return the folder of a session: its project decides which plugins and settings the kernel
    has.

    Args:
        session: Its id, or the beginning of it.
        store: The store, where it is known.
        opened: Opens a kernel of no project, whose plugins provide the store. It is closed again.

    Raises:
        StoreError: There is no such session.
    """
    if store is not None:
        return unspell_folder((await store.info(session)).workspace)
    async with opened() as kernel:
        return unspell_folder((await kernel.store.info(session)).workspace)


def _is_guarded(kernel: Kernel) -> bool:
    """Return whether the guard judges calls.

    Or refuses them, because it is not in working order.
    """
    if kernel.host.table.refusal():
        return True
    ours = [
        each
        for each in kernel.host.plugins.values()
        if each.point and normal(each.point.distribution) == normal(GUARD)
    ]
    return any(plugin.state != "blocked" for plugin in ours)


async def _kind(kernel: Kernel, wanted: str, resume: str, attended: bool) -> tuple[str, bool]:
    """Return the kind of a session, and whether questions in it are answered.

    Args:
        kernel: The kernel.
        wanted: The kind that the user named; empty for none.
        resume: Id of the session that is resumed; empty for a new one.
        attended: Whether somebody is there to answer.
    """
    if wanted:
        return wanted, attended and wanted != "headless"
    kind: str = kernel.options.session_kind
    if resume:
        kind = (await kernel.store.info(resume)).kind
        if kind == "headless":  # it was nobody's wish, only that nobody was there to ask
            kind = "main"
    if kind == "main" and not attended:
        kind = "headless"
    return kind, attended and kind != "headless"


async def find_session(kernel: Kernel, wanted: str, workspace: str | os.PathLike[str]) -> str:
    """Return the id of a session: the one named, or the last one of a folder in which anything was
    said.

    Raises:
        UsageError: There is none.
    """
    if wanted != LAST:
        return (await kernel.store.info(wanted)).id
    folder = await trio.to_thread.run_sync(_real, workspace)
    for info in await kernel.store.list(folder):
        if info.title or info.events > 2:
            return info.id
    hint = "hilum sessions list --all shows the sessions of all folders."
    raise UsageError(f"There is no session of {folder} to resume.", code=E_UNKNOWN, hint=hint)


def _real(folder: str | os.PathLike[str]) -> str:
    return os.path.realpath(os.path.expanduser(folder))


def project_plugins(
    workspace: Path, without: Sequence[str] = (), environ: Mapping[str, str] = os.environ
) -> tuple[list[str], dict[str, str]]:
    """Find the plugins in ``.hilum/plugins`` of a project.

    Returns:
        The files that may be loaded, and why others are not, by name; nothing where the user has
        left them out.
    """
    root = Path(_real(workspace))
    try:
        found = sorted(
            str(path)
            for path in (root / ".hilum" / "plugins").glob("*.py")
            if path.name[:1] not in "._"
        )
    except OSError:
        return [], {}
    chosen = (
        load([KernelSettings], known=None, strict=False, environ=environ)
        .get(KernelSettings)
        .plugins
    )
    left_out = {*map(normal, (*chosen.block, *without))}
    reason = _distrust(root, left_out) if found else ""
    if not reason:
        return found, {}
    refused = {
        Path(path).stem: f"{os.path.relpath(path, root)} is not loaded: {reason}" for path in found
    }
    return [], {name: "" if normal(name) in left_out else why for name, why in refused.items()}


def _distrust(root: Path, left_out: set[str]) -> str:
    """Return why what a project brings along may not run, empty if it may."""
    judges = [point for point in entry_points(TRUST).values() if normal(point.name) not in left_out]
    if not judges:
        return "no plugin is there that can tell whether this project is trusted."
    for judge in judges:
        try:
            distrust: Any = judge.load()
            reason: str = distrust(root)
        except (Exception, SystemExit) as error:
            return f"whether this project is trusted cannot be told ({error!r})."
        if reason:
            return reason
    return ""
