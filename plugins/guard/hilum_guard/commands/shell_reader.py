"""Interpret shell text as Bash would run it, without running it.

The result is every simple command with the words that it would receive. The reader follows
assignments, `cd`, functions, loops over literal words, pipes of literal text into shells, and the
commands that other commands run (`nested_commands`), as far as the text alone determines them.
Everything else is `UNKNOWN`, which makes the text doubtful.
"""

from __future__ import annotations

import glob
import math
import re
from collections.abc import Callable
from contextlib import contextmanager
from itertools import islice, pairwise, product
from typing import TYPE_CHECKING

import attrs

from hilum_guard.commands import command_runners, indirect_commands, nested_commands, shell_words
from hilum_guard.commands.path_checks import PathChecker
from hilum_guard.commands.shell_commands import FindAction, ParsedCommand, Redirect, ShellState
from hilum_guard.commands.shell_expansion import EXPANSIONS, Expander
from hilum_guard.commands.shell_grammar import Source
from hilum_guard.commands.shell_words import UNKNOWN, UNKNOWN_TEXT, Unreadable, Word
from hilum_guard.programs.program_names import quote_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

# Hostile shell text must not keep the reader busy. Text that exceeds these limits counts as
# unreadable, so it needs approval.
MAX_DEPTH = 40
MAX_NESTED = 8
MAX_COMMANDS = 400
# Maximum number of `for` iterations to read; later iterations are unlikely to differ.
MAX_LOOP = 20
MAX_PATTERNS = 2
"""Maximum number of folders of a path with patterns, because each is searched on the disk."""
MAX_STEPS = 5_000
MAX_WORDS = 1_000
MAX_REDIRECTIONS = 50

# The structure that a harmless text may have: a sequence of commands, joined by operators, with
# redirections.
_SIMPLE_STRUCTURE = frozenset(
    "program list pipeline command redirected_statement negated_command comment".split()
)
MAX_ALTERNATIVES = 12
"""Maximum number of values, or of combinations of values, of variables that are set in branches."""
_CHOICES = frozenset("if_statement case_statement while_statement for_statement list".split())
_VARIABLE = re.compile(r"\$\{?[#!]?(\w+)")
# Programs that run code, or scripts with code.
_RUNS_CODE = re.compile(
    r"(?<![\w.-])(?:[gm]?awk|g?sed|perl|ruby|node|deno|bun|php|lua|julia|Rscript|tclsh|uv|p(?:ython|ypy)[\d.]*)(?![\w-])"
)
# The output of `nproc`, for example.
_NUMBER = re.compile(r"\s*\d+\s*", re.ASCII)
_BRANCHES = frozenset("elif_clause else_clause case_item".split())
_REDIRECTIONS = frozenset("file_redirect heredoc_redirect herestring_redirect".split())
_HEREDOC_PARTS = frozenset(
    "heredoc_start heredoc_body heredoc_end file_redirect file_descriptor".split()
)
_UNKNOWN_WORD = Word(UNKNOWN, plain=False)


