"""Decide which variables of the environment may change what a command or script does."""

from __future__ import annotations

import re

# Variables that set what a program prints or connects to, but not which work it does.
_HARMLESS_NAME = re.compile(
    r"CI|TZ|TERM|LANG|LANGUAGE|LC_[A-Z]+|NO_COLOR|FORCE_COLOR|CLICOLOR(?:_FORCE)?|COLUMNS|LINES"
    r"|DEBUG|VERBOSE|LOG_LEVEL|(?:NODE|RAILS|RACK|MIX|APP|FLASK)_ENV|DJANGO_SETTINGS_MODULE"
    r"|[A-Z][A-Z_]*_(?:URL|HOST|PORT)|NX_(?:DAEMON|VERBOSE_LOGGING|NO_CLOUD|TUI|PARALLEL)"
    r"|DO_NOT_TRACK|(?:NEXT|TURBO)_TELEMETRY_DISABLED|RUST_(?:LOG|BACKTRACE)|GOMAXPROCS"
    r"|CARGO_(?:TERM_COLOR|INCREMENTAL|TARGET_DIR)|PYTHON(?:UNBUFFERED|DONTWRITEBYTECODE|HASHSEED)"
    r"|PYTHON(?:UTF8|IOENCODING|WARNINGS)|UV_(?:FROZEN|LOCKED|NO_SYNC|OFFLINE|CACHE_DIR)"
    r"|CGO_ENABLED|DOTNET_(?:CLI_TELEMETRY_OPTOUT|NOLOGO)|POETRY_VIRTUALENVS_IN_PROJECT|COMPOSER_ALLOW_SUPERUSER"
)
_OWN_FOLDER = r"(?:(?:\$PWD|\$\{PWD\}|\.)/)?(?:node_modules/\.bin|\.?venv/bin|vendor/bin)"
_HOME_FOLDER = (
    r"(?:\$HOME|\$\{HOME\}|~)/(?:go/bin|\.(?:cargo|local|bun|deno|volta|pyenv|rbenv|nodenv|asdf|krew|pulumi)/bin"
    r"|\.(?:pyenv|rbenv|nodenv|asdf)/shims|\.local/share/pnpm|\.npm-global/bin|\.dotnet/tools"
    r"|\.composer/vendor/bin|\.config/composer/vendor/bin)"
)
_SYSTEM_FOLDER = r"(?:/usr(?:/local)?(?:/go)?|/opt/homebrew|/snap)?/s?bin"
# The folders in which a project, the user or the system installs programs.
_FOLDER = rf"(?:{_OWN_FOLDER}|{_HOME_FOLDER}|{_SYSTEM_FOLDER})/?"
# A path inside the folder in which the command runs.
_OWN_PATH = r"(?:(?:\$PWD(?!\w)|\$\{PWD\})/?)?+(?!/)(?:(?!\.\.)[\w./-])*+"
# Variables some of whose values are harmless.
_HARMLESS_VALUES = {
    "PYTHONPATH": rf"{_OWN_PATH}(?::{_OWN_PATH})*+",
    "PATH": rf"(?:{_FOLDER}:)*\$(?:PATH|\{{PATH\}})(?::{_FOLDER})*",
    "RUSTFLAGS": r"-D ?warnings",
    "GOFLAGS": r"-mod=\w+",
    "NODE_OPTIONS": r"(?:\s*--(?:max[-_]old[-_]space[-_]size=\d+|experimental-vm-modules))+",
    "MAKEFLAGS": r"(?:-j ?\d*|--no-print-directory|\s)++",
}
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_LEADING_ASSIGNMENT = re.compile(r"""[A-Za-z_]\w*=(?:"[^"]*"|'[^']*'|[^\s"'()])*+\s+""")
# What sets variables for the rest of a text, or for a program.
_SETS = re.compile(
    r"(?:^|[\s;&|({])(?:export|declare|typeset|readonly|env)\s"
    r"|(?:^|[;&|({\n])\s*(?:read|source|\.|set(?!\s+-)|eval)\s"
    r"|(?:^|[\s;&|({])([A-Za-z_]\w*=[^\s;&|]*)"
)


def spell_folders(text: str) -> str:
    """Return a text with a variable in place of commands that only print a usual folder."""
    return text.replace("$(pwd)", "$PWD").replace("$(go env GOPATH)", "$HOME/go")


def is_assignment(word: str) -> bool:
    """Return whether a word sets a variable: `CI=1`."""
    return _ASSIGNMENT.fullmatch(word) is not None


def is_harmless(assignment: str) -> bool:
    """Return whether a variable certainly does not change what a program does: `CI=1`."""
    name, _, value = assignment.partition("=")
    if name in _HARMLESS_VALUES:
        return re.fullmatch(_HARMLESS_VALUES[name], value) is not None
    return _HARMLESS_NAME.fullmatch(name) is not None


def split_assignments(text: str, count: int) -> tuple[str, str]:
    """Return the variables in front of a command, and the command.

    Args:
        text: The text of the command.
        count: The number of variables that it sets.
    """
    at = 0
    for _ in range(count):
        match = _LEADING_ASSIGNMENT.match(text, at)
        # A value that is computed remains a part of what cannot be read.
        at = match.end() if match else len(text)
    return text[:at], text[at:]


def may_steer(text: str) -> bool:
    """Return whether a command line may set variables that choose what a script runs."""
    return any(
        not found[1] or not (is_harmless(found[1]) or _JAVA.match(found[1]))
        for found in _SETS.finditer(text)
    )


_JAVA = re.compile(r"JAVA_(?:HOME|OPTS)=")
