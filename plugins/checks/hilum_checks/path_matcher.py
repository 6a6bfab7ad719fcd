"""Match the paths that a call accesses against the paths that rules protect.

The spelling of a path does not matter, and links are followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs
from hilum_guard import (
    CHANGED,
    UNKNOWN,
    FileAccess,
    fit_path,
    is_own_file,
    is_tracked,
    resolve_links,
)

from hilum_checks.model import EVERYTHING, READS, Action, Paths
from hilum_checks.step_limit import count_step
from hilum_checks.workspace_view import WorkspaceView, fold

if TYPE_CHECKING:
    from hilum_guard import Findings

Fit = Literal["", "maybe", "yes"]
_FITS: tuple[Fit, ...] = ("", "maybe", "yes")
_ABSOLUTE = ("/", "~")
_PROC_ROOT = re.compile(r"^/+proc/(?:self|thread-self|\d+)/(?:task/\d+/)?root(?=/|$)")
_PROC_CWD = re.compile(r"^(?:/+proc/(?:self|thread-self|\d+)/(?:task/\d+/)?cwd|~\+)(?=/|$)")
# These sets are created only once, because every rule needs the actions of every access.
_DELETES: frozenset[Action] = frozenset({"delete"})
_MOVES: frozenset[Action] = frozenset({"delete", "move"})
_CHANGES: frozenset[Action] = frozenset({"change"})
_CREATES_OR_CHANGES: frozenset[Action] = frozenset({"create", "change"})


def stronger_fit(one: Fit, other: Fit) -> Fit:
    """Return the more certain of two matches."""
    return max(one, other, key=_FITS.index)


class PathMatcher:
    """Matches file accesses against the constraints of rules, in one workspace.

    Args:
        root: The root of the workspace.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._view = WorkspaceView(root)

    @property
    def real_root(self) -> str:
        """The resolved root."""
        return self._view.real_root

    def expand(self, path: str, cwd: str | None) -> list[str]:
        """Return the absolute paths to which a path may refer, with patterns expanded."""
        return self._view.expand(path, cwd)[0]

    def find_twin(self, path: str) -> str:
        """Return the workspace's file for one in another working tree; empty if it is in none."""
        return self._view.find_twin(os.path.normpath(path), is_top=True)

    def is_temporary(self, path: str) -> bool:
        """Return whether an absolute path is in a folder for temporary files, not beside the root."""
        return self._view.is_temporary(os.path.normpath(path))

    def may_track_below(self, path: str) -> bool:
        """Return whether Git tracks a file, or one below a folder, or may track it."""
        tracked = self._view.list_tracked(path)
        shown = fold(self._view.display(path))
        forms = map(fold, tracked.forms)
        is_known = any(form == shown or form.startswith(f"{shown}/") for form in forms)
        return is_known or not tracked.is_complete

    def anchor(self, constraint: Paths) -> Paths:
        """Return a constraint whose patterns such as ``/../other/**`` are absolute."""
        both = (*constraint.patterns, *constraint.unless)
        if not any(pattern.startswith("/../") for pattern in both):
            return constraint
        patterns = tuple(map(self._anchor, constraint.patterns))
        unless = tuple(map(self._anchor, constraint.unless))
        return attrs.evolve(constraint, patterns=patterns, unless=unless)

    def _anchor(self, pattern: str) -> str:
        if not pattern.startswith("/../"):
            return pattern
        return "/" + os.path.normpath(self.real_root + pattern)

    def is_kept_by_sandbox(self, constraint: Paths) -> bool:
        """Return whether the sandbox can keep a constraint without knowing the names of files."""
        constraint = self.anchor(constraint)
        if constraint.unless or not constraint.actions >= {"create", "change", "delete"}:
            return not constraint.actions - READS
        bare = [pattern.removesuffix("/**").strip("/") for pattern in constraint.patterns]
        return all(
            not any(char in path for char in "*?[")
            and os.path.lexists(os.path.join(self.real_root, path))
            for path in bare
        )

    def match(self, constraint: Paths, access: FileAccess) -> Fit:
        """Return whether a constraint covers an access."""
        # Shells drop null bytes, which no path can contain.
        if "\0" in access.path or "\0" in access.source:
            path, source = (each.replace("\0", UNKNOWN) for each in (access.path, access.source))
            access = attrs.evolve(access, path=path, source=source)
        match = _Match(self._view, self.anchor(constraint), access)
        return "" if match.is_allowed else match.match_words()

    def may_mean(self, constraint: Paths, access: FileAccess) -> bool:
        """Return whether a constraint is about what an access does, whatever its path is."""
        match = _Match(self._view, constraint, access)
        if access.path == CHANGED:
            return bool(match.match_words())
        return not match.is_allowed and bool(match.actions & constraint.actions)

    def match_stored(self, constraint: Paths, access: FileAccess) -> Fit:
        """Return whether a Git command may show stored contents of a file that is not to be read.

        The sandbox hides files of the working tree, but not what Git has stored of them.
        """
        if not access.stored or not access.deep or "read" not in constraint.actions:
            return ""
        return _Match(self._view, self.anchor(constraint), access).match_tracked()

    def match_found(
        self, constraint: Paths, access: FileAccess, findings: Findings
    ) -> tuple[Fit, str]:
        """Return whether a constraint covers something that a search finds, and its path.

        Args:
            constraint: The constraint.
            access: The access; ``{}`` in its path represents each name.
            findings: The results of the search.
        """
        match = _Match(self._view, self.anchor(constraint), access)
        return ("", "") if match.is_allowed else match.match_findings(findings)


