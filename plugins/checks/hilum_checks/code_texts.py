"""Find code that commands run but no command parser reads: inline code and scripts."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from hilum_guard import UNKNOWN, locate

from hilum_checks.hidden_texts import assembles_names, decodes_text

if TYPE_CHECKING:
    from hilum_guard import CommandEffects

MAX_SCRIPT = 200_000
"""Maximum size of a script to read, in bytes."""
MAX_TEXT = 400_000
MAX_PATH = 300
# The usual activation scripts of virtual environments, and the user's shell start-up files.
_ENVIRONMENT = re.compile(
    r"(?:^|/)(?:activate(?:\.\w+)?|\.\w*rc|\.(?:bash_)?profile|nvm\.sh|\.env[\w.]*)$"
)

_SHELL_SCRIPT = re.compile(r"#!\s*\S*/(?:env\s+)?(?:ba|da|z|k)?sh\b")


def read_texts(effects: CommandEffects, cwd: str | None) -> list[str]:
    """Return the texts that a command may run, except shell code, which the guard has parsed."""
    texts = list(effects.code)
    script = effects.script
    if script is not None and not script.shell and not script.path.endswith((".sh", ".bash")):
        text = _read_script(script.path, cwd)
        texts += [] if _SHELL_SCRIPT.match(text) else [text]
    return texts


def read_loaded_texts(paths: Iterable[str]) -> list[str]:
    """Return the texts of the files that a program loads, without paths in folders of tests."""
    texts = [_read_script(path, None) for path in paths]
    return [_IN_FIXTURE.sub(_FIXTURE, text) for text in texts if text]


# A test's own temporary folder, and what the test puts into it: `tmp_path / "vendor" / "a.py"`.
_FIXTURE = "tmp_path"
_IN_FIXTURE = re.compile(
    r"\b(?:tmp_path|tmpdir)\b(?:\s*/\s*(?:f(?=['\"]))?(?:'(?!\.\.|/)[^'\n]*'|\"(?!\.\.|/)[^\"\n]*\"|\w++(?!\s*\())"
    r"|\.(?:join|joinpath)\([^()]*\))++"
)


def runs_unknown_script(effects: CommandEffects, cwd: str | None) -> bool:
    """Return whether a shell runs a file that does not exist yet, or that cannot be read."""
    script = effects.script
    # Asking before each ``source .venv/bin/activate`` would teach users to approve without reading.
    if script is None or not script.shell or _ENVIRONMENT.search(script.path):
        return False
    return not _read_script(script.path, cwd)


def _read_script(path: str, cwd: str | None) -> str:
    """Return the text of a script, or an empty string if the script cannot be read."""
    if UNKNOWN in path:
        return ""
    path = os.path.join(cwd or "/", os.path.expanduser(path))
    # The words in a compiled program do not show what it does.
    return "" if _is_binary(path) else read_text(path, MAX_SCRIPT)


def read_text(path: str, limit: int = MAX_TEXT) -> str:
    """Return a file's text or its beginning, or an empty string if the file cannot be read.

    Args:
        path: The file, as commands see it.
        limit: Maximum number of characters.
    """
    path = locate(path)
    try:
        # Opening a pipe would block.
        if not os.path.isfile(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(limit)
    except OSError:
        return ""


def _is_binary(path: str) -> bool:
    path = locate(path)
    try:
        if os.path.getsize(path) > MAX_SCRIPT:
            return True
        with open(path, "rb") as file:
            return b"\0" in file.read(4096)
    except OSError:
        return True


@cache
def mention_pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for a command in code: words separated by whitespace, quotes and commas."""
    separator = r"""[\s'"`,\[\]()+]+"""
    named = [re.escape(word).replace(r"\*", r"\S*") for word in words if word != "*"]
    # At most one option with a value may be between two words; more would match unrelated text.
    between = rf"(?:{separator}-{{1,2}}[\w=./-]+(?:{separator}[\w=./-]+)?)?{separator}"
    return re.compile(rf"(?<![\w.-]){between.join(named)}(?![\w-])", re.IGNORECASE)


_WRITING = re.compile(
    r"""open\s*\(.*,\s*(?:mode\s*=\s*)?['"][^'"]*[wax+]|write|unlink|remove|rename"""
    r"""|replace\s*\(|rmtree|mkdir|touch|truncate|copy|move|save|dump|append|O_WRONLY|O_CREAT"""
    r"""|O_RDWR|symlink|link\(|chmod|rm\(|rmSync|createWrite|inplace"""
    r"""|\bopen\b[^;\n]*(?:['"]|\bqq?\s*\W)\s*\+?[<>]*>|\bopen\b[^;\n]*(?:['"]|\bqq?\s*\W)\s*\+<"""
    r"""|>\s*['"\w]|to_csv|put_contents|^\s*w!?\s|^\s*\.(?:output|once|save|backup|clone|log)\b"""
    r"""|[/,|#!][gpiIe0-9]*w\s"""
    # A program that the code starts.
    r"""|(?:^|[\s'"`(])(?:cp|mv|ln|dd|tee|install|rsync|patch|shred|sed|tar|unzip)['"`\s]""",
    re.IGNORECASE | re.MULTILINE,
)
_READING = re.compile(
    r"open|read|load|source|require|import|cat\b|copy|dotenv|slurp|get_contents|input|include"
    r"|File\.",
    re.IGNORECASE,
)
_DELETING = re.compile(
    r"unlink|remove|rmtree|rmdir|rmSync|\brm\b|delete|rename|move|replace\s*\(", re.IGNORECASE
)


