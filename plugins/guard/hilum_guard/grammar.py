"""The grammar of Bash, and the two readings that a text must pass to be called harmless.

tree-sitter-bash finds the structure: which commands there are and what they are joined by. It is
not Bash: it parts some words that Bash joins and the other way round. So words are read from the
text itself (`words`), and a text is harmless only if a second reader that shares no code with the
first, `shlex` of the standard library, finds the same words.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Tree

MAX_TEXT = 16_000
"""Characters of a command text; a longer one is not read."""
MAX_HEREDOCS = 20
"""Here-documents in a text: the grammar's time grows with the square of their number."""

BRACE = "\ue000"
# The grammar takes a `{` at the head of a command for a group, whatever follows; for Bash
# `{rm,-rf,/}` is a word.
_WORD_BRACE = re.compile(r"(?<!\$)\{(?=[^\s}])")
_OPERATORS = frozenset("; & && || | |& > >> < &> &>> >| >& <& ( )".split())
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\n")


class Unreadable(Exception):
    """The text cannot be read with certainty; the message says why, for the user."""


class Source:
    """A parsed text.

    Attributes:
        text: The text that was parsed, one character for each of its bytes, so that positions are
            those of the tree.
        root: The root node of the tree.
        doubts: Why a harmless verdict is out of the question, whatever the commands are.
    """

    def __init__(self, text: str) -> None:
        """Parse a text.

        Raises:
            Unreadable: The text is too long, has characters that no command needs, or does not
                parse.
        """
        if len(text) > MAX_TEXT:
            raise Unreadable(f"The command is longer than {MAX_TEXT:,} characters.")
        if text.count("<<") > MAX_HEREDOCS:
            raise Unreadable("The command has too many here-documents.")
        if BRACE in text or "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
            raise Unreadable("The command has characters that no command needs.")
        self.doubts = [] if text.isascii() and text.isprintable() else _odd_characters(text)
        if "\\\n" in text:
            # In single quotes, here-documents and comments a backslash joins nothing.
            if "'" in text or "<<" in text or "#" in text:
                self.doubts.append("The command has a line continuation among quotes or comments.")
            if "#" not in text:
                text = _CONTINUED.sub(r"\1", text)
        self.given = text
        data = _WORD_BRACE.sub(BRACE, text).encode()
        self.text = data.decode("latin-1")
        self.tree: Tree = _parse(data)
        self.root: Node = self.tree.root_node
        if self.root.has_error:
            raise Unreadable("The command could not be read as shell.")

    def agrees(self, words: list[str]) -> bool:
        """Return whether the second reader finds these words, in this order, and nothing else.

        Args:
            words: All words of all commands, the targets and numbers of redirections included.
        """
        import shlex

        reader = shlex.shlex(self.given, posix=True, punctuation_chars=True)
        reader.whitespace_split = True
        try:
            found = list(reader)
        except ValueError:
            return False
        # A quoted `;` cannot be told from an operator here, so words of operators only are left out
        # on both sides.
        if any(word and not word.strip("();<>|&") and word not in _OPERATORS for word in found):
            return False
        return [x for x in found if not x or x.strip("();<>|&")] == [
            x for x in words if not x or x.strip("();<>|&")
        ]


def _odd_characters(text: str) -> list[str]:
    """Name characters that show as something else than they are, or that grammar and shell take
    differently.
    """
    for char in text:
        if char not in "\n\t" and unicodedata.category(char) in {
            "Cc",
            "Cf",
            "Co",
            "Cn",
            "Zl",
            "Zp",
        }:
            return [f"The command has an invisible character (U+{ord(char):04X})."]
        if char != " " and unicodedata.category(char) == "Zs":
            return [f"The command has a space that is none for the shell (U+{ord(char):04X})."]
    return []


@functools.cache
def _language() -> Language:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())


def _parse(data: bytes) -> Tree:
    from tree_sitter import Parser

    return Parser(_language()).parse(data)
