"""The standard session, opened by every face and by programs that want the same behavior.

The session has all installed plugins and, if the project is trusted, the project's plugins. No call
runs without the guard.
"""

from __future__ import annotations

import os
import socket
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import trio

from hilum import sharing
from hilum.discovery import all_entry_points, normal
from hilum.errors import E_BUSY, E_NO_MODEL, StoreError, UsageError
from hilum.events import PluginFault
from hilum.extras import unused_files
from hilum.hooks import open_nursery
from hilum.kernel import Kernel, open_kernel
from hilum.processes import CommandError
from hilum.session import Session, check_kind
from hilum.settings import KernelSettings, load, parse_pair, use_environment
from hilum.store import LAST, SessionBusy, Store, find_session, unspell_folder
from hilum.tools import Tool
from hilum.trust import explain_distrust
from hilum.workspace import check_workspace

JOIN_SECONDS = 5.0
"""Seconds to wait for a session that another process is opening or closing."""
GUARD = "hilum-guard"
UNGUARDED = (
    "it is left out by choice (--plugins, --no-plugin, plugins.allow, plugins.block). No call is"
    " judged or sandboxed."
)


class SessionOptions(TypedDict):
    """The arguments of ``open_standard_session`` that a command's session options stand for."""

    settings: dict[str, object]
    extra_plugins: list[Path]
    without: list[str]


def read_session_options(options: Namespace) -> SessionOptions:
    """Return the values of ``--set``, ``--plugin`` and ``--no-plugin``.

    Args:
        options: The parsed options, of a parser with ``hilum.command.add_session_options``.

    Raises:
        UsageError: A value of ``--set`` is not valid.
    """
    return {
        "settings": dict(map(parse_pair, options.set)),
        "extra_plugins": [Path(path) for path in options.plugin],
        "without": options.no_plugin,
    }


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
    share: bool = False,
    project_settings: bool = True,
    expects_prompt: bool = False,
) -> AsyncIterator[Session]:
    """Open a kernel and a session as ``hilum run`` does; leaving the block closes both.

    Args:
        workspace: The folder to work in; a resumed session keeps its own, with the plugins and
            settings of its project.
        resume: Id of the session to resume, or the beginning of the id; ``last`` for the folder's
            last session.
        kind: The kind of session (``main``, ``shared`` or ``headless``); the setting
            ``session_kind`` by default.
        attended: Whether a user is present to answer questions. Without a user, a ``main`` session
            becomes ``headless``, but a ``shared`` session stays ``shared``. By default, a user is
            present unless the session is ``headless``.
        mode: Initial mode; the setting by default.
        model: The model, as ``provider/name``; the setting by default.
        approve: The approval policy (``ask_first``, ``auto`` or ``readonly``); the setting by
            default.
        plugins: As for ``open_kernel``. If plugins are named, no others are loaded, not even the
            guard.
        extra_plugins: Additional modules, objects, functions and files.
        without: Names of plugins to leave out.
        tools: Functions, or tools that ``tool`` created.
        required: Distributions that must be installed for calls to run, in addition to the guard
            and those in the setting ``required``. Calls run without the guard only if it is left
            out by name (``without``, the setting ``plugins.block``).
        settings: Settings that take precedence over all others, by dotted key.
        store: Where to keep sessions; by default, in a plugin's store.
        environ: As for ``open_kernel``.
        needs_model: Whether a new session without any model is an error, or without the key for the
            named model.
        prepare: Called with the kernel before the session is created, so that an error leaves no
            empty session behind.
        share: Whether the user's other terminals can join the session, and whether to join a
            session that another process has open and shares. The session is then a
            ``hilum.sharing.JoinedSession``.
        project_settings: Whether the settings of the folder's project are read.
        expects_prompt: Whether a prompt follows at once, so that what it needs is prepared while
            the session opens (see ``Kernel.expects_prompt``).

    Raises:
        SettingsError: The settings have mistakes.
        UsageError: The folder, a plugin, the mode, the model or the session to resume does not
            exist, or the folder is the whole file system.
        PluginError: An object that was passed as a plugin has mistakes.
        StoreError: The session does not exist, or another process has it open.
    """
    # The last session of a folder belongs to this folder, but a session named by its id may belong
    # to another project.
    if resume and resume != LAST:
        # `without` may name plugins of the project, which this temporary kernel does not have.
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
    # This comes before anything of the folder is read or loaded.
    await trio.to_thread.run_sync(check_workspace, _real(workspace))
    project = await _read_project(workspace, without, environ, all_plugins=plugins is None)
    # A guard that is missing or broken must stop all calls, not leave them unguarded.
    wants_guard = plugins is None or _names_guard(plugins)
    if wants_guard:
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
        project_settings=project_settings,
        expects_prompt=expects_prompt,
    ) as kernel:
        if prepare is not None:
            prepare(kernel)
        identity = await find_session(kernel.store, resume, workspace) if resume else ""
        has_key = await _choose_model(
            kernel, model, needed=needs_model and not resume, must_work=needs_model
        )
        check_kind(kind)
        if attended is not None:
            kind, attended = await _kind(kernel, kind, identity, attended)
        opening = partial(
            kernel.open_session,
            workspace,
            resume=identity,
            kind=kind,
            attended=attended,
            mode=mode,
            model=model if model and has_key else None,
            approve=approve,
        )
        async with open_nursery() as nursery, AsyncExitStack() as stack:
            # Without a guard, plugins hardly run commands, so the warden is not started ahead.
            if expects_prompt and wants_guard:
                nursery.start_soon(_start_warden, kernel)
            if not share:
                session = await stack.enter_async_context(opening())
            else:
                session = await _open_shared(stack, kernel, identity, opening)
            if share and isinstance(session, sharing.JoinedSession):
                session.set(mode=mode, model=model if model and has_key else None, approve=approve)
                yield session
                return
            if model and not has_key:
                # The event would be refused. The face helps the user to provide the key, or shows
                # the error with the next prompt; another model must not be used in silence.
                session.model = model
            if not _is_guarded(kernel):
                project.left_out["guard"] = UNGUARDED
            for name, reason in project.left_out.items():
                session.emit(PluginFault(plugin=name, hook="load", error=reason, switched_off=True))
            yield session


