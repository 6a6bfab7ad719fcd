"""Expand the words of shell text: variables that the text sets, tildes, command substitutions.

A value that is known only at run time becomes `UNKNOWN`.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from hilum_guard.commands import shell_words
from hilum_guard.commands.listing_commands import list_below
from hilum_guard.commands.shell_commands import FindAction, ShellState
from hilum_guard.commands.shell_words import EXPANSION_STARTS, UNKNOWN, Unreadable, Word

if TYPE_CHECKING:
    from tree_sitter import Node

    from hilum_guard.commands.shell_grammar import Source

_SUBSTITUTIONS = frozenset(("command_substitution", "process_substitution"))
EXPANSIONS = _SUBSTITUTIONS | {"simple_expansion", "expansion", "arithmetic_expansion"}
_ALL_PARAMETERS = frozenset("@*")
_ALL_ELEMENTS = frozenset(("[@]", "[*]"))
_DEFAULT_IFS = " \t\n"
# Parts of longer values count as unknown, because finding what a pattern matches takes quadratic
# time.
MAX_CUT = 512
# `${x%pattern}`, `${x##pattern}`, `${x:1:2}`: parts of a value.
_PART = re.compile(r"\$\{(\w+)(?:(%%?|##?)(.*)|:(\d{1,4})(?::(\d{1,4}))?)\}", re.DOTALL)
_EXPANSION = re.compile(
    r"\$\{(\w+|[@*?#$!-])(\[[@*]\]|\[\d{1,3}\])?(?:(:?[-=+?])(.*))?\}", re.DOTALL
)


class Expander(ABC):
    """A reader of words that knows the shell's current state.

    This is the base class of `ShellReader`, which reads commands.
    """

    source: Source
    state: ShellState
    literal_words: list[tuple[int, str]]
    piped_texts: dict[str, str]
    piped_lists: dict[str, FindAction]

    @abstractmethod
    def add_doubt(self, why: str) -> None:
        """Add a reason why the text is not harmless."""

    @abstractmethod
    def read_nodes(self, nodes: list[Node], stdin: str | None) -> str | None:
        """Read nodes one after another; return what they print, or None if unknown."""

    @abstractmethod
    def read_listing(self, nodes: list[Node]) -> tuple[str | None, FindAction | None]:
        """Read nodes; return what they print, and the `find` that lists the paths, if any."""

    @abstractmethod
    def read_nested(
        self,
        text: str,
        positional: tuple[str, ...] = (),
        stdin: str | None = None,
        *,
        keep_variables: bool = False,
        is_guess: bool = False,
    ) -> str | None:
        """Read text that a command in the current text runs in another shell."""

    def node_text(self, node: Node) -> str:
        """Return a node's text as written."""
        return shell_words.decode_source(self.source.text[node.start_byte : node.end_byte])

    def node_start(self, node: Node) -> int:
        """Return a node's position, without the whitespace that the grammar includes."""
        raw = self.source.text[node.start_byte : node.end_byte]
        return node.start_byte + len(raw) - len(raw.lstrip())

    def join_spans(self, nodes: list[Node]) -> list[tuple[int, int]]:
        """Return the positions at which words begin and end.

        Adjacent nodes are joined, because the grammar splits some words that are a single word to
        the shell.
        """
        spans: list[tuple[int, int]] = []
        for node in nodes:
            start = self.node_start(node)
            if spans and start <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(node.end_byte, spans[-1][1]))
            elif node.end_byte > start:
                spans.append((start, node.end_byte))
        return spans

    def read_words(self, nodes: list[Node]) -> list[Word]:
        """Return the words that result from the given nodes."""
        words: list[Word] = []
        for start, marked, plain in self._lex(nodes):
            fields = shell_words.split_fields(marked, plain, self.find_home)
            if len(fields) == 1:
                self.literal_words.append((start, fields[0].value))
            words += fields
        return words

    def read_values(self, nodes: list[Node]) -> list[Word]:
        """Return the words in some nodes, neither split nor brace-expanded, as in `x=VALUE`."""
        words: list[Word] = []
        for start, marked, plain in self._lex(nodes):
            value = shell_words.unmark(shell_words.expand_tilde(marked, self.find_home))
            self.literal_words.append((start, value))
            has_matches = shell_words.has_matches(marked)
            is_tree = shell_words.FOUND in marked
            words.append(Word(value, glob=has_matches, plain=plain, tree=is_tree))
        return words

    def _lex(self, nodes: list[Node]) -> list[tuple[int, str, bool]]:
        """Return each word's start position, its marked text, and whether it is plain."""
        inner = self._find_expansions(nodes)
        lexed = []
        for start, end in self.join_spans(nodes):
            lexer = shell_words.WordLexer(
                self.source.text, start, end, inner, self.expand, self.expand_name
            )
            lexed.append((start, *lexer.read()))
        return lexed

    def _find_expansions(self, nodes: list[Node]) -> dict[int, Node]:
        """Return the outermost expansions in the given nodes, by position."""
        found: dict[int, Node] = {}
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if node.type not in EXPANSIONS:
                waiting += node.named_children
                continue
            start = self.node_start(node)
            # The lexer looks for expansions only at these characters, and it must not miss any.
            if self.source.text[start : start + 1] not in EXPANSION_STARTS:
                raise Unreadable("The command has an expansion that begins in an unusual way.")
            found[start] = node
        return found

    def find_home(self, name: str) -> str:
        """Return the folder that `~name` means."""
        if name in {"", "+"}:
            values = self.state.variables.get("PWD" if name else "HOME", (UNKNOWN,))
            return values[0]
        # `~-` and `~1` depend on the folders visited earlier.
        if name.startswith("-") or name.isdigit():
            return UNKNOWN
        if name == "root":
            return "/root"
        known = os.path.expanduser(f"~{name}")
        return known if known.startswith("/") else f"/home/{name}"

    def expand(self, node: Node, quoted: bool) -> str:
        """Return the marked value of an expansion."""
        text = self.source.text[node.start_byte : node.end_byte].lstrip()
        if node.type in _SUBSTITUTIONS:
            return self._substitute(node, text, quoted)
        if node.type == "simple_expansion" and len(text) > 1:
            return self.expand_name(text[1:], quoted)
        values = self._expand_parameter(text)
        if node.type == "arithmetic_expansion" and "nproc" not in self.state.functions:
            values = (_calculate(text),)
        self._read_inner_commands(node)
        return self._mark_values(values, quoted)

    def _expand_parameter(self, text: str) -> tuple[str, ...]:
        """Return the values of `${…}`."""
        parameter = _EXPANSION.fullmatch(text)
        if parameter:
            name, subscript, operator, default = parameter.groups()
            values = self._find_values(name, name in _ALL_PARAMETERS or bool(subscript))
            if subscript and subscript not in _ALL_ELEMENTS:
                at = int(subscript[1:-1])
                values = values[at : at + 1] if UNKNOWN not in values else (UNKNOWN,)
            return self._apply_default(values, operator, default, name) if operator else values
        part = _PART.fullmatch(text)
        if part:
            return tuple(_cut_value(value, part) for value in self._find_values(part[1], False))
        return (UNKNOWN,)

    def expand_name(self, name: str, quoted: bool) -> str:
        """Return the marked value of `$name`."""
        return self._mark_values(self._find_values(name, name in _ALL_PARAMETERS), quoted)

    def _mark_values(self, values: tuple[str, ...], quoted: bool) -> str:
        if quoted:
            return " ".join(map(shell_words.mark, values))
        marked = " ".join(map(shell_words.mark_value, values))
        separators = self.state.variables.get("IFS", (_DEFAULT_IFS,))[0]
        if separators in (_DEFAULT_IFS, UNKNOWN):
            return marked
        # Only the characters in `IFS` split words: protect whitespace, and turn each `IFS`
        # character into a space.
        table: dict[int, int | str] = {ord(char): shell_words.MARK + ord(char) for char in " \t\n"}
        for char in separators:
            table[ord(char)] = " "
            table[shell_words.MARK + ord(char)] = " "
        return " ".join(shell_words.mark_value(value).translate(table) for value in values)

    def _find_values(self, name: str, all_values: bool) -> tuple[str, ...]:
        """Return a variable's values: all values of an array, or only the first."""
        if name in _ALL_PARAMETERS:
            return self.state.positional
        if name.isdigit() and name != "0":
            values = self.state.positional[int(name) - 1 :][:1] if len(name) < 4 else ()
            return values or (UNKNOWN,)
        values = self.state.variables.get(name, (UNKNOWN,))
        return values if all_values else values[:1]

    def _apply_default(
        self, values: tuple[str, ...], operator: str, word: str, name: str
    ) -> tuple[str, ...]:
        """Apply `:-`, `:=`, `:+` or `:?`; a variable that the text does not set counts as unset."""
        # The reader does not know the command's environment, so it reads `${X:-/}` as `/`.
        unset = values == (UNKNOWN,) or (operator.startswith(":") and values == ("",))
        is_dynamic = re.search(r"[$`\\]", word)
        default = (UNKNOWN,) if is_dynamic else (word.strip("\"'"),)
        if operator.endswith("+"):
            return ("",) if unset else default
        # The shell exits with a message if `:?` finds no value.
        if operator.endswith("?"):
            return (UNKNOWN,) if unset else values
        if unset and operator.endswith("="):
            self.state.variables[name] = default
        return default if unset else values

    def _read_inner_commands(self, node: Node) -> None:
        """Read the commands inside an expansion."""
        for child in node.named_children:
            if child.type in _SUBSTITUTIONS:
                self.expand(child, True)
            else:
                self._read_inner_commands(child)

    def _substitute(self, node: Node, text: str, quoted: bool) -> str:
        """Return the marked output of a command or process substitution."""
        self.add_doubt("It passes the output of one command to another.")
        output, listed = self._read_substituted(node, text)
        if node.type == "process_substitution":
            # Bash numbers these descriptors downwards from 63. A shell that reads this path
            # receives the command's output.
            path = f"/dev/fd/{63 - len(self.piped_texts)}"
            # Another substitution may have had the same path.
            self.piped_lists.pop(path, None)
            if text.startswith("<") and listed is not None:
                self.piped_lists[path] = listed
            if text.startswith("<") and output is not None:
                self.piped_texts[path] = output
            return shell_words.mark(path)
        paths = list_below(listed.words) if output is None and listed is not None else None
        if paths is not None:
            output = "\n".join(map(shell_words.encode_source, paths))
        elif output is None:
            output = UNKNOWN
        else:
            output = shell_words.encode_output(output.rstrip("\n"), listed is not None)
        return shell_words.mark(output) if quoted else shell_words.mark_value(output)

    def _read_substituted(self, node: Node, text: str) -> tuple[str | None, FindAction | None]:
        """Return a substitution's output, and the `find` that lists the paths in it, if any."""
        outer = self.state
        self.state = self.state.copy()
        try:
            # Within backquotes, a backslash is removed before the inner text is read.
            if text.startswith("`") and "\\" in text:
                inner = re.sub(r"\\([$`\\])", r"\1", text[1:-1])
                return self.read_nested(shell_words.decode_source(inner)), None
            return self.read_listing(node.named_children)
        finally:
            self.state = outer