@attrs.define
class _Match:
    """A comparison of one constraint with one access."""

    view: WorkspaceView
    constraint: Paths
    access: FileAccess

    @property
    def is_read(self) -> bool:
        """Whether the access may be a read: a program that receives a path may read the file."""
        return self.access.kind in ("read", "any")

    @property
    def actions(self) -> frozenset[Action]:
        """The actions. A write creates or changes the file, depending on whether it exists."""
        if self.is_read:
            return READS
        if self.access.kind == "delete":
            # `git rm --cached` leaves the file where it is.
            is_move = self.access.moved and not self.access.generated
            return _MOVES if is_move else _DELETES
        if self.access.existing or self.access.kind == "link":
            return _CHANGES
        return _CREATES_OR_CHANGES

    @property
    def is_allowed(self) -> bool:
        """Whether the constraint does not apply to this kind of access.

        Accesses by programs that may or may not write are left to the sandbox.
        """
        if self.access.if_folder or not (self.access.certain or self.is_read):
            return True
        if self.constraint.by_hand and self.access.generated:
            return True
        # "Never delete files" does not forbid renaming them, nor to keep them out of Git.
        return self.access.moved and self.constraint.patterns == EVERYTHING

    # --- paths that the words name ----------------------------------------------------------------

    def match_words(self) -> Fit:
        best: Fit = ""
        for cwd in self.access.cwds:
            count_step(2)
            best = stronger_fit(best, self._match_from(cwd))
        return best

    def _match_from(self, cwd: str | None) -> Fit:
        # Linux and shells have other names for the working directory.
        if cwd is not None:
            cwd = _PROC_CWD.sub(self.view.real_root, _PROC_ROOT.sub("", cwd)) or "/"
        written = _PROC_ROOT.sub("", self.access.path) or "/"
        written = _PROC_CWD.sub(f"{cwd or UNKNOWN}", written)
        # After ``cd $DIR``, a relative path may be in any folder.
        if UNKNOWN in written or (cwd is None and not written.startswith(_ABSOLUTE)):
            return self._match_unknown(cwd)
        paths, is_complete = self.view.expand(written, cwd)
        if self.access.kind == "delete" or self.access.existing:
            # Of the files that a pattern stands for, only those that exist are deleted or changed.
            paths = [path for path in paths if path == paths[0] or os.path.lexists(path)]
        if self.constraint.only_existing and len(paths) > 1:
            paths = [path for path in paths if os.path.lexists(path)] or paths
        if self.access.left_out and self.access.generated:
            paths = self._without_left_out(paths)
        best: Fit = "" if is_complete else self._match_unseen()
        for path in paths:
            if self._means_any(self.view.spellings(path)) or self._means_twin(path):
                return "yes"
            best = stronger_fit(best, self._match_contents(path, cwd))
        if self.access.stored and not best:
            return self._match_stored(os.path.join(cwd or "/", written))
        return best

    def _means_twin(self, path: str) -> bool:
        """Return whether the constraint covers a file in another working tree of the repository."""
        return not self.constraint.outside and self._means_any(self.view.display_twins(path))

    def _match_stored(self, path: str) -> Fit:
        """Match a pattern of Git, whose wildcards also match slashes."""
        magic = re.search(r"[*?\[]", path)
        if magic is None:
            return ""
        folder = os.path.dirname(path[: magic.start()])
        contents = self.view.list_contents(resolve_links(folder), folder, copied=False)
        pattern = fold(self.view.display(os.path.normpath(path))).replace("**/", "*")
        found = [form for form in contents.forms if fnmatchcase(fold(form), pattern)]
        return "yes" if self._means_any(found) else ""

    def _match_unseen(self) -> Fit:
        """Return whether a pattern may match a path that was not examined."""
        if self.constraint.outside or self.is_read or not self.actions & self.constraint.actions:
            return ""
        last = fold(_last_part(self.access.path))
        for pattern in self.constraint.patterns:
            name = _last_name(pattern)
            if "*" in name or fnmatchcase(fold(name), last):
                return "maybe"
        return ""

    def _means_any(self, forms: Iterable[str]) -> bool:
        return any(
            self._has_action(form) and self._means(form) and not self._is_unfinished(form)
            for form in forms
        )

    def _is_unfinished(self, form: str) -> bool:
        """Return whether a rule about existing files does not cover a file that was only just made."""
        if not self.constraint.only_existing:
            return False
        path = os.path.join(self.view.real_root, form)
        return not is_own_file(path, self.view.real_root)

    def _has_action(self, form: str) -> bool:
        actions = self.actions
        if "delete" in actions:
            return bool(actions & self.constraint.actions)
        if len(actions) == 1 or actions <= self.constraint.actions:
            return actions <= self.constraint.actions
        path = os.path.join(self.view.real_root, form)
        if (self.access.deep or self.access.source) and os.path.isdir(path):
            # Files below a folder may be changed or created.
            return bool(actions & self.constraint.actions)
        exists = os.path.lexists(path)
        return ("change" if exists else "create") in self.constraint.actions

    def _means(self, form: str) -> bool:
        """Return whether the constraint covers a path in the form that the view displays."""
        is_outside = form.startswith("/")
        patterns = self.constraint.patterns
        if self.constraint.outside:
            return is_outside and not self.view.is_temporary(form)
        # A rule about all files means those in the project, not everything on the disk.
        if form == "." or self._is_copy(form) or (is_outside and patterns == EVERYTHING):
            return False
        if any(fit_path(pattern, form, strict=False) for pattern in self.constraint.unless):
            return False
        return any(
            fit_path(pattern, form, strict=False) or _is_whole_folder(pattern, form)
            for pattern in patterns
        )

    def _is_copy(self, form: str) -> bool:
        """Return whether a path is in /tmp although the constraint is about project files."""
        if not form.startswith("/") or self.constraint.outside:
            return False
        is_absolute = any(each.startswith(("//", "~")) for each in self.constraint.patterns)
        return not is_absolute and self.view.is_temporary(form)

    def _match_contents(self, path: str, cwd: str | None) -> Fit:
        """Return whether the constraint covers something in a folder or moved into it."""
        if self.constraint.outside or self.constraint.patterns == EVERYTHING:
            return ""
        # ``cp -r`` and ``mv`` put each file of the source at a new path, which may be protected.
        source = self.access.source
        is_copied = bool(source) and UNKNOWN not in source
        if not is_copied and self.access.deep != "all":
            return ""
        if is_copied:
            source = os.path.join(cwd or "/", os.path.expanduser(source))
        folder = self.view.resolve(source if is_copied else path)
        shown = self.view.display(os.path.normpath(path))
        if not os.path.isdir(folder) or self._is_copy(shown):
            return ""
        contents = self.view.list_contents(folder, path, copied=is_copied)
        # A folder may contain thousands of names. Searching their combined text rules out most
        # patterns.
        is_likely = any(literal in contents.text for literal in self._literals)
        forms = self._without_left_out(contents.forms) if is_likely else []
        if self.access.endings:
            forms = [form for form in forms if form.endswith(self.access.endings)]
        if self._means_any(forms):
            return "yes"
        return "" if contents.is_complete else "maybe"

    def match_tracked(self) -> Fit:
        """Return whether the constraint covers a file that Git has stored below the path."""
        for cwd in self.access.cwds:
            path = os.path.expanduser(self.access.path)
            if UNKNOWN in path:  # `match` compares the parts that are known
                continue
            # An unknown repository may be that of the workspace.
            folder = self.view.real_root
            if cwd is not None or path.startswith("/"):
                folder = resolve_links(os.path.join(cwd or "/", path))
                folder = self.view.find_twin(folder, is_top=True) or folder
            tracked = self.view.list_tracked(folder)
            if self.access.compared:
                tracked = self.view.list_changed(folder, *self.access.compared) or tracked
            if not tracked.is_complete:
                return "maybe"
            if not any(literal in tracked.text for literal in self._literals):
                continue
            shown = self.view.display(folder)
            inner = [form for form in tracked.forms if self._is_below(form, shown)]
            inner = self._without_left_out(inner)
            if any(self._is_likely(form, self._literals) and self._means(form) for form in inner):
                return "maybe"
        return ""

    def _without_left_out(self, forms: list[str]) -> list[str]:
        """Return the displayed paths that the access does not leave out."""
        if not self.access.left_out:
            return forms
        patterns = [end for path in self.access.left_out for end in (path, f"{path}/*")]
        return [
            form
            for form in forms
            if not any(
                fnmatchcase(os.path.join(self.view.real_root, form), pattern)
                for pattern in patterns
            )
        ]

    def _is_below(self, form: str, shown: str) -> bool:
        """Return whether a displayed path is a folder's, or below the folder."""
        if shown == "." or form == shown:
            return True
        # The top of the repository may be above the workspace.
        path = os.path.join(self.view.real_root, form)
        folder = os.path.join(self.view.real_root, shown)
        return fold(path).startswith(fold(f"{folder.rstrip('/')}/"))

    # --- paths that a search finds ----------------------------------------------------------------

    @property
    def _literals(self) -> list[str]:
        return [fold(_literal(pattern)) for pattern in self.constraint.patterns]

    def match_findings(self, findings: Findings) -> tuple[Fit, str]:
        if UNKNOWN in self.access.path:
            return self._match_unknown(findings.cwd), self.access.path
        if "{}" not in self.access.path and re.search(r"[*?\[]", self.access.path):
            return self.match_words(), self.access.path
        literals = self._literals
        doubt: Fit = ""
        found = ""
        for entry, is_sure in findings.entries:
            path = os.path.join(findings.cwd, self.access.path.replace("{}", entry.printed))
            is_deep = entry.folder and self.access.deep == "all"
            if not is_deep and not self._is_likely(f"{path}\n{entry.path}", literals):
                continue
            paths = [path, entry.path] if self.access.path == "{}" else [path]
            fit = self._match_entry(paths, is_deep=is_deep)
            if not fit:
                continue
            found = self.view.display(os.path.normpath(path))
            doubt = fit if is_sure else "maybe"
            if doubt == "yes":
                break
        return doubt, found

    def _is_likely(self, text: str, literals: list[str]) -> bool:
        """Return whether the constraint may cover paths in a text; most texts fail this test."""
        if self.constraint.outside or not literals:
            return True
        text = fold(text)
        return any(literal in text for literal in literals)

    def _match_entry(self, paths: list[str], *, is_deep: bool) -> Fit:
        if self._means_any([self.view.display(os.path.normpath(each)) for each in paths]):
            return "yes"
        if any(map(self._means_twin, paths)):
            return "yes"
        return self._match_contents(paths[-1], None) if is_deep else ""

    # --- paths that are known in part -------------------------------------------------------------

    def _match_unknown(self, cwd: str | None) -> Fit:
        path = self.access.path
        if not self.actions & self.constraint.actions:
            return ""
        if self.is_read:
            return self._match_unknown_read(cwd)
        # What must not be changed is not among the files that are changed.
        if path == CHANGED:
            # In a covered folder, some of the files are covered.
            here = attrs.evolve(self.access, path=".", deep="", cwds=(cwd,))
            if cwd != self.view.real_root and self._match_other(here):
                return "maybe"
            if self._needs_file and "change" in self.constraint.actions:
                return ""
            return self._match_other(attrs.evolve(self.access, path=UNKNOWN))
        known = path.partition(UNKNOWN)[0]
        if self.constraint.outside:
            return self._match_unknown_outside(known)
        if self._is_left_out(path.rpartition(UNKNOWN)[2]) or self._is_in_temporary(known, path):
            return ""
        folder, slash, last = path.rpartition("/")
        if UNKNOWN not in folder and (cwd is not None or path.startswith(_ABSOLUTE)):
            return self._match_unknown_name(folder + slash, last, cwd)
        if self.view.is_elsewhere(known) and ".." not in path.split("/"):
            may_fit = _may_lead_to(known, self.constraint.patterns)
        else:
            may_fit = any(self._may_be_named(last, each) for each in self.constraint.patterns)
        return "maybe" if may_fit else ""

    def _is_left_out(self, ending: str) -> bool:
        """Return whether the constraint excepts all files with an ending: `….md`."""
        suffixes = (each.removeprefix("**/") for each in self.constraint.unless)
        return any(
            each.startswith("*.")
            and not re.search(r"[*?\[{/]", each[1:])
            and fold(ending).endswith(fold(each[1:]))
            for each in suffixes
        )

    def _is_in_temporary(self, known: str, path: str) -> bool:
        """Return whether a path with an unknown name is in a folder for temporary files.

        A value such as a date or the name of a file leads out of no folder.
        """
        folder = known.rpartition("/")[0]
        if ".." in path.split("/") or not self.view.is_elsewhere(f"{folder}/"):
            return False
        return self._is_copy(folder)

    def _match_other(self, access: FileAccess) -> Fit:
        """Return how the constraint matches an access other than the instance's own."""
        match = _Match(self.view, self.constraint, access)
        return "" if match.is_allowed else match.match_words()

    def _match_unknown_read(self, cwd: str | None) -> Fit:
        """Match the known part of a path that a program reads.

        Programs receive many paths that are known only at run time. The sandbox hides files that
        must not be read.
        """
        path = self.access.path
        if not path.strip(UNKNOWN):
            return "maybe" if self.access.stored and self._is_stored() else ""
        guesses = [path.replace(UNKNOWN, "x")]
        if self.access.stored:
            guesses.append(path.rpartition(UNKNOWN)[2].lstrip("/") or ".")
        cwds = (cwd or self.view.real_root, self.view.real_root)
        accesses = [attrs.evolve(self.access, path=guess, cwds=cwds) for guess in guesses]
        return "maybe" if any(map(self._match_other, accesses)) else ""

    def _is_stored(self) -> bool:
        """Return whether a repository may contain a file of the constraint, which nothing hides."""
        root = self.view.real_root
        contents = self.view.list_contents(root, root, copied=False)
        covered = [os.path.join(root, form) for form in contents.forms if self._means(form)]
        files = [path for path in covered if not os.path.isdir(path)]
        return not contents.is_complete or any(is_tracked(path, root) for path in files)

    def _match_unknown_outside(self, known: str) -> Fit:
        if not self.access.path.startswith(("/", UNKNOWN, "~")):
            return ""
        is_inside = known.startswith(f"{self.view.real_root}/")
        if known.startswith("/") and (is_inside or self.view.is_temporary(known.rstrip("/"))):
            return ""
        return "maybe"

    def _match_unknown_name(self, folder: str, last: str, cwd: str | None) -> Fit:
        """Match a partly known name of a file in a known folder against the constraint."""
        # A name that is known only at run time may be anything below the folder.
        is_anything = not folder and last == UNKNOWN
        if folder.strip("/") or is_anything:
            parent = attrs.evolve(self.access, path=folder or ".", cwds=(cwd,), deep="", source="")
            fit = self._match_other(parent)
            if fit:
                return fit
        names = {_last_name(pattern) for pattern in self.constraint.patterns}
        if self._needs_file and last.startswith(UNKNOWN) and folder.strip("/"):
            # The files that exist decide.
            names = set()
        for name in names:
            guess = folder + name.replace("*", last.replace(UNKNOWN, "x"))
            # What only changes or deletes files names none that does not exist.
            if self._needs_file and "*" not in name and not self._exists(guess, cwd):
                continue
            guessed = attrs.evolve(self.access, path=guess, cwds=(cwd,))
            if _may_be(last, name) and self._match_other(guessed):
                return "maybe"
        # `….py` is any file with this ending, also one in a folder.
        is_ending = not folder and last.startswith(UNKNOWN) and last.strip(UNKNOWN)
        start = "." if is_ending and self._needs_file else folder
        return self._match_unknown_below(start, last, cwd)

    @property
    def _needs_file(self) -> bool:
        """Whether the access only has an effect on a file that exists."""
        return self.access.existing or self.access.kind in ("delete", "link")

    def _exists(self, path: str, cwd: str | None) -> bool:
        return any(map(os.path.lexists, self.view.expand(path, cwd)[0]))

    def _match_unknown_below(self, folder: str, last: str, cwd: str | None) -> Fit:
        """Return whether a file deeper in a folder is covered, which a listing may print."""
        if not folder.strip("/") or not last.startswith(UNKNOWN) or self.constraint.outside:
            return ""
        paths, _ = self.view.expand(folder, cwd)
        for path in paths:
            contents = self.view.list_contents(resolve_links(path), path, copied=False)
            if not contents.is_complete:
                return "maybe"
            if not any(literal in contents.text for literal in self._literals):
                continue
            ending = fold(last.rpartition(UNKNOWN)[2])
            if self._means_any(form for form in contents.forms if fold(form).endswith(ending)):
                return "maybe"
        return ""

    def _may_be_named(self, last: str, pattern: str) -> bool:
        """Return whether the last part of a path may match the last part of a pattern."""
        name = _last_part(pattern.rstrip("/*"))
        is_file = "." in name.strip(".") or name.startswith(".")
        if not is_file:
            return True
        if UNKNOWN in last:
            return not last.strip(UNKNOWN) or _may_be(last, name)
        return self.access.deep == "all" or fnmatchcase(fold(last), fold(name))


