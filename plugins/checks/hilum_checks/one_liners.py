"""Tell comparisons from redirections in the code of AWK and Perl: `NR>1{print $2}`."""

from __future__ import annotations

import os
import re

_AWKS = frozenset("awk gawk mawk nawk".split())
# Texts and regular expressions of AWK; a slash after a value is a division.
_AWK_TEXT = re.compile(
    r"\"(?:\\.|[^\"\\\n])*\"|(?:(?<=[(,~!&|{};\n=])|^)[ \t]*/(?:\\.|\[[^\]\n]*\]|[^/\\\n])++/|#[^\n]*",
    re.MULTILINE,
)
_STATEMENT = re.compile(r"[;{}\n]")
_PRINT = re.compile(r"\bprintf?\b")
_COMPARISON = re.compile(r"(?<!>)>=?(?!>)")
# What may give a text of Perl to a shell or open a file.
_PERL_ACTS = re.compile(
    r"\b(?:open|sysopen|system|exec|qx|readpipe|syscall|eval|require|use|do|dbmopen|select|IO|IPC|File)\b"
    r"|[`|]|-s*i"
)


def remove_comparisons(text: str, program: str) -> str:
    """Return code without the comparisons that look like redirections.

    Args:
        text: The code.
        program: The program that runs it. Other code than that of AWK and Perl stays as it is.
    """
    name = os.path.basename(program)
    if name in _AWKS:
        return _remove_from_awk(text)
    if name == "perl" and not _PERL_ACTS.search(text):
        # Without such a function, code writes only what it prints.
        return text.replace(">", " ")
    return text


def _remove_from_awk(text: str) -> str:
    """Return AWK code without comparisons: a redirection follows `print`, outside of brackets."""
    if "`" in text or text.count('"') % 2:
        return text
    # Texts may be commands or names, and stay as they are.
    texts: list[str] = []

    def set_apart(found: re.Match[str]) -> str:
        if found[0][0] != '"':
            return " "
        texts.append(found[0])
        return f"\0{len(texts) - 1}\0"

    plain = _AWK_TEXT.sub(set_apart, text)
    if '"' in plain:
        return text
    parts = re.split(f"({_STATEMENT.pattern})", plain)
    reduced = "".join(map(_remove_from_statement, parts))
    return re.sub(r"\0(\d+)\0", lambda found: texts[int(found[1])], reduced)


def _remove_from_statement(text: str) -> str:
    """Return a statement of AWK without its comparisons."""
    printing = _PRINT.search(text)
    if printing is None:
        return _COMPARISON.sub("=", text)
    condition = _COMPARISON.sub("=", text[: printing.start()])
    printed = list(text[printing.start() :])
    depth = 0
    for at, character in enumerate(printed):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return text
        if character == ">" and depth:
            printed[at] = "="
    return condition + "".join(printed)
