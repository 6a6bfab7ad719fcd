"""The standard session, opened by every face and by programs that want the same behavior.

It has all installed plugins and, if the project is trusted, the project's plugins. No call runs
without the guard.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import trio

from hilum.discovery import all_entry_points, normal
from hilum.errors import E_UNKNOWN, UsageError
from hilum.events import PluginFault
from hilum.extras import unused_files
from hilum.kernel import Kernel, open_kernel
from hilum.session import Session, check_kind
from hilum.settings import KernelSettings, load, use_environment
from hilum.store import Store, unspell_folder
from hilum.tools import Tool
from hilum.trust import explain_distrust

LAST = "last"
GUARD = "hilum-guard"
UNGUARDED = (
    "it is left out by choice (--plugins, --no-plugin, plugins.allow, plugins.block). No call is"
    " judged or sandboxed."
)


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
        attended: Whether a user is present to answer questions. If not, a ``main`` session becomes
            ``headless``; a ``shared`` one stays ``shared``. By default a user is present, except in
            ``headless`` sessions.
        mode: Initial mode; the setting by default.
        model: ``provider/name``; the setting by default.
        approve: ``ask_first``, ``auto`` or ``readonly``; the setting by default.
        plugins: As for ``open_kernel``. If plugins are named, only they are loaded, and the guard
            only if it is among them.
        extra_plugins: Additional modules, objects, functions and files.
        without: Names of plugins to leave out.
        tools: Functions, and tools that ``tool`` created from functions.
        required: Distributions that must be installed for calls to run, in addition to the guard
            and those of the setting ``required``. Calls run without the guard only if it is left
            out by name (``without``, the setting ``plugins.block``).
        settings: Settings that override all others, by dotted key.
        store: Where to keep sessions; by default the store of a plugin.
        environ: As for ``open_kernel``.
        needs_model: Whether a new session without any model is an error.
        prepare: Called with the kernel before the session is created, so that a mistake leaves no
            empty session behind.

    Raises:
        SettingsError: The settings have mistakes.
        UsageError: The folder, a plugin, the mode or the model does not exist, or there is no
            session to resume.
        PluginError: A plugin that was passed does not fit.
        StoreError: No such session, or another process has it open.
    """
    # The last session of a folder belongs to that folder; a session named by its id may belong to
    # another project.
    if resume and resume != LAST:
        # `without` may name plugins of the project, which this kernel does not have.
        installed = all_entry_points("hilum")
        opened = partial(
            open_kernel,
            plugins,
            extra_plugins=extra_plugins,
            without=[name for name in without if normal(name) in installed],
            settings=settings,
            environ=environ,
        )
        workspace = await _folder_of(resume, store, opened)
    project = await _read_project(workspace, without, environ, all_plugins=plugins is None)
    # A guard that is missing or broken must stop all calls, not leave them unguarded.
    if plugins is None or _names_guard(plugins):
        required = [GUARD, *required]
    async with open_kernel(
        plugins,
        extra_plugins=extra_plugins,
        without=project.without,
        tools=tools,
        settings=settings,
        workspace=workspace,
        store=store,
        environ=environ,
        project_plugins=project.files,
        required=required,
    ) as kernel:
        if prepare is not None:
            prepare(kernel)
        identity = await find_session(kernel, resume, workspace) if resume else ""
        await _choose_model(kernel, model, needed=needs_model and not resume)
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
            if not _is_guarded(kernel):
                project.left_out["guard"] = UNGUARDED
            for name, reason in project.left_out.items():
                session.emit(PluginFault(plugin=name, hook="load", error=reason, switched_off=True))
            yield session


class _ProjectPlugins(NamedTuple):
    """The plugins of a project.

    Attributes:
        files: The files that are loaded.
        left_out: The reasons why others are not loaded, by name.
        without: The names to leave out that are not plugins of the project.
    """

    files: list[str]
    left_out: dict[str, str]
    without: list[str]


async def _read_project(
    workspace: str | os.PathLike[str],
    without: Sequence[str],
    environ: Mapping[str, str],
    *,
    all_plugins: bool,
) -> _ProjectPlugins:
    """Find the plugins of a project, in a thread.

    Args:
        workspace: The folder of the project.
        without: Names of plugins to leave out.
        environ: The environment of the kernel.
        all_plugins: Whether files for optional packages that are missing are reported as well.
    """
    with use_environment(environ):
        files, refused = await trio.to_thread.run_sync(
            partial(project_plugins, Path(workspace), without, environ)
        )
    # A plugin of the project may be left out by name, whether or not it would be loaded.
    ours = {normal(name) for name in refused}
    without = [name for name in without if normal(name) not in ours]
    left_out = {name: why for name, why in refused.items() if why}
    if all_plugins:
        unused = await trio.to_thread.run_sync(unused_files, workspace)
        for name, why in unused.items():
            if name not in without:
                left_out.setdefault(name, why)
    return _ProjectPlugins(files, left_out, without)


