"""Interprets the names in a sentence as paths, commands, tools, hosts or branches.

A ``read_…`` method returns nothing if it cannot interpret one of the names with certainty.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import attrs

from hilum_rules.checks import quoted_names
from hilum_rules.checks import vocabulary as v
from hilum_rules.checks.model import WRITES, Action, Commands, Hosts, Paths, Tools
from hilum_rules.checks.sentence import Phrase, is_about_generated, split_list, wants_new_files

WORKSPACE = PurePosixPath(".")
_ANCHOR = re.compile(r"⟦(\d+)⟧")


@attrs.frozen
class Sentence:
    """A phrase, and the folder that its rules file governs."""

    phrase: Phrase
    folder: PurePosixPath

    def names(self, text: str) -> list[str]:
        """Return the names that the anchors in a text represent."""
        return [self.phrase.anchors[int(number)] for number in _ANCHOR.findall(text)]

    def read_single(self, text: str) -> str:
        """Return the only name in a text, or an empty string if there are several."""
        names = self.names(text)
        return names[0] if len(names) == 1 else ""

    def _patterns(self, names: list[str]) -> tuple[str, ...]:
        found: list[str] = []
        for name in names:
            found += quoted_names.path_patterns(name, self.folder)
        return tuple(found)

    def read_paths(
        self,
        text: str,
        actions: frozenset[Action],
        *,
        by_hand: bool = False,
        named: bool = False,
        exceptions: str = "",
    ) -> Paths | None:
        """Read paths.

        Args:
            text: The text that contains the paths.
            actions: The actions that are forbidden on the paths.
            by_hand: Whether only manual editing is meant.
            named: Whether the sentence calls the names files or folders.
            exceptions: The text that contains the exceptions.
        """
        names = self.names(text)
        excepted = self.names(exceptions)
        if not names:
            return None
        # An exception that is not understood makes the whole constraint uncertain.
        if not all(quoted_names.is_path(name, named=named) for name in [*names, *excepted]):
            return None
        if actions > v.CREATES and wants_new_files(self.phrase):
            actions = actions - v.CREATES
        writes_only = bool(actions & WRITES) and "read" not in actions
        return Paths(
            self._patterns(names),
            actions,
            self._patterns(excepted),
            by_hand=writes_only and (by_hand or is_about_generated(self.phrase)),
        )

    def read_other_paths(self, text: str) -> Paths | None:
        """Read the only folders in the workspace in which a sentence allows writing."""
        names = self.names(text)
        if not names or not all(quoted_names.is_path(name, named=True) for name in names):
            return None
        everything = "**" if self.folder == WORKSPACE else f"/{self.folder}/**"
        return Paths((everything,), WRITES, self._patterns(names), by_hand=True)

    def read_commands(
        self, text: str, *, used: bool = False, many: bool = False
    ) -> Commands | None:
        """Read commands.

        Args:
            text: The text that contains the commands.
            used: Whether the verb is "use", which may also refer to things other than commands.
            many: Whether a program name alone is not enough, because no verb says that it runs.
        """
        found: list[tuple[str, ...]] = []
        for name in self.names(text):
            if name in v.OPTIONS and used:
                found.append(("*", name))
                if name == "--no-verify":
                    # ``-n`` means ``--no-verify`` for ``git commit`` but a dry run for ``git
                    # push``.
                    found.append(("git", "commit", "-n"))
                continue
            words = quoted_names.command_words(name, used=used)
            if not words or (many and len(words) < 2):
                return None
            found += quoted_names.command_spellings(words)
        return Commands(tuple(dict.fromkeys(found)), str(self.folder)) if found else None

    def read_branches(self, text: str) -> tuple[str, ...]:
        """Read branch names. Without an anchor, only common names are certain to be branches."""
        plain = _ANCHOR.sub(lambda found: self.phrase.anchors[int(found[1])], text)
        names = split_list(plain)
        if not all(re.fullmatch(r"[\w-]+(?:[./][\w-]+)*", name, re.ASCII) for name in names):
            return ()
        if _ANCHOR.search(text) or v.BRANCHES.issuperset(names):
            return tuple(names)
        return ()

    def read_tools(self, text: str, *, known: bool = False) -> Tools | None:
        """Read tool names; with ``known``, only names that are not commands."""
        names: list[str] = []
        for name in self.names(text):
            tools = v.TOOLS.get(name.lower())
            is_sure = not known or "_" in name or name in ("WebFetch", "WebSearch", "MultiEdit")
            if tools and is_sure:
                names += tools
            elif known or not re.fullmatch(r"[A-Za-z][\w*-]*", name):
                return None
            else:
                names.append(name)
        return Tools(tuple(dict.fromkeys(names))) if names else None

    def read_hosts(self, text: str) -> Hosts | None:
        """Read hosts."""
        hosts = [v.read_host(name) for name in self.names(text)]
        return Hosts(tuple(hosts)) if hosts and all(hosts) else None
