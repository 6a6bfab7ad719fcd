"""Texts that programs run and no reader of commands reads: code given on the line or fed in, and
scripts that are run.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import TYPE_CHECKING

from hilum_rules.checks.effects import name_of, operands, text_of

if TYPE_CHECKING:
    from hilum_guard import SimpleCommand

SHELLS = frozenset("sh bash dash zsh ksh mksh ash fish rbash".split())
_INTERPRETER = re.compile(
    r"(?:python|pypy)[\d.]*|node|nodejs|deno|bun|ruby|perl|php|lua|luajit|tclsh|rscript|r|julia|osascript|guile|racket|elixir|groovy"
    r"|ipython[\d.]*|ts-node|tsx|expect|gawk|awk|mawk|pwsh|powershell|sqlite3|gdb|vim|nvim|vi|ex|ed|emacs|tmux|screen|crontab|sed|gsed"
    r"|make|gmake|parallel|watch|xargs|script|at|batch|npm|npx|jq|ssh|busybox"
)
# Programs whose words are texts for people, or patterns to look for: a command that is named there
# is not run.
_TEXT = frozenset(
    """echo printf git gh glab hub grep egrep fgrep rg ag ack cat tee head tail wc sort diff less more comm tr cut jq yq
    hilum""".split()
)
# Variables whose value other programs run.
_RUN_LATER = frozenset(
    """EDITOR VISUAL PAGER BROWSER GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_SSH_COMMAND GIT_SSH GIT_EXTERNAL_DIFF
    GIT_ASKPASS MANPAGER LESSOPEN LESSCLOSE PROMPT_COMMAND BASH_ENV ENV PS4 RUSTC_WRAPPER CC CXX SHELL""".split()
)
MAX_SCRIPT = 200_000


def texts(command: SimpleCommand) -> list[str]:
    """Return the texts that a simple command may run, and that are no shell that the reader has
    read.
    """
    name = name_of(command)
    found = []
    if _prints(command):
        return []
    if name not in _TEXT:
        found += [
            word for word in command.words[1:] if len(word) > 2 and re.search(r"[\s(;'\"]", word)
        ]
    if command.stdin and (_INTERPRETER.fullmatch(name) or name in SHELLS):
        found.append(command.stdin)
    if _RUN_LATER.intersection(command.assigned):
        found.append(command.source)
    path = script(command)
    if path and not (name in SHELLS or path.endswith((".sh", ".bash"))):
        found.append(text_of(path, MAX_SCRIPT))
    return found


def _prints(command: SimpleCommand) -> bool:
    """Return whether it is Python code that only prints a text.

    What reads that text is judged by it.
    """
    from hilum_guard import python_prints

    words = command.words
    return (
        len(words) == 3
        and words[1] == "-c"
        and re.fullmatch(r"python[\d.]*", name_of(command)) is not None
        and not _RUN_LATER.intersection(command.assigned)
        and python_prints(words[2]) is not None
    )


def script(command: SimpleCommand) -> str:
    """Return the path of the script that a simple command runs, if it runs one."""
    if not command.words:
        return ""
    name = name_of(command)
    first = command.words[0]
    given = ""
    if name in SHELLS or name in ("source", ".") or _INTERPRETER.fullmatch(name):
        if name in SHELLS and any(re.fullmatch(r"-[a-zA-Z]*c", word) for word in command.words[1:]):
            return ""
        if name in (
            "make",
            "gmake",
            "npm",
            "npx",
            "jq",
            "sed",
            "gsed",
            "ssh",
            "vim",
            "vi",
            "nvim",
            "emacs",
            "sqlite3",
            "git",
        ):
            return ""
        if name.startswith(("python", "pypy")) and any(
            re.fullmatch(r"-[a-zA-Z]*[cm]", word) for word in command.words[1:]
        ):
            return ""
        found = operands(command.words[1:], "cefImMOoWX")
        given = found[0] if found else next(iter(command.reads), "")
    elif "/" in first:
        given = first
    if given and "…" not in given:
        path = os.path.join(command.cwd or "/", os.path.expanduser(given))
    else:
        path = ""
    if path and os.path.isfile(path) and not _binary(path):
        return path
    return ""


def _binary(path: str) -> bool:
    try:
        if os.path.getsize(path) > MAX_SCRIPT:
            return True
        with open(path, "rb") as file:
            return b"\0" in file.read(4096)
    except OSError:
        return True


def is_shell(path: str, command: SimpleCommand) -> bool:
    """Return whether a script is for a shell."""
    if (
        name_of(command) in SHELLS
        or name_of(command) in ("source", ".")
        or path.endswith((".sh", ".bash", ".zsh"))
    ):
        return True
    head = text_of(path, 200).split("\n", 1)[0]
    return head.startswith("#!") and bool(re.search(r"\b(?:ba|da|z|k|a)?sh\b", head))


def unread_shell(command: SimpleCommand) -> bool:
    """Return whether a shell runs a text that is not known: from a pipe, or from a file that is not
    there yet.
    """
    if command.wrapper or not command.words:
        return False
    name = name_of(command)
    if name in SHELLS:
        words = command.words[1:]
        if any(re.fullmatch(r"-[a-zA-Z]*c|--command|--version|--help|-n", word) for word in words):
            return any("…" in word for word in words)
        if command.stdin is not None and "…" not in command.stdin:
            return False
    elif name not in ("source", "."):
        return name == "eval" and any("…" in word for word in command.words[1:])
    return not script(command) and not _environment(command)


def _environment(command: SimpleCommand) -> bool:
    """Return whether a script is the usual one of a virtual environment or a user's start-up
    file.
    """
    return any(
        re.search(
            r"(?:^|/)(?:activate(?:\.\w+)?|\.\w*rc|\.(?:bash_)?profile|nvm\.sh|\.env[\w.]*)$", word
        )
        for word in command.words[1:]
    )


@cache
def mention(words: tuple[str, ...]) -> re.Pattern[str]:
    """Return what finds a command in a text that is no shell: its words, parted by white space,
    quotes and commas.
    """
    part = r"""[\s'"`,\[\]()+]+"""
    named = [re.escape(word).replace(r"\*", r"\S*") for word in words if word != "*"]
    between = rf"(?:{part}-{{1,2}}[\w=./-]+(?:{part}[\w=./-]+)?)?{part}"
    text = between.join(named)
    return re.compile(rf"(?<![\w.-]){text}(?![\w-])", re.IGNORECASE)


_WRITING = re.compile(
    r"""open\s*\([^)]*,\s*(?:mode\s*=\s*)?['"][^'"]*[wax+]|write|unlink|remove|rename|replace\s*\(|rmtree|mkdir|touch|truncate|copy|move"""
    r"""|save|dump|append|O_WRONLY|O_CREAT|O_RDWR|symlink|link\(|chmod|rm\(|rmSync|createWrite|open\s*\([^)]*['"]>|inplace|>\s*['"\w]|to_csv|put_contents|^\s*w!?\s""",
    re.IGNORECASE | re.MULTILINE,
)
_READING = re.compile(
    r"open|read|load|source|require|import|cat\b|copy|dotenv|slurp|get_contents|input|include|File\.",
    re.IGNORECASE,
)
_DELETING = re.compile(
    r"unlink|remove|rmtree|rmdir|rmSync|\brm\b|delete|rename|move|replace\s*\(", re.IGNORECASE
)


def may_write(text: str) -> bool:
    """Return whether code has what writes files."""
    return bool(_WRITING.search(text))


def may_read(text: str) -> bool:
    """Return whether code has what reads files."""
    return bool(_READING.search(text))


def may_delete(text: str) -> bool:
    """Return whether code has what deletes or moves files."""
    return bool(_DELETING.search(text))


_PATHLIKE = re.compile(r"""[\w.~/@*?-]+""")


def named_paths(text: str) -> set[str]:
    """Return what in a text may be a path, and the ones that are put together from neighbouring
    texts.
    """
    found = {word.strip("'\"") for word in _PATHLIKE.findall(text)}
    joined = re.sub(r"""['"]\s*\+\s*['"]""", "", text)
    found |= set(_PATHLIKE.findall(joined))
    slashed = re.sub(r"""['"]\s*[,/]\s*['"]""", "/", text)
    found |= set(_PATHLIKE.findall(slashed))
    return {word for word in found if 1 < len(word) < 300}
