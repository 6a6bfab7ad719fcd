"""Reads a text as a shell would run it, without running it: every simple command, with the words it
would get.

Assignments, `cd`, functions, loops over literal words, pipes of literal text into shells and the
commands that other commands run (`wrappers`) are followed as far as the text alone decides. What it
does not decide is `UNKNOWN`, and a doubt.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs

from hilum_guard import distant, indirect
from hilum_guard import words as w
from hilum_guard.expansion import EXPANSIONS, Expander
from hilum_guard.grammar import Source, Unreadable
from hilum_guard.places import Places
from hilum_guard.programs import rejoined
from hilum_guard.simple import Redirect, Simple, State
from hilum_guard.words import UNKNOWN, Word

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 40
MAX_NESTED = 8
MAX_COMMANDS = 400
MAX_LOOP = 20
MAX_STEPS = 5_000
MAX_WORDS = 1_000
MAX_REDIRECTIONS = 50

# Structure that needs no thought: commands one after another, joined by operators, with
# redirections.
PLAIN = frozenset(
    "program list pipeline command redirected_statement negated_command comment".split()
)
REDIRECTIONS = frozenset("file_redirect heredoc_redirect herestring_redirect".split())
# Variables that change how things look, not what runs.
HARMLESS_VARIABLES = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|NO_COLOR|FORCE_COLOR|CLICOLOR|COLUMNS|LINES|CI"
)


class Reader(Expander):
    """Reads one text, and the texts nested in it.

    Attributes:
        found: The simple commands, in the order they would run.
        doubts: Why the text as a whole is not harmless; empty if only the commands decide.
        git_settings: Settings that `git config` makes in the text, for the commands after it.
        unresolved: Commands whose sub-command cannot be told, each with the reason.
        written: Files that the text writes, with their content; None where only the run would tell
            it.
        copies: Names that the text gives to programs by links and copies, with what they are links
            or copies of.
    """

    def __init__(self, places: Places, cwd: str) -> None:
        self.places = places
        self.state = State(
            (cwd,),
            {"HOME": (w.as_source(places.home),), "PWD": (w.as_source(cwd),), "IFS": (" \t\n",)},
            {},
            {},
            (),
            places,
        )
        self.found: list[Simple] = []
        self.doubts: list[str] = []
        self.literals: list[tuple[int, str]] = []
        self.pipes: dict[str, str] = {}
        self.bombs: list[str] = []
        self.depth = self.nested = self.steps = self.implied_depth = 0
        self.git_settings: list[tuple[str, str]] = []
        self.unresolved: list[tuple[Simple, str]] = []
        self.written: dict[str, str | None] = {}
        self.copies: dict[str, list[str]] = {}
        self.source: Source

    # -- texts
    # -----------------------------------------------------------------------------------------------------

    def read(self, text: str) -> str | None:
        """Read a text; give what it would print, if the text alone tells.

        Raises:
            Unreadable: It does not parse, or is too much to read.
        """
        self.source = Source(text)
        self.doubts += self.source.doubts
        return self.walk(self.source.root, None)

    def read_nested(
        self, text: str, positional: tuple[str, ...] = (), stdin: str | None = None
    ) -> str | None:
        """Read a text that a command of this one runs, in a shell of its own."""
        if not text.strip():
            return None
        self.doubt("It runs a text with commands of its own.")
        if self.nested >= MAX_NESTED:
            raise Unreadable("The command nests too many commands in one another.")
        if UNKNOWN in text:
            self._read_unknown(text, positional, stdin)
            return None
        outer = self.source
        state = self.state
        self.state = state.copy()
        self.nested = self.nested + 1
        self.state.positional = positional or state.positional
        self.state.finder = self.state.listed = None
        try:
            self.source = Source(text)
            return self.walk(self.source.root, stdin)
        except Unreadable as error:
            self.doubt(str(error))
            return None
        finally:
            self.source = outer
            self.state = state
            self.nested = self.nested - 1

    def _read_unknown(self, text: str, positional: tuple[str, ...], stdin: str | None) -> None:
        """Read a text of which only the run would tell a part: that part may be commands, too.

        All of it is implied.
        """
        before = len(self.found)
        self.note_unknown()
        self.read_nested(text.replace(UNKNOWN, "${HILUM_UNKNOWN_TEXT}"), positional, stdin)
        self.imply(before)

    def note_unknown(self) -> None:
        """Note a command that only the run would tell."""
        unknown = (Word(UNKNOWN, plain=False),)
        self.found.append(
            Simple(
                unknown,
                cwds=self.state.cwds,
                source=UNKNOWN,
                places=self.state.places,
                implied=True,
            )
        )

    def imply(self, before: int) -> None:
        """Mark the commands that were found since then as implied."""
        self.found[before:] = [attrs.evolve(simple, implied=True) for simple in self.found[before:]]

    def doubt(self, why: str) -> None:
        """Note why the text is not harmless."""
        if why not in self.doubts:
            self.doubts.append(why)

    # -- structure
    # -------------------------------------------------------------------------------------------------

    def walk(self, node: Node, stdin: str | None) -> str | None:
        """Read a node and what is in it; give what it would print, if that is known."""
        self.depth = self.depth + 1
        self.steps = self.steps + 1
        if self.depth > MAX_DEPTH or self.steps > MAX_STEPS:
            raise Unreadable("The command is nested too deeply, or runs in too many circles.")
        try:
            if node.type not in PLAIN or not self._parted(node):
                self.doubt("It is more than a list of simple commands.")
            method = getattr(self, f"_{node.type}", None)
            if method:
                result: str | None = method(node, stdin)
                return result
            return self.each(node.named_children, stdin)
        finally:
            self.depth -= 1

    def _parted(self, node: Node) -> bool:
        """Return whether something parts the commands of a list: where nothing does, the shell sees
        one command.
        """
        if node.type not in {"program", "list", "pipeline"}:
            return True
        return all(
            re.search(r"[\n;&|]", self.source.text[a.end_byte : b.start_byte])
            or b.type == "comment"
            for a, b in pairwise(node.named_children)
        )

    def each(self, nodes: list[Node], stdin: str | None) -> str | None:
        """Read nodes one after another; give what they would print, if that is known."""
        printed = [self.walk(node, stdin) for node in nodes if node.type != "comment"]
        if None not in printed:
            return "".join(p for p in printed if p is not None)
        return None

    def _list(self, node: Node, stdin: str | None) -> str | None:
        return self.each(node.named_children, stdin)

    def _negated_command(self, node: Node, stdin: str | None) -> str | None:
        self.literals.append((node.start_byte, "!"))
        return self.each(node.named_children, stdin)

    def _comment(self, node: Node, stdin: str | None) -> str | None:
        return ""

    def _pipeline(self, node: Node, stdin: str | None) -> str | None:
        outer = self.state
        listed = None
        for child in node.named_children:
            self.state = outer.copy()
            before = len(self.found)
            self.state.listed = listed
            stdin = self.walk(child, stdin)
            listed = distant.listed(self.found[before:], listed)
        self.state = outer
        return stdin

    def _subshell(self, node: Node, stdin: str | None) -> str | None:
        outer = self.state
        self.state = self.state.copy()
        try:
            return self.each(node.named_children, stdin)
        finally:
            self.state = outer

    def _function_definition(self, node: Node, stdin: str | None) -> str | None:
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if name is None or body is None:
            raise Unreadable("A function in the command could not be read.")
        called = self.text(name)
        self.state.functions[called] = (self.source, body)
        if self._multiplies(body, called):
            self.bombs.append(called)
        return ""

    def _multiplies(self, body: Node, name: str) -> bool:
        """Return whether a function starts itself beside itself: the fork bomb."""
        waiting = [body]
        while waiting:
            node = waiting.pop()
            waiting += node.children
            if node.type == "command_name" and self.text(node) == name:
                above = node.parent
                while above is not None and above.id != body.id:
                    if above.type == "pipeline" or (
                        above.next_sibling is not None and above.next_sibling.type == "&"
                    ):
                        return True
                    above = above.parent
        return False

    def _for_statement(self, node: Node, stdin: str | None) -> str | None:
        variable = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        if variable is None or body is None:
            return self.each(node.named_children, stdin)
        values = self.words(node.children_by_field_name("value"))
        for value in values[:MAX_LOOP] or [Word(UNKNOWN)]:
            self.state.variables[self.text(variable)] = (w.as_source(value.value),)
            self.walk(body, stdin)
        return None

    def _redirected_statement(self, node: Node, stdin: str | None) -> str | None:
        body = node.child_by_field_name("body")
        redirects, extra, stdin = self._redirects(node, stdin)
        if body is not None and body.type == "command":
            printed = self._command(body, stdin, redirects, extra)
        else:
            if body is not None and extra:
                self.doubt("It has words after a redirection.")
            printed = self.walk(body, stdin) if body is not None else ""
            self.run(
                Simple((), redirects=tuple(redirects), cwds=self.state.cwds, source=self.text(node))
            )
        for pipeline in (
            c for r in node.named_children if r.type == "heredoc_redirect" for c in r.named_children
        ):
            if pipeline.type not in {
                "heredoc_start",
                "heredoc_body",
                "heredoc_end",
                "file_redirect",
                "file_descriptor",
            }:
                printed = self.walk(pipeline, printed)
        if any(">" in r.operator for r in redirects):
            return None
        return printed

    def _redirects(
        self, node: Node, stdin: str | None
    ) -> tuple[list[Redirect], list[Node], str | None]:
        """Read the redirections of a node: them, words that stand after their targets, and the text
        they feed in.
        """
        found: list[Redirect] = []
        extra: list[Node] = []
        redirections = [c for c in node.children if c.type in REDIRECTIONS]
        if len(redirections) > MAX_REDIRECTIONS:
            raise Unreadable("The command has too many redirections.")
        for child in redirections:
            if child.type == "herestring_redirect":
                self.doubt("It has a here-string.")
                text = "".join(x.value for x in self.words(child.named_children, split=False))
                stdin = w.as_source(text) + "\n"
                continue
            if child.type == "heredoc_redirect":
                self.doubt("It has a here-document.")
                stdin = self._heredoc(child)
                more, _, _ = self._redirects(child, None)
                found += more
                continue
            around = (
                self.source.text[child.start_byte - 1 : child.start_byte],
                self.source.text[child.end_byte :][:1],
            )
            broken = "\n" in self.source.text[child.start_byte : child.end_byte]
            if broken or any(char and char not in " \t\n;&|" for char in around):
                self.doubt("It has a redirection that touches a word.")
            number = child.child_by_field_name("descriptor")
            targets = child.children_by_field_name("destination")
            if number is not None:
                if not self.text(number).isdecimal():
                    self.doubt("It has a redirection that touches a word.")
                self.literals.append((number.start_byte, self.text(number)))
            operator = next((c.type for c in child.children if c.type.strip("<>|&-") == ""), ">")
            if not targets:
                continue
            joined = self.joined(targets)
            first = [t for t in targets if t.end_byte <= joined[0][1]]
            extra += targets[len(first) :]
            found += [
                Redirect(operator, target)
                for target in self.words(first) or [Word(UNKNOWN, plain=False)]
            ]
            if operator == "<" and found[-1].target.value in self.pipes:
                stdin = self.pipes[found[-1].target.value]
        return found, extra, stdin

    def _heredoc(self, node: Node) -> str:
        start = next((self.text(c) for c in node.children if c.type == "heredoc_start"), "")
        body = next((c for c in node.children if c.type == "heredoc_body"), None)
        if body is None:
            return ""
        for child in body.named_children:
            if child.type in EXPANSIONS:
                self.expand(child, True)
        text = self.text(body)
        if re.search(r"[\"'\\]", start):
            return text
        return re.sub(r"\\([$`\\])", r"\1", text)

    # -- commands
    # --------------------------------------------------------------------------------------------------

    def _command(
        self,
        node: Node,
        stdin: str | None,
        redirects: list[Redirect] | None = None,
        extra: list[Node] | None = None,
    ) -> str | None:
        own, more, stdin = self._redirects(node, stdin)
        assigned = [self._assign(c) for c in node.children if c.type == "variable_assignment"]
        skipped = {"variable_assignment", *REDIRECTIONS}
        nodes = [c for c in node.children if c.type not in skipped] + more + (extra or [])
        nodes.sort(key=lambda n: n.start_byte)
        if len(nodes) > MAX_WORDS:
            raise Unreadable("The command has too many words.")
        lines = self._lines(nodes)
        simple = Simple(
            tuple(self.words(lines[0])),
            assigned=tuple(assigned),
            redirects=(*own, *(redirects or [])),
            cwds=self.state.cwds,
            stdin=stdin,
            source=self.text(node),
        )
        printed = self.run(simple)
        for line in lines[1:]:
            self.doubt("It has a line that begins in an odd way.")
            printed = self.run(
                Simple(tuple(self.words(line)), cwds=self.state.cwds, source=self.text(line[0]))
            )
        return printed

    def _lines(self, nodes: list[Node]) -> list[list[Node]]:
        """Part the words of a command where a line ends: the grammar reads on if the next one
        begins with an escape.
        """
        lines: list[list[Node]] = [nodes[:1]]
        for before, node in pairwise(nodes):
            if "\n" in self.source.text[before.end_byte : self.begin(node)]:
                lines.append([])
            lines[-1].append(node)
        return lines

    def _declaration_command(self, node: Node, stdin: str | None) -> str | None:
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assign(child)
        self.words([c for c in node.named_children if c.type != "variable_assignment"])
        words = tuple(Word(text) for text in self.text(node).split())
        self.run(Simple(words, cwds=self.state.cwds, source=self.text(node)))
        return ""

    def _unset_command(self, node: Node, stdin: str | None) -> str | None:
        for child in node.named_children:
            self.state.variables.pop(self.text(child), None)
        return ""

    def _variable_assignment(self, node: Node, stdin: str | None) -> str | None:
        self.run(
            Simple((), assigned=(self._assign(node),), cwds=self.state.cwds, source=self.text(node))
        )
        return ""

    def _assign(self, node: Node) -> str:
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        if name is None:
            return ""
        called = self.text(name)
        self.literals.append((node.start_byte, f"{called}="))
        if value is None:
            found: list[Word] = []
        elif value.type == "array":
            found = self.words(value.named_children)
        else:
            found = self.words([value], split=False)
            if self.literals[-2:-1] == [(node.start_byte, f"{called}=")]:
                self.literals[-2:] = [(node.start_byte, f"{called}={found[0].value}")]
        values = tuple(w.as_source(word.value)[: w.MAX_VALUE] for word in found) or ("",)
        if any(c.type == "+=" for c in node.children):
            before = self.state.variables.get(called, ("",))
            array = value is not None and value.type == "array"
            values = (*before, *values) if array else (before[0] + values[0], *before[1:])
        if len(values) > w.MAX_FIELDS or len(values[0]) >= w.MAX_VALUE:
            values = (UNKNOWN,)
        self.state.variables[called] = values
        indirect.assign(self, called, values[0])
        return called

    def run(self, simple: Simple) -> str | None:
        """Take one simple command: note it, and read on in what it runs."""
        from hilum_guard.wrappers import follow

        if len(self.found) >= MAX_COMMANDS:
            raise Unreadable("The command has too many commands.")
        return follow(self, attrs.evolve(simple, places=self.state.places))

    def run_inner(
        self, simple: Simple, words: tuple[Word, ...], stdin: str | None = None
    ) -> str | None:
        """Read on in a command that another one runs.

        It gets the other's input if not given one.
        """
        if not words or self.depth > MAX_DEPTH:
            return None
        self.depth += 1
        try:
            return self.run(
                Simple(
                    words,
                    cwds=self.state.cwds,
                    stdin=simple.stdin if stdin is None else stdin,
                    source=rejoined(words),
                    finder=self.state.finder,
                )
            )
        finally:
            self.depth -= 1

    def call(self, name: str, simple: Simple) -> str | None:
        """Run a function of the text."""
        if self.nested >= MAX_NESTED:
            self.doubt("A function of the command calls itself.")
            return None
        outer = self.state.positional
        source = self.source
        self.source, body = self.state.functions[name]
        self.state.positional, self.nested = (
            tuple(w.as_source(x.value) for x in simple.words[1:]),
            self.nested + 1,
        )
        try:
            return self.walk(body, simple.stdin)
        finally:
            self.state.positional, self.source, self.nested = outer, source, self.nested - 1