def _last_part(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _last_name(pattern: str) -> str:
    return _last_part(pattern.removesuffix("/**"))


def _may_lead_to(known: str, patterns: Iterable[str]) -> bool:
    """Return whether a path with a known beginning may match absolute patterns."""
    absolute = [pattern for pattern in patterns if pattern.startswith(("//", "~"))]
    paths = ["/" + os.path.expanduser(pattern).lstrip("/") for pattern in absolute]
    return any(path.startswith(known) or known.startswith(f"{path}/") for path in paths)


def _may_be(given: str, name: str) -> bool:
    """Return whether a partly known name may equal a given name."""
    parts = [fold(part) for part in given.split(UNKNOWN)]
    name = fold(name)
    if "*" not in name:
        return name.startswith(parts[0]) and name.endswith(parts[-1])
    # Both ends must be possible: `….py` is no `*.tfstate`.
    if re.search(r"[?\[{]", name):
        return True
    head, tail = name.partition("*")[0], name.rpartition("*")[2]
    return (head.startswith(parts[0]) or parts[0].startswith(head)) and (
        tail.endswith(parts[-1]) or parts[-1].endswith(tail)
    )


def _is_whole_folder(pattern: str, form: str) -> bool:
    """Return whether a path is a folder and a pattern matches all of its contents."""
    if not pattern.endswith("/**") or form.startswith("/"):
        return False
    return fold(form) == fold(pattern.removesuffix("/**").lstrip("/"))


def _literal(pattern: str) -> str:
    """Return the longest part of a pattern that occurs in all paths that it matches."""
    pattern = re.sub(r"\[[^\]]*\]|\{[^}]*\}", "*", pattern)
    return max(re.split(r"[*?/\[\]{}]+", pattern), key=len)
