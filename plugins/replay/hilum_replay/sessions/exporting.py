"""Turns a finished session into a test: a recording, a cassette and a pytest file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import msgspec
import trio
from hilum import UsageError, data_folder, make_redactor, open_temporary_folder
from hilum.errors import E_BAD_ARGS, E_FAILED
from hilum.events import AnyEvent, CallStarted, PluginEvent, SessionOpened
from hilum.messages import ToolCall
from hilum.store import unspell_folder
from hilum_files.journal.content_store import ContentStore
from hilum_files.journal.records import read_record

from hilum_replay.cassette_writer import dumps
from hilum_replay.placeholders import PathPlaceholders
from hilum_replay.recorder import record
from hilum_replay.sessions.another_day import use_another_day
from hilum_replay.sessions.comparison import describe
from hilum_replay.sessions.contained_files import ContainedFiles
from hilum_replay.sessions.guest_log import GUEST_PLUGIN, find_guest_runs, is_program
from hilum_replay.sessions.recorded_editor import list_editor_contents
from hilum_replay.sessions.recording import (
    SESSION_FILE,
    Header,
    Recording,
    check_ended,
    clean_events,
    save_recording,
)
from hilum_replay.sessions.session_test import ReplayOutcome, run_recording
from hilum_replay.sessions.workspace_files import GetContent, collect_files

CASSETTE_FILE = "cassette.toml"
MAX_ATTEMPTS = 3
# Programs whose output depends on the time or the machine, at the beginning of a command. Most of
# them print the same when the session is exported, and something else on another day or machine.
_MACHINE_PROGRAM = re.compile(
    r"(?:^|[;&|(`\n])\s*(date|cal|uptime|hostname|uname|whoami|id|nproc|lscpu|df|free|ps|printenv"
    r"|uuidgen|mktemp)(?=[\s;&|)`]|$)"
)
_TEST = '''\
"""Replays a recorded session: {title}"""

from pathlib import Path

from hilum_replay.sessions.session_test import check_session

RECORDING = Path(__file__).parent / "{name}"


def test_{identifier}(tmp_path: Path) -> None:
    check_session(RECORDING, tmp_path / "workspace")
'''


@attrs.frozen
class Export:
    """An exported session.

    Attributes:
        test: The pytest file.
        folder: The recording.
        recording: Its content.
        outcome: The outcome of the replay that checked the export.
    """

    test: Path
    folder: Path
    recording: Recording
    outcome: ReplayOutcome

    def describe(self) -> str:
        """Return a report for the user: what was written, and what was left out."""
        header = self.recording.header
        lines = [
            f"Wrote {self.test} and {self.folder} ({len(self.recording.events)} events,"
            f" {len(self.recording.before)} files). The test passes: pytest {self.test}"
        ]
        for key, why in header.from_log.items():
            lines.append(f"Answered from the log: {key}: {why}.")
        for path, why in header.left_out.items():
            lines.append(f"Left out: {path}: {why}.")
        for path, file in header.files.items():
            if file.redacted:
                lines.append(f"Secrets were replaced in {path}.")
        if header.redacted:
            lines.append(f"Secrets were replaced in the log: {', '.join(header.redacted)}.")
        for difference in self.outcome.comparison.differences:
            if difference.kind == "environment":
                lines.append(f"Not compared: {difference.title}.")
        return "\n".join(dict.fromkeys(lines))


def find_machine_commands(events: Sequence[AnyEvent]) -> dict[str, str]:
    """Return the calls that run a program about the time or the machine.

    Returns:
        Why each call is answered from the log, by ``agent/call``.
    """
    found = {}
    for event in events:
        if isinstance(event, CallStarted) and event.risk == "execute":
            if event.plugin == GUEST_PLUGIN:
                continue  # all calls of guests are answered from the log
            program = _MACHINE_PROGRAM.search(_read_command(event.call))
            if program is not None:
                why = f"`{program.group(1)}` depends on the time or the machine"
                found[f"{event.agent}/{event.call.id}"] = why
    return found


def _read_command(call: ToolCall) -> str:
    try:
        arguments = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        return ""
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return command if isinstance(command, str) else ""


def open_contents() -> GetContent:
    """Return a function that reads the contents that the file journal keeps."""
    store = ContentStore(data_folder() / "objects")
    return store.get


def make_recording(
    events: Sequence[AnyEvent],
    get_content: GetContent,
    *,
    title: str = "",
    session: str = "",
    without: Sequence[str] = (),
) -> Recording:
    """Create a recording of a finished session. This function blocks.

    Args:
        events: All events of the session.
        get_content: A function that returns a content of the file journal by its hash.
        title: Title of the session.
        session: Id of the session, for messages.
        without: Patterns of paths, relative to the workspace, that are left out.

    Raises:
        UsageError: The session has no finished run.
    """
    check_ended(events, session)
    opened = events[0]
    assert isinstance(opened, SessionOpened)
    root = Path(unspell_folder(opened.workspace))
    redact = make_redactor()
    placeholders = PathPlaceholders(root, Path.home())
    cleaned, redacted = clean_events(events, placeholders)
    files = collect_files(events, root, get_content, redact, without)
    header = Header(
        title=redact(title),
        files=files.files,
        folders=tuple(files.folders),
        links=files.links,
        from_log={**find_guest_runs(events), **find_machine_commands(events)},
        deleted=tuple(files.deleted),
        edits=tuple(files.edits),
        effects={key: tuple(edits) for key, edits in files.effects.items()},
        left_out=files.left_out,
        redacted=redacted,
    )
    return Recording(header, cleaned, files.before, files.after, files.objects)


async def make_repeatable(
    recording: Recording, plugins: Sequence[object] = ()
) -> tuple[Recording, ReplayOutcome]:
    """Replay a recording until all its calls either run again or are answered from the log.

    A call whose result is another one when it runs again is answered from the log.

    Returns:
        The recording with only the contents that it needs, and the outcome of the last replay.
    """
    # The first replay only finds the calls whose result is another one on another day.
    with use_another_day():
        recording = _answer_from_log(recording, await _replay_once(recording, plugins))
    for _ in range(MAX_ATTEMPTS):
        outcome = await _replay_once(recording, plugins)
        found = _answer_from_log(recording, outcome)
        if found == recording:
            break
        recording = found
    answered = {*recording.header.from_log, *outcome.replayed.answered}
    effects = {key: found for key, found in recording.header.effects.items() if key in answered}
    header = msgspec.structs.replace(
        recording.header, effects=effects, requests=outcome.replayed.requests
    )
    used = {edit.content for edit in header.edits} | list_editor_contents(recording.events)
    for edits in effects.values():
        used.update(edit.content for edit in edits)
    objects = {name: data for name, data in recording.objects.items() if name in used}
    return msgspec.structs.replace(recording, header=header, objects=objects), outcome


def _answer_from_log(recording: Recording, outcome: ReplayOutcome) -> Recording:
    """Return a recording that answers the calls from the log that a replay showed to vary."""
    from_log = dict(recording.header.from_log)
    for key in outcome.replayed.changed:
        from_log.setdefault(key, "its result is another one when it runs again")
    if any(difference.kind == "files" for difference in outcome.comparison.differences):
        for key in _find_shared_changes(recording.events):
            from_log.setdefault(key, "it found files that a guest may have changed")
    left_out = dict(recording.header.left_out)
    for key in (*from_log, *outcome.replayed.answered):
        for edit in recording.header.effects.get(key, ()):
            if edit.missing:
                left_out[edit.path] = edit.missing
    header = msgspec.structs.replace(recording.header, from_log=from_log, left_out=left_out)
    return msgspec.structs.replace(recording, header=header)


def _find_shared_changes(events: Sequence[AnyEvent]) -> Iterator[str]:
    """Yield the calls, as ``agent/call``, whose recorded changes a guest's program may have made.

    When a guest is stopped, the next command can find what the guest has changed before.
    """
    for event in events:
        found = read_record(event) if isinstance(event, PluginEvent) else None
        if found is not None and found.changes and any(map(is_program, found.others)):
            yield f"{found.agent}/{found.call}"


async def _replay_once(recording: Recording, plugins: Sequence[object]) -> ReplayOutcome:
    with open_temporary_folder("export") as folder:
        return await run_recording(recording, folder / "workspace", plugins=plugins)


async def export_test(
    events: Sequence[AnyEvent],
    name: str,
    folder: Path,
    *,
    title: str = "",
    session: str = "",
    overwrite: bool = False,
    plugins: Sequence[object] = (),
    without: Sequence[str] = (),
) -> Export:
    """Write a session as a test, which passes as it is written.

    Args:
        events: All events of the session.
        name: Name of the test.
        folder: The folder for the pytest file and the recording.
        title: Title of the session.
        session: Id of the session, for messages.
        overwrite: Whether to replace an earlier test of the same name.
        plugins: Modules and objects that were plugins of the session.
        without: Patterns of paths, relative to the workspace, that are left out.

    Raises:
        UsageError: The session has no finished run, the test exists, or the session cannot be
            replayed (``E_FAILED``); the message shows where the replay differs.
    """
    test, target = _choose_places(name, folder, overwrite=overwrite)

    def make() -> Recording:
        return make_recording(
            events, open_contents(), title=title, session=session, without=without
        )

    recording, outcome = await make_repeatable(await trio.to_thread.run_sync(make), plugins)
    if outcome.comparison.failures:
        raise UsageError(
            f"The replay of session {session} differs from it, so no test was written.\n"
            + describe(outcome.comparison, environment=False),
            code=E_FAILED,
            hint="`hilum replay ID` shows all differences, and `--without PATTERN` leaves files out.",
        )
    await trio.to_thread.run_sync(_write_test, recording, test, target)
    return Export(test, target, recording, outcome)


def _choose_places(name: str, folder: Path, *, overwrite: bool) -> tuple[Path, Path]:
    """Return the paths of the pytest file and of the recording of a test.

    Raises:
        UsageError: The name is invalid, or the test cannot be written there.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w-]*", name):
        raise UsageError(
            f"{name!r} is not the name of a test.",
            code=E_BAD_ARGS,
            hint="Use letters, digits, - and _.",
        )
    test = folder / f"test_{name.replace('-', '_')}.py"
    target = folder / name
    for place in (test, target):
        if place.is_symlink():
            raise UsageError(
                f"{place} is a link, through which no test is written.",
                code=E_BAD_ARGS,
                hint="Choose another name or another folder, or remove the link.",
            )
    if not overwrite and (test.exists() or target.exists()):
        raise UsageError(
            f"{test if test.exists() else target} exists.",
            code=E_BAD_ARGS,
            hint="Choose another name, or replace the test with --force.",
        )
    return test, target