_PROCESSORS = re.compile(r"\$\(\s*nproc\s*\)|`nproc`")
_SUM = re.compile(r"\$\(\(\s*(\d{1,6})\s*([-+*/])\s*(\d{1,6})\s*\)\)")
_OPERATIONS = {
    "-": int.__sub__,
    "+": int.__add__,
    "*": int.__mul__,
    "/": int.__floordiv__,
}


def _calculate(text: str) -> str:
    """Return the value of `$((A + B))` if both are numbers, or the number of processors."""
    found = _SUM.fullmatch(_PROCESSORS.sub(str(os.cpu_count() or 1), text))
    if found is None or (found[2] == "/" and int(found[3]) == 0):
        return UNKNOWN
    return str(_OPERATIONS[found[2]](int(found[1]), int(found[3])))


def _cut_value(value: str, part: re.Match[str]) -> str:
    """Return the part of a value that `${x%pattern}`, `${x#pattern}` or `${x:1:2}` keeps.

    The result is `UNKNOWN` if the part is known only at run time.
    """
    _, operator, pattern, start, length = part.groups()
    if UNKNOWN in value or len(value) > MAX_CUT:
        return UNKNOWN
    if shell_words.FOUND in value:
        return shell_words.FOUND + _cut_value(value.replace(shell_words.FOUND, ""), part)
    if operator is None:
        rest = value[int(start) :]
        return rest if length is None else rest[: int(length)]
    if re.search(r"[$`\\\"']", pattern):
        return UNKNOWN
    cuts = range(len(value) + 1)
    # The longest match removes the most: a prefix ends as far right as possible, and a suffix
    # begins as far left as possible.
    is_longest = len(operator) == 2
    if operator[0] == "#":
        ends = reversed(cuts) if is_longest else cuts
        return next((value[end:] for end in ends if fnmatchcase(value[:end], pattern)), value)
    starts = cuts if is_longest else reversed(cuts)
    return next((value[:at] for at in starts if fnmatchcase(value[at:], pattern)), value)