class ShellReader(Expander):
    """A reader of shell text and of the shell text nested in it.

    Attributes:
        commands: The simple commands in the order in which they would run.
        doubts: Why the text as a whole is not harmless; empty if its commands alone decide whether
            it is.
        fork_bombs: Functions that start copies of themselves.
        git_settings: Settings that `git config` commands in the text change for later commands.
        unresolved: Commands whose sub-command is unknown, each with the reason.
        written_files: Files that the text writes, with their contents; None for contents that are
            known only at run time.
        program_copies: New names that links and copies in the text give to programs, with the
            originals.
        implied_depth: The number of aliases and links that led to the command being read.
    """

    def __init__(self, checker: PathChecker, cwd: str) -> None:
        self.checker = checker
        variables: dict[str, tuple[str, ...]] = {
            "HOME": (shell_words.encode_source(checker.home),),
            "PWD": (shell_words.encode_source(cwd),),
            "IFS": (" \t\n",),  # shells ignore an inherited value
        }
        self.state = ShellState((cwd,), variables, checker=checker)
        self.commands: list[ParsedCommand] = []
        self.doubts: list[str] = []
        self.literal_words: list[tuple[int, str]] = []
        self.piped_texts: dict[str, str] = {}
        self.piped_lists: dict[str, FindAction] = {}
        self.fork_bombs: list[str] = []
        self.depth = 0
        self.nested = 0
        self.steps = 0
        self.implied_depth = 0
        self.git_settings: list[tuple[str, str]] = []
        self.unresolved: list[tuple[ParsedCommand, str]] = []
        self.written_files: dict[str, str | None] = {}
        self.program_copies: dict[str, list[str]] = {}
        # Values that variables may have instead, because a branch may have run or not.
        self._alternatives: dict[str, list[tuple[str, ...]]] = {}
        self._choices = 0
        # What the patterns match over which a `for` loop goes, by its variable.
        self._matches: dict[str, list[tuple[str, ...]]] = {}
        self._is_alternating = False
        self.source: Source

    # --- texts ------------------------------------------------------------------------------------

    def read(self, text: str) -> str | None:
        """Read shell text; return what it prints, or None if unknown.

        Raises:
            Unreadable: The text cannot be parsed, or is too large to read.
        """
        self.source = Source(text)
        self.doubts += self.source.doubts
        return self.read_node(self.source.root, None)

    def read_nested(
        self,
        text: str,
        positional: tuple[str, ...] = (),
        stdin: str | None = None,
        *,
        keep_variables: bool = False,
        is_guess: bool = False,
    ) -> str | None:
        """Read text that a command in the current text runs in another shell.

        Args:
            text: The text.
            positional: The positional parameters, if they are other than the current ones.
            stdin: The standard input of the commands, if known.
            keep_variables: Whether the current shell runs the text, as with `eval`.
            is_guess: Whether the text need not be shell code.
        """
        if not text.strip():
            return None
        # The second word reader (`Source.matches_shlex`) does not check nested text.
        self.add_doubt("It runs shell text that contains other commands.")
        if self.nested >= MAX_NESTED:
            raise Unreadable("The command nests commands too deeply.")
        if UNKNOWN in text:
            self._read_unknown(text, positional, stdin)
            return None
        outer = (self.source, self.state, self.nested)
        self.state = self.state.copy()
        self.state.positional = positional or self.state.positional
        # The words in nested text are not the files found by an outer `find`.
        self.state.finder = None
        self.state.listed = None
        self.nested += 1
        try:
            self.source = Source(text)
            return self.read_node(self.source.root, stdin)
        except Unreadable as error:
            self.add_doubt(str(error))
            # What cannot be read may run anything.
            if not is_guess:
                self.add_unknown()
            return None
        finally:
            if keep_variables:
                outer[1].variables.update(self.state.variables)
                outer[1].functions.update(self.state.functions)
            self.source, self.state, self.nested = outer

    def define_functions(self, text: str) -> None:
        """Define the functions in a text that the current shell has read.

        Raises:
            Unreadable: The text cannot be parsed.
        """
        outer = self.source
        self.source = Source(text)
        try:
            waiting = [self.source.root]
            while waiting:
                node = waiting.pop()
                waiting += node.named_children
                name = node.child_by_field_name("name")
                body = node.child_by_field_name("body")
                if node.type == "function_definition" and name is not None and body is not None:
                    self.state.functions[self.node_text(name)] = (self.source, body)
        finally:
            self.source = outer

    def _read_unknown(self, text: str, positional: tuple[str, ...], stdin: str | None) -> None:
        """Read text with an unknown part, which may contain commands; all of them are implied."""
        with self.implying():
            self.add_unknown()
            self.read_nested(text.replace(UNKNOWN, UNKNOWN_TEXT), positional, stdin)

    def add_unknown(self) -> None:
        """Add a command that is known only at run time."""
        self.commands.append(
            ParsedCommand(
                (_UNKNOWN_WORD,),
                cwds=self.state.cwds,
                source=UNKNOWN,
                checker=self.state.checker,
                implied=True,
            )
        )

    @contextmanager
    def implying(self) -> Iterator[None]:
        """Mark the commands added in the `with` block as implied."""
        before = len(self.commands)
        yield
        implied = [attrs.evolve(command, implied=True) for command in self.commands[before:]]
        self.commands[before:] = implied

    def add_doubt(self, why: str) -> None:
        """Add a reason why the text is not harmless."""
        # A loop would add the same doubt in each iteration.
        if why not in self.doubts:
            self.doubts.append(why)

    # --- structure --------------------------------------------------------------------------------

    def read_node(self, node: Node, stdin: str | None) -> str | None:
        """Read a node and its children; return what it prints, or None if unknown."""
        self.depth += 1
        self.steps += 1
        if self.depth > MAX_DEPTH or self.steps > MAX_STEPS:
            raise Unreadable("The command is nested too deeply, or has too many loops.")
        self._choices += node.type in _CHOICES
        try:
            if node.type not in _SIMPLE_STRUCTURE or not self._is_separated(node):
                self.add_doubt("It is more than a list of simple commands.")
            read = _NODES.get(node.type)
            if read is not None:
                return read(self, node, stdin)
            return self.read_nodes(node.named_children, stdin)
        finally:
            self._choices -= node.type in _CHOICES
            self.depth -= 1

    def _is_separated(self, node: Node) -> bool:
        """Return whether a newline or operator separates the commands in a list.

        Without a separator, the shell sees a single command.
        """
        if node.type not in {"program", "list", "pipeline"}:
            return True
        for before, after in pairwise(node.named_children):
            between = self.source.text[before.end_byte : after.start_byte]
            if after.type != "comment" and not re.search(r"[\n;&|]", between):
                return False
        return True

    def read_nodes(self, nodes: list[Node], stdin: str | None) -> str | None:
        """Read nodes one after another; return what they print, or None if unknown."""
        known = []
        is_known = True
        for node in nodes:
            if node.type == "comment":
                continue
            printed = self.read_node(node, stdin)
            if printed is None:
                is_known = False
            else:
                known.append(printed)
        return "".join(known) if is_known else None

    def _read_negation(self, node: Node, stdin: str | None) -> str | None:
        self.literal_words.append((node.start_byte, "!"))
        return self.read_nodes(node.named_children, stdin)

    def _read_comment(self, node: Node, stdin: str | None) -> str | None:
        return ""

    def read_listing(self, nodes: list[Node]) -> tuple[str | None, FindAction | None]:
        """Read nodes; return what they print, and the `find` that lists the paths, if any."""
        self.state.listed = None
        before = len(self.commands)
        printed = self.read_nodes(nodes, None)
        # The filters in a pipeline pass on the paths that its first command lists.
        listed = None
        for command in self.commands[before:]:
            listed = command_runners.find_listed([command], listed)
        return printed, listed

    def _read_pipeline(self, node: Node, stdin: str | None) -> str | None:
        outer = self.state
        listed = None
        for number, child in enumerate(node.named_children):
            # Each part of a pipeline runs in a subshell: its assignments and its `cd` end with the
            # subshell.
            self.state = outer.copy()
            self.state.listed = listed
            self.state.fed = outer.fed or number > 0
            before = len(self.commands)
            stdin = self.read_node(child, stdin)
            listed = command_runners.find_listed(self.commands[before:], listed)
        self.state = outer
        return stdin

    def _read_list(self, node: Node, stdin: str | None) -> str | None:
        """Read `A && B` and `A || B`; which of two texts `A || B` prints is unknown."""
        children = [child for child in node.named_children if child.type != "comment"]
        printed = [self.read_nodes([child], stdin) for child in children]
        known = [text for text in printed if text is not None]
        is_choice = any(child.type == "||" for child in node.children)
        # `$(nproc || echo 4)` is a number, whichever it is.
        if is_choice and len(known) == len(printed) and all(map(_NUMBER.fullmatch, known)):
            return known[0]
        if len(known) < len(printed) or (is_choice and len(list(filter(None, known))) > 1):
            return None
        return "".join(known)

    def _read_list_with_input(self, node: Node, stdin: str | None, last: str | None) -> str | None:
        """Read `A && B <<E`, whose here-document is the input of the last command only.

        Args:
            node: The list.
            stdin: The standard input of the other commands, if known.
            last: The standard input of the last command, if known.
        """
        *others, final = [child for child in node.named_children if child.type != "comment"]
        printed = [self.read_nodes(others, stdin)]
        is_choice = any(child.type == "||" for child in node.children)
        before = dict(self.state.variables) if is_choice else {}
        printed.append(self.read_nodes([final], last))
        # Only one of two assignments in `A && W=x || W=y` is made.
        for name, values in self.state.variables.items():
            if name in before and before[name] != values:
                self.state.variables[name] = (UNKNOWN,)
        known = [text for text in printed if text is not None]
        return "".join(known) if len(known) == len(printed) else None

    def _read_subshell(self, node: Node, stdin: str | None) -> str | None:
        outer = self.state
        self.state = self.state.copy()
        try:
            return self.read_nodes(node.named_children, stdin)
        finally:
            self.state = outer

    def _read_function(self, node: Node, stdin: str | None) -> str | None:
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if name is None or body is None:
            raise Unreadable("A function in the command could not be read.")
        function = self.node_text(name)
        self.state.functions[function] = (self.source, body)
        # The function's body is read when the function is called, with the shell state at that
        # time.
        if self._is_fork_bomb(body, function):
            self.fork_bombs.append(function)
        return ""

    def _is_fork_bomb(self, body: Node, name: str) -> bool:
        """Return whether a function runs itself in a pipeline or in the background."""
        waiting = [body]
        while waiting:
            node = waiting.pop()
            waiting += node.children
            is_call = node.type == "command_name" and self.node_text(node) == name
            if is_call and _runs_in_parallel(node, body):
                return True
        return False

    def _read_loop(self, node: Node, stdin: str | None) -> str | None:
        variable = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        if variable is None or body is None:
            return self.read_nodes(node.named_children, stdin)
        words = self.read_words(node.children_by_field_name("value"))
        values = tuple(map(shell_words.encode_value, words))
        if not any(child.type == "in" for child in node.children):
            values = self.state.positional
        # If a `for` loop had no values, the commands in its body would not be read and therefore
        # not judged.
        if not values or len(values) > MAX_LOOP:
            values = (*values[:MAX_LOOP], UNKNOWN)
        name = self.node_text(variable)
        self._matches[name] = self._find_matches(words)
        for value in values:
            self.state.variables[name] = (value,)
            self.read_node(body, stdin)
        return None

    def _find_matches(self, words: list[Word]) -> list[tuple[str, ...]]:
        """Return the encoded folders that patterns match on the disk; none if there are too many.

        A sandbox protects the files that exist, but not the new files in a folder.
        """
        found: list[str] = []
        folders = [folder for folder in self.state.cwds if folder is not None]
        for word in words:
            patterns = [part for part in word.value.split("/") if glob.has_magic(part)]
            if not word.glob or not word.known or len(patterns) > MAX_PATTERNS:
                continue
            for folder in folders:
                pattern = f"{word.value.rstrip('/')}/"
                matches = islice(glob.iglob(pattern, root_dir=folder), MAX_ALTERNATIVES)
                found += [match.rstrip("/") for match in matches]
        found = sorted(set(found))
        if len(found) >= MAX_ALTERNATIVES:
            return []
        return [(shell_words.encode_value(Word(match)),) for match in found]

    def _read_choice(self, node: Node, stdin: str | None) -> str | None:
        """Read `if` and `case`: a branch that does not run removes no arguments."""
        before = self.state.positional
        printed = []
        for child in node.named_children:
            if child.type in _BRANCHES:
                self._restore_positional(before)
            printed.append(self.read_nodes([child], stdin))
        self._restore_positional(before)
        known = [text for text in printed if text is not None]
        return "".join(known) if len(known) == len(printed) else None

    def _restore_positional(self, before: tuple[str, ...]) -> None:
        """Restore the parameters that a part of the text has removed, but not what it has set."""
        after = self.state.positional
        if after == before[len(before) - len(after) :]:
            self.state.positional = before

    def _read_while(self, node: Node, stdin: str | None) -> str | None:
        """Read `while` and `until`; each `read` in the condition receives one line of input."""
        before = self.state.positional
        lines = list(filter(None, (stdin or "").split("\n")))
        if len(lines) > MAX_LOOP:
            lines = [*lines[:MAX_LOOP], UNKNOWN]
        printed = None
        if not lines:
            printed = self.read_nodes(node.named_children, stdin)
        for line in lines:
            self.read_nodes(node.named_children, line)
        self._restore_positional(before)
        return printed

    # --- redirections -----------------------------------------------------------------------------

    def _read_redirected(self, node: Node, stdin: str | None) -> str | None:
        listed = self.state.listed
        try:
            return self._read_with_redirects(node, stdin)
        finally:
            self.state.listed = listed

    def _read_with_redirects(self, node: Node, stdin: str | None) -> str | None:
        body = node.child_by_field_name("body")
        outer = stdin
        # The grammar gives the redirections of `A && B > FILE` to the list; they are those of `B`,
        # and may contain what `A` assigns.
        if body is not None and body.type == "list":
            body = self._read_all_but_last(body, stdin)
            if body.type == "command":
                self._read_alternatives(body, stdin)
        redirects, extra, stdin = self._read_redirects(node, stdin)
        if body is not None and body.type == "command":
            printed = self._read_command(body, stdin, redirects, extra)
        else:
            if body is not None and extra:
                self.add_doubt("It has words after a redirection.")
            was_fed = self.state.fed
            self.state.fed = was_fed or any("<" in redirect.operator for redirect in redirects)
            if body is not None and body.type == "list":
                printed = self._read_list_with_input(body, outer, stdin)
            else:
                printed = self.read_node(body, stdin) if body is not None else ""
            self.state.fed = was_fed
            self._add_redirects(redirects, node)
        # The grammar treats the text after `<<E |` and `<<E &&` as part of the here-document.
        heredocs = [child for child in node.named_children if child.type == "heredoc_redirect"]
        for heredoc in heredocs:
            for child in heredoc.named_children:
                if child.type in _HEREDOC_PARTS:
                    continue
                is_piped = child.type == "pipeline" and child.children[0].type == "|"
                printed = self.read_node(child, printed if is_piped else outer)
        # The command's output goes to a file, not into the pipeline.
        is_written = any(">" in redirect.operator for redirect in redirects)
        return None if is_written and not self._redirects_errors(node) else printed

    def _redirects_errors(self, node: Node) -> bool:
        """Return whether all redirections of a statement are like `2>/dev/null`."""
        redirects = [child for child in node.named_children if child.type == "file_redirect"]
        return all(re.match(r"2>>?\s*[\w/.]", self.node_text(child)) for child in redirects)

    def _read_all_but_last(self, node: Node, stdin: str | None) -> Node:
        """Read the commands of a list before its last one, if all must succeed; return the rest."""
        parts = [child for child in node.named_children if child.type != "comment"]
        is_chain = all(child.type != "||" for child in node.children)
        if not is_chain or len(parts) < 2 or not self._is_separated(node):
            return node
        self._choices += 1
        try:
            self.read_nodes(parts[:-1], stdin)
        finally:
            self._choices -= 1
        return parts[-1]

    def _read_lone_redirect(self, node: Node, stdin: str | None) -> str | None:
        """Read `$(< FILE)`: a redirection where a command is expected."""
        if node.parent is not None:
            redirects, _, _ = self._read_redirects(node.parent, None)
            self._add_redirects(redirects, node)
        return None

    def _add_redirects(self, redirects: list[Redirect], node: Node) -> None:
        """Add redirections that do not belong to a simple command."""
        self.add_command((), node, redirects=tuple(redirects))

    def _read_redirects(
        self, node: Node, stdin: str | None
    ) -> tuple[list[Redirect], list[Node], str | None]:
        """Read the redirections of a node.

        Returns:
            The redirections, the words after their targets, and the text that the redirections pipe
            in.
        """
        redirects: list[Redirect] = []
        extra: list[Node] = []
        children = [child for child in node.children if child.type in _REDIRECTIONS]
        if len(children) > MAX_REDIRECTIONS:
            raise Unreadable("The command has too many redirections.")
        for child in children:
            if child.type != "file_redirect":
                self.state.listed = None
            if child.type == "herestring_redirect":
                self.add_doubt("It has a here-string.")
                values = self.read_values(child.named_children)
                stdin = shell_words.encode_source("".join(word.value for word in values)) + "\n"
            elif child.type == "heredoc_redirect":
                self.add_doubt("It has a here-document.")
                stdin = self._read_heredoc(child)
                inner, _, _ = self._read_redirects(child, None)
                redirects += inner
            else:
                read, words = self._read_file_redirect(child)
                redirects += read
                extra += words
                if read and read[-1].operator in ("<", "<&"):
                    path = read[-1].target.value
                    stdin = self.piped_texts.get(path)
                    self.state.listed = self.piped_lists.get(path)
        return redirects, extra, stdin

    def _read_file_redirect(self, node: Node) -> tuple[list[Redirect], list[Node]]:
        """Return a redirection to or from a file, and the words after its target."""
        text = self.source.text
        around = text[node.start_byte - 1 : node.start_byte] + text[node.end_byte :][:1]
        number = node.child_by_field_name("descriptor")
        has_odd_number = False
        if number is not None:
            has_odd_number = not self.node_text(number).isdecimal()
            self.literal_words.append((number.start_byte, self.node_text(number)))
        is_broken = "\n" in text[node.start_byte : node.end_byte]
        if has_odd_number or is_broken or around.strip(" \t\n;&|"):
            self.add_doubt("It has a redirection directly next to a word.")
        targets = node.children_by_field_name("destination")
        if not targets:
            return [], []
        operators = (child.type for child in node.children if not child.type.strip("<>|&-"))
        operator = next(operators, ">")
        end = self.join_spans(targets)[0][1]
        first = [target for target in targets if target.end_byte <= end]
        words = self.read_words(first) or [_UNKNOWN_WORD]
        return [Redirect(operator, word) for word in words], targets[len(first) :]

    def _read_heredoc(self, node: Node) -> str:
        """Return the text of a here-document."""
        parts = {child.type: child for child in reversed(node.children)}
        body = parts.get("heredoc_body")
        if body is None:
            return ""
        for child in body.named_children:
            if child.type in EXPANSIONS:
                self.expand(child, True)
        text = self.node_text(body)
        start = parts.get("heredoc_start")
        is_quoted = start is not None and re.search(r"[\"'\\]", self.node_text(start))
        return text if is_quoted else re.sub(r"\\([$`\\])", r"\1", text)

    # --- commands ---------------------------------------------------------------------------------

    def _read_plain_command(self, node: Node, stdin: str | None) -> str | None:
        listed = self.state.listed
        try:
            self._read_alternatives(node, stdin)
            return self._read_command(node, stdin, [], [])
        finally:
            self.state.listed = listed

    def _read_alternatives(self, node: Node, stdin: str | None) -> None:
        """Read a command with the other values that its variables may have."""
        if self._is_alternating or not (self._alternatives or self._matches):
            return
        text = self.node_text(node)
        alternatives = self._alternatives
        if self._matches and _RUNS_CODE.search(text):
            # Nothing shows that a part of a program's code or words (`awk … o=$D/x`) is a pattern.
            alternatives = {**self._matches, **alternatives}
        used = set(_VARIABLE.findall(text))
        names = [name for name in alternatives if name in used]
        if not names:
            return
        known = [
            [self.state.variables.get(name, (UNKNOWN,)), *alternatives[name]] for name in names
        ]
        outer = self.state
        literal_words = list(self.literal_words)
        self._is_alternating = True
        try:
            with self.implying():
                for values in islice(product(*known), 1, MAX_ALTERNATIVES):
                    self.state = outer.copy()
                    self.state.variables.update(zip(names, values, strict=True))
                    self._read_command(node, stdin, [], [])
                if math.prod(map(len, known)) > MAX_ALTERNATIVES:
                    self.add_unknown()
        finally:
            self.state = outer
            self.literal_words[:] = literal_words
            self._is_alternating = False

    def note_alternative(self, name: str, values: tuple[str, ...]) -> None:
        """Remember that a variable may have kept its value, or have another one of a branch."""
        if not self._choices:
            self._alternatives.pop(name, None)
            self._matches.pop(name, None)
            return
        found = self._alternatives.setdefault(name, [])
        for each in (self.state.variables.get(name), values):
            if each is not None and each not in found and len(found) < MAX_ALTERNATIVES:
                found.append(each)

    def _read_command(
        self, node: Node, stdin: str | None, redirects: list[Redirect], extra: list[Node]
    ) -> str | None:
        own, after_redirects, stdin = self._read_redirects(node, stdin)
        assigned = []
        nodes = [*after_redirects, *extra]
        end = -1
        for child in node.children:
            if child.type == "variable_assignment":
                assigned.append(self._assign(child))
                end = child.end_byte
            elif child.start_byte == end:
                # The grammar ends the value of `U=http:`echo x`` at the colon.
                self._append_to_value(assigned[-1], child)
                end = child.end_byte
            elif child.type not in _REDIRECTIONS:
                nodes.append(child)
        # Words can follow a redirection: `echo >out text` prints `text`.
        nodes.sort(key=lambda each: each.start_byte)
        if len(nodes) > MAX_WORDS:
            raise Unreadable("The command has too many words.")
        first, *others = self._split_lines(nodes)
        printed = self.add_command(
            tuple(self.read_words(first)),
            node,
            assigned=tuple(assigned),
            redirects=(*own, *redirects),
            stdin=stdin,
        )
        for line in others:
            self.add_doubt("It has a line that begins in an unusual way.")
            printed = self.add_command(tuple(self.read_words(line)), line[0])
        return printed

    def _append_to_value(self, name: str, node: Node) -> None:
        """Append to the value of a variable what follows it without a space."""
        before = self.state.variables.get(name, ("",))
        rest = self.read_values([node])
        text = "".join(map(shell_words.encode_value, rest))
        value = f"{before[0]}{text}" if len(before) == 1 else UNKNOWN
        if len(value) >= shell_words.MAX_VALUE:
            value = UNKNOWN
        self.state.variables[name] = (value,)
        indirect_commands.read_variable(self, name, value)

    def _split_lines(self, nodes: list[Node]) -> list[list[Node]]:
        """Split a command's words at newlines.

        The grammar continues a command on the next line if that line begins with an escape.
        """
        lines: list[list[Node]] = [nodes[:1]]
        for before, node in pairwise(nodes):
            if "\n" in self.source.text[before.end_byte : self.node_start(node)]:
                lines.append([])
            lines[-1].append(node)
        return lines

    def _read_declaration(self, node: Node, stdin: str | None) -> str | None:
        others = []
        # After `declare -n W=V`, `$W` is the value of another variable, which may change later.
        is_reference = re.search(r"\s-\w*n", self.node_text(node)) is not None
        if is_reference:
            # Each assignment to `W` may change the other one.
            self.add_unknown()
        name = ""
        end = -1
        for child in node.named_children:
            if child.type == "variable_assignment":
                name = self._assign(child)
                end = child.end_byte
            elif child.start_byte == end:
                self._append_to_value(name, child)
                end = child.end_byte
            else:
                others.append(child)
                continue
            if is_reference:
                self.state.variables[name] = (UNKNOWN,)
        self.read_words(others)
        # `export` and `declare` do not run anything, so their source text is exact enough to use as
        # words.
        self.add_command(tuple(map(Word, self.node_text(node).split())), node)
        return ""

    def _read_unset(self, node: Node, stdin: str | None) -> str | None:
        for child in node.named_children:
            self.state.variables.pop(self.node_text(child), None)
        return ""

    def _read_assignment(self, node: Node, stdin: str | None) -> str | None:
        self.add_command((), node, assigned=(self._assign(node),))
        return ""

    def _assign(self, node: Node) -> str:
        """Set a variable; return its name."""
        name_node = node.child_by_field_name("name")
        value_node = node.child_by_field_name("value")
        if name_node is None:
            return ""
        name = self.node_text(name_node)
        words = self._read_assigned(node, name, value_node)
        values = tuple(
            shell_words.encode_value(word)[: shell_words.MAX_VALUE] for word in words
        ) or ("",)
        if any(child.type == "+=" for child in node.children):
            before = self.state.variables.get(name, ("",))
            if value_node is not None and value_node.type == "array":
                values = (*before, *values)
            else:
                values = (before[0] + values[0], *before[1:])
        if len(values) > shell_words.MAX_FIELDS or len(values[0]) >= shell_words.MAX_VALUE:
            values = (UNKNOWN,)
        base, bracket, _ = name.partition("[")
        if bracket:  # `x[0]=push` also sets `x`
            self._choices += 1
            self.note_alternative(base, values)
            self._choices -= 1
        self.note_alternative(name, values)
        self.state.variables[name] = values
        indirect_commands.read_variable(self, name, values[0])
        return name

    def _read_assigned(self, node: Node, name: str, value: Node | None) -> list[Word]:
        """Return the words in an assigned value."""
        self.literal_words.append((node.start_byte, f"{name}="))
        if value is None:
            return []
        if value.type == "array":
            return self.read_words(value.named_children)
        words = self.read_values([value])
        # `shlex` sees `NAME=value` as one word.
        if self.literal_words[-2:-1] == [(node.start_byte, f"{name}=")]:
            self.literal_words[-2:] = [(node.start_byte, f"{name}={words[0].value}")]
        return words

    def add_command(
        self,
        words: tuple[Word, ...],
        node: Node,
        *,
        assigned: tuple[str, ...] = (),
        redirects: tuple[Redirect, ...] = (),
        stdin: str | None = None,
    ) -> str | None:
        """Add a simple command in the text, and read the commands that it runs."""
        command = ParsedCommand(
            words,
            assigned=assigned,
            redirects=redirects,
            cwds=self.state.cwds,
            stdin=stdin,
            source=self.node_text(node),
        )
        return self._add(command)

    def _add(self, command: ParsedCommand) -> str | None:
        # Functions and aliases can multiply commands without deep nesting.
        if len(self.commands) >= MAX_COMMANDS:
            raise Unreadable("The command line contains too many commands.")
        command = attrs.evolve(
            command,
            words=tuple(map(_without_null, command.words)),
            redirects=tuple(
                attrs.evolve(redirect, target=_without_null(redirect.target))
                for redirect in command.redirects
            ),
            checker=self.state.checker,
            environment=self._find_environment(),
        )
        return nested_commands.read_command(self, command)

    def _find_environment(self) -> tuple[tuple[str, str], ...]:
        """Return the variables, set by the text, that decide what Git, editors or `make` run.

        A variable that may have several values is repeated, with its first value at the end.
        """
        home = (shell_words.encode_source(self.checker.home),)
        return tuple(
            (name, value)
            for name, values in self.state.variables.items()
            if _STEERS.fullmatch(name) and not (name == "HOME" and values == home)
            for value in reversed(values)
        )

    def read_inner(
        self, command: ParsedCommand, words: tuple[Word, ...], stdin: str | None = None
    ) -> str | None:
        """Read a command that another one runs; by default, both share standard input."""
        if not words or self.depth > MAX_DEPTH:
            return None
        self.depth += 1
        try:
            inner = ParsedCommand(
                words,
                cwds=self.state.cwds,
                stdin=command.stdin if stdin is None else stdin,
                source=quote_words(words),
                finder=self.state.finder,
            )
            return self._add(inner)
        finally:
            self.depth -= 1

    def call_function(self, name: str, command: ParsedCommand) -> str | None:
        """Read the body of a function that a command calls."""
        if self.nested >= MAX_NESTED:
            self.add_doubt("A function of the command calls itself.")
            return None
        outer = (self.source, self.state.positional, self.nested)
        self.source, body = self.state.functions[name]
        self.state.positional = tuple(map(shell_words.encode_value, command.words[1:]))
        self.nested += 1
        try:
            return self.read_node(body, command.stdin)
        finally:
            self.source, self.state.positional, self.nested = outer