def _names_guard(plugins: Sequence[object]) -> bool:
    """Return whether the guard is among the plugins that a caller names."""
    return any(isinstance(name, str) and normal(name) == normal(GUARD) for name in plugins)


async def _choose_model(kernel: Kernel, model: str, *, needed: bool) -> None:
    """Set the default model of a kernel.

    Args:
        kernel: The kernel.
        model: The model; empty for that of the settings.
        needed: Whether the settings must name one.

    Raises:
        UsageError: There is no such model, or none is named.
    """
    if model:
        kernel.router.model(model)
        kernel.router.roles["default"] = model
    elif needed:
        kernel.router.model(await kernel.router.default())


async def _folder_of(
    session: str, store: Store | None, opened: Callable[[], AbstractAsyncContextManager[Kernel]]
) -> str:
    """Return the folder of a session. Its project decides which plugins and settings count.

    Args:
        session: Its id, or the beginning of it.
        store: The store, if it is known.
        opened: Opens a kernel without a project, whose plugins provide the store. It is closed
            again.

    Raises:
        StoreError: There is no such session.
    """
    if store is not None:
        return unspell_folder((await store.info(session)).workspace)
    async with opened() as kernel:
        return unspell_folder((await kernel.store.info(session)).workspace)


def _is_guarded(kernel: Kernel) -> bool:
    """Return whether the guard judges calls, or all calls are refused because it is missing."""
    if kernel.host.table.refusal():
        return True
    for plugin in kernel.host.plugins.values():
        distribution = plugin.point.distribution if plugin.point else ""
        if normal(distribution) == normal(GUARD) and plugin.state != "blocked":
            return True
    return False


async def _kind(kernel: Kernel, wanted: str, resume: str, attended: bool) -> tuple[str, bool]:
    """Return the kind of a session, and whether questions in it are answered.

    Args:
        kernel: The kernel.
        wanted: The kind that the user named; empty for none.
        resume: Id of the session that is resumed; empty for a new one.
        attended: Whether a user is present to answer.
    """
    if wanted:
        return wanted, attended and wanted != "headless"
    kind: str = kernel.options.session_kind
    if resume:
        kind = (await kernel.store.info(resume)).kind
        if kind == "headless":  # the user did not choose it; no user was present
            kind = "main"
    if kind == "main" and not attended:
        kind = "headless"
    return kind, attended and kind != "headless"


async def find_session(kernel: Kernel, wanted: str, workspace: str | os.PathLike[str]) -> str:
    """Return the id of a session: the named one, or the last one of a folder.

    Sessions without a prompt do not count as the last one.

    Raises:
        UsageError: There is none.
    """
    if wanted != LAST:
        return (await kernel.store.info(wanted)).id
    folder = await trio.to_thread.run_sync(_real, workspace)
    for info in await kernel.store.list(folder):
        # Opening a session writes two events: ``SessionOpened`` and ``AgentStarted``.
        if info.title or info.events > 2:
            return info.id
    hint = "`hilum sessions list --all` lists the sessions of all folders. Resume one by its id."
    raise UsageError(f"There is no session in {folder} to resume.", code=E_UNKNOWN, hint=hint)


def _real(folder: str | os.PathLike[str]) -> str:
    return os.path.realpath(os.path.expanduser(folder))


def project_plugins(
    workspace: Path, without: Sequence[str] = (), environ: Mapping[str, str] = os.environ
) -> tuple[list[str], dict[str, str]]:
    """Find the plugins in ``.hilum/plugins`` of a project.

    Returns:
        The files that may be loaded, and the reasons why others may not, by name. The reason is
        empty for files that the user has left out.
    """
    root = Path(_real(workspace))
    try:
        files = [*(root / ".hilum" / "plugins").glob("*.py")]
    except OSError:
        return [], {}
    # Files with `_` only help other files; those with a dot are hidden, such as copies of an
    # editor.
    found = sorted(str(path) for path in files if path.name[0] not in "._")
    # Untrusted code is not imported: a cloned repository must not run anything by being opened.
    reason = explain_distrust(root) if found else ""
    if not reason:
        return found, {}
    settings = load([KernelSettings], known=None, strict=False, environ=environ)
    chosen = settings.get(KernelSettings).plugins
    left_out = {*map(normal, (*chosen.block, *without))}
    refused = {}
    for path in found:
        name = Path(path).stem
        why = f"{os.path.relpath(path, root)} is not loaded: {reason}"
        refused[name] = "" if normal(name) in left_out else why
    return [], refused