def may_write(text: str) -> bool:
    """Return whether code might write files."""
    return _WRITING.search(text) is not None


def may_read(text: str) -> bool:
    """Return whether code might read files."""
    return _READING.search(text) is not None


def may_delete(text: str) -> bool:
    """Return whether code might delete or move files."""
    return _DELETING.search(text) is not None


_MOVING = re.compile(r"rename|(?<!re)move|replace\s*\(|\bmv\b", re.IGNORECASE)


def may_move(text: str) -> bool:
    """Return whether code might rename or move files."""
    return _MOVING.search(text) is not None


_PATH = re.compile(r"""[\w.~/@*?-]+""")


def hides_paths(text: str, *, is_new: bool) -> bool:
    """Return whether code uses paths that its text does not show.

    Args:
        text: The code.
        is_new: Whether the call contains the code; other code belongs to the project.
    """
    return decodes_text(text) or (is_new and assembles_names(text))


def join_literals(text: str) -> str:
    """Return code with concatenated literals joined, and with escaped characters resolved."""
    joined = re.sub(r"""['"]\s*[+.]?\s*['"]""", "", text)
    return re.sub(r"\\x([0-9a-fA-F]{2})", lambda match: chr(int(match[1], 16)), joined)


_PATH_CALL = r"(?:pathlib\.)?Path\(\s*(?:'([^'\n]+)'|\"([^\"\n]+)\")\s*\)"
_PATH_NAME = re.compile(rf"^[ \t]*(\w+)\s*=\s*{_PATH_CALL}[ \t]*(?:$|;|\n)", re.MULTILINE)
_BOUND = re.compile(r"\b(\w+)\s*(?:=(?!=)|\bin\b|:=)|\bas (\w+)\b")
_HAS_PARAMETERS = re.compile(r"\b(?:def|lambda)\b")
_GLOB = re.compile(rf"(?:{_PATH_CALL}|\b(\w+))\.(r?)glob\(\s*(['\"])([^'\"\n]*)\5\s*\)")


REMOVED_PATH = "\N{DOTTED CIRCLE}"
"""A placeholder for a path that code only reads. No path that a rule names contains it."""


def _join_globs(text: str) -> str:
    """Return Python code with the patterns of `glob` below the folder in which it searches."""
    if "glob(" not in text or "chdir" in text:
        return text
    bound = Counter(name for names in _BOUND.findall(text) for name in names if name)
    named = {
        found[1]: found[2] or found[3]
        for found in _PATH_NAME.finditer(text)
        if bound[found[1]] == 1 and not _HAS_PARAMETERS.search(text)
    }

    def join(found: re.Match[str]) -> str:
        folder = found[1] or found[2] or named.get(found[3] or "", "")
        if folder in ("", REMOVED_PATH):
            return found[0]
        pattern = found[6].replace("**/", "")
        deeper = "**/" if found[4] or "**" in found[6] else ""
        return repr(f"{folder}/{deeper}{pattern}")

    return _GLOB.sub(join, text)


# The mode is no part of the path: `open("README.md", "w")`.
_WITH_MODE = re.compile(r"""(\bopen\(\s*(['"])[^'"\n]*\2)\s*,\s*(['"])[rwaxbtU+]{1,4}\3""")


# A file is no folder, so that `["a.py", "b.md"]` is a list of files.
_FILE_IN_LIST = re.compile(
    r"(\w\.(?:py|pyi|jsx?|tsx?|mjs|cjs|vue|json|md|mdx|rst|txt|toml|ya?ml|go|rs|java|kt|rb|php|cc?|cpp|hh?"
    r"|hpp|cs|css|scss|html|sh|sql|tf|csv|lock))/"
)


def find_paths(text: str) -> list[str]:
    """Return the words in a text that may be paths, even if code joins them from parts."""
    text = _join_globs(text)
    # Join concatenated strings, so that ``open(".e" + "nv")`` does not get past a rule about
    # ``.env``.
    added = re.sub(r"""['"]\s*\+\s*['"]""", "", text)
    # Join path components, as in ``os.path.join("src", "gen")`` and ``Path("src") / "gen"``.
    joined = re.sub(r"""['"]\s*[,/]\s*['"]""", "/", _WITH_MODE.sub(r"\1", text))
    joined = _FILE_IN_LIST.sub(r"\1 ", joined)
    words = [word.strip("'\"") for word in _PATH.findall(text)]
    words += _PATH.findall(added)
    words += _PATH.findall(join_literals(text))
    words += _PATH.findall(joined)
    # Two slashes come from a list such as `"a", "/tmp/b"`, or from an address.
    words = [re.sub(r"^/{2,}", "/", word) for word in words]
    return [word for word in dict.fromkeys(words) if 1 < len(word) < MAX_PATH]