_STEERS = re.compile(
    r"GIT_\w+|EDITOR|VISUAL|HOME|XDG_CONFIG_HOME|MAKEFLAGS|GNUMAKEFLAGS|MAKEFILES|PYTHONPATH"
    r"|PYTEST_ADDOPTS|PYTEST_PLUGINS"
    # Variables with which managers of Git hooks run none, or leave some out.
    r"|HUSKY(?:_SKIP_HOOKS)?|LEFTHOOK(?:_EXCLUDE)?|SKIP|OVERCOMMIT_DISABLE|SKIP_SIMPLE_GIT_HOOKS"
    r"|PRE_COMMIT_ALLOW_NO_CONFIG",
    re.ASCII,
)


def _without_null(word: Word) -> Word:
    """Return a word without null bytes, which no program receives: shells cut or drop them."""
    if "\0" not in word.value:
        return word
    return attrs.evolve(word, value=word.value.replace("\0", UNKNOWN), plain=False)


def _runs_in_parallel(node: Node, body: Node) -> bool:
    """Return whether a node in a function body is part of a pipeline or runs in the background."""
    above = node.parent
    while above is not None and above.id != body.id:
        after = above.next_sibling
        if above.type == "pipeline" or (after is not None and after.type == "&"):
            return True
        above = above.parent
    return False


_NODES: dict[str, Callable[[ShellReader, Node, str | None], str | None]] = {
    "negated_command": ShellReader._read_negation,
    "comment": ShellReader._read_comment,
    "pipeline": ShellReader._read_pipeline,
    "list": ShellReader._read_list,
    "subshell": ShellReader._read_subshell,
    "function_definition": ShellReader._read_function,
    "for_statement": ShellReader._read_loop,
    "while_statement": ShellReader._read_while,
    **dict.fromkeys(("if_statement", "case_statement"), ShellReader._read_choice),
    "redirected_statement": ShellReader._read_redirected,
    "file_redirect": ShellReader._read_lone_redirect,
    "command": ShellReader._read_plain_command,
    "declaration_command": ShellReader._read_declaration,
    "unset_command": ShellReader._read_unset,
    "variable_assignment": ShellReader._read_assignment,
}
