"""Paths that a call touches, and whether a ban means them: however they are spelled, and through
links.
"""

from __future__ import annotations

import fnmatch
import os
import re
import unicodedata
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs

from hilum_rules.checks.model import Action, Paths

if TYPE_CHECKING:
    from hilum_rules.checks.finds import Reach

Fit = Literal["", "maybe", "yes"]
UNKNOWN = "…"
MAX_WALK = 20_000
"""Names that are looked at to find out what is in a folder that is deleted, moved or copied."""


@attrs.frozen
class Touch:
    """One path and what a call does to it.

    Attributes:
        path: As it is written, from the folder ``cwd``; ``…`` is what only the run would tell.
        action: What is done; ``write`` is to create or to change, whichever it turns out to be.
        cwd: Where it is written from; ``None`` where that is not known.
        whole: With a folder, all that is in it is meant.
        by_hand: Its content is written by the call itself, not by a program that makes the file.
        contents: A folder whose content is put there, file by file.
        moved: It is deleted here because it is put elsewhere.
        reach: What a `find` finds: each of it stands for ``{}`` in the path.
    """

    path: str
    action: Action | Literal["write"]
    cwd: str | None
    whole: bool = False
    by_hand: bool = True
    contents: str = ""
    moved: bool = False
    reach: Reach | None = None


