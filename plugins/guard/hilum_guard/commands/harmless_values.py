"""Check whether programs are harmless with the given option values and operands."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hilum_guard.commands.shell_words import Word
from hilum_guard.secrets.secret_names import SECRET_NAMES, matches

MAX_SCRIPT = 500
"""Maximum number of characters in a `sed`, `awk` or `jq` script that is checked."""
Option = tuple[str, str]
"""An option with its value."""

_SED_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\[^\n])*/)"
_SED_SUBSTITUTE = "|".join(
    rf"s{d}(?:[^{d}\\\n]|\\[^\n])*{d}(?:[^{d}\\\n]|\\[^\n])*{d}[gpiI\d]*"
    for d in ("/", r"\|", "#", ",")
)
_SED = re.compile(
    rf"\s*(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|\+\d+))?)?\s*!?(?:[pdq=]|{_SED_SUBSTITUTE})\s*"
)


def _check_sed(options: Sequence[Option], operands: Sequence[Word]) -> str:
    """Check `sed`: scripts may only print, delete and substitute, and must not come from a file."""
    scripts = [value for name, value in options if name in {"-e", "--expression"}]
    if not scripts:
        scripts = [word.value for word in operands[:1]]
    if scripts and all(map(_is_plain_sed, scripts)):
        return ""
    return "Its sed script is too complex to be considered harmless."


def _is_plain_sed(script: str) -> bool:
    if len(script) > MAX_SCRIPT:
        return False
    at = 0
    while match := _SED.match(script, at):
        at = match.end()
        if at == len(script):
            return True
        if script[at] != ";":
            return False
        at += 1
    return False


_AWK_FIELD = r"(\$(\d+|NF)|NR|NF|\"[^\"\\|]*\")"
_AWK = re.compile(
    rf"\s*(NR ?[=<>]=? ?\d+ ?|/[\w .:-]+/ ?)?(\{{ ?print(\s+{_AWK_FIELD}(( ?, ?| ){_AWK_FIELD})*)?"
    r" ?;? ?\}\s*)?"
)
# Words that make jq read the environment or other files.
_JQ_INPUT = re.compile(r"env|input|import|include|debug|halt|\$")
_JQ = re.compile(
    r"\.?[\w.\[\]\"-]*(\s*\|\s*(\.[\w.\[\]\"-]*|keys|length|type|sort|unique|first|last))*"
)


def _check_awk(options: Sequence[Option], operands: Sequence[Word]) -> str:
    script = operands[0].value if operands else ""
    if any("=" in word.value for word in operands[1:]):
        return "It sets an awk variable."
    is_plain = script.strip() and len(script) <= MAX_SCRIPT and _AWK.fullmatch(script)
    return "" if is_plain else "Its awk program is too complex to be considered harmless."


def _check_jq(options: Sequence[Option], operands: Sequence[Word]) -> str:
    script = operands[0].value if operands else ""
    is_plain = 0 < len(script) <= MAX_SCRIPT and _JQ.fullmatch(script)
    if is_plain and not _JQ_INPUT.search(script):
        return ""
    return "Its jq program is too complex to be considered harmless."


def _check_globs(options: Sequence[Option], operands: Sequence[Word]) -> str:
    """Check `rg -g` patterns, which also match hidden files."""
    for name, value in options:
        if name in {"-g", "--glob", "--iglob"} and not value.startswith("!"):
            pattern = value.casefold().rpartition("/")[2]
            finds_secret = any(matches(example, (pattern,)) for example in _SECRET_EXAMPLES)
            if finds_secret or matches(pattern, SECRET_NAMES) or "{" in value:
                return "Its pattern matches files that may contain secrets."
    return ""


_SECRET_EXAMPLES = (".env", "id_rsa", ".netrc", "credentials", "x.pem", "secrets.json")


def _check_date(options: Sequence[Option], operands: Sequence[Word]) -> str:
    is_format = all(word.value.startswith("+") for word in operands)
    return "" if is_format else "It may set the clock."


def _check_sleep(options: Sequence[Option], operands: Sequence[Word]) -> str:
    is_short = all(re.fullmatch(r"\d{1,3}(\.\d+)?s?", word.value) for word in operands)
    return "" if is_short else "It waits for a long time."


def _check_ps(options: Sequence[Option], operands: Sequence[Word]) -> str:
    is_plain = all(word.value in {"aux", "ax", "axu", "u", "x"} for word in operands)
    names = {name for name, _ in options}
    letters = "".join(name + value for name, value in options if not name.startswith("--"))
    # If ps cannot parse its arguments (for example, `-x` or the name of a user that does not
    # exist), it reads them in BSD style, where `e` shows environments.
    is_ambiguous = bool(operands) or not names.isdisjoint(("-x", "-u"))
    if is_plain and not (is_ambiguous and "e" in letters):
        return ""
    return "It may show the environment variables of processes."


CHECKS: dict[str, Callable[[Sequence[Option], Sequence[Word]], str]] = {
    "sed": _check_sed,
    "awk": _check_awk,
    "jq": _check_jq,
    "globs": _check_globs,
    "date": _check_date,
    "sleep": _check_sleep,
    "ps": _check_ps,
}
"""Checks by name. Each check returns why the values are not harmless; empty if they are."""
