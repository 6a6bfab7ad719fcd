"""Where rules stand: the user's ``permissions.toml``, and a project's, which can only ask and deny.

Lists of all sources are united. Every mistake is reported with its file and place, and until they
are mended nothing that changes something runs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hilum import UsageError

from hilum_guard.tool_names import unknown

if TYPE_CHECKING:  # loaded with the first rule, or the first call that is judged
    from hilum_guard.rules import Effect, Rule

FILE = "permissions.toml"
WORKSPACE = "workspace"
SESSION = "session"
KINDS = ("main", "shared", "headless")
EFFECTS: tuple[Effect, ...] = ("allow", "ask", "deny")
MAX_BYTES = 2_000_000
"""Bytes of a file of rules."""
Stamp = tuple[object, ...]


class Rules(NamedTuple):
    """All rules that hold in a workspace.

    Attributes:
        rules: The rules.
        mistakes: What is wrong in the files, a line each.
        stamp: What the files looked like when they were read.
    """

    rules: tuple[Rule, ...] = ()
    mistakes: tuple[str, ...] = ()
    stamp: Stamp = ()

    def of(self, effect: Effect) -> Iterator[Rule]:
        """Return the rules with an effect."""
        return (rule for rule in self.rules if rule.effect == effect)


def user_file(config: Path) -> Path:
    """Return the user's file in a folder of configuration."""
    return config / FILE


def project_file(workspace: Path) -> Path:
    """Return a project's file."""
    return workspace / ".hilum" / FILE


def stamp(config: Path, workspace: Path) -> Stamp:
    """Return what the files look like now; it changes whenever one of them does."""
    return (_look(user_file(config)), _look(project_file(workspace)))


def _look(path: Path) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return (int(os.path.lexists(path)),)
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def load(
    config: Path, workspace: Path, tools: Collection[str] | None = None, kind: str | None = None
) -> Rules:
    """Read both files.

    Args:
        config: The user's folder of configuration.
        workspace: Root of the workspace, resolved.
        tools: The names of the session's tools; a rule that names no tool is a mistake. Unchecked
            without them.
        kind: Kind of the session: rules for another kind are checked, and do not hold. Without it
            those of all kinds are returned, for a list of them.
    """
    looked = stamp(config, workspace)
    rules: list[Rule] = []
    mistakes: list[str] = []
    user = _File(user_file(config), mistakes, rules, tools, [])
    project = _File(project_file(workspace), mistakes, rules, tools, [])
    data = user.read()
    user.lists(
        {key: value for key, value in data.items() if key not in (WORKSPACE, SESSION)},
        "",
        everywhere=True,
    )
    user.kinds(data, kind)
    tables = data.get(WORKSPACE, {})
    if not isinstance(tables, Mapping):
        user.wrong(
            WORKSPACE,
            f'is no table; write [{WORKSPACE}."/path/of/the/folder"] and the lists below it',
        )
        tables = {}
    for path, table in tables.items():
        user.table(path, table, workspace)
    data = project.read()
    project.lists(
        {key: value for key, value in data.items() if key != SESSION},
        "",
        everywhere=False,
        project=True,
    )
    project.kinds(data, kind, project=True)
    return Rules(tuple(rules), tuple(mistakes), looked)


def _read_regular(path: Path) -> bytes:
    """Return the content of a regular file.

    A pipe in its place is opened without waiting, and refused.

    Raises:
        OSError: There is none, it is no regular file, or it is too large.
    """
    descriptor = os.open(
        path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    )
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no regular file")
        if status.st_size > MAX_BYTES:
            raise OSError(0, f"it has more than {MAX_BYTES:,} bytes")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_BYTES)
    finally:
        os.close(descriptor)


