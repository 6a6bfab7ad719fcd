"""Parse shell text with the Bash grammar, and check the result with a second parser.

tree-sitter-bash finds the structure: the commands and the operators that join them. The grammar
differs from Bash: it splits some words that Bash joins, and joins some that Bash splits. Therefore
words are read from the text (`shell_words`), and the text counts as harmless only if the standard
library's `shlex`, which shares no code with the grammar, finds the same words.
"""

from __future__ import annotations

import functools
import re
import shlex
import unicodedata

import tree_sitter
import tree_sitter_bash

from hilum_guard.commands.shell_words import BRACE, Unreadable

MAX_TEXT = 16_000
"""Maximum length of a command, in characters; longer commands are not read."""
MAX_HEREDOCS = 20
"""Maximum number of here-documents in shell text; parsing takes quadratic time in their number."""

# The grammar treats every `{` at the start of a command as the beginning of a group. In Bash,
# `{rm,-rf,/}` is a word.
_WORD_BRACE = re.compile(r"(?<!\$)\{(?=[^\s}])")
_OPERATORS = frozenset("; & && || | |& > >> < &> &>> >| >& <& ( )".split())
_OPERATOR_CHARACTERS = "();<>|&"
_LINE_CONTINUATION = re.compile(r"(?<!\\)((?:\\\\)*)\\\n")
_LINE_WITHOUT_COMMENT = re.compile(r"^([^#\n]*(?<!\\)(?:\\\\)*)\\\n", re.MULTILINE)
_INVISIBLE_CATEGORIES = frozenset("Cc Cf Co Cn Zl Zp".split())


class Source:
    """A parsed text.

    Attributes:
        text: The parsed text, with one character per byte, so that positions in the tree are also
            positions in the text.
        root: The root node of the tree.
        doubts: Why the text is not harmless, regardless of its commands.
    """

    def __init__(self, text: str) -> None:
        """Parse a text.

        Raises:
            Unreadable: The text is too long, contains characters that no command needs, or cannot
                be parsed.
        """
        if len(text) > MAX_TEXT:
            raise Unreadable(f"The command is longer than {MAX_TEXT:,} characters.")
        if text.count("<<") > MAX_HEREDOCS:
            raise Unreadable("The command has too many here-documents.")
        if BRACE in text or "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
            raise Unreadable("The command contains characters that no command needs.")
        self.doubts = [] if text.isascii() and text.isprintable() else _find_odd_characters(text)
        self._joined_text = self._join_lines(text)
        data = _WORD_BRACE.sub(BRACE, self._joined_text).encode()
        self.text = data.decode("latin-1")
        # Keep a reference to the tree, because its nodes do not keep it alive.
        self._tree = tree_sitter.Parser(_load_language()).parse(data)
        self.root = self._tree.root_node
        if self.root.has_error:
            raise Unreadable("The command could not be read as shell code.")

    def _join_lines(self, text: str) -> str:
        """Return the text without line continuations."""
        if "\\\n" not in text:
            return text
        # In single quotes, here-documents and comments, a backslash does not join lines.
        if "'" in text or "<<" in text or "#" in text:
            self.doubts.append(
                "The command combines a line continuation with quotes, a here-document or a comment."
            )
        # The end of a comment continues nothing, so a line with `#` is left as it is.
        pattern = _LINE_WITHOUT_COMMENT if "#" in text else _LINE_CONTINUATION
        return pattern.sub(r"\1", text)

    def matches_shlex(self, words: list[str]) -> bool:
        """Return whether `shlex` finds exactly these words in this order.

        Args:
            words: All words in all commands, including the targets and numbers of redirections.
        """
        reader = shlex.shlex(self._joined_text, posix=True, punctuation_chars=True)
        reader.whitespace_split = True
        try:
            found = list(reader)
        except ValueError:
            return False
        operators = [word for word in found if _is_operator(word)]
        if any(word not in _OPERATORS for word in operators):
            return False
        # `shlex` cannot distinguish a quoted `;` from an operator, so both lists omit words that
        # consist only of operators.
        return _without_operators(found) == _without_operators(words)


def _is_operator(word: str) -> bool:
    return bool(word) and not word.strip(_OPERATOR_CHARACTERS)


def _without_operators(words: list[str]) -> list[str]:
    return [word for word in words if not _is_operator(word)]


def _find_odd_characters(text: str) -> list[str]:
    """Yield the reasons why characters in shell text are doubtful.

    Some characters look like others, and some count as whitespace only in the grammar.
    """
    for char in text:
        category = unicodedata.category(char)
        if char not in "\n\t" and category in _INVISIBLE_CATEGORIES:
            return [f"The command has an invisible character (U+{ord(char):04X})."]
        if char != " " and category == "Zs":
            return [f"The command has a space that does not separate words (U+{ord(char):04X})."]
    return []


@functools.cache
def _load_language() -> tree_sitter.Language:
    return tree_sitter.Language(tree_sitter_bash.language())