async def _start_warden(kernel: Kernel) -> None:
    """Start the warden ahead of the first command."""
    # If it cannot start, the first command reports why.
    with suppress(CommandError):
        await kernel.warden.start()


async def _open_shared(
    stack: AsyncExitStack,
    kernel: Kernel,
    identity: str,
    opening: Callable[[], AbstractAsyncContextManager[Session]],
) -> Session:
    """Open a session and share it; if another process has it open, join it.

    Args:
        stack: The stack that closes the session.
        kernel: The kernel.
        identity: Id of the session; empty for a new one.
        opening: A function that opens the session.

    Raises:
        StoreError: The session does not exist, or it is open and not shared (``E_BUSY``).
    """
    end = trio.current_time() + JOIN_SECONDS
    while True:
        try:
            session = await stack.enter_async_context(opening())
        except StoreError as error:
            if error.code != E_BUSY or not identity:
                raise
            # Only processes of this machine can be joined, so waiting for another one is of no use.
            holder = error.holder if isinstance(error, SessionBusy) else None
            if holder is not None and holder.host != socket.gethostname():
                raise
            joined = await stack.enter_async_context(sharing.join_session(kernel, identity))
            if joined is not None:
                return joined
            # The owner does not share the session yet, or is closing it.
            if trio.current_time() > end:
                raise
        else:
            await stack.enter_async_context(sharing.share_session(session))
            return session
        await trio.sleep(0.1)