class _File(NamedTuple):
    path: Path
    mistakes: list[str]
    rules: list[Rule]
    tools: Collection[str] | None
    texts: list[str]
    table_name: str = ""

    def wrong(self, place: str, what: str, found: str = "") -> None:
        """Note a mistake."""
        line = f"line {self._line(found)}: " if found and self._line(found) else ""
        self.mistakes.append(
            f"{self.path}: {line}{place}: {what}" if place else f"{self.path}: {what}"
        )

    def _line(self, found: str) -> int:
        lines = self.texts[0].splitlines() if self.texts else []
        return next((number for number, line in enumerate(lines, 1) if found in line), 0)

    def read(self) -> dict[str, Any]:
        """Return the file as plain data; nothing of one that is not there or cannot be read."""
        if not os.path.lexists(self.path):
            return {}
        import tomllib

        try:
            text = _read_regular(self.path).decode().removeprefix("\ufeff")
            self.texts.append(text)
            return tomllib.loads(text)
        except OSError as error:
            self.wrong("", f"cannot be read: {error.strerror}; mend or remove it")
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            self.wrong("", f"line {line} is not UTF-8 text; save the file as UTF-8")
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            self.wrong(
                "",
                f'not valid TOML: {error}; write lists, as deny = ["run_terminal_cmd(git push *)"]',
            )
        return {}

    def table(self, path: str, table: object, workspace: Path) -> None:
        """Take the user's lists for one workspace."""
        place = f'{WORKSPACE}."{path}"'
        if not os.path.isabs(os.path.expanduser(path)):
            self.wrong(place, "is no absolute path; write the whole path of the folder", path)
        elif not isinstance(table, Mapping):
            self.wrong(place, "is no table; write the lists allow, ask, deny below it", path)
        else:
            here = os.path.realpath(os.path.expanduser(path)) == str(workspace)
            kept = self if here else self._replace(rules=[])
            kept.lists(table, f"{place}.", everywhere=False)

    def kinds(self, data: Mapping[str, object], kind: str | None, *, project: bool = False) -> None:
        """Take the lists for kinds of sessions: ``[session.shared]``."""
        tables = data.get(SESSION, {})
        if not isinstance(tables, Mapping):
            self.wrong(SESSION, f"is no table; write [{SESSION}.shared] and the lists below it")
            return
        for name, table in tables.items():
            place = f"{SESSION}.{name}"
            if name not in KINDS:
                self.wrong(place, f"is no kind of session; kinds are {', '.join(KINDS)}", name)
            elif not isinstance(table, Mapping):
                self.wrong(place, "is no table; write the lists allow, ask, deny below it", name)
            else:
                kept = self._replace(
                    table_name=place, rules=self.rules if kind in (None, name) else []
                )
                kept.lists(table, f"{place}.", everywhere=not project, project=project)

    def lists(
        self, data: Mapping[str, object], place: str, *, everywhere: bool, project: bool = False
    ) -> None:
        """Take the lists of a table."""
        for key, value in data.items():
            if key not in EFFECTS:
                from difflib import get_close_matches

                near = get_close_matches(key, [*EFFECTS, WORKSPACE, SESSION], n=1)
                self.wrong(
                    f"{place}{key}",
                    f"is unknown; {f'did you mean {near[0]}?' if near else 'known: '}"
                    + ("" if near else ", ".join(EFFECTS)),
                    key,
                )
            elif project and key == "allow":
                hint = (
                    "only the user may allow: take it out, or put it into a file of your own (hilum"
                    " permissions allow)"
                )
                self.wrong(f"{place}{key}", hint, key)
            elif not isinstance(value, list):
                self.wrong(
                    f"{place}{key}", f'is no list; write {key} = ["write_file(docs/**)"]', key
                )
            else:
                for number, text in enumerate(value, 1):
                    self._rule(f"{place}{key}[{number}]", text, key, everywhere)

    def _rule(self, place: str, text: object, effect: Any, everywhere: bool) -> None:
        if not isinstance(text, str):
            self.wrong(
                place, f'found {text!r}, expected a rule in quotes, as "write_file(docs/**)"'
            )
            return
        from hilum_guard.rules import parse

        source = f"{self.path} [{self.table_name}]" if self.table_name else str(self.path)
        try:
            rule = parse(text, effect, source, everywhere=everywhere)
        except ValueError as error:
            self.wrong(place, str(error), text.strip())
            return
        if self.tools is not None and (why := unknown(rule.tool, self.tools)):
            self.wrong(place, why, text.strip())
        self.rules.append(rule)


def add(config: Path, workspace: Path | None, effect: Effect, rule: str) -> bool:
    """Put a rule into the user's file; gives whether it was not there yet. Blocks.

    Args:
        config: The user's folder of configuration.
        workspace: The folder it holds for; ``None`` for all.
        effect: What it does.
        rule: The rule.

    Raises:
        UsageError: It is no rule, or the file cannot be changed safely.
    """
    from hilum_guard.rules import parse

    try:
        rule = parse(rule, effect).text
    except ValueError as error:
        raise UsageError(f"{error}.".capitalize(), code="E_BAD_ARGS") from None
    return _change(config, workspace, effect, lambda old: old if rule in old else [*old, rule])


def remove(config: Path, workspace: Path | None, effect: Effect, rule: str) -> bool:
    """Take a rule out of the user's file; gives whether it was there.

    Blocks. Takes and raises what ``add`` does.
    """
    return _change(
        config, workspace, effect, lambda old: [each for each in old if each != rule] or None
    )


def _change(
    config: Path,
    workspace: Path | None,
    effect: str,
    change: Callable[[list[str]], list[str] | None],
) -> bool:
    from hilum_settings import ChangeError
    from hilum_settings import change as change_file

    changed = False

    def new(old: Any) -> Any:
        nonlocal changed
        made = change(list(old or ()))
        changed = (made or None) != (old or None)
        return made if changed else old

    keys = [effect] if workspace is None else [WORKSPACE, str(workspace), effect]
    try:
        change_file(user_file(config), keys, new)
    except ChangeError as error:
        raise UsageError(str(error), hint="Mend the file, or change it by hand.") from None
    return changed