@attrs.define(slots=False)
class Ground:
    """The workspace, as paths are judged in it."""

    root: Path

    @cached_property
    def real(self) -> str:
        """The root without links."""
        return os.path.realpath(self.root)

    def fit(self, ban: Paths, touch: Touch) -> Fit:
        """Return whether a ban means what is touched."""
        if (ban.by_hand and not touch.by_hand) or (touch.moved and ban.patterns == ("**",)):
            return ""
        if touch.reach is not None and UNKNOWN not in touch.path:
            return self.reached(ban, touch, touch.reach)[0]
        if UNKNOWN in touch.path or (touch.cwd is None and not touch.path.startswith(("/", "~"))):
            return self._unknown(ban, touch)
        paths, complete = self._expanded(touch)
        best: Fit = (
            "" if complete or ban.outside or touch.action == "read" else self._unseen(ban, touch)
        )
        for path in paths:
            for form in self._forms(path):
                if self._done(touch, form, ban) and self._means(ban, form):
                    return "yes"
            if (touch.whole or touch.contents) and (found := self._within(ban, touch, path)):
                best = found
                if best == "yes":
                    return best
        return best

    @cached_property
    def _patterns(self) -> dict[str, tuple[list[str], bool]]:
        """What patterns were written out to: every rule asks for the same ones."""
        return {}

    @cached_property
    def _contents(self) -> dict[tuple[str, str, bool], tuple[list[str], str, bool]]:
        """What is in folders, for the same reason."""
        return {}

    # --- forms of a path --------------------------------------------------------------------------

    def _expanded(self, touch: Touch) -> tuple[list[str], bool]:
        """Return the absolute paths that a path may mean: home, folder, and patterns for names as
        the shell expands them.

        Also tells whether these are all.
        """
        path = os.path.expanduser(touch.path) if touch.path.startswith("~") else touch.path
        path = os.path.join(touch.cwd or "/", path)
        if not any(char in path for char in "*?["):
            return [path], True
        if path not in self._patterns:
            from hilum_rules.checks.expanding import expand

            self._patterns[path] = expand(path, self.real)
        found, complete = self._patterns[path]
        return [path, *found], complete

    def _unseen(self, ban: Paths, touch: Touch) -> Fit:
        """Return whether a pattern that means more names than were looked at may mean what a ban
        does.
        """
        last = touch.path.rstrip("/").rpartition("/")[2]
        names = (
            pattern.removesuffix("/**").rstrip("/").rpartition("/")[2] for pattern in ban.patterns
        )
        does = {"create", "change"} if touch.action == "write" else {touch.action}
        meant = any(
            "*" in name or fnmatch.fnmatchcase(_folded(name), _folded(last)) for name in names
        )
        return "maybe" if meant and does & ban.actions else ""

    def _forms(self, path: str) -> list[str]:
        """Return the ways that a path shows: as written, links on the way followed, and all links
        followed.
        """
        plain = os.path.normpath(path)
        if ".." in path.split("/"):  # after a link, `..` leads elsewhere than it reads
            plain = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            plain = os.path.normpath(plain)
        held = os.path.join(os.path.realpath(os.path.dirname(plain)), os.path.basename(plain))
        return [self._shown(each) for each in dict.fromkeys((plain, held, os.path.realpath(path)))]

    def _shown(self, path: str) -> str:
        """Write an absolute path relative to the workspace, if it is inside."""
        for root in dict.fromkeys((self.real, str(self.root))):
            if path == root:
                return "."
            if path.startswith(root.rstrip("/") + "/"):
                return path[len(root.rstrip("/")) + 1 :]
        low = _folded(path)
        root = _folded(self.real)
        if low.startswith(root.rstrip("/") + "/") and self._same(path[: len(self.real)], self.real):
            return path[len(self.real) + 1 :]
        return path

    def _same(self, one: str, other: str) -> bool:
        try:
            return os.path.samefile(one, other)
        except OSError:
            return False

    # --- what is meant ----------------------------------------------------------------------------

    def _done(self, touch: Touch, form: str, ban: Paths) -> bool:
        if touch.action != "write":
            return touch.action in ban.actions
        if {"create", "change"} <= ban.actions:
            return True
        there = os.path.lexists(os.path.join(self.real, form))
        return ("change" if there else "create") in ban.actions

    def _means(self, ban: Paths, form: str) -> bool:
        from hilum_guard import fit_path

        if ban.outside:
            return form.startswith("/") and not _scratch(form, self.real)
        if form == ".":
            return False
        if ban.patterns == ("**",) and form.startswith("/"):
            return False
        if self._aside(ban, form):
            return False
        if any(fit_path(pattern, form, strict=False) for pattern in ban.unless):
            return False
        return any(
            fit_path(pattern, form, strict=False) or _only(pattern, form)
            for pattern in ban.patterns
        )

    def _aside(self, ban: Paths, form: str) -> bool:
        """Return whether a path is one of /tmp, and a ban means files of the project: a copy there
        is none of them.
        """
        absolute = any(pattern.startswith(("//", "~")) for pattern in ban.patterns)
        return (
            form.startswith("/") and not absolute and not ban.outside and _scratch(form, self.real)
        )

    def _within(self, ban: Paths, touch: Touch, path: str) -> Fit:
        """Return whether something that a ban means is in a folder, or is put there."""
        if ban.outside or ban.patterns == ("**",):
            return ""
        source = touch.contents or path
        if self._aside(ban, self._shown(os.path.normpath(path))):
            return ""
        real = os.path.realpath(source)
        if not os.path.isdir(real):
            return ""
        forms, text, complete = self._content(real, path, bool(touch.contents))
        # What none of the names says needs no look at each of them: a folder may hold twenty
        # thousand.
        if any(_folded(_literal(pattern)) in text for pattern in ban.patterns):
            for form in forms:
                if self._done(touch, form, ban) and self._means(ban, form):
                    return "yes"
        return "" if complete else "maybe"

    def _content(self, real: str, path: str, copied: bool) -> tuple[list[str], str, bool]:
        """Return the paths of what is in a folder, as they show where they are or are put.

        All in one text; whether it is all.
        """
        key = real, path, copied
        if key not in self._contents:
            inner = list(islice(_walk(real), MAX_WALK + 1))
            placed = (
                os.path.join(path, os.path.relpath(each, real)) if copied else each
                for each in inner
            )
            forms = [self._shown(os.path.normpath(each)) for each in placed]
            self._contents[key] = forms, _folded("\n".join(forms)), len(forms) <= MAX_WALK
        return self._contents[key]

    def reached(self, ban: Paths, touch: Touch, reach: Reach) -> tuple[Fit, str]:
        """Return whether a ban means something of what a `find` finds, and what that is."""
        best: Fit = ""
        what = ""
        if ban.outside:
            literals = []
        else:
            literals = [_folded(_literal(pattern)) for pattern in ban.patterns]
        for entry, sure in reach.entries:
            plain = os.path.join(reach.cwd, touch.path.replace("{}", entry.printed))
            low = _folded(f"{plain}\n{entry.path}")
            within = touch.whole and entry.folder
            if literals and not within and not any(literal in low for literal in literals):
                continue
            places = [plain, entry.path] if touch.path == "{}" else [plain]
            found: Fit = ""
            for form in dict.fromkeys(self._shown(os.path.normpath(place)) for place in places):
                if self._done(touch, form, ban) and self._means(ban, form):
                    found = "yes"
            if not found and within:
                found = self._within(ban, touch, places[-1])
            if found:
                best = found if sure else "maybe"
                what = self._shown(os.path.normpath(plain))
            if best == "yes":
                break
        return best, what

    def _unknown(self, ban: Paths, touch: Touch) -> Fit:
        """Return whether a path that is known in part may be meant."""
        does = {"create", "change"} if touch.action == "write" else {touch.action}
        if not does & ban.actions:
            return ""
        path = touch.path
        if touch.action == "read":
            # Programs are given much that only the run tells; what may not be read at all, the
            # sandbox hides.
            guessed = attrs.evolve(
                touch, path=path.replace(UNKNOWN, "x"), cwd=touch.cwd or self.real
            )
            if path.strip(UNKNOWN) and self.fit(ban, guessed):
                return "maybe"
            return ""
        if ban.outside:
            known = path.partition(UNKNOWN)[0]
            there = known.startswith("/") and (
                _scratch(known.rstrip("/"), self.real) or known.startswith(f"{self.real}/")
            )
            if path.startswith(("/", UNKNOWN, "~")) and not there:
                return "maybe"
            return ""
        folder, slash, last = path.rpartition("/")
        if UNKNOWN not in folder and (touch.cwd is not None or path.startswith(("/", "~"))):
            return self._unknown_name(ban, touch, folder + slash, last)
        known = path.partition(UNKNOWN)[0]
        elsewhere = (
            known.startswith("/")
            and not f"{self.real}/".startswith(known)
            and not known.startswith(f"{self.real}/")
        )
        if elsewhere and ".." not in path.split("/"):
            places = [
                os.path.expanduser(each).removeprefix("/")
                for each in ban.patterns
                if each.startswith(("//", "~"))
            ]
            places = ["/" + place.lstrip("/") for place in places]
            if any(place.startswith(known) or known.startswith(f"{place}/") for place in places):
                return "maybe"
            return ""
        for pattern in ban.patterns:
            name = pattern.rstrip("/*").rpartition("/")[2]
            plain_file = "." in name.strip(".") or name.startswith(".")
            if (
                UNKNOWN not in last
                and plain_file
                and not touch.whole
                and not fnmatch.fnmatchcase(_folded(last), _folded(name))
            ):
                continue
            if UNKNOWN in last and last.strip(UNKNOWN) and plain_file and not _could(last, name):
                continue
            return "maybe"
        return ""

    def _unknown_name(self, ban: Paths, touch: Touch, folder: str, last: str) -> Fit:
        """Return whether a file of a known folder, whose name is known in part, may be meant."""
        if folder.strip("/") and (
            inside := self.fit(ban, attrs.evolve(touch, path=folder, whole=False, contents=""))
        ):
            return inside
        names = {
            pattern.removesuffix("/**").rstrip("/").rpartition("/")[2] for pattern in ban.patterns
        }
        for name in names:
            guessed = name if "*" not in name else name.replace("*", last.replace(UNKNOWN, "x"))
            if _could(last, name) and self.fit(ban, attrs.evolve(touch, path=folder + guessed)):
                return "maybe"
        return ""


