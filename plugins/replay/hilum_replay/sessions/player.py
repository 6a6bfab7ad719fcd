"""Plays a recorded session again, through the real loop and the real tools."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import attrs
import trio
from hilum import (
    Kernel,
    Session,
    ToolError,
    UsageError,
    config_folder,
    make_redactor,
    open_kernel,
    open_temporary_folder,
    use_clock,
    use_ids,
)
from hilum.errors import E_BAD_ARGS, E_NOT_INSTALLED, E_STORE, E_TIMEOUT, unknown_name_error
from hilum.events import (
    AnyEvent,
    CallStarted,
    SessionChanged,
    SessionOpened,
    SessionReopened,
)
from hilum.store import MemoryStore, Store

from hilum_replay.cassette import Cassette
from hilum_replay.placeholders import PathPlaceholders
from hilum_replay.sessions.contained_files import ContainedFiles
from hilum_replay.sessions.guest_log import GUEST_PLUGIN, PROVIDER, find_guest_files
from hilum_replay.sessions.guest_programs import GuestPrograms
from hilum_replay.sessions.played_editor import PlayedEditor
from hilum_replay.sessions.recorded_calls import OUTSIDE_PLUGINS, RecordedCalls, RecordedGuests
from hilum_replay.sessions.recorded_context import ContextChanges, RecordedContext
from hilum_replay.sessions.recorded_editor import find_editor_events
from hilum_replay.sessions.recorded_log import RecordedLog
from hilum_replay.sessions.recorded_models import RecordedAnswers, RecordedProvider
from hilum_replay.sessions.recording import Recording, place_events
from hilum_replay.sessions.user_actions import UserActions

# Seconds that a replay may take. Recorded sessions take longer, but their models do not answer here.
MAX_SECONDS = 600.0
# Seconds that a replay may take in which a live model answers.
MAX_LIVE_SECONDS = 4 * 3_600.0
# Plugins that a replay does not need: faces, and the gateways to models.
_NOT_REPLAYED = frozenset({"cli", "models", "replay", "serve", "store", "terminal"})
_CONFIGURATION = ("settings.toml", "keys.toml", "permissions.toml")
_TIME_LIMITS = frozenset({"timeout", "silence", "answer_timeout", "slow_hook"})
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "SYSTEMROOT")


@attrs.frozen
class Changes:
    """What a replay changes.

    Attributes:
        at: Sequence number of the last event of the recording that is repeated unchanged.
        model: The model that answers instead of the recorded one.
        plugins: Further plugins: names, files, modules or objects.
        without: Names of plugins to leave out.
        rules: Permission rules, each beginning with ``allow``, ``ask`` or ``deny``.
        settings: Settings by dotted key.
    """

    at: int = 0
    model: str = ""
    plugins: tuple[object, ...] = ()
    without: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    settings: Mapping[str, object] = attrs.field(factory=dict)

    @property
    def has_changes(self) -> bool:
        """Whether calls are judged by the rules and plugins of the replay."""
        return bool(self.plugins or self.without or self.rules or self.settings or self.model)


@attrs.define
class ReplayedSession:
    """A replayed session.

    Attributes:
        log: The recorded log, with the paths of the replay.
        events: The events of the replay.
        placeholders: The paths of the replay.
        changed: The recorded calls that had another result, by ``agent/call``.
        answered: The calls that were answered from the log, by ``agent/call``, and the programs of
            guests, as if each were a call.
        from_log: Why calls and the runs of guests were answered from the log, by ``agent/call``,
            without the calls that the replay refused or did not make.
        requests: The messages of each request, in short, by the recorded number of its answer.
        same_calls: The ids of calls whose recorded call has another id, with that id.
        other_versions: Plugins with another version than in the recording.
    """

    log: RecordedLog
    events: list[AnyEvent]
    placeholders: PathPlaceholders
    changed: list[str]
    answered: list[str]
    from_log: dict[str, str]
    requests: dict[str, str]
    same_calls: dict[str, str]
    other_versions: list[str]


@attrs.define
class ReplayState:
    """Everything that all parts of a replay share.

    A part ends where the change begins, and where the recorded session was closed and opened again.

    Attributes:
        recording: The recorded session.
        workspace: The folder of the replay.
        environ: The environment of the replay.
        log: The recorded log, with the paths of the replay.
        placeholders: The paths of the replay.
        actions: Repeats what the user did.
        calls: Runs calls, or answers them from the log.
        programs: Repeats what the programs of guests changed.
        context: Restores the gathered context.
        at: Sequence number of the event after which the first part ends; 0 for no end.
        reached: Set when the first part has reached its end.
        store: The store of the replayed session.
        session: The id of the replayed session; empty until it is open.
        settings: The settings of the recorded session, by dotted key.
        resumes: Whether the recorded session went on with interrupted runs after it was opened.
        editor: The user's editor, if the recorded session had one with unsaved texts.
    """

    recording: Recording
    workspace: Path
    environ: dict[str, str]
    log: RecordedLog
    placeholders: PathPlaceholders
    actions: UserActions
    calls: RecordedCalls
    programs: GuestPrograms
    context: RecordedContext
    at: int
    reached: trio.Event = attrs.field(factory=trio.Event)
    store: MemoryStore = attrs.field(factory=MemoryStore)
    session: str = ""
    settings: Mapping[str, object] = attrs.field(factory=dict)
    resumes: bool = True
    editor: PlayedEditor | None = None

    async def wait(self, seq: int) -> None:
        """Wait until the replay may receive an answer of the recorded log."""
        if self.at and seq > self.at:
            self.reached.set()
            await trio.sleep_forever()
        await self.actions.wait(seq)

    async def reopen(self, event: SessionReopened) -> None:
        """Prepare the part after the recorded session was opened again."""
        if self.actions.crashed_at:
            self.store = await _copy_session(self.store, self.session, self.actions.crashed_at)
        self.settings = event.settings
        self.resumes = self.log.resumes_after(event)
        self.actions.pass_reopening()


async def replay(
    recording: Recording,
    workspace: Path,
    *,
    changes: Changes | None = None,
    cassette: Cassette | None = None,
    plugins: Sequence[object] = (),
    live_events: list[AnyEvent] | None = None,
) -> ReplayedSession:
    """Replay a recorded session in a folder, which must be empty.

    Args:
        recording: The recorded session.
        workspace: The folder, in which the files of the recording are created.
        changes: What to change, and from which event on.
        cassette: The answers of the model; by default, those in the recording.
        plugins: Modules and objects that were plugins of the recorded session.
        live_events: Receives the events of the part in which another model answers, also if the
            replay fails.

    Raises:
        UsageError: The recorded session needs plugins that are not installed
            (``E_NOT_INSTALLED``), or the replay does not end (``E_TIMEOUT``).
    """
    changed = changes or Changes()
    with open_temporary_folder("replay") as made:
        base = await trio.to_thread.run_sync(made.resolve)
        await trio.to_thread.run_sync(write_files, recording, workspace)
        state = _prepare(recording, workspace, base, changed)
        names, other_versions = find_plugins(recording.events, [*plugins, *changed.plugins])
        _check_names(changed.without, names)
        redactor = make_redactor(state.environ)
        answers = RecordedAnswers(state.log, state.placeholders, redactor, state.wait, cassette)
        ids = {kind: iter(found) for kind, found in state.log.ids.items()}
        # The last event before the change; ``None`` until the replay has reached it.
        live = None if changed.at else 0
        seconds = MAX_LIVE_SECONDS if changed.model else MAX_SECONDS
        try:
            with (
                use_ids(lambda kind: next(ids.get(kind, iter(())), None)),
                use_clock(state.actions.read_clock),
                trio.move_on_after(seconds) as scope,
            ):
                present = Changes() if changed.at else changed
                while not await _play(state, [*names, *plugins], present, answers):
                    if state.reached.is_set():
                        state.at = 0
                        state.reached = trio.Event()
                        present = changed
                        live = (await state.store.info(state.session)).events
            if scope.cancelled_caught:
                raise UsageError(
                    f"The replay did not end within {seconds:g} seconds.",
                    code=E_TIMEOUT,
                    hint="A call may wait for something that the recording does not contain.",
                )
        finally:
            if live_events is not None and live is not None and state.session:
                with trio.CancelScope(shield=True):
                    events = await read_events(state.store, state.session)
                live_events += [event for event in events if event.seq > live]
        events = await read_events(state.store, state.session)
    return ReplayedSession(
        state.log,
        events,
        state.placeholders,
        [call.key for call in state.calls.changed],
        [*(call.key for call in state.calls.answered), *state.programs.answered],
        _find_answered(recording, state),
        answers.requests,
        state.calls.same_calls,
        other_versions,
    )


async def read_events(store: Store, session: str) -> list[AnyEvent]:
    """Return all events of a session.

    Args:
        store: The store that contains the session.
        session: The session's id.
    """
    events: list[AnyEvent] = []
    while page := await store.read(session, events[-1].seq if events else 0):
        events += page
    return events


def _find_answered(recording: Recording, state: ReplayState) -> dict[str, str]:
    """Return why calls and the runs of guests were answered from the log, if they were."""
    calls = {call.key for found in state.log.calls.values() for call in found}
    answered = state.calls.repeated | {call.key for call in state.calls.answered}
    return {
        key: why
        for key, why in recording.header.from_log.items()
        if key in answered or key not in calls
    }


def write_files(recording: Recording, workspace: Path) -> None:
    """Create the files of a workspace as they were before the recorded session.

    Raises:
        UsageError: A path leads out of the workspace or through a link, or the system rejects it.
    """
    opened = recording.events[0]
    assert isinstance(opened, SessionOpened)
    workspace.mkdir(parents=True, exist_ok=True)
    files = ContainedFiles(workspace)
    try:
        for path in recording.header.folders:
            files.make_folder(path)
        for path, data in recording.before.items():
            known = recording.header.files.get(path)
            if known is None:
                files.write(path, data)
            else:
                # An agent may read when a file was changed, for example with `stat`.
                changed = max(opened.at - known.age, 0.0)
                files.write(path, data, mode=known.mode, changed=changed)
        # Links come last, so that nothing can be written through them.
        files.make_links(recording.header.links)
    except ToolError as error:
        raise UsageError(
            f"The files of the recorded session cannot be created: {error.message}",
            code=E_STORE,
            hint="Replay it in an empty folder, or export the session again.",
        ) from None


def find_plugins(
    events: Sequence[AnyEvent], given: Sequence[object] = ()
) -> tuple[list[str], list[str]]:
    """Return the plugins to load for a recorded session, and those with another version.

    Args:
        events: The events of the recorded session.
        given: Plugins that are loaded in any case.

    Raises:
        UsageError: A plugin whose tools the session used is not installed (``E_NOT_INSTALLED``).
    """
    opened = events[0]
    assert isinstance(opened, SessionOpened)
    installed = {
        point.name: point.dist.version if point.dist is not None else ""
        for point in entry_points(group="hilum")
    }
    versions = dict(_split_version(text) for text in opened.plugins)
    if not versions:  # the log was written by an earlier version
        versions = dict.fromkeys(installed, "")
    known = set(map(_find_name, given))
    # Calls that reach outside are answered from the log, which also describes their tools.
    used = {
        event.plugin
        for event in events
        if isinstance(event, CallStarted) and event.risk != "network"
    } - OUTSIDE_PLUGINS
    missing = sorted((used & set(versions)) - set(installed) - known)
    if missing:
        raise UsageError(
            f"The recorded session used plugins that are not installed: {', '.join(missing)}.",
            code=E_NOT_INSTALLED,
            hint="Install them, or pass them to the replay: --plugin FILE.",
        )
    # The replay itself takes the place of the plugin for guests, also where that is not installed.
    installed.setdefault(GUEST_PLUGIN, "")
    wanted = [name for name in versions if name in installed and name not in _NOT_REPLAYED]
    others = []
    for name in wanted:
        version = installed[name]
        if versions[name] and versions[name] != version:
            others.append(f"{name} {version} instead of {versions[name]}")
    return wanted, others


def find_recorded_plugins(events: Sequence[AnyEvent], plugins: Sequence[object]) -> list[object]:
    """Return those plugins that the recorded session had.

    Args:
        events: The events of the recorded session.
        plugins: Names, files, modules or objects.
    """
    opened = events[0]
    assert isinstance(opened, SessionOpened)
    recorded = {name for name, _ in map(_split_version, opened.plugins)}
    return [plugin for plugin in plugins if _find_name(plugin) in recorded]


def _check_names(without: Sequence[str], loaded: Sequence[str]) -> None:
    """Check that the plugins to leave out are among those that a replay loads.

    Raises:
        UsageError: A name is unknown.
    """
    for name in without:
        if name not in loaded:
            raise unknown_name_error("plugin", name, loaded)


def _find_name(plugin: object) -> str:
    """Return the name under which a log contains a plugin."""
    if isinstance(plugin, str):
        return Path(plugin).stem if plugin.endswith(".py") else plugin
    if isinstance(plugin, ModuleType):
        return plugin.__name__.rpartition(".")[2]
    return type(plugin).__name__


def _split_version(text: str) -> tuple[str, str]:
    name, _, version = text.partition(" ")
    return name, version


def _make_environment(base: Path, config: Path, changes: Changes) -> dict[str, str]:
    """Return the environment of a replay, and create its configuration folder.

    Args:
        base: A folder for the home, configuration and data of the replay.
        config: The configuration folder, below that folder.
        changes: What the replay changes.
    """
    environ = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    config.mkdir(parents=True)
    (base / "data").mkdir()
    if changes.model:
        # A live model needs the user's keys and settings, and its calls need the user's rules.
        environ = dict(os.environ)
        for name in _CONFIGURATION:
            if (config_folder() / name).is_file():
                shutil.copy2(config_folder() / name, config)
    else:
        environ["HOME"] = str(base / "home")
    # The user's own files are never changed.
    environ["HILUM_CONFIG"] = str(config)
    environ["HILUM_DATA"] = str(base / "data")
    return environ


def _prepare(recording: Recording, workspace: Path, base: Path, changes: Changes) -> ReplayState:
    """Return what all parts of a replay share.

    Args:
        recording: The recorded session.
        workspace: The folder of the replay, with its files.
        base: A folder for the home, configuration and data of the replay.
        changes: What the replay changes.
    """
    # Messages name the rules of the replay as they name the user's: ~/.config/hilum/…
    config = base / "home" / ".config" / "hilum"
    environ = _make_environment(base, config, changes)
    workspace = workspace.resolve()
    placeholders = PathPlaceholders(workspace, environ["HOME"])
    events = place_events(recording.events, placeholders)
    accesses = {event.seq for event in find_editor_events(events)}
    edits = [edit for edit in recording.header.edits if edit.seq not in accesses]
    log = RecordedLog(events, edits)
    for name, text in find_guest_files(events).items():
        file = config / "agents" / f"{name}.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    programs = GuestPrograms(ContainedFiles(workspace), recording.header.effects, recording.objects)
    actions = UserActions(log, workspace, recording.objects, programs)
    calls = RecordedCalls(
        log,
        actions.wait,
        workspace,
        recording.header.from_log,
        recording.header.effects,
        recording.objects,
        judge_as_recorded=not changes.has_changes,
    )
    files = recording.header.files
    redacted = frozenset(path for path, file in files.items() if file.redacted)
    context = RecordedContext(log, calls, redacted)
    actions.make_state = context.make_state
    editor = None
    if accesses:
        found = [edit for edit in recording.header.edits if edit.seq in accesses]
        editor = PlayedEditor(calls, actions.wait, workspace, recording.objects, found)
    return ReplayState(
        recording,
        workspace,
        environ,
        log,
        placeholders,
        actions,
        calls,
        programs,
        context,
        changes.at,
        settings=log.opened.settings,
        editor=editor,
    )


async def _play(
    state: ReplayState, plugins: Sequence[object], changes: Changes, answers: RecordedAnswers
) -> bool:
    """Play a part of a session: from its beginning, or from where the last part ended.

    Args:
        state: The replay.
        plugins: The plugins of the recorded session.
        changes: What this part changes.
        answers: The answers of the recorded models.

    Returns:
        Whether the session is over.
    """
    plugins = [RecordedGuests(state.log) if name == GUEST_PLUGIN else name for name in plugins]
    state.calls.judge_as_recorded = not changes.has_changes
    state.calls.match_other_ids = bool(changes.model)
    state.actions.changes_model = not changes.model
    names: list[object] = [name for name in plugins if name not in changes.without]
    if changes.model:
        names.append("models")
    settings = _merge_settings(state, names, changes)
    await _add_rules(state.environ, changes.rules)
    async with _open(state, names, changes, settings) as kernel:
        kernel.router.roles.setdefault("default", changes.model or _first_model(state))
        kernel.router.replace(RecordedProvider(PROVIDER, answers))
        if not changes.model:
            for provider in {name.partition("/")[0] for name in _model_names(state)}:
                kernel.router.replace(RecordedProvider(provider, answers))
        if changes.has_changes:
            answers.ignore_notes()
        kernel.run_tool = state.calls.run_tool
        state.context.begin_part(_find_context_changes(state, changes))
        kernel.adapt_prompt = state.context.restore
        kernel.adapt_reminders = state.context.restore_reminders
        async with kernel.open_session(
            state.workspace,
            resume=state.session,
            kind=state.log.opened.kind,
            model=changes.model or None,
        ) as session:
            is_resumed = bool(state.session)
            state.session = session.id
            answers.agents = session.agents
            state.calls.add_missing_tools(session)
            if is_resumed and state.resumes:
                session.resume()
            is_over, reopened = await _run_part(state, session)
    if reopened is not None:
        await state.reopen(reopened)
    return is_over


def _merge_settings(
    state: ReplayState, names: Sequence[object], changes: Changes
) -> dict[str, object]:
    """Return the settings of a part: the recorded ones, and those that the replay changes.

    Args:
        state: The replay.
        names: The plugins of this part.
        changes: What this part changes.
    """
    opened = state.log.opened
    first = {"mode": opened.mode, "approve": opened.approve, "model": opened.model}
    settings: dict[str, object] = {name: value for name, value in first.items() if value}
    if state.log.turns:
        settings["turns"] = state.log.turns
    settings.update(_choose_settings(state.settings, names))
    settings.update(changes.settings)
    return settings


async def _run_part(state: ReplayState, session: Session) -> tuple[bool, SessionReopened | None]:
    """Repeat what the user did, until the recorded session ends or the part does.

    Returns:
        Whether the session is over, and the event with which the recorded session was opened again
        if this is what ends the part.
    """
    is_over = False
    reopened: SessionReopened | None = None
    async with trio.open_nursery() as nursery:

        async def repeat() -> None:
            nonlocal is_over, reopened
            reopened = await state.actions.repeat(session, state.calls)
            is_over = reopened is None
            nursery.cancel_scope.cancel()

        async def stop_at_event() -> None:
            await state.reached.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(repeat)
        nursery.start_soon(stop_at_event)
    return is_over, reopened


async def _copy_session(store: MemoryStore, session: str, last: int) -> MemoryStore:
    """Return a store with the events of a session up to one of them."""
    copied = MemoryStore()
    log = await copied.create(await store.info(session))
    events = await read_events(store, session)
    log.append(events[:last])
    await log.close()
    return copied


def _find_context_changes(state: ReplayState, changes: Changes) -> ContextChanges | None:
    """Return what a part of a replay changes about the plugins that gather context."""
    if not changes.has_changes:
        return None
    recorded = {name for name, _ in map(_split_version, state.log.opened.plugins)}
    return ContextChanges(
        added=frozenset(map(_find_name, changes.plugins)) - recorded,
        removed=frozenset(changes.without),
        configured=frozenset(key.partition(".")[0] for key in changes.settings if "." in key),
    )


def _choose_settings(
    recorded: Mapping[str, object], plugins: Sequence[object]
) -> dict[str, object]:
    """Return the recorded settings of the kernel and of the plugins that a replay loads.

    Time limits of the kernel are left out: a replay does not wait as long as the recorded session.
    """
    sections = set(map(_find_name, plugins))
    chosen = {}
    for key, value in recorded.items():
        section, _, rest = key.partition(".")
        if key not in _TIME_LIMITS and (not rest or section in sections):
            chosen[key] = value
    return chosen


@asynccontextmanager
async def _open(
    state: ReplayState, names: Sequence[object], changes: Changes, settings: Mapping[str, object]
) -> AsyncIterator[Kernel]:
    """Open a kernel that is isolated from this machine, except for its programs."""
    editors = [] if state.editor is None else [state.editor]
    async with open_kernel(
        [*names, state.calls, *editors, *changes.plugins],
        settings=settings,
        workspace=state.workspace,
        store=state.store,
        environ=state.environ,
    ) as kernel:
        _check_settings(kernel, state.settings)
        yield kernel


def _check_settings(kernel: Kernel, recorded: Mapping[str, object]) -> None:
    """Check that a recording sets nothing that extends what the agent may do.

    Raises:
        UsageError: The recording was written by hand, or a plugin now protects the setting.
    """
    for row in kernel.explain():
        if row.key in recorded and not row.recorded:
            raise UsageError(
                f"The recording sets {row.key}, which only the user may set.",
                code=E_BAD_ARGS,
                hint="Export the session again, or remove the setting from its first event.",
            )


def _model_names(state: ReplayState) -> list[str]:
    names = [*state.log.models, state.log.opened.model, _first_model(state)]
    for event in state.log.events:
        if isinstance(event, SessionChanged) and event.model:
            names.append(event.model)
    return [name for name in names if name]


def _first_model(state: ReplayState) -> str:
    return next(iter(state.log.models), "recorded/model")


async def _add_rules(environ: Mapping[str, str], rules: Sequence[str]) -> None:
    """Add permission rules to the configuration of the replay.

    Raises:
        UsageError: A rule is invalid.
    """
    for rule in rules:
        kind, _, text = rule.partition(" ")
        # The command checks the rule, and keeps the other rules.
        # With -P, no module in the present folder takes the place of hilum's.
        command = [sys.executable, "-P", "-m", "hilum", "permissions", kind, text.strip()]
        done = await trio.run_process(
            command, env=dict(environ), capture_stdout=True, capture_stderr=True, check=False
        )
        if done.returncode:
            problem = done.stderr.decode(errors="replace").strip().removeprefix("hilum: ")
            raise UsageError(
                f"The rule {rule!r} is invalid: {problem}",
                code=E_BAD_ARGS,
                hint="`hilum permissions --help` shows the form of rules.",
            )
