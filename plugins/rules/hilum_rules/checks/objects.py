"""What a sentence names, read as paths, commands, tools, hosts or files of context.

Nothing where one of them is unclear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

import attrs

from hilum_rules.checks import anchors
from hilum_rules.checks import vocabulary as v
from hilum_rules.checks.model import WRITES, Action, Ban, Commands, Contexts, Hosts, Paths, Tools
from hilum_rules.checks.sentence import Phrase, generated, wants_new


def split(text: str) -> list[str]:
    """Split what is joined by commas and words that join."""
    parts = re.split(
        r"\s*(?:,\s*(?:or|and|nor)\s+|,\s*|\s(?:or|and|nor|and/or|&)\s|(?<=\w)/(?=\w)|、|，|或者?|和|与|及|以及)\s*",
        text,
    )
    return [part.strip() for part in parts if part.strip()]


def joined(bans: Sequence[Ban]) -> tuple[Ban, ...]:
    """Put bans of commands together."""
    commands = [ban for ban in bans if isinstance(ban, Commands)]
    if len(commands) < 2 or len({(ban.folder, ban.new) for ban in commands}) > 1:
        return tuple(bans)
    one = attrs.evolve(
        commands[0], patterns=tuple(pattern for ban in commands for pattern in ban.patterns)
    )
    return (one, *(ban for ban in bans if not isinstance(ban, Commands)))


def each_part(
    text: str, reading: Reading, read: Callable[[str, Reading], Ban | None]
) -> tuple[Ban, ...]:
    """Read what is done, one thing or several that are joined.

    Nothing if a part of it is not understood.
    """
    one = read(text, reading)
    if one:
        return apart(one)
    parts = split(text)
    if len(parts) < 2:
        return ()
    found = [read(part, reading) for part in parts]
    if None not in found:
        return joined([each for ban in found if ban is not None for each in apart(ban)])
    return ()


def apart(ban: Ban) -> tuple[Ban, ...]:
    """Part a ban of paths: what programs write is meant by hand, whatever else is named with it."""
    if (
        not isinstance(ban, Paths)
        or ban.by_hand
        or "read" in ban.actions
        or not ban.actions & WRITES
    ):
        return (ban,)
    made = tuple(pattern for pattern in ban.patterns if anchors.made(pattern))
    if not made:
        return (ban,)
    other = tuple(pattern for pattern in ban.patterns if pattern not in made)
    parts = (attrs.evolve(ban, patterns=other), attrs.evolve(ban, patterns=made, by_hand=True))
    return tuple(part for part in parts if part.patterns)


@attrs.frozen
class Reading:
    """A phrase and where it holds."""

    phrase: Phrase
    folder: PurePosixPath

    def _named(self, text: str) -> list[str]:
        return [self.phrase.anchors[int(number)] for number in re.findall(r"⟦(\d+)⟧", text)]

    def one(self, text: str) -> str:
        """Return the one thing that is named; empty if there are more."""
        found = self._named(text)
        return found[0] if len(found) == 1 else ""

    def paths(
        self,
        text: str,
        does: frozenset[Action],
        *,
        hand: bool = False,
        named: bool = False,
        but: str = "",
    ) -> Paths | None:
        """Read paths."""
        found = self._named(text)
        unless = self._named(but)
        if not found or not all(anchors.path_like(each, named=named) for each in found + unless):
            return None
        if does > {"create"} and wants_new(self.phrase):
            does = does - {"create"}
        by_hand = bool(does & WRITES) and (hand or generated(self.phrase)) and "read" not in does
        return Paths(
            tuple(pattern for each in found for pattern in anchors.patterns(each, self.folder)),
            does,
            tuple(pattern for each in unless for pattern in anchors.patterns(each, self.folder)),
            by_hand=by_hand,
        )

    def beyond(self, text: str) -> Paths | None:
        """Read folders beside which nothing in the workspace may be written."""
        found = self._named(text)
        if not found or not all(anchors.path_like(each, named=True) for each in found):
            return None
        unless = tuple(pattern for each in found for pattern in anchors.patterns(each, self.folder))
        whole = "**" if self.folder == PurePosixPath(".") else f"/{self.folder}/**"
        return Paths((whole,), WRITES, unless, by_hand=True)

    def commands(self, text: str, *, used: bool = False, many: bool = False) -> Commands | None:
        """Read commands.

        With ``many``, a program's name alone is none: nothing says that it is meant to be run.
        """
        found: list[tuple[str, ...]] = []
        for each in self._named(text):
            if each in v.OPTIONS and used:
                found += [
                    ("*", each),
                    *([("git", "commit", "-n")] if each == "--no-verify" else []),
                ]
                continue
            words = anchors.command(each, used=used)
            if not words or (many and len(words) < 2):
                return None
            found += anchors.spellings(words)
        if found:
            return Commands(tuple(dict.fromkeys(found)), str(self.folder))
        return None

    def branches(self, text: str) -> tuple[str, ...]:
        """Read names of branches; none if one of them is unclear."""
        plain = re.sub(r"⟦(\d+)⟧", lambda found: self.phrase.anchors[int(found[1])], text)
        found = split(plain)
        if not all(re.fullmatch(r"[\w-]+(?:[./][\w-]+)*", each, re.ASCII) for each in found):
            return ()
        named = "⟦" in text
        if named or all(each in v.BRANCHES for each in found):
            return tuple(found)
        return ()

    def tools(self, text: str, *, known: bool = False) -> Tools | None:
        """Read names of tools; with ``known``, only those of hilum's own, as they are written."""
        names: list[str] = []
        for each in self._named(text):
            if each.lower() in v.TOOLS and (
                not known or "_" in each or each in ("WebFetch", "WebSearch", "MultiEdit")
            ):
                names += v.TOOLS[each.lower()]
            elif known or not re.fullmatch(r"[A-Za-z][\w*-]*", each):
                return None
            else:
                names.append(each)
        return Tools(tuple(dict.fromkeys(names))) if names else None

    def hosts(self, text: str) -> Hosts | None:
        """Read hosts."""
        found = [v.host(each) for each in self._named(text)]
        return Hosts(tuple(found)) if found and all(found) else None

    def contexts(self, text: str, kinds: tuple[str, ...]) -> Contexts | None:
        """Read files that are context, or ``memory``."""
        named = self._named(text)
        if not named:
            if "memory" in text or "记忆" in text:
                return Contexts(("memory",), kinds)
            return None
        if all(anchors.path_like(each, named=True) for each in named):
            return Contexts(tuple(named), kinds)
        return None