def _could(given: str, name: str) -> bool:
    """Return whether a name that is known in part can be a name."""
    begin = given.split(UNKNOWN)[0]
    end = given.split(UNKNOWN)[-1]
    low = _folded(name)
    return "*" in low or (low.startswith(_folded(begin)) and low.endswith(_folded(end)))


def _only(pattern: str, form: str) -> bool:
    """Return whether a path is the folder itself, all of whose content a pattern means."""
    return (
        pattern.endswith("/**")
        and _folded(form) == _folded(pattern[:-3].lstrip("/"))
        and not form.startswith("/")
    )


def _scratch(path: str, root: str) -> bool:
    """Return whether a path is where everybody puts what is thrown away: nobody means it when they
    say "outside".
    """
    import tempfile

    for folder in (
        "/tmp",
        "/var/tmp",
        "/dev",
        "/private/tmp",
        os.path.realpath(tempfile.gettempdir()),
    ):
        if path == folder or path.startswith(folder + "/"):
            beside = os.path.dirname(
                root
            )  # what lies beside a workspace is somebody's, wherever that is
            return beside == folder or not path.startswith(beside + "/")
    return False


def _literal(pattern: str) -> str:
    """Return the longest part of a pattern that stands as it is in all that it means.

    Empty if there is none.
    """
    return max(re.split(r"[*?/\[\]{}]+", re.sub(r"\[[^\]]*\]|\{[^}]*\}", "*", pattern)), key=len)


def _walk(folder: str) -> Iterator[str]:
    for base, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield os.path.join(base, name)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
