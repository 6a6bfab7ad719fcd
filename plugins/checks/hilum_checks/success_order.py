"""Find which commands of a shell text have certainly succeeded before another one begins.

``make test && git commit`` commits only if the tests pass, and so do ``git add a; make test && git
commit``, ``if make test; then git commit; fi`` and, after ``set -e``, a list of lines.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from hilum_guard import ShellSource, UnreadableShell

from hilum_checks import variables

if TYPE_CHECKING:
    from tree_sitter import Node

# Exit codes other than 0; `exit 256` succeeds.
_FAILURE = r"(?:[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])"
_EXITS = re.compile(rf"exit\s+{_FAILURE}")
# Commands that end the shell with success, or change what the name of a later command means.
_CHANGES_SHELL = re.compile(
    rf"(?:exit(?!\s+{_FAILURE}\s*$)|exec|return|kill|logout|trap|alias|export|declare|typeset|local|readonly"
    r"|hash|enable|set|setopt|unsetopt|emulate|shopt|source|\.|eval|function|builtin|unset|ln|break|continue)(?:\s|$)"
)
_PIPEFAIL = re.compile(r"set(?:\s+-[eux]*o\s+pipefail)(?:\s+-[eux]+)*")
_STRICT = re.compile(r"set(?:\s+-[ux]*e[eux]*(?:o\s+pipefail)?|\s+-o\s+(?:errexit|pipefail))+")
# Variables of the shell itself.
_OF_SHELL = re.compile(
    r"BASH\w*|PATH|path|IFS|ENV|CDPATH|GLOBIGNORE|EXECIGNORE|SHELLOPTS|POSIXLY_CORRECT|HOME|PWD|OLDPWD"
)
# Nodes of the grammar that may change the shell.
_RUNS = frozenset(
    "command declaration_command unset_command test_command function_definition".split()
)
# Nodes through which a search for earlier commands continues.
_TRANSPARENT = frozenset(("redirected_statement", "pipeline", "negated_command"))
_GROUPS = frozenset(("subshell", "compound_statement"))
_HEREDOC_PARTS = frozenset(("heredoc_start", "heredoc_body", "heredoc_end", "file_redirect"))


class SuccessOrder:
    """The commands of a shell text, with what must have succeeded before each.

    Args:
        text: The text. One that cannot be parsed has no commands.
        activations: The texts of the commands that only activate a virtual environment.

    Attributes:
        commands: The text of each command, in the order of the text.
    """

    def __init__(self, text: str, activations: frozenset[str] = frozenset()) -> None:
        self._activations = activations
        self.commands: list[str] = []
        self._nodes: list[Node] = []
        self._all: list[Node] = []
        try:
            self._source = ShellSource(text)
        except UnreadableShell:
            return
        self._all = list(_walk(self._source.root))
        # A command in the background may write at any time, so that no order is certain.
        if any(node.type == "&" for node in self._all):
            return
        self._nodes = [node for node in self._all if node.type == "command"]
        self.commands = [self._text_of(node) for node in self._nodes]

    def _text_of(self, node: Node) -> str:
        text = self._source.text[node.start_byte : node.end_byte]
        return text.encode("latin-1").decode()

    def list_before(self, index: int) -> list[int]:
        """Return the indexes of the commands that have succeeded if a command begins.

        Args:
            index: The index of the command.
        """
        node = self._nodes[index]
        if self._changes_shell(node.start_byte):
            return []
        proven = []
        while node.parent is not None:
            found = self._list_at(node.parent, node)
            if found is None:
                break
            proven += found
            node = node.parent
        return self._index(proven)

    def list_after_success(self) -> list[int]:
        """Return the indexes of the commands that have succeeded if the whole text has."""
        if not self._nodes or self._changes_shell(self._source.root.end_byte):
            return []
        statements = _statements(self._source.root)
        strict = self._list_strict(statements[:-1])
        return self._index([*strict, *self._list_succeeded(statements[-1])] if statements else [])

    def find_cover(self, index: int) -> str:
        """Return what hides whether a command has succeeded: `|`, `||` or `;`; empty if nothing does.

        Args:
            index: The index of the command.
        """
        node = self._nodes[index]
        while node.parent is not None:
            parent = node.parent
            # `! A` succeeds only if `A` fails.
            if parent.type == "negated_command":
                return ""
            statements = _statements(parent)
            is_last = not statements or node.start_byte == statements[-1].start_byte
            if parent.type == "pipeline" and not is_last and not self._has_pipefail(parent):
                return "|"
            if parent.type == "list" and any(each.type == "||" for each in parent.children):
                return "||"
            if parent.type in ("program", *_GROUPS) and not is_last:
                return ";"
            node = parent
        return ""

    def _index(self, nodes: list[Node]) -> list[int]:
        starts = {node.start_byte for node in nodes}
        return [index for index, node in enumerate(self._nodes) if node.start_byte in starts]

    def _list_at(self, parent: Node, child: Node) -> list[Node] | None:
        """Return what has succeeded before a part of a node begins; ``None`` if it may run twice."""
        if parent.type == "list":
            is_right = child.start_byte == parent.children[-1].start_byte
            joins = is_right and any(each.type == "&&" for each in parent.children)
            return self._list_succeeded(parent.children[0]) if joins else []
        if parent.type == "heredoc_redirect":
            # The grammar treats the text after `<<E &&` as part of the here-document.
            body = parent.parent.child_by_field_name("body") if parent.parent else None
            joins = any(each.type == "&&" for each in parent.children)
            return self._list_succeeded(body) if joins and body is not None else []
        if parent.type in ("program", *_GROUPS):
            earlier = [each for each in _statements(parent) if each.end_byte <= child.start_byte]
            if parent.type == "program":
                return self._list_strict(earlier)
            return [found for each in earlier for found in self._list_unless_ended(each)]
        if parent.type == "if_statement":
            return self._list_of_condition(parent, child)
        return [] if parent.type in _TRANSPARENT else None

    def _list_strict(self, statements: list[Node]) -> list[Node]:
        """Return the commands without whose success the shell would have ended.

        That is so after ``set -e``, and of ``A || exit 1``.
        """
        proven: list[Node] = []
        is_strict = False
        for statement in statements:
            proven += self._list_unless_ended(statement)
            if _STRICT.fullmatch(self._text_of(statement).strip()):
                is_strict = True
            # `A && B` ends the shell only if `B` fails.
            elif is_strict and self._fails_at(statement):
                body = statement.child_by_field_name("body")
                if body is None or body.type != "list":
                    proven += self._list_succeeded(statement)
        return proven

    def _list_unless_ended(self, statement: Node) -> list[Node]:
        """Return the commands without whose success a statement ends the shell.

        ``A || exit 1``, ``A || { echo; exit 1; }`` and ``if ! A; then exit 1; fi`` end it.
        """
        if statement.type == "list":
            return self._list_succeeded(statement) if self._ends_on_failure(statement) else []
        if statement.type != "if_statement":
            return []
        if any(each.type in ("elif_clause", "else_clause") for each in statement.children):
            return []
        then = next((each for each in statement.children if each.type == "then"), None)
        parts = _statements(statement)
        condition = [each for each in parts if then and each.end_byte <= then.start_byte]
        is_negated = len(condition) == 1 and condition[0].type == "negated_command"
        if not is_negated or not self._exits(parts[-1]):
            return []
        return self._list_succeeded(condition[0].named_children[0])

    def _ends_on_failure(self, node: Node) -> bool:
        """Return whether a list is ``A || exit 1``, after whose failure nothing follows."""
        right = node.children[-1]
        if not any(each.type == "||" for each in node.children):
            return False
        # A plain `exit` ends the shell with the exit code of the command that has failed.
        return self._text_of(right).strip() == "exit" or self._exits(right)

    def _exits(self, node: Node) -> bool:
        """Return whether a node certainly ends the shell with a failure."""
        if node.type == "compound_statement":
            statements = _statements(node)
            return bool(statements) and self._exits(statements[-1])
        return node.type == "command" and bool(_EXITS.fullmatch(self._text_of(node).strip()))

    def _fails_at(self, statement: Node) -> bool:
        """Return whether a statement has the exit code of all that `_list_succeeded` finds in it."""
        if statement.type == "pipeline":
            return self._has_pipefail(statement)
        return statement.type in ("command", "redirected_statement", "subshell")

    def _has_pipefail(self, pipeline: Node) -> bool:
        """Return whether a pipeline fails if any of its programs does: `set -o pipefail` precedes."""
        for node in self._nodes:
            if node.end_byte > pipeline.named_children[-1].start_byte:
                return False
            if _PIPEFAIL.fullmatch(self._text_of(node).strip()) and _begins_statement(node):
                return True
        return False

    def _changes_shell(self, end: int) -> bool:
        """Return whether a command before a position may change what later ones do."""
        before = [node for node in self._all if node.start_byte < end]
        for node in before:
            if node.type == "variable_assignment" and not self._is_plain_variable(node):
                return True
            if node.type in _RUNS:
                text = self._text_of(node).strip()
                if node.type == "function_definition":
                    return True
                if text in self._activations or _sets_harmless(text):
                    continue
                if _STRICT.fullmatch(text) or _PIPEFAIL.fullmatch(text):
                    continue
                if text == "exit" and _follows_failure(node):
                    continue
                if _CHANGES_SHELL.match(text):
                    return True
        return False

    def _is_plain_variable(self, node: Node) -> bool:
        """Return whether an assignment changes nothing that programs see."""
        parent = node.parent
        # `NAME=value command` is judged with its command.
        if parent is not None and parent.type == "command":
            return True
        if parent is not None and _sets_harmless(self._text_of(parent)):
            return True
        text = self._text_of(node)
        name = text.partition("=")[0]
        if name == "PATH":
            return _sets_harmless(f"export {text}")
        # No program sees a variable that nothing exports.
        return name.isidentifier() and name not in os.environ and not _OF_SHELL.fullmatch(name)

    def _list_succeeded(self, node: Node) -> list[Node]:
        """Return the commands that have certainly succeeded if a node has."""
        if node.type == "command":
            return [node]
        if node.type == "list":
            if self._ends_on_failure(node):
                return self._list_succeeded(node.children[0])
            if not any(each.type == "&&" for each in node.children):
                return []
            return [
                *self._list_succeeded(node.children[0]),
                *self._list_succeeded(node.children[-1]),
            ]
        if node.type == "redirected_statement":
            return self._list_redirected(node)
        statements = _statements(node)
        if node.type == "pipeline" and self._has_pipefail(node):
            return [each for part in statements for each in self._list_succeeded(part)]
        # A pipe hides the exit code of all programs but the last.
        if node.type in (*_GROUPS, "pipeline") and statements:
            return self._list_succeeded(statements[-1])
        return []

    def _list_redirected(self, node: Node) -> list[Node]:
        """Return the commands that have succeeded if a command with redirections has."""
        body = node.child_by_field_name("body")
        proven = self._list_succeeded(body) if body is not None else []
        for redirect in node.named_children:
            if redirect.type != "heredoc_redirect":
                continue
            rest = [each for each in redirect.named_children if each.type not in _HEREDOC_PARTS]
            if rest and not any(each.type == "&&" for each in redirect.children):
                return []
            for each in rest:
                proven += self._list_succeeded(each)
        return proven

    def _list_of_condition(self, node: Node, child: Node) -> list[Node]:
        """Return what has succeeded before a statement after ``then`` begins."""
        then = next((each for each in node.children if each.type == "then"), None)
        if then is None or child.start_byte < then.end_byte:
            return []
        if child.type in ("elif_clause", "else_clause"):
            return []
        condition = [each for each in _statements(node) if each.end_byte <= then.start_byte]
        return self._list_succeeded(condition[-1]) if condition else []


@lru_cache(32)
def read_order(text: str, activations: frozenset[str] = frozenset()) -> SuccessOrder:
    """Return the order in which the commands of a text succeed.

    Args:
        text: The text.
        activations: The texts of the commands that only activate a virtual environment.
    """
    return SuccessOrder(text, activations)


def _sets_harmless(text: str) -> bool:
    """Return whether a command only exports variables that change no work: `export CI=1`."""
    if not text.startswith("export "):
        return False
    text = variables.spell_folders(text)
    if "$(" in text or "`" in text:
        return False
    try:
        words = shlex.split(text)[1:]
    except ValueError:
        return False
    return bool(words) and all(
        variables.is_assignment(word) and variables.is_harmless(word) for word in words
    )


def _follows_failure(node: Node) -> bool:
    """Return whether a command is the right side of ``A || B``."""
    parent = node.parent
    if parent is None or parent.type != "list":
        return False
    is_right = node.start_byte == parent.children[-1].start_byte
    return is_right and any(each.type == "||" for each in parent.children)


def _begins_statement(node: Node) -> bool:
    """Return whether a command certainly runs, in the shell of the text itself."""
    while node.parent is not None and node.parent.type in (
        "list",
        "redirected_statement",
        "pipeline",
    ):
        parent = node.parent
        if parent.children[0].start_byte != node.start_byte:
            return False
        # The grammar takes `A && B 2>&1 | C` for `{ A && B; } 2>&1 | C`, but A runs before the pipe.
        if parent.type == "pipeline" and not _is_list(node):
            return False
        node = parent
    return node.parent is not None and node.parent.type == "program"


def _is_list(node: Node) -> bool:
    """Return whether a node is a list of commands, perhaps with a redirection."""
    body = node.child_by_field_name("body") if node.type == "redirected_statement" else node
    return body is not None and body.type == "list"


def _walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it, in the order of the text."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def _statements(node: Node) -> list[Node]:
    """Return the parts of a node, without comments."""
    return [child for child in node.named_children if child.type != "comment"]
