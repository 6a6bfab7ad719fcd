"""A recorded session in a folder: its events, and the files of its workspace before and after.

``session.jsonl`` contains a header and the events, one per line, without secrets and with
placeholders for paths. ``before`` contains the files that the session needs, as they were before
it; ``after`` contains the files that it changed, as they were at its end. ``objects`` contains
other contents, by hash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec
from hilum import ToolError, UsageError, __version__, make_redactor, walk_folders
from hilum.errors import E_BAD_ARGS, E_FILE_NOT_FOUND, E_STORE
from hilum.events import AnyEvent, SessionOpened, decode, encode

from hilum_replay.placeholders import PathPlaceholders
from hilum_replay.read_limits import MAX_FILE_SIZE, find_count_problem, find_depth_problem
from hilum_replay.sessions.contained_files import (
    ContainedFiles,
    find_link_above,
    find_link_problem,
    find_path_problem,
)

RECORDING_FORMAT = 1
SESSION_FILE = "session.jsonl"
BEFORE = "before"
AFTER = "after"
OBJECTS = "objects"
# An export keeps 20 MB of different contents in files of 1 MB; equal contents count once. Without
# their secrets, files may be longer.
MAX_CONTENT_SIZE = 4_000_000
MAX_CONTENTS_SIZE = 200_000_000
MAX_CONTENTS = 20_000
MAX_LINKS = 2_000
# Unix times of the years 1970 to 9890, for which all systems have dates.
_MAX_TIME = 250_000_000_000.0
_RECORD_AGAIN = "Export the session again: `hilum sessions export ID --test NAME`."


class RecordedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of the workspace before the session.

    Attributes:
        mode: Permission bits.
        age: Seconds between the last change of the file and the beginning of the session.
        redacted: Whether secrets in the file were replaced, so that its content differs.
    """

    mode: int = 0o644
    age: float = 0.0
    redacted: bool = False


