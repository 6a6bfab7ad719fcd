"""Expansions in words: variables with the values the text gave them, tildes, the output of commands
that only print.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from hilum_guard import words as w
from hilum_guard.simple import State
from hilum_guard.words import UNKNOWN, Word

if TYPE_CHECKING:
    from tree_sitter import Node

    from hilum_guard.grammar import Source

EXPANSIONS = frozenset(
    "simple_expansion expansion command_substitution process_substitution arithmetic_expansion".split()
)
# `${x%pattern}`, `${x##pattern}`, `${x:1:2}`: parts of a value.
_PART = re.compile(r"\$\{(\w+)(?:(%%?|##?)(.*)|:(\d{1,4})(?::(\d{1,4}))?)\}", re.DOTALL)
_EXPANSION = re.compile(r"\$\{(\w+|[@*?#$!-])(\[[@*]\]|\[0\])?(?:(:?[-=+])(.*))?\}", re.DOTALL)


class Expander(ABC):
    """Reads the words of a source with the state that the text has come to.

    The base of `Reader`, which reads commands.
    """

    source: Source
    state: State
    literals: list[tuple[int, str]]
    pipes: dict[str, str]

    @abstractmethod
    def doubt(self, why: str) -> None:
        """Note why the text is not harmless."""

    @abstractmethod
    def each(self, nodes: list[Node], stdin: str | None) -> str | None:
        """Read nodes one after another; give what they would print, if that is known."""

    @abstractmethod
    def read_nested(
        self, text: str, positional: tuple[str, ...] = (), stdin: str | None = None
    ) -> str | None:
        """Read a text that a command of this one runs, in a shell of its own."""

    def text(self, node: Node) -> str:
        """Return the text of a node as the user wrote it."""
        return w.original(self.source.text[node.start_byte : node.end_byte])

    def begin(self, node: Node) -> int:
        """Where a node begins: the grammar counts some white space to what follows it."""
        raw = self.source.text[node.start_byte : node.end_byte]
        return node.start_byte + len(raw) - len(raw.lstrip())

    def joined(self, nodes: list[Node]) -> list[tuple[int, int]]:
        """Return where words begin and end.

        Join what touches: the grammar parts some words that are one to the shell.
        """
        spans: list[tuple[int, int]] = []
        for node in nodes:
            start = self.begin(node)
            if spans and start <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(node.end_byte, spans[-1][1]))
            elif node.end_byte > start:
                spans.append((start, node.end_byte))
        return spans

    def words(self, nodes: list[Node], *, split: bool = True) -> list[Word]:
        """Read words.

        Without splitting (the value of an assignment) each stays one, and its braces stay too.
        """
        inner: dict[int, Node] = {}
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if node.type in EXPANSIONS:
                inner[self.begin(node)] = node
            else:
                waiting += node.named_children
        found: list[Word] = []
        for start, end in self.joined(nodes):
            text, plain = w.lex(self.source.text, start, end, inner, self.expand, self.named)
            whole = Word(w.unmarked(w.opened(text, self.tilde)), plain=plain)
            read = w.fields(text, plain, self.tilde) if split else [whole]
            if len(read) == 1:
                self.literals.append((start, read[0].value))
            found += read
        return found

    def tilde(self, name: str) -> str:
        """Return the folder that `~name` means."""
        if name in {"", "+"}:
            values = self.state.variables.get("PWD" if name else "HOME", (UNKNOWN,))
            return values[0]
        if name.startswith("-") or name.isdigit():
            return UNKNOWN
        known = os.path.expanduser(f"~{name}")
        if name == "root":
            return "/root"
        return known if known.startswith("/") else f"/home/{name}"

    def expand(self, node: Node, quoted: bool) -> str:
        """Return the marked value of an expansion."""
        text = self.source.text[node.start_byte : node.end_byte].lstrip()
        if node.type in {"command_substitution", "process_substitution"}:
            return self._substitution(node, text, quoted)
        if node.type == "simple_expansion" and len(text) > 1:
            return self.named(text[1:], quoted)
        found = _EXPANSION.fullmatch(text)
        if found:
            values = self._value(found[1], found[1] in "@*" or (found[2] or "") in {"[@]", "[*]"})
            if found[3]:
                values = self._default(values, found[3], found[4], found[1])
            self._inside(node)
        elif part := _PART.fullmatch(text):
            values = tuple(_part(value, part) for value in self._value(part[1], False))
            self._inside(node)
        else:
            self._inside(node)
            values = (UNKNOWN,)
        return self._marked(values, quoted)

    def named(self, name: str, quoted: bool) -> str:
        """Return the marked value of `$name`."""
        return self._marked(self._value(name, name in {"@", "*"}), quoted)

    def _marked(self, values: tuple[str, ...], quoted: bool) -> str:
        if quoted:
            return " ".join(w.marked(value) for value in values)
        splitting = self.state.variables.get("IFS", (" \t\n",))[0]
        if splitting != " \t\n" and splitting != UNKNOWN:
            table: dict[int, int | str] = {ord(c): w.MARK + ord(c) for c in " \t\n"}
            table |= {ord(c): " " for c in splitting}
            return " ".join(
                w.value_marked(v).translate(table | {w.MARK + ord(c): " " for c in splitting})
                for v in values
            )
        return " ".join(w.value_marked(value) for value in values)

    def _value(self, name: str, all_of_it: bool) -> tuple[str, ...]:
        if name in {"@", "*"}:
            return self.state.positional
        if name.isdigit() and name != "0":
            values = self.state.positional[int(name) - 1 :][:1] if len(name) < 4 else ()
            return values or (UNKNOWN,)
        values = self.state.variables.get(name, (UNKNOWN,))
        return values if all_of_it else values[:1]

    def _default(
        self, values: tuple[str, ...], operator: str, word: str, name: str
    ) -> tuple[str, ...]:
        """Do `${x:-word}` and its kin; what the environment decides is taken as not set."""
        unset = values == (UNKNOWN,) or (operator.startswith(":") and values == ("",))
        plain = (word.strip("\"'"),) if not re.search(r"[$`\\]", word) else (UNKNOWN,)
        if operator.endswith("+"):
            return ("",) if unset else plain
        if unset and operator.endswith("="):
            self.state.variables[name] = plain
        return plain if unset else values

    def _inside(self, node: Node) -> None:
        """Read the commands in an expansion whose value is not followed."""
        for child in node.named_children:
            if child.type in {"command_substitution", "process_substitution"}:
                self.expand(child, True)
            else:
                self._inside(child)

    def _substitution(self, node: Node, text: str, quoted: bool) -> str:
        self.doubt("It puts the output of a command into another.")
        outer = self.state
        self.state = self.state.copy()
        try:
            if text.startswith("`") and "\\" in text:
                printed = self.read_nested(w.original(re.sub(r"\\([$`\\])", r"\1", text[1:-1])))
            else:
                printed = self.each(node.named_children, None)
        finally:
            self.state = outer
        if node.type == "process_substitution":
            path = f"/dev/fd/{63 - len(self.pipes)}"
            if text.startswith("<") and printed is not None:
                self.pipes[path] = printed
            return w.marked(path)
        printed = UNKNOWN if printed is None else w.as_source(printed.rstrip("\n"))
        if quoted:
            return w.marked(printed)
        return w.value_marked(printed)


def _part(value: str, part: re.Match[str]) -> str:
    """Return what `${x%pattern}` and its kin leave of a value.

    Unknown where only the run would tell.
    """
    operator = part[2]
    pattern = part[3]
    start = part[4]
    length = part[5]
    if UNKNOWN in value:
        return UNKNOWN
    if operator is None:
        rest = value[int(start) :]
        return rest if length is None else rest[: int(length)]
    if re.search(r"[$`\\\"']", pattern):
        return UNKNOWN
    longest = len(operator) == 2
    cuts = range(len(value) + 1)
    if operator[0] == "#":
        ends = reversed(cuts) if longest else cuts
        return next((value[end:] for end in ends if fnmatchcase(value[:end], pattern)), value)
    starts = cuts if longest else reversed(cuts)
    return next((value[:at] for at in starts if fnmatchcase(value[at:], pattern)), value)