def _write_test(recording: Recording, test: Path, target: Path) -> None:
    """Write the pytest file and the recording of a test. Blocks.

    An earlier test of the same name stays as it was if the new one cannot be written.

    Raises:
        UsageError: The recording is too large, a folder in its place is no recording, or the system
            rejects the files.
        ToolError: A file cannot be written.
    """
    if target.exists() and not (target / SESSION_FILE).is_file():
        raise UsageError(
            f"{target} is no session test, so it is not replaced.",
            code=E_BAD_ARGS,
            hint="Choose another name, or move it away.",
        )
    cassette = record(recording.events, title=recording.header.title, every_request=True)
    folder = target.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(
            prefix=f".{target.name}-", dir=folder, ignore_cleanup_errors=True
        ) as made:
            new = Path(made, "new")
            save_recording(recording, new)
            ContainedFiles(new).write(CASSETTE_FILE, dumps(cassette).encode())
            _replace_folder(new, target, Path(made, "old"))
    except OSError as error:
        raise UsageError(
            f"The test {target.name} cannot be written to {folder}: {error.strerror or error}.",
            code=E_FAILED,
            hint="Choose another folder, or make room in it.",
        ) from error
    heading = " ".join((recording.header.title or target.name).split())[:80]
    # The title comes from a prompt, and must not end the docstring.
    heading = heading.replace("\\", "/").replace('"', "'")
    identifier = target.name.replace("-", "_")
    text = _TEST.format(title=heading, name=target.name, identifier=identifier)
    ContainedFiles(folder).write(test.name, text.encode())


def _replace_folder(new: Path, target: Path, old: Path) -> None:
    """Rename a folder, and move what has its new name to another place.

    Raises:
        OSError: A folder cannot be renamed; the earlier one has its name again.
    """
    if target.exists():
        target.rename(old)
    try:
        new.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise
