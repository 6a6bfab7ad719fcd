"""A recorded session in a folder: its events, and the files of its workspace before and after.

``session.jsonl`` contains a header and the events, one per line, without secrets and with
placeholders for paths. ``before`` contains the files that the session needs, as they were before
it; ``after`` contains the files that it changed, as they were at its end. ``objects`` contains
other contents, by hash.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec
from hilum import UsageError, __version__, make_redactor
from hilum.errors import E_BAD_ARGS, E_FILE_NOT_FOUND, E_STORE
from hilum.events import AnyEvent, decode, encode

from hilum_replay.placeholders import PathPlaceholders

RECORDING_FORMAT = 1
SESSION_FILE = "session.jsonl"
BEFORE = "before"
AFTER = "after"
OBJECTS = "objects"
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


def save_recording(recording: Recording, folder: Path) -> None:
    """Write a recording to a folder, which is created."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = ((BEFORE, recording.before), (AFTER, recording.after), (OBJECTS, recording.objects))
    digests = {}
    for name, files in contents:
        for path, data in files.items():
            place = folder / name / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            digests[f"{name}/{path}"] = _digest(data)
    header = msgspec.structs.replace(recording.header, count=len(recording.events), digests=digests)
    lines = [msgspec.json.encode(header)]
    lines += [encode(event) for event in recording.events]
    (folder / SESSION_FILE).write_bytes(b"\n".join(lines) + b"\n")


def load_recording(folder: Path) -> Recording:
    """Read a recording from a folder.

    Raises:
        UsageError: There is no recording (``E_FILE_NOT_FOUND``), it is damaged, a file is missing
            or was changed, or a newer version of hilum wrote it (``E_STORE``).
    """
    file = folder / SESSION_FILE
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        message = f"Cannot read the recorded session {file}: {error.strerror}."
        raise UsageError(message, code=E_FILE_NOT_FOUND, hint=_RECORD_AGAIN) from None
    if not lines:
        raise _damaged_error(file, 1, "the file is empty")
    header = _read_header(file, lines[0])
    events = []
    for number, line in enumerate(lines[1:], 2):
        try:
            event = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if _is_newer(header.hilum):
                raise _newer_error(file, f"hilum {header.hilum}") from None
            raise _damaged_error(file, number, str(error)) from None
        if event.seq != number - 1:
            problem = f"event {number - 1} is missing"
            raise _damaged_error(file, number, problem)
        events.append(event)
    if not events:
        raise _damaged_error(file, 2, "it has no events")
    if header.count > len(events):
        problem = f"the last {header.count - len(events)} of {header.count} events are missing"
        raise _damaged_error(file, len(lines) + 1, problem)
    found = {}
    for name in (BEFORE, AFTER, OBJECTS):
        files = _read_files(folder / name)
        if header.digests:
            # Other programs may have added files, for example caches.
            files = {
                path: data for path, data in files.items() if f"{name}/{path}" in header.digests
            }
        found[name] = files
    _check_digests(folder, header, found)
    return Recording(header, tuple(events), found[BEFORE], found[AFTER], found[OBJECTS])


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _check_digests(folder: Path, header: Header, found: Mapping[str, Mapping[str, bytes]]) -> None:
    """Check that the files of a recording are as they were written.

    Raises:
        UsageError: A file is missing or was changed.
    """
    for listed, digest in header.digests.items():
        name, _, path = listed.partition("/")
        data = found.get(name, {}).get(path)
        if data is None:
            raise UsageError(
                f"The recorded session {folder} lacks the file {listed}.",
                code=E_STORE,
                hint=f"Restore the file. {_RECORD_AGAIN}",
            )
        if _digest(data) != digest:
            raise UsageError(
                f"{folder / listed} was changed after the session was recorded.",
                code=E_STORE,
                hint="Restore the file (git must not convert its line endings). " + _RECORD_AGAIN,
            )


class _FormatOnly(msgspec.Struct):
    """The part of a header that every version has."""

    format: int


def _read_header(file: Path, line: bytes) -> Header:
    try:
        version = msgspec.json.decode(line, type=_FormatOnly).format
        if version > RECORDING_FORMAT:
            raise _newer_error(file, f"format {version}")
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged_error(file, 1, str(error)) from None
    listed = [
        *header.files,
        *header.folders,
        *header.links,
        *(os.path.normpath(Path(path).parent / to) for path, to in header.links.items()),
        *header.deleted,
        *(edit.path for edit in header.edits),
    ]
    for edits in header.effects.values():
        listed += [edit.path for edit in edits]
    for path in listed:
        # A recording comes from somebody else, and its replay must write only below its folder.
        if path.startswith("/") or ".." in Path(path).parts:
            raise _damaged_error(file, 1, f"the path {path!r} leads out of the workspace")
    return header


def _read_files(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


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
