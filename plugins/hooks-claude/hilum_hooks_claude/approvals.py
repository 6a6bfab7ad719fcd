"""The user's decisions about the hooks of projects, and the states of all hooks.

The decisions are stored in ``hooks_claude.toml`` beside the user's ``settings.toml``, by the real
path of the project. A project cannot store decisions. An approval covers one hook with the content
that its files had; if a file changes, the hook needs a new approval, and until then a hook that
guards calls refuses them: whoever can change a guard must not be able to switch it off. For the same
reason, a description of each approved hook is stored: while the settings file that contained a guard
cannot be read completely, the guard refuses the calls that it guarded.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import attrs
import msgspec
from hilum import UsageError, config_folder, walk_folders
from hilum.command import escape_line
from hilum.settings import ChangeError, change
from hilum.trust import explain_distrust

from hilum_hooks_claude.hook import PRE_TOOL_USE, Hook
from hilum_hooks_claude.settings_files import SettingsFile

DECISIONS_FILE = "hooks_claude.toml"
APPROVED = "approved"
REFUSED = "refused"
DESCRIBED = "described"
MAX_FILES = 300
MAX_BYTES = 20_000_000
State = Literal[
    "runs", "needs approval", "changed", "cannot be read", "refused", "off", "not supported"
]
_WORD_ENDS = re.compile(r"[\s;|&<>()\"'`=]+")
_PROJECT_REFERENCE = re.compile(r'"?\$\{?CLAUDE_PROJECT_DIR\}?"?/?')
# Programs that run what a file of the project says.
_RUNNERS = frozenset("npm npx pnpm yarn bun bunx make just uv uvx poetry hatch pdm task".split())
# Programs that run the file that is their first argument.
_INTERPRETERS = frozenset(
    "bash sh zsh dash source . node python python3 deno bun ruby perl php tsx exec".split()
)
_MANIFESTS = (
    "package.json",
    "pyproject.toml",
    "Makefile",
    "justfile",
    "Taskfile.yml",
)
_SKIPPED = frozenset({"__pycache__", "node_modules", ".git", ".venv"})
# Scripts and what they load; a file without an ending may be a script, too. Others may be data that
# hooks write.
_CODE_ENDINGS = frozenset(
    {"", ".py", ".sh", ".bash", ".zsh", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".php"}
)


@attrs.frozen
class JudgedHook:
    """A hook with its state.

    Attributes:
        hook: The hook.
        state: Whether it runs.
        reason: Why it does not run, as a sentence; empty if it does.
        files: The files of the project that it executes, as far as its command names them.
        approved: The content of the files that the user approved; empty if there is no approval.
        is_distrusted: Whether the user must first trust the project.
    """

    hook: Hook
    state: State
    reason: str = ""
    files: tuple[str, ...] = ()
    approved: str = ""
    is_distrusted: bool = False

    @property
    def refuses(self) -> bool:
        """Whether calls that the hook guards are denied until the user approves it again."""
        return self.state in ("changed", "cannot be read") and self.hook.guards


class _Description(msgspec.Struct, frozen=True):
    """What is stored about an approved hook, so that it is known without its settings file."""

    event: str
    matcher: str = ""
    command: str = ""
    condition: str = ""
    runs_async: bool = False


@attrs.frozen
class Decisions:
    """The user's decisions about the hooks of projects.

    Attributes:
        approved: The content that was approved, by project and hook.
        refused: The hooks that the user refused, by project, each with its command.
        described: What the approved hooks are, by project and hook, as JSON.
    """

    approved: dict[str, dict[str, str]] = attrs.field(factory=dict)
    refused: dict[str, dict[str, str]] = attrs.field(factory=dict)
    described: dict[str, dict[str, str]] = attrs.field(factory=dict)

    @classmethod
    def load(cls) -> Decisions:
        """Read the decisions. Blocks.

        Raises:
            UsageError: The file cannot be read.
        """
        path = decisions_file()
        if not os.path.lexists(path):
            return cls()
        import tomllib  # needed only by users who have decided about a hook

        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
            return cls(
                _read_table(data, APPROVED),
                _read_table(data, REFUSED),
                _read_table(data, DESCRIBED),
            )
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(
                f"{path} cannot be read: {error}.", hint="Fix or remove the file."
            ) from None


def _read_table(data: Mapping[str, Any], name: str) -> dict[str, dict[str, str]]:
    try:
        return msgspec.convert(data.get(name, {}), dict[str, dict[str, str]])
    except msgspec.ValidationError:
        raise ValueError(f"[{name}] must have a table of texts for each folder") from None


def decisions_file() -> Path:
    """Return the path of the file with the user's decisions."""
    return config_folder() / DECISIONS_FILE


