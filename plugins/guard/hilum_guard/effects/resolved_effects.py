"""Resolve commands' effects on paths and hosts, for rules about paths, hosts and categories."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import translate
from typing import TYPE_CHECKING, Literal

import attrs

from hilum_guard.effects.command_effects import read_effects
from hilum_guard.effects.file_access import UNKNOWN, FileAccess
from hilum_guard.file_names import resolve_links

if TYPE_CHECKING:
    from hilum_guard.commands.verdicts import SimpleCommand

Kind = Literal["read", "write", "delete", "any"]
MAX_FOUND = 200
"""Maximum number of paths that a glob pattern is expanded to."""
MAX_VISITED = 5000
"""Maximum number of names matched against the patterns in a command line.

If there are more names, the result is unknown.
"""
MAX_PATTERN = 1000
"""Maximum number of characters in a pattern for one name; translating a longer one takes seconds.

If a pattern is longer, the result is unknown.
"""
_MAGIC = re.compile(r"[*?\[]")


@attrs.frozen
class Effect:
    """One effect of a call on a path.

    Attributes:
        kind: What the call does; ``any`` if a program only receives the path.
        path: The path with links followed: relative to the workspace, or absolute if outside it.
        deep: Whether the effect extends to everything below the path.
        certain: Whether the effect is certain.
        stored: Whether the contents come from a Git object database, in which no sandbox can hide a
            path.
    """

    kind: Kind
    path: str
    deep: bool = False
    certain: bool = True
    stored: bool = False


@attrs.frozen
class ResolvedEffects:
    """The effects of a call on paths and hosts.

    Attributes:
        effects: The call's effects on paths.
        hosts: The host names that the call contacts, in lower case.
        network: Whether one of the call's programs certainly uses the network.
        unread: Whether a part of the call could not be analysed and may do anything.
    """

    effects: tuple[Effect, ...] = ()
    hosts: tuple[str, ...] = ()
    network: bool = False
    unread: bool = False


def resolve_effects(
    commands: Iterable[SimpleCommand], root: str, *, complete: bool
) -> ResolvedEffects:
    """Return the combined effects of simple commands. Reads the disk for links and patterns.

    Args:
        commands: The commands.
        root: Root of the workspace, resolved.
        complete: Whether these are all the commands in the text.
    """
    resolver = _Resolver(root)
    hosts: list[str] = []
    network = False
    unread = not complete
    for command in commands:
        effects = read_effects(command)
        for access in effects.files:
            resolver.add(access)
        hosts += effects.hosts
        network |= effects.network
        unread |= bool(effects.unknown)
    return ResolvedEffects(
        tuple(dict.fromkeys(resolver.effects)),
        tuple(dict.fromkeys(hosts)),
        network,
        unread or resolver.unresolved,
    )


def shown_path(path: str, root: str) -> str:
    """Return a resolved path relative to the workspace, or unchanged if outside the workspace."""
    if path == root:
        return "."
    if path.startswith(root.rstrip("/") + "/"):
        return path[len(root) + 1 :]
    return path


def values(arguments: object) -> Iterator[str]:
    """Yield every string in nested data."""
    if isinstance(arguments, str):
        yield arguments
    elif isinstance(arguments, Mapping):
        for value in arguments.values():
            yield from values(value)
    elif isinstance(arguments, list | tuple):
        for value in arguments:
            yield from values(value)


class _Resolver:
    """A resolver of the paths that accesses refer to.

    Attributes:
        effects: The effects so far.
        unresolved: Whether any path was unknown.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.effects: list[Effect] = []
        self.unresolved = False
        self._visited = 0

    def add(self, access: FileAccess) -> None:
        """Add the effects of an access."""
        if access.kind == "link":
            return  # the access to the file under its own name is also recorded
        for path in self._find_paths(access):
            if path is None:
                self.unresolved = True
                continue
            shown = shown_path(path, self.root)
            # A formatter leaves most files of a folder as they are.
            deep = bool(access.deep) and not access.endings
            self.effects.append(Effect(access.kind, shown, deep, access.certain, access.stored))

    def _find_paths(self, access: FileAccess) -> Iterator[str | None]:
        """Yield the paths that a word refers to; None for an unknown path.

        A link is yielded in addition to its target, because the link itself may be replaced or
        deleted.
        """
        path = os.path.expanduser(access.path)
        for cwd in access.cwds:
            matches = self._find_matches(path, cwd)
            if matches is None:
                yield None
                continue
            for each in matches:
                yield from _follow_link(each)

    def _find_matches(self, path: str, cwd: str | None) -> list[str] | None:
        """Return the absolute paths that a path or glob pattern refers to, or None if unknown."""
        if UNKNOWN in path or (cwd is None and not path.startswith("/")):
            return None
        full = _resolve_own_process(os.path.join(cwd or "/", path), cwd)
        if full is None:
            return None
        if not _MAGIC.search(path):
            return [full]
        matches = self._expand(full)
        # A pattern without matches is left unchanged, and the program receives it as a name.
        return [full] if matches == [] else matches

    def _expand(self, pattern: str) -> list[str] | None:
        """Return the paths that a shell expands a pattern to, or None for too many names."""
        found = ["/"]
        for part in pattern.strip("/").split("/"):
            if _MAGIC.search(part):
                inner: list[str] = []
                for folder in found:
                    names = self._list_names(folder, part)
                    if names is None:
                        return None
                    inner += [os.path.join(folder, name) for name in names]
                found = inner
            else:
                paths = [os.path.join(folder, part) for folder in found]
                found = [path for path in paths if os.path.lexists(path)]
        return found if len(found) <= MAX_FOUND else None

    def _list_names(self, folder: str, pattern: str) -> list[str] | None:
        """Return the names in a folder that match a pattern, or None if matching takes too long."""
        try:
            names = os.listdir(folder)
        except OSError:
            return []
        self._visited += len(names)
        if self._visited > MAX_VISITED:
            return None
        if len(pattern) > MAX_PATTERN:
            return None
        fits = re.compile(translate(pattern)).match
        # A shell matches hidden names only if the pattern has a literal leading dot.
        takes_hidden = pattern.startswith(".")
        return [name for name in names if fits(name) and (takes_hidden or name[0] != ".")]


def _follow_link(path: str) -> Iterator[str]:
    """Yield a path with links followed, and the path itself if it is a link."""
    resolved = resolve_links(path)
    yield resolved
    name = os.path.basename(path)
    itself = os.path.normpath(os.path.join(resolve_links(os.path.dirname(path)), name))
    if itself != resolved and name not in ("", ".", ".."):
        yield itself


def _resolve_own_process(path: str, cwd: str | None) -> str | None:
    """Return a path with `/proc/self/cwd` and the like replaced; None if it is unknown.

    Links in `/proc` have different targets for the command than for this process, so they cannot be
    followed.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    whole = "/" + "/".join(parts)
    own = _OWN_PROCESS.fullmatch(whole)
    if own:
        base = "" if own[1] == "root" else cwd
        if base is None:
            return None
        return _resolve_own_process(f"{base}{own[2] or ''}" or "/", cwd)
    if _PROCESS_LINK.match(whole) or _PROCESS_LINK.match(os.path.normpath(whole)):
        return None
    return path


_OWN_PROCESS = re.compile(r"/proc/(?:self|thread-self)/(cwd|root)(/.*)?")
_PROCESS_LINK = re.compile(r"/proc/[^/]+/(cwd|root|fd|task|map_files)(/|$)|/dev/(fd|std\w+)/")
