"""Display paths relative to the workspace, with patterns expanded and links followed."""

from __future__ import annotations

import os
import tempfile
import unicodedata
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import attrs
from hilum import walk_folders
from hilum_guard import find_git_top, list_changed_files, list_tracked_files, resolve_links

from hilum_checks import git_folders
from hilum_checks.glob_expansion import expand_glob

MAX_WALK = 20_000
"""Maximum number of names to examine in a folder that is deleted, moved or copied."""

MAX_PARTS = 200
"""Maximum number of parts of a path of which each folder is resolved on its own."""


class Contents(NamedTuple):
    """The contents of a folder.

    Attributes:
        forms: The displayed path of each entry, at its own location or at its copy's location.
        text: All displayed paths in one case-folded text, for fast searches.
        is_complete: Whether ``forms`` contains all entries.
    """

    forms: list[str]
    text: str
    is_complete: bool


@attrs.define(slots=False)
class WorkspaceView:
    """Displays paths in the form used in rules.

    Attributes:
        root: The root of the workspace.
    """

    root: Path
    # Every rule needs the same patterns and folders.
    _expanded: dict[str, tuple[list[str], bool]] = attrs.field(factory=dict, init=False)
    _contents: dict[tuple[str, str, bool], Contents] = attrs.field(factory=dict, init=False)
    _tracked: dict[str | None, Contents] = attrs.field(factory=dict, init=False)
    _changed: dict[tuple[str, str, str], Contents | None] = attrs.field(factory=dict, init=False)
    _linked: dict[str, str] = attrs.field(factory=dict, init=False)
    _resolved: dict[str, str] = attrs.field(factory=dict, init=False)
    _spellings: dict[str, list[str]] = attrs.field(factory=dict, init=False)

    @cached_property
    def real_root(self) -> str:
        """The resolved root."""
        return resolve_links(self.root)

    @cached_property
    def _roots(self) -> list[str]:
        """The resolved root and the session's root, each with a trailing slash."""
        roots = dict.fromkeys((self.real_root, str(self.root)))
        return [f"{root.rstrip('/')}/" for root in roots]

    def expand(self, path: str, cwd: str | None) -> tuple[list[str], bool]:
        """Return the absolute paths to which a path may refer, and whether the list is complete.

        The home folder and patterns are expanded as in shells.
        """
        path = os.path.join(cwd or "/", os.path.expanduser(path))
        if not any(char in path for char in "*?["):
            return [path], True
        if path not in self._expanded:
            self._expanded[path] = self._expand(path)
        found, is_complete = self._expanded[path]
        return [path, *found], is_complete

    def _expand(self, path: str) -> tuple[list[str], bool]:
        found, is_complete = expand_glob(path, self.real_root)
        folder, name = os.path.split(path)
        if not any(char in name for char in "*?[") and name:
            # A command may create the file in each folder: `for d in */; do touch $d/new; done`.
            folders, _ = expand_glob(folder, self.real_root)
            found += [os.path.join(each, name) for each in folders]
        return found, is_complete

    def spellings(self, path: str) -> list[str]:
        """Return the displayed forms of a path: as written, and with links followed.

        If the last part is a link, either the link itself or its target may be changed.
        """
        if path not in self._spellings:
            plain = os.path.normpath(path)
            if ".." in path.split("/"):  # after a link, `..` means the parent of the link's target
                plain = os.path.normpath(self._resolve_folder(path))
            # A rule may name a link or its target, and a call may use the other one.
            forms = (plain, self._resolve_folder(plain), self.resolve(path))
            self._spellings[path] = [self.display(form) for form in dict.fromkeys(forms)]
        return self._spellings[path]

    def resolve(self, path: str) -> str:
        """Return a path with all links followed, of which each folder is resolved only once."""
        if path not in self._resolved:
            folder, name = os.path.split(path)
            found = ""
            # A deeper path leads nowhere, and would exceed the limit of recursion.
            if name not in ("", ".", "..") and path.count("/") <= MAX_PARTS:
                found = os.path.join(self.resolve(folder), name)
            if not found or os.path.islink(found):
                found = resolve_links(path)
            self._resolved[path] = found
        return self._resolved[path]

    def _resolve_folder(self, path: str) -> str:
        """Return a path with all links followed, except a link in its last part."""
        folder, name = os.path.split(path)
        return os.path.join(self.resolve(folder), name)

    def display_twins(self, path: str) -> list[str]:
        """Return the displayed forms of the same file in the workspace's own working tree.

        A file in another working tree of the repository is a file of the project, too: what is
        committed there changes the project's file.
        """
        if not self._linked_common:
            return []
        plain = os.path.normpath(path)
        forms = dict.fromkeys((plain, self._resolve_folder(plain), self.resolve(path)))
        twins = [self.find_twin(form) for form in forms]
        return [self.display(twin) for twin in twins if twin]

    def find_twin(self, path: str, *, is_top: bool = False) -> str:
        """Return the same file in the workspace's own working tree.

        Args:
            path: The path of a file in another working tree of the repository.
            is_top: Whether the path may also be that of the other working tree itself.

        Returns:
            The path; empty if the given one is not in another working tree.
        """
        if not self._linked_common:
            return ""
        top = self._find_linked_top(path if is_top else os.path.dirname(path))
        return self._own_top + path[len(top) :] if top else ""

    @cached_property
    def _own_top(self) -> str:
        """The top of the workspace's working tree; empty if there is none."""
        return find_git_top(self.real_root) or ""

    @cached_property
    def _linked_common(self) -> str:
        """The Git folder that several working trees share; empty if there is only one."""
        own = git_folders.find_containing(self._own_top) if self._own_top else ""
        common = git_folders.find_common(own) if own else ""
        return common if common and os.path.isdir(os.path.join(common, "worktrees")) else ""

    def _find_linked_top(self, folder: str) -> str:
        """Return the top of the other working tree that contains a folder; empty if none does."""
        if folder not in self._linked:
            top = find_git_top(folder) or ""
            is_other = bool(top) and resolve_links(top) != self._own_top
            git_folder = git_folders.find_containing(top) if is_other else ""
            is_linked = bool(git_folder) and (
                git_folders.find_common(git_folder) == self._linked_common
            )
            self._linked[folder] = top if is_linked else ""
        return self._linked[folder]

    def display(self, path: str) -> str:
        """Convert an absolute path to a relative one if it is inside the workspace."""
        for root in self._roots:
            if path == root.rstrip("/"):
                return "."
            if path.startswith(root):
                return path[len(root) :]
        # The file system may be case-insensitive.
        length = len(self.real_root)
        is_similar = fold(path).startswith(fold(self._roots[0]))
        if is_similar and _is_same_file(path[:length], self.real_root):
            return path[length + 1 :]
        return path

    def list_contents(self, folder: str, path: str, *, copied: bool) -> Contents:
        """Return the contents of a folder.

        Args:
            folder: The folder, without links.
            path: The path by which a call names the folder, or to which the folder is copied.
            copied: Whether to display the contents at the location to which they are copied.
        """
        key = (folder, path, copied)
        if key not in self._contents:
            # Listing one path more than the limit shows whether there are further paths.
            paths = list(islice(_walk(folder), MAX_WALK + 1))
            if copied:
                paths = [os.path.join(path, os.path.relpath(inner, folder)) for inner in paths]
            forms = [self.display(os.path.normpath(inner)) for inner in paths]
            is_complete = len(forms) <= MAX_WALK
            # To remove another working tree as a whole changes nothing in the repository.
            if self.find_twin(os.path.normpath(path)):
                twins = [self.find_twin(os.path.normpath(inner)) for inner in paths]
                forms += [self.display(twin) for twin in twins if twin]
            text = fold("\n".join(forms))
            self._contents[key] = Contents(forms, text, is_complete)
        return self._contents[key]

    def list_tracked(self, path: str) -> Contents:
        """Return the files in the index of the repository that contains a path.

        Args:
            path: An absolute path; it need not exist.
        """
        top = find_git_top(resolve_links(path))
        if top not in self._tracked:
            names = list_tracked_files(top) if top is not None else []
            forms = [self.display(os.path.join(top or "/", name)) for name in names or ()]
            self._tracked[top] = Contents(forms, fold("\n".join(forms)), names is not None)
        return self._tracked[top]

    def list_changed(self, path: str, old: str, new: str) -> Contents | None:
        """Return the files that differ between two revisions; ``None`` if they cannot be listed.

        Args:
            path: An absolute path in the repository; it need not exist.
            old: A commit.
            new: Another commit; empty for the index.
        """
        top = find_git_top(resolve_links(path)) or ""
        key = (top, old, new)
        if key not in self._changed:
            git_folder = git_folders.find_containing(top) if top else ""
            common = git_folders.find_common(git_folder) if git_folder else ""
            names = list_changed_files(git_folder, common, old, new) if git_folder else None
            forms = [self.display(os.path.join(top, name)) for name in names or ()]
            contents = Contents(forms, fold("\n".join(forms)), is_complete=True)
            self._changed[key] = contents if names is not None else None
        return self._changed[key]

    def is_elsewhere(self, known: str) -> bool:
        """Return whether the known beginning of a path is outside the workspace."""
        root = f"{self.real_root}/"
        return known.startswith("/") and not root.startswith(known) and not known.startswith(root)

    def is_temporary(self, path: str) -> bool:
        """Return whether an absolute path is in a folder for temporary files.

        The word "outside" in rules does not refer to such a folder. A folder next to the workspace
        is not temporary, even in /tmp.
        """
        beside = os.path.dirname(self.real_root)
        for folder in _temporary_folders():
            if path == folder or path.startswith(f"{folder}/"):
                return beside == folder or not path.startswith(f"{beside}/")
        return False


def _walk(folder: str) -> Iterator[str]:
    for base, folders, files in walk_folders(folder):
        for name in (*folders, *files):
            yield os.path.join(base, name)


def _temporary_folders() -> list[str]:
    own = resolve_links(tempfile.gettempdir())
    return ["/tmp", "/var/tmp", "/dev", "/private/tmp", own]


def _is_same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def fold(text: str) -> str:
    """Return a text in normalized form, for comparing names."""
    # macOS may store names in decomposed form and may be case-insensitive; a rule must match both
    # forms.
    return unicodedata.normalize("NFKC", text).casefold()