class _ProjectPlugins(NamedTuple):
    """The plugins of a project.

    Attributes:
        files: The files to load.
        left_out: The reasons why other files are not loaded, by name of the plugin.
        without: The names of plugins to leave out, except plugins of the project.
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
        all_plugins: Whether to also report files for optional packages that are missing.
    """
    with use_environment(environ):
        files, refused = await trio.to_thread.run_sync(
            partial(project_plugins, Path(workspace), without, environ)
        )
    # The caller may leave out a plugin of the project even if it would not be loaded.
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
    """Return whether a caller's list of plugins contains the guard."""
    return any(isinstance(name, str) and normal(name) == normal(GUARD) for name in plugins)


async def _choose_model(kernel: Kernel, model: str, *, needed: bool, must_work: bool) -> bool:
    """Set the default model of a kernel.

    Args:
        kernel: The kernel.
        model: The model; empty for the model in the settings.
        needed: Whether to raise an error if there is no model.
        must_work: Whether to raise an error if a key for the named model is missing.

    Returns:
        Whether the named model has the key that it needs.

    Raises:
        UsageError: The model does not exist, or there is no model.
    """
    if model:
        try:
            kernel.router.model(model)
        except UsageError as error:
            if must_work or error.code != E_NO_MODEL:
                raise
            return False
        kernel.router.roles["default"] = model
    elif needed:
        kernel.router.model(await kernel.router.default())
    return True


async def _folder_of(
    session: str, store: Store | None, opened: Callable[[], AbstractAsyncContextManager[Kernel]]
) -> str:
    """Return the folder of a session. The folder's project determines the plugins and settings.

    Args:
        session: The id of the session, or the beginning of the id.
        store: The store, if the caller knows it.
        opened: A function that opens a kernel without a project, whose plugins provide the store.
            This kernel is closed again.

    Raises:
        StoreError: The session does not exist.
    """
    if store is not None:
        return unspell_folder((await store.info(session)).workspace)
    async with opened() as kernel:
        return unspell_folder((await kernel.store.info(session)).workspace)


def _is_guarded(kernel: Kernel) -> bool:
    """Return whether the guard judges calls, or all calls are refused because it does not work."""
    if kernel.host.table.refusal():
        return True
    for plugin in kernel.host.plugins.values():
        distribution = plugin.point.distribution if plugin.point else ""
        if normal(distribution) == normal(GUARD) and plugin.state != "blocked":
            return True
    return False


async def _kind(kernel: Kernel, wanted: str, resume: str, attended: bool) -> tuple[str, bool]:
    """Return the kind of a session, and whether a user answers its questions.

    Args:
        kernel: The kernel.
        wanted: The kind that the user chose; empty if the user chose none.
        resume: Id of the session to resume; empty for a new session.
        attended: Whether a user is present to answer.
    """
    if wanted:
        return wanted, attended and wanted != "headless"
    kind: str = kernel.options.session_kind
    if resume:
        kind = (await kernel.store.info(resume)).kind
        if kind == "headless":  # only records that no user was present
            kind = "main"
    if kind == "main" and not attended:
        kind = "headless"
    return kind, attended and kind != "headless"


def _real(folder: str | os.PathLike[str]) -> str:
    return os.path.realpath(os.path.expanduser(folder))


def project_plugins(
    workspace: Path, without: Sequence[str] = (), environ: Mapping[str, str] = os.environ
) -> tuple[list[str], dict[str, str]]:
    """Find the plugins in a project's ``.hilum/plugins``.

    Returns:
        The files that may be loaded, and the reasons why other files must not be loaded, by name.
        The reason is empty for a file that the user leaves out.
    """
    root = Path(_real(workspace))
    try:
        files = [*(root / ".hilum" / "plugins").glob("*.py")]
    except OSError:
        return [], {}
    # Files whose names begin with `_` only help other files. Files whose names begin with a dot,
    # such as an editor's backup copies, are hidden.
    found = sorted(str(path) for path in files if path.name[0] not in "._")
    # Untrusted code is not imported, because opening a cloned repository must not run its code.
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
