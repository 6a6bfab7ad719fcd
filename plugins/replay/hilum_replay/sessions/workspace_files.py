"""The files that a session needs, as they were before it, and those that it changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

import attrs
import msgspec
from hilum import Redactor, ToolError, find_content_policy, walk_folders
from hilum.errors import E_READBACK_FAIL
from hilum.events import (
    AnyEvent,
    CallDone,
    CallStarted,
    ModelAnswered,
    PluginEvent,
    PromptQueued,
    SessionOpened,
)
from hilum.messages import ToolCall
from hilum_files.journal.records import CHANGED, Change, Record, read_record, unspell_path
from hilum_files.journal.tree import HILUM_FOLDER, LEFT_OUT
from hilum_files.journal.tree_entries import Node

from hilum_replay.sessions.comparison import Difference
from hilum_replay.sessions.contained_files import (
    ContainedFiles,
    find_link_above,
    find_link_problem,
    find_path_problem,
)
from hilum_replay.sessions.git_files import IGNORE_FILE, GitFiles
from hilum_replay.sessions.guest_log import GUEST_PLUGIN
from hilum_replay.sessions.recorded_editor import EditorEvent, find_editor_events
from hilum_replay.sessions.recording import FileEdit, RecordedFile
from hilum_replay.sessions.whole_reads import WholeRead, find_whole_reads
from hilum_replay.text_diff import diff_texts

FILE_LIMIT = 1_000_000
# Bytes of all files before and after the session, and of all other contents.
TOTAL_LIMIT = 20_000_000
MAX_FILES = 2_000
MAX_LISTED = 20
NOT_KEPT = "the journal does not have its content"
NOT_UNICODE = "its name is not valid Unicode"
OUTSIDE = "a link leads out of the workspace"
NO_GIT = "git, which knows the ignored files in it, does not run"
IN_THE_WAY = "it is a link and something else"
# What plugins read when a session is opened: rules, skills, agents and settings.
_INSTRUCTIONS = (
    "AGENTS.md CLAUDE.md GEMINI.md README.md pyproject.toml setup.cfg package.json .hilum .agents"
    " .claude .cursor .github/copilot-instructions.md"
).split()
# Parameters with paths of tools that do not declare which paths they read.
_PATH_PARAMETERS = (
    "path paths file files file_path file_paths filename folder folders directory".split()
)
GetContent = Callable[[str], bytes | None]


@attrs.define
class WorkspaceFiles:
    """The files of a recorded session; the attributes are those of ``Header`` and ``Recording``."""

    before: dict[str, bytes] = attrs.field(factory=dict)
    after: dict[str, bytes] = attrs.field(factory=dict)
    objects: dict[str, bytes] = attrs.field(factory=dict)
    files: dict[str, RecordedFile] = attrs.field(factory=dict)
    folders: list[str] = attrs.field(factory=list)
    links: dict[str, str] = attrs.field(factory=dict)
    deleted: list[str] = attrs.field(factory=list)
    edits: list[FileEdit] = attrs.field(factory=list)
    effects: dict[str, list[FileEdit]] = attrs.field(factory=dict)
    left_out: dict[str, str] = attrs.field(factory=dict)
    redacted: set[str] = attrs.field(factory=set)


class _SizeLimit:
    """A limit for the size of all contents; equal contents count once."""

    def __init__(self, total: int) -> None:
        self._left = total
        self._digests: set[bytes] = set()

    def admit(self, data: bytes) -> bool:
        """Return whether a content may be kept, and count it."""
        digest = sha256(data).digest()
        if digest in self._digests:
            return True
        if len(data) > min(FILE_LIMIT, self._left):
            return False
        self._digests.add(digest)
        self._left -= len(data)
        return True


class FileCollector:
    """A collector of the files of one session. Its methods block.

    Args:
        events: The events of the session.
        root: The workspace.
        get_content: A function that returns a content of the journal by its hash.
        redact: A function that removes secrets from a text.
        without: Patterns of paths, relative to the workspace, that are left out.
    """

    def __init__(
        self,
        events: Sequence[AnyEvent],
        root: Path,
        get_content: GetContent,
        redact: Redactor,
        without: Sequence[str] = (),
    ) -> None:
        self._without = tuple(without)
        self._events = events
        self._root = root
        self._get_content = get_content
        self._redact = redact
        self._files_limit = _SizeLimit(TOTAL_LIMIT)
        # Most calls run again, so that their contents are not needed in the end.
        self._objects_limit = _SizeLimit(TOTAL_LIMIT)
        self._policy = find_content_policy()
        self._found = WorkspaceFiles()
        self._made: set[str] = set()
        # What is at the paths that the session changed, after its last change.
        self._states: dict[str, Node | None] = {}
        self._last_runs: dict[str, str] = {}
        # The numbers of the events with the last change at each path.
        self._changed: dict[str, int] = {}
        # The contents that results of calls show, by hash.
        self._read: dict[str, bytes] = {}
        # The unsaved texts in the editor.
        self._unsaved: dict[str, str] = {}
        # The agent and the call for which the editor was last asked to write a file.
        self._writes: dict[str, tuple[str, str]] = {}
        # The numbers of the answers that made a call, by agent and call.
        self._answers: dict[tuple[str, str], list[int]] = {}
        for event in events:
            for call in event.message.calls if isinstance(event, ModelAnswered) else ():
                self._answers.setdefault((event.agent, call.id), []).append(event.seq)
        # The agents and the calls that found another content than they had written.
        self._unverified = {
            (event.agent, event.result.call_id)
            for event in events
            if isinstance(event, CallDone) and event.result.code == E_READBACK_FAIL
        }
        self._prompts = {
            event.run: event.seq for event in events if isinstance(event, PromptQueued)
        }
        opened = events[0]
        assert isinstance(opened, SessionOpened)
        self._began = opened.at
        self._ended = events[-1].at
        self._records = _read_records(events)
        self._git = GitFiles(root, opened.at)

    def collect(self) -> WorkspaceFiles:
        """Collect the files."""
        states = self._states
        found: list[Record | EditorEvent | WholeRead] = [
            *self._records,
            *find_editor_events(self._events),
            *find_whole_reads(self._events),
        ]
        found.sort(key=lambda each: each.seq)
        for record in found:
            if isinstance(record, WholeRead):
                self._follow_read(record)
                continue
            if isinstance(record, EditorEvent):
                self._follow_editor(record)
                continue
            for change in record.changes:
                self._follow(record, change, states)
        for path, node in states.items():
            self._keep_end(path, node)
            self._keep_folders(path)
        for path in self._find_read_paths():
            self._keep_unchanged(path)
        self._found.edits.sort(key=lambda edit: edit.seq)
        self._leave_out_links()
        return self._found

    def _leave_out_links(self) -> None:
        """Leave out the links that a replay would refuse."""
        links = self._found.links
        existing = {*self._found.before, *self._found.folders}
        for path in (*existing, *links):
            is_both = path in existing and path in links
            link = path if is_both else find_link_above(path, links)
            if link:
                self._leave_out(link, IN_THE_WAY)
                del links[link]
        # Without one link, the path of another one may lead elsewhere.
        while leading_out := [path for path in links if find_link_problem(path, links)]:
            for path in leading_out:
                self._leave_out(path, OUTSIDE)
                del links[path]

    def _follow(self, record: Record, change: Change, states: dict[str, Node | None]) -> None:
        """Keep the state before a change, and its effect."""
        path = unspell_path(change.path)
        if self._has_path_problem(path) or self._is_left_out(path):
            return
        call = (record.agent, record.call)
        was_written = self._writes.pop(path, None) == call
        if was_written or self._is_unsaved(path, change.before):
            pass  # the access to the editor shows how the file was
        elif path not in states:
            self._keep_beginning(path, change.before)
            if change.before is None and change.after is not None and change.after.kind == "folder":
                self._made.add(path)
        else:
            self._keep_edit(record, path, change.before)
        if not was_written or call not in self._unverified:
            states[path] = change.after  # otherwise, it is as the editor wrote it
        if not record.is_undo and not record.what:
            self._unsaved.pop(path, None)  # a tool has saved it
        self._last_runs[path] = record.run
        self._changed[path] = record.seq
        edit = self._make_edit(record.seq, path, change.after)
        # A replay repeats an undo itself.
        if not record.is_undo:
            self._found.effects.setdefault(f"{record.agent}/{record.call}", []).append(edit)

    def _follow_read(self, read: WholeRead) -> None:
        """Keep a change by the user that a call found when it read a file."""
        path = read.path
        # A call that ran at the same time may have changed the file before or after the read.
        if path not in self._states or self._changed.get(path, 0) > read.started:
            return
        state = self._states[path] or Node("file", 0o644)
        is_known = read.hash in (state.hash, self._unsaved.get(path))
        if is_known or state.kind != "file" or not state.kept:
            return
        self._read[read.hash] = read.data
        node = Node("file", state.mode, read.hash)
        self._keep_edit(read, path, node)
        self._states[path] = node
        self._last_runs[path] = read.run

    def _load(self, node: Node) -> bytes | None:
        """Return the content of a file; ``None`` if it is not kept."""
        if not node.kept:
            return None
        data = self._read.get(node.hash)
        return self._get_content(node.hash) if data is None else data

    def _keep_edit(
        self, found: Record | EditorEvent | WholeRead, path: str, node: Node | None
    ) -> None:
        """Keep a change that somebody else made before a file was found as it is now."""
        if node == self._states[path] or not _is_file(node, self._states[path]):
            return
        # Somebody else changed the file between two changes of the session: usually the user,
        # before the prompt of the run that found the change.
        seq = found.seq
        if self._last_runs.get(path) != found.run:
            seq = self._prompts.get(found.run, seq)
        elif not isinstance(found, EditorEvent):
            # A snapshot before a command must contain the change already.
            seq = self._find_answer(found)
        edit = self._make_edit(seq, path, node)
        self._found.edits.append(edit)
        if edit.missing:
            self._leave_out(path, edit.missing)

    def _is_unsaved(self, path: str, node: Node | None) -> bool:
        """Return whether a change began with a text in the editor, and not with the file."""
        unsaved = self._unsaved.get(path)
        return unsaved is not None and node is not None and node.hash == unsaved

    def _find_answer(self, record: Record | WholeRead) -> int:
        """Return the number of the model's answer with the call that made or found a change."""
        seqs = self._answers.get((record.agent, record.call), [])
        return max((seq for seq in seqs if seq < record.seq), default=record.seq)

    def _follow_editor(self, event: EditorEvent) -> None:
        """Keep a text in the editor, and the file as it was when the editor showed or wrote it."""
        path = event.path
        record = event.record
        if self._has_path_problem(path) or self._is_left_out(path):
            return
        node = record.before if record.does == "write" else record.saved
        if path not in self._states:
            self._keep_beginning(path, node)
        else:
            self._keep_edit(event, path, node)
        self._states[path] = record.saved
        self._last_runs[path] = event.run
        self._changed[path] = event.seq
        if record.does == "write":
            self._writes[path] = (event.agent, record.call)
            # A replay leaves the file as the editor did, also if the write failed.
            self._keep_object(path, record.saved)
        elif record.failure is None:
            self._unsaved.pop(path, None)
            if record.unsaved is not None:
                self._unsaved[path] = record.unsaved
                self._keep_object(path, Node("file", 0, record.unsaved))

    def _keep_object(self, path: str, node: Node | None) -> None:
        """Keep a content that a replay of the editor needs."""
        missing = self._make_edit(0, path, node).missing
        if missing:
            self._leave_out(path, missing)

    def _make_edit(self, seq: int, path: str, node: Node | None) -> FileEdit:
        if node is None:
            return FileEdit(seq, path)
        if node.kind == "folder":
            return FileEdit(seq, path, folder=True)
        if node.kind != "file":
            return FileEdit(seq, path, missing="it is neither a file nor a folder")
        data = self._load(node)
        if data is None:
            return FileEdit(seq, path, missing=NOT_KEPT)
        if not self._objects_limit.admit(data):
            return FileEdit(seq, path, missing=_describe_size(len(data)))
        self._found.objects[node.hash] = self._clean(path, data)
        return FileEdit(seq, path, node.hash, node.mode)

    def _read_node(self, path: str, node: Node) -> bytes | None:
        """Return the content of a node without secrets, or ``None`` if it is not kept."""
        data = self._load(node)
        if data is None:
            self._leave_out(path, NOT_KEPT)
            return None
        return self._clean_if_it_fits(path, data)

    def _clean_if_it_fits(self, path: str, data: bytes) -> bytes | None:
        """Return a content without secrets, or ``None`` if it is too large."""
        if not self._files_limit.admit(data):
            self._leave_out(path, _describe_size(len(data)))
            return None
        return self._clean(path, data)

    def _clean(self, path: str, data: bytes) -> bytes:
        """Return a content without secrets."""
        # Files in other encodings may contain secrets, too.
        text = data.decode(errors="surrogateescape")
        clean = self._redact(text, guess=False)
        if clean == text:
            return data
        self._found.redacted.add(path)
        return clean.encode(errors="surrogateescape")

    def _has_path_problem(self, path: str) -> bool:
        """Return whether a recording cannot contain a path, and leave it out."""
        problem = NOT_UNICODE if not _is_unicode(path) else find_path_problem(path)
        if problem:
            self._leave_out(path, problem)
        return bool(problem)

    def _is_left_out(self, path: str) -> bool:
        """Return whether the user leaves a file out."""
        for pattern in self._without:
            if fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern.rstrip('/')}/*"):
                self._leave_out(path, f"--without {pattern}")
                return True
        return False

    def _leave_out(self, path: str, why: str) -> None:
        self._found.left_out[os.fsencode(path).decode(errors="replace")] = why

    def _keep_beginning(self, path: str, node: Node | None) -> None:
        if node is None or node.kind != "file":
            return
        data = self._read_node(path, node)
        if data is not None:
            self._add(path, data, node.mode, 0.0)

    def _keep_end(self, path: str, node: Node | None) -> None:
        if node is None:
            if path in self._found.before:
                self._found.deleted.append(path)
        elif node.kind == "file":
            data = self._read_node(path, node)
            if data is not None:
                self._found.after[path] = data

    def _keep_folders(self, path: str) -> None:
        """Keep the folders above a changed file that the session did not create."""
        for folder in Path(path).parents:
            name = folder.as_posix()
            if name != "." and name not in self._made and name not in self._found.folders:
                self._found.folders.append(name)

    def _keep_unchanged(self, path: str) -> None:
        """Keep a file that the session did not change."""
        place = self._root / path
        if path in self._states or path in self._found.before:
            return
        if self._has_path_problem(path) or self._is_left_out(path):
            return
        root = _resolve(self._root)
        real = _resolve(place.parent) / place.name
        if not real.is_relative_to(root):
            self._leave_out(path, OUTSIDE)
            return
        if real != root / path:
            self._keep_behind_link(path, real.relative_to(root).as_posix())
            return
        try:
            status = place.lstat()
            if stat.S_ISLNK(status.st_mode):
                self._keep_link(path, place.readlink())
            elif stat.S_ISREG(status.st_mode):
                self._keep_unchanged_file(path, status)
        except (FileNotFoundError, NotADirectoryError):
            return  # the call failed in the recorded session, and fails again
        except OSError as error:
            self._leave_out(path, error.strerror or "it cannot be read")
        except ToolError as error:
            self._leave_out(path, error.message.rstrip("."))

    def _keep_unchanged_file(self, path: str, status: os.stat_result) -> None:
        """Keep a regular file.

        Raises:
            ToolError: The file cannot be read.
        """
        if status.st_size > FILE_LIMIT:
            self._leave_out(path, _describe_size(status.st_size))
            return
        data: bytes | None = ContainedFiles(_resolve(self._root)).read(path, FILE_LIMIT)
        if status.st_mtime > self._ended:
            # The content has changed since; git may know the one that the session read.
            data = self._git.read(path)
        if data is None:
            self._leave_out(path, "it was changed after the session")
            return
        clean = self._clean_if_it_fits(path, data)
        if clean is not None:
            self._add(path, clean, status.st_mode, self._began - status.st_mtime)

    def _keep_behind_link(self, path: str, real: str) -> None:
        """Keep a file whose path leads through a link, and the link.

        A recording contains each file only once, at its real path.
        """
        for folder in reversed(Path(path).parents):
            if (self._root / folder).is_symlink():
                self._keep_unchanged(folder.as_posix())
                break
        self._keep_unchanged(real)

    def _keep_link(self, path: str, target: Path) -> None:
        """Keep a link inside of the workspace, and the file to which it leads."""
        root = self._root.resolve()
        real = Path(os.path.realpath(root / Path(path).parent / target))
        if target.is_absolute() or not real.is_relative_to(root) or not _is_unicode(str(target)):
            self._leave_out(path, OUTSIDE)
            return
        self._found.links[path] = str(target)
        inside = real.relative_to(root).as_posix()
        if real.is_file():
            self._keep_unchanged(inside)

    def _add(self, path: str, data: bytes, mode: int, age: float) -> None:
        self._found.before[path] = data
        self._found.files[path] = RecordedFile(
            stat.S_IMODE(mode) or 0o644, round(max(age, 0.0), 3), path in self._found.redacted
        )

    def _find_read_paths(self) -> list[str]:
        """Return the files that calls read, and those in folders that calls searched."""
        files: dict[str, None] = {}
        for event in self._events:
            if isinstance(event, CallStarted):
                for path in self._find_paths_of(event):
                    files.update(dict.fromkeys(self._expand(path)))
        # The agent reads the project's rules and settings as part of its instructions.
        for name in _INSTRUCTIONS:
            files.update(dict.fromkeys(self._expand(name)))
        return list(files)

    def _find_paths_of(self, event: CallStarted) -> Sequence[str]:
        """Return the files and folders that a call may have read."""
        if event.plugin == GUEST_PLUGIN:
            return ()  # its program does not run again
        if event.risk == "execute":
            return (".",)
        if event.paths or event.risk != "read":
            return event.paths
        # Most tools without declared paths read no files, such as `todo_write`.
        named = _find_named_paths(event.call)
        return [path for path in named if os.path.lexists(self._root / path)]

    def _is_inside(self, place: Path) -> bool:
        """Return whether a path is in the workspace, wherever links lead."""
        return _resolve(place).is_relative_to(_resolve(self._root))

    def _expand(self, path: str) -> Iterable[str]:
        """Yield the files at a path, relative to the workspace; none if it is outside."""
        place = Path(os.path.normpath(self._root / path))
        if not place.is_relative_to(self._root):
            if path != "/":
                return
            place = self._root
        if not self._is_inside(place):
            self._leave_out(path, OUTSIDE)
            return
        if not os.path.isdir(place):
            yield place.relative_to(self._root).as_posix()
            return
        yield from self._expand_folder(path, place)

    def _expand_folder(self, path: str, place: Path) -> Iterable[str]:
        """Yield the files in a folder, except for ignored files and files with secrets."""
        visible = self._git.list_files()
        if visible is None and self._has_ignore_file(place):
            self._leave_out(path, NO_GIT)
            return
        count = 0
        for relative in self._walk(place):
            if visible is not None and relative not in visible:
                continue
            why = self._explain_withheld(relative)
            if why:
                self._leave_out(relative, why)
                continue
            count += 1
            if count > MAX_FILES:
                reason = f"the session may have read more than {MAX_FILES:,} files in it"
                self._leave_out(path, reason)
                return
            yield relative

    def _walk(self, place: Path) -> Iterable[str]:
        """Yield the files and links in a folder, relative to the workspace."""
        for folder, names, found in walk_folders(place):
            names[:] = sorted(name for name in names if name not in LEFT_OUT)
            linked = [name for name in names if (Path(folder) / name).is_symlink()]
            for name in sorted([*found, *linked]):
                yield (Path(folder) / name).relative_to(self._root).as_posix()

    def _has_ignore_file(self, place: Path) -> bool:
        """Return whether an ignore file excludes files of a folder."""
        above = [folder for folder in place.parents if folder.is_relative_to(self._root)]
        if any(os.path.lexists(folder / IGNORE_FILE) for folder in above):
            return True
        return any(os.path.basename(path) == IGNORE_FILE for path in self._walk(place))

    def _explain_withheld(self, path: str) -> str:
        """Return why neither searches nor commands read a file; empty if they may."""
        if self._policy is None:
            return ""
        place = _resolve(self._root / path)
        root = _resolve(self._root)
        inside = place.relative_to(root).as_posix() if place.is_relative_to(root) else path
        return self._policy.explain_withheld_file(place, inside)


def _resolve(place: Path) -> Path:
    # Unlike `Path.resolve`, this accepts links that lead to themselves.
    return Path(os.path.realpath(place))


def _find_named_paths(call: ToolCall) -> list[str]:
    """Return the paths in the arguments of a call whose tool does not declare what it reads."""
    try:
        arguments = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        return []
    if not isinstance(arguments, dict):
        return []
    found = []
    for parameter in _PATH_PARAMETERS:
        given = arguments.get(parameter)
        values = given if isinstance(given, list) else [given]
        found += [value for value in values if isinstance(value, str) and value]
    return found


def _read_records(events: Sequence[AnyEvent]) -> list[Record]:
    records = []
    for event in events:
        if isinstance(event, PluginEvent) and event.name == CHANGED:
            record = read_record(event)
            if record is not None:
                records.append(record)
    return records


def _is_unicode(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _describe_size(size: int) -> str:
    return f"it is too large ({size:,} bytes)"


def _is_file(*nodes: Node | None) -> bool:
    return any(node is not None and node.kind == "file" for node in nodes)


def collect_files(
    events: Sequence[AnyEvent],
    root: Path,
    get_content: GetContent,
    redact: Redactor,
    without: Sequence[str] = (),
) -> WorkspaceFiles:
    """Collect the files of a session; see ``FileCollector``."""
    return FileCollector(events, root, get_content, redact, without).collect()


def list_workspace(root: Path) -> set[str]:
    """Return the paths of all files of a workspace that a session may have changed."""
    found = set()
    for folder, names, files in walk_folders(root):
        names[:] = [name for name in names if name not in (*LEFT_OUT, HILUM_FOLDER)]
        for name in files:
            place = Path(folder) / name
            if _is_unicode(name) and not place.is_symlink() and place.is_file():
                found.add(place.relative_to(root).as_posix())
    return found


def compare_files(
    root: Path,
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
    deleted: Iterable[str],
    unknown: Iterable[str] = (),
) -> list[Difference]:
    """Compare the files of a replay with those at the end of the recorded session.

    Args:
        root: The workspace of the replay.
        before: The files before the session.
        after: The changed files at the end.
        deleted: Paths of deleted files.
        unknown: Paths of files whose content at the end is not known.
    """
    expected = {**before, **after}
    for path in deleted:
        expected.pop(path, None)
    found = list_workspace(root)
    files = ContainedFiles(root)
    skipped = set(unknown)
    differences = []
    for path in sorted({*expected, *found} - skipped):
        if path.startswith(f"{HILUM_FOLDER}/"):
            continue
        if path not in found:
            differences.append(Difference("files", f"{path} is missing after the replay"))
        elif path not in expected:
            differences.append(Difference("files", f"{path} was created only in the replay"))
        else:
            differences += _compare_file(path, expected[path], files)
        if len(differences) == MAX_LISTED:
            break
    return differences


def _compare_file(path: str, expected: bytes, files: ContainedFiles) -> list[Difference]:
    """Compare a file of a replay with its expected content."""
    try:
        # A command may have made a file larger than the memory.
        found = files.read(path, max(FILE_LIMIT, 2 * len(expected)))
    except ToolError as error:
        return [Difference("files", f"{path} cannot be compared", lines=(f"+ {error.message}",))]
    if found == expected:
        return []
    lines = diff_texts(expected.decode(errors="replace"), found.decode(errors="replace"), str)
    return [Difference("files", f"{path} has another content", lines=tuple(lines))]