def judge_hooks(root: Path, files: Sequence[SettingsFile], *, enabled: bool) -> list[JudgedHook]:
    """Return the hooks of all settings files with their states. Blocks.

    Args:
        root: The project.
        files: The settings files.
        enabled: Whether hooks run at all (setting ``hooks_claude.enabled``).

    Raises:
        UsageError: The user's decisions cannot be read.
    """
    decisions = Decisions.load()
    real = os.path.realpath(root)
    has_own = any(file.source != "user" and file.hooks for file in files)
    distrust = explain_distrust(root) if has_own else ""
    user_off = any(file.disables_hooks for file in files if file.source == "user")
    judged = []
    for file in files:
        for hook in file.hooks:
            if hook.unsupported:
                judged.append(JudgedHook(hook, "not supported", f"{hook.unsupported}."))
            elif not enabled:
                judged.append(JudgedHook(hook, "off", "hooks_claude.enabled is false."))
            elif file.disables_hooks or user_off:
                judged.append(JudgedHook(hook, "off", "`disableAllHooks` is set."))
            elif hook.source == "user":
                judged.append(JudgedHook(hook, "runs"))
            else:
                judged.append(_judge_project_hook(hook, real, decisions, distrust))
    if enabled and not user_off:
        judged += _find_lost_guards(files, judged, real, decisions)
    return judged


def _find_lost_guards(
    files: Sequence[SettingsFile], judged: Sequence[JudgedHook], root: str, decisions: Decisions
) -> Iterator[JudgedHook]:
    """Yield the approved guards that a mistake in a settings file of the project may hide.

    A guard that is missing although all files can be read has been removed.
    """
    own = [file for file in files if file.source != "user"]
    broken = [file for file in own if file.is_unreadable or file.broken_guards]
    if not broken:
        return
    file = broken[0]
    place = file.broken_guards[0].place if file.broken_guards else file.mistakes[0].place
    reason = f"You approved it, but {place} has a mistake. Correct the file."
    present = {each.hook.identity for each in judged}
    described = decisions.described.get(root, {})
    for identity, content in decisions.approved.get(root, {}).items():
        if identity in present:
            continue
        known = _read_description(described.get(identity, ""))
        hook = Hook(
            file.shown,
            0,
            file.source,
            known.event,
            known.matcher,
            known.command,
            condition=known.condition,
            runs_async=known.runs_async,
            approved_as=identity,
        )
        if hook.guards:
            yield JudgedHook(hook, "cannot be read", reason, approved=content)


def _read_description(text: str) -> _Description:
    """Return what is stored about an approved hook; without it, the hook may guard every call."""
    try:
        return msgspec.json.decode(text, type=_Description)
    except msgspec.DecodeError:
        return _Description(PRE_TOOL_USE, command="a guard")


def _judge_project_hook(hook: Hook, root: str, decisions: Decisions, distrust: str) -> JudgedHook:
    files = tuple(find_executed_files(hook, root))
    if hook.identity in decisions.refused.get(root, {}):
        return JudgedHook(hook, "refused", "You refused it.", files)
    known = decisions.approved.get(root, {}).get(hook.identity, "")
    if not known:
        reason = distrust or "Look at it, then approve it with `hilum hooks approve`."
        return JudgedHook(hook, "needs approval", reason, files, is_distrusted=bool(distrust))
    if distrust:
        return JudgedHook(hook, "changed", distrust, files, known, is_distrusted=True)
    reason = explain_change(files, root, known)
    state: State = "changed" if reason else "runs"
    return JudgedHook(hook, state, reason, files, known)


def judge_again(judged: Sequence[JudgedHook], root: Path) -> list[JudgedHook]:
    """Return hooks that ran with their present states: their files may have changed. Blocks.

    Args:
        judged: The hooks.
        root: The project.
    """
    real = os.path.realpath(root)
    found = []
    for each in judged:
        if each.state == "runs" and each.hook.source != "user":
            files = tuple(find_executed_files(each.hook, real))
            reason = explain_change(files, real, each.approved)
            if reason:
                each = attrs.evolve(each, state="changed", reason=reason, files=files)
        found.append(each)
    return found


def explain_change(files: Iterable[str], root: str, approved: str) -> str:
    """Return why an approval no longer holds; empty if it does. Blocks.

    Args:
        files: The files that the hook executes.
        root: The project.
        approved: The content that was approved.
    """
    try:
        content = hash_content(files, root)
    except UsageError as error:
        return error.message
    if content == approved:
        return ""
    return "A file that it executes has changed. Look at it, then run `hilum hooks approve`."


def find_executed_files(hook: Hook, root: str) -> list[str]:
    """Return the files of the project that a hook's command names, with those beside them. Blocks.

    Scripts use the other files of their folder in ways that no search can find, so the folder of a
    script below ``.claude`` belongs to the hook as a whole.

    Args:
        hook: The hook.
        root: The real path of the project.
    """
    text = " ".join((hook.command, *(hook.arguments or ())))
    words = _WORD_ENDS.split(_PROJECT_REFERENCE.sub(f"{root}/", text))
    found: dict[str, None] = {}
    for before, word in pairwise(["", *words]):
        if word in _RUNNERS:
            names = (os.path.join(root, name) for name in _MANIFESTS)
            found.update(dict.fromkeys(filter(os.path.isfile, names)))
        path = _find_in_project(word, root)
        # Hooks also name files that they only read or write.
        if not path or not (_is_code(path) or before in _INTERPRETERS):
            continue
        found[path] = None
        folder = os.path.dirname(path)
        if folder.startswith(f"{root}/.claude/"):
            found.update(dict.fromkeys(_list_folder(folder)))
    return sorted(found)