class FileEdit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of a file that the session itself did not make, such as an edit of the user.

    Without ``content``, ``folder`` and ``missing``, the file or folder was deleted.

    Attributes:
        seq: Sequence number of the event before which the change was made.
        path: Path relative to the workspace.
        content: Name of the content in ``objects``.
        mode: Permission bits of the file; 0 if they are not known.
        folder: Whether a folder was created.
        missing: Why the recording does not contain the change, which a replay cannot repeat.
    """

    seq: int
    path: str
    content: str = ""
    mode: int = 0
    folder: bool = False
    missing: str = ""


class Header(msgspec.Struct, frozen=True):
    """The first line of ``session.jsonl``.

    Attributes:
        format: Version of the format.
        hilum: Version of hilum that wrote the recording.
        title: Title of the session.
        files: The files in ``before``, by path.
        folders: Folders that existed before the session although ``before`` has no file in them.
        links: Links in the workspace before the session, and the paths to which they lead.
        deleted: Paths of files that the session deleted.
        edits: Changes of files that the session did not make, in order.
        effects: What a call that is answered from the log does to files, by ``agent/call``.
        from_log: Why calls are answered from the log, by ``agent/call``.
        left_out: Why files are not in the recording, by path.
        redacted: Names of the secrets that were replaced.
        requests: The messages of each request, in short, by the sequence number of its answer; see
            ``describe_shape``.
        count: Number of events; 0 in recordings of earlier versions.
        digests: SHA-256 digests of the recorded files, by path relative to the recording; empty in
            recordings of earlier versions.
    """

    format: int = RECORDING_FORMAT
    hilum: str = __version__
    title: str = ""
    files: dict[str, RecordedFile] = {}
    folders: tuple[str, ...] = ()
    links: dict[str, str] = {}
    deleted: tuple[str, ...] = ()
    edits: tuple[FileEdit, ...] = ()
    effects: dict[str, tuple[FileEdit, ...]] = {}
    from_log: dict[str, str] = {}
    left_out: dict[str, str] = {}
    redacted: tuple[str, ...] = ()
    requests: dict[str, str] = {}
    count: int = 0
    digests: dict[str, str] = {}


class Recording(msgspec.Struct, frozen=True):
    """A recorded session.

    Attributes:
        header: What the events do not contain.
        events: All events of the session, in order, with the paths of the recording machine or
            with placeholders.
        before: Contents of files before the session, by path.
        after: Contents of changed files at the end, by path.
        objects: Other contents, by name.
    """

    header: Header
    events: tuple[AnyEvent, ...]
    before: dict[str, bytes] = {}
    after: dict[str, bytes] = {}
    objects: dict[str, bytes] = {}


def clean_events(
    events: Sequence[AnyEvent], placeholders: PathPlaceholders
) -> tuple[tuple[AnyEvent, ...], tuple[str, ...]]:
    """Return events without secrets and with placeholders, and the names of the secrets."""
    redact = make_redactor()
    names: dict[str, None] = {}
    cleaned = []
    for event in events:
        line = encode(event).decode()
        without = redact(line, guess=False)
        if without != line:
            names.update(dict.fromkeys(re.findall(r"\[REDACTED:(\w+)\]", without)))
        cleaned.append(decode(placeholders.insert_in_json(without)))
    return tuple(cleaned), tuple(names)


def place_events(
    events: Sequence[AnyEvent], placeholders: PathPlaceholders
) -> tuple[AnyEvent, ...]:
    """Return events with the paths of this machine in place of placeholders."""
    return tuple(decode(placeholders.resolve_in_json(encode(event).decode())) for event in events)


def list_contents(recording: Recording) -> dict[str, bytes]:
    """Return the contents of the files of a recording, by path relative to its folder."""
    contents = ((BEFORE, recording.before), (AFTER, recording.after), (OBJECTS, recording.objects))
    found = {}
    for name, files in contents:
        found.update({f"{name}/{path}": data for path, data in files.items()})
    return found


def encode_log(recording: Recording) -> bytes:
    """Return the content of ``session.jsonl``.

    Raises:
        UsageError: The recording is so large that it could not be read again.
    """
    contents = list_contents(recording)
    digests = {path: _digest(data) for path, data in contents.items()}
    header = msgspec.structs.replace(recording.header, count=len(recording.events), digests=digests)
    lines = [msgspec.json.encode(header)]
    lines += [encode(event) for event in recording.events]
    log = b"\n".join(lines) + b"\n"
    problem = find_count_problem(log)
    if len(log) > MAX_FILE_SIZE:
        problem = f"its log has more than {MAX_FILE_SIZE:,} bytes"
    elif len(contents) > MAX_CONTENTS or len(header.links) > MAX_LINKS:
        problem = f"it has more than {MAX_CONTENTS:,} files or {MAX_LINKS:,} links"
    elif max(map(len, contents.values()), default=0) > MAX_CONTENT_SIZE:
        problem = f"a file has more than {MAX_CONTENT_SIZE:,} bytes"
    elif sum(map(len, contents.values())) > MAX_CONTENTS_SIZE:
        problem = f"its files have more than {MAX_CONTENTS_SIZE:,} bytes"
    if problem:
        raise UsageError(
            f"The session is too large for a recording: {problem}.",
            code=E_BAD_ARGS,
            hint="Leave files out with --without, or export a shorter session.",
        )
    return log


def save_recording(recording: Recording, folder: Path) -> None:
    """Write a recording to a folder, which is created.

    Raises:
        UsageError: The recording is too large.
        ToolError: A file cannot be written below the folder.
    """
    log = encode_log(recording)
    folder.mkdir(parents=True, exist_ok=True)
    files = ContainedFiles(folder)
    for path, data in list_contents(recording).items():
        files.write(path, data)
    files.write(SESSION_FILE, log)


def load_recording(folder: Path) -> Recording:
    """Read a recording from a folder.

    Raises:
        UsageError: There is no recording (``E_FILE_NOT_FOUND``), it is damaged, a file is missing
            or was changed, or a newer version of hilum wrote it (``E_STORE``).
    """
    file = folder / SESSION_FILE
    files = ContainedFiles(folder)
    try:
        log = files.read(SESSION_FILE, MAX_FILE_SIZE)
    except ToolError as error:
        message = f"Cannot read the recorded session {file}: {error.message}"
        code = E_FILE_NOT_FOUND if error.code == E_FILE_NOT_FOUND else E_STORE
        raise UsageError(message, code=code, hint=_RECORD_AGAIN) from None
    too_many = find_count_problem(log)
    if too_many:
        raise _damaged_error(file, 1, too_many)
    lines = log.splitlines()
    if not lines:
        raise _damaged_error(file, 1, "the file is empty")
    header = _read_header(file, lines[0])
    events = []
    for number, line in enumerate(lines[1:], 2):
        too_deep = find_depth_problem(line)
        if too_deep:
            raise _damaged_error(file, number, too_deep)
        try:
            event = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if _is_newer(header.hilum):
                raise _newer_error(file, f"hilum {header.hilum}") from None
            raise _damaged_error(file, number, str(error)) from None
        if event.seq != number - 1:
            problem = f"event {number - 1} is missing"
            raise _damaged_error(file, number, problem)
        if not 0 <= event.at <= _MAX_TIME:
            raise _damaged_error(file, number, f"{event.at:g} is not a time")
        events.append(event)
    if not events:
        raise _damaged_error(file, 2, "it has no events")
    if not isinstance(events[0], SessionOpened):
        raise _damaged_error(file, 2, "the session is not opened")
    if header.count > len(events):
        problem = f"the last {header.count - len(events)} of {header.count} events are missing"
        raise _damaged_error(file, len(lines) + 1, problem)
    found = _read_contents(folder, files, header)
    _check_contents(file, header, found)
    return Recording(header, tuple(events), found[BEFORE], found[AFTER], found[OBJECTS])


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _read_contents(
    folder: Path, files: ContainedFiles, header: Header
) -> dict[str, dict[str, bytes]]:
    """Read the files of a recording, by the name of their folder and by path.

    Raises:
        UsageError: A file is missing, was changed, or is no regular file, or all are too large.
    """
    # Other programs may have added files, for example caches.
    listed = header.digests or dict.fromkeys(_list_files(folder), "")
    if len(listed) > MAX_CONTENTS:
        raise _damaged_error(
            folder / SESSION_FILE, 1, f"the recording has more than {MAX_CONTENTS:,} files"
        )
    found: dict[str, dict[str, bytes]] = {BEFORE: {}, AFTER: {}, OBJECTS: {}}
    left = MAX_CONTENTS_SIZE
    for place, digest in listed.items():
        name, _, path = place.partition("/")
        try:
            data = files.read(place, min(MAX_CONTENT_SIZE, left))
        except ToolError as error:
            problem = f"lacks the file {place}"
            if error.code != E_FILE_NOT_FOUND:
                problem = f"has a file that cannot be read: {error.message.rstrip('.')}"
            raise UsageError(
                f"The recorded session {folder} {problem}.",
                code=E_STORE,
                hint=f"Restore the file. {_RECORD_AGAIN}",
            ) from None
        if digest and _digest(data) != digest:
            raise UsageError(
                f"{folder / place} was changed after the session was recorded.",
                code=E_STORE,
                hint="Restore the file (git must not convert its line endings). " + _RECORD_AGAIN,
            )
        left -= len(data)
        found[name][path] = data
    return found


def _list_files(folder: Path) -> list[str]:
    """Return the regular files of a recording without digests, at most ``MAX_CONTENTS`` and one."""
    found: list[str] = []
    for name in (BEFORE, AFTER, OBJECTS):
        for parent, folders, files in walk_folders(folder / name):
            folders.sort()
            for file in sorted(files):
                place = Path(parent, file)
                if not place.is_symlink() and place.is_file():
                    found.append(place.relative_to(folder).as_posix())
                if len(found) > MAX_CONTENTS:
                    return found
    return found


class _FormatOnly(msgspec.Struct):
    """The part of a header that every version has."""

    format: int


def _read_header(file: Path, line: bytes) -> Header:
    too_deep = find_depth_problem(line)
    if too_deep:
        raise _damaged_error(file, 1, too_deep)
    try:
        version = msgspec.json.decode(line, type=_FormatOnly).format
        if version > RECORDING_FORMAT:
            raise _newer_error(file, f"format {version}")
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged_error(file, 1, str(error)) from None
    _check_paths(file, header)
    for path, known in header.files.items():
        if not abs(known.age) <= _MAX_TIME:
            raise _damaged_error(file, 1, f"the age of {path!r} is not a number of seconds")
    return header


def _check_paths(file: Path, header: Header) -> None:
    """Check that the paths in a header are below the workspace.

    A recording comes from somebody else, and its replay must write only below its folder.

    Raises:
        UsageError: A path is not valid, leads out of the workspace, or leads through a link.
    """
    for place in header.digests:
        name, _, path = place.partition("/")
        if name not in (BEFORE, AFTER, OBJECTS):
            raise _damaged_error(file, 1, f"{place!r} is not a file of a recording")
        _check_path(file, path)
    edits = [*header.edits]
    for found in header.effects.values():
        edits += found
    for path in (*header.deleted, *(edit.path for edit in edits)):
        _check_path(file, path)
    if len(header.links) > MAX_LINKS:
        raise _damaged_error(file, 1, f"it has more than {MAX_LINKS:,} links")
    # Everything else is there when the links are made.
    existing = {*header.files, *header.folders}
    for place in header.digests:
        if place.startswith(f"{BEFORE}/"):
            existing.add(place.removeprefix(f"{BEFORE}/"))
    for path in (*existing, *header.links):
        _check_path(file, path)
        link = find_link_above(path, header.links)
        if link:
            raise _damaged_error(file, 1, f"the path {path!r} leads through a link, {link!r}")
    for path in header.links:
        problem = find_link_problem(path, header.links)
        if path in existing:
            problem = "is a link and something else"
        if problem:
            raise _damaged_error(file, 1, f"the path {path!r} {problem}")


def _check_path(file: Path, path: str) -> None:
    problem = find_path_problem(path)
    if problem:
        raise _damaged_error(file, 1, f"the path {path[:200]!r} {problem}")


def _check_contents(file: Path, header: Header, found: Mapping[str, Mapping[str, bytes]]) -> None:
    """Check that a recording has the contents that its changes of files need.

    Raises:
        UsageError: A content is missing.
    """
    edits = [*header.edits]
    for effects in header.effects.values():
        edits += effects
    for edit in edits:
        if edit.content and not edit.missing and edit.content not in found[OBJECTS]:
            raise _damaged_error(file, 1, f"the content of {edit.path!r} is missing")


def _is_newer(version: str) -> bool:
    return _numbers(version) > _numbers(__version__)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _newer_error(file: Path, what: str) -> UsageError:
    return UsageError(
        f"{file} was written by a newer version of hilum ({what}).",
        code=E_STORE,
        hint="Update hilum, or export the session again with this version.",
    )


def _damaged_error(file: Path, line: int, problem: str) -> UsageError:
    message = f"{file} is damaged at line {line}: {problem}."
    return UsageError(message, code=E_STORE, hint=_RECORD_AGAIN)


def check_ended(events: Sequence[AnyEvent], session: str) -> None:
    """Check that a session has events and that all its runs have ended.

    Raises:
        UsageError: The session cannot be replayed.
    """
    waiting: dict[str, None] = {}
    for event in events:
        tag = type(event).__name__
        if tag in ("PromptQueued", "RunStarted", "RunRetried"):
            waiting[event.run] = None
        elif tag == "RunEnded":
            waiting.pop(event.run, None)
    if waiting:
        raise UsageError(
            f"A run of session {session} has not ended.",
            code=E_BAD_ARGS,
            hint="Wait for its end, or resume and stop it: `hilum run --resume ID`.",
        )
    if not any(type(event).__name__ == "RunEnded" for event in events):
        message = f"Session {session} has no run that could be replayed."
        raise UsageError(message, code=E_BAD_ARGS, hint="Choose another session.")