def _is_code(path: str) -> bool:
    is_script = os.path.splitext(path)[1] in _CODE_ENDINGS
    return is_script or os.access(path, os.X_OK)


def _find_in_project(word: str, root: str) -> str:
    """Return the file of the project that a word of a command names; empty if there is none."""
    # What follows `$(git rev-parse --show-toplevel)` looks like an absolute path.
    for name in (word, word.lstrip("/")):
        path = os.path.normpath(os.path.join(root, name))
        if name and path.startswith(f"{root}/") and os.path.isfile(path):
            return path
    return ""


def _list_folder(folder: str) -> Iterator[str]:
    """Yield the files in a folder, one more than an approval may cover if there are too many."""
    count = 0
    for base, folders, names in walk_folders(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for name in sorted(names):
            if os.path.splitext(name)[1] not in _CODE_ENDINGS:
                continue
            yield os.path.join(base, name)
            count += 1
            if count > MAX_FILES:
                return


def hash_content(files: Iterable[str], root: str) -> str:
    """Return a digest of the content of files, with their names. Blocks.

    Raises:
        UsageError: There are too many files, they are too large, or one cannot be read.
    """
    digest = hashlib.sha256()
    size = 0
    for number, path in enumerate(files):
        if number >= MAX_FILES:
            raise UsageError(f"It executes more than {MAX_FILES} files, too many to approve.")
        data = _read_bytes(path)
        size += len(data)
        if size > MAX_BYTES:
            raise UsageError("The files that it executes are too large to approve.")
        name = os.path.relpath(path, root).encode(errors="surrogateescape")
        digest.update(hashlib.sha256(name).digest())
        digest.update(hashlib.sha256(data).digest())
    return f"sha256:{digest.hexdigest()}"


def _read_bytes(path: str) -> bytes:
    try:
        # A pipe would block forever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{path}, which it executes, is not a regular file.")
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}, which it executes, cannot be read: {error}.") from None


def approve(root: Path, judged: Iterable[JudgedHook]) -> None:
    """Store the approval of hooks with the present content of their files. Blocks.

    Raises:
        UsageError: The approval cannot be stored.
    """
    real = os.path.realpath(root)
    for each in judged:
        content = hash_content(find_executed_files(each.hook, real), real)
        _store([REFUSED, real, each.hook.identity], None)
        _store([DESCRIBED, real, each.hook.identity], _describe_hook(each.hook))
        _store([APPROVED, real, each.hook.identity], content)


def _describe_hook(hook: Hook) -> str:
    """Return what is stored about an approved hook."""
    description = _Description(
        hook.event, hook.matcher, hook.command, hook.condition, hook.runs_async
    )
    return msgspec.json.encode(description).decode()


def refuse(root: Path, judged: Iterable[JudgedHook]) -> None:
    """Store that the user refuses hooks. Blocks.

    Raises:
        UsageError: The decision cannot be stored.
    """
    real = os.path.realpath(root)
    for each in judged:
        _store([APPROVED, real, each.hook.identity], None)
        _store([DESCRIBED, real, each.hook.identity], None)
        _store([REFUSED, real, each.hook.identity], each.hook.title)


def _store(keys: list[str], value: object) -> None:
    table, root, identity = keys
    known = getattr(Decisions.load(), table).get(root, {})
    if value is None and identity not in known:
        return
    try:
        change(decisions_file(), keys, value)
    except ChangeError as error:
        raise UsageError(str(error), hint="Fix or remove the file.") from None


def describe_request(judged: Sequence[JudgedHook], root: Path) -> str:
    """Return everything that an approval lets run, as a question to the user. Blocks."""
    count = len(judged)
    what = "a command that runs" if count == 1 else f"{count} commands that run"
    rows = [f"This project has {what} while the agent works (hooks of Claude Code):"]
    for each in judged:
        hook = each.hook
        matcher = f" {hook.matcher}" if hook.matcher else ""
        arguments = "".join(f" {word!r}" for word in hook.arguments or ())
        rows.append(f"  {escape_line(hook.event + matcher)}  ({hook.place})")
        rows.append(f"      {escape_line(hook.command + arguments)}")
        if each.files:
            content = hash_content(each.files, os.path.realpath(root)).partition(":")[2][:12]
            names = [escape_line(os.path.relpath(path, root)) for path in each.files[:8]]
            more = len(each.files) - len(names)
            listed = ", ".join(names) + (f" and {more} more" if more else "")
            rows.append(f"      executes {listed} (content {content})")
        if each.state == "changed":
            rows.append(f"      {each.reason}")
    rows.append("They run in the sandbox. Let them run?")
    return "\n".join(rows)
