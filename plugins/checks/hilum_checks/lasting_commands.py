"""Find the commands that rules mean even in the project's own recipes and scripts.

The recipes of a `Makefile` and the scripts in `package.json` are the project's. A rule about how an
agent calls a tool ("use `pnpm`, never `npm`", "never run bare `pytest`") is not about them, but a
rule about what a command does to others, or for good, is: `make release` must not push if nobody
may push.
"""

from __future__ import annotations

import re

import attrs

from hilum_checks.model import Commands

# Programs that act on repositories, machines and services, by more than one word.
_BY_SUB_COMMAND = frozenset("git gh glab hub".split())
_ALWAYS = frozenset(
    """sudo doas ssh scp twine kubectl terraform tofu helm pulumi ansible-playbook aws gcloud az
    heroku vercel netlify flyctl fly wrangler firebase serverless eas dropdb terragrunt
    flyway liquibase""".split()
)
_ACT = re.compile(
    r"(?:un)?publish|deploy|release|upload|push|destroy|apply|migrat(?:e|ion)|submit|rollback|drop"
    r"|reset|delete|ship|prod(?:uction)?|version|bump|tag|commit|wipe|nuke|purge",
    re.IGNORECASE,
)


def select_lasting(constraint: Commands) -> Commands | None:
    """Return the part of a constraint that also concerns recipes; ``None`` if there is none.

    Args:
        constraint: The constraint.
    """
    patterns = tuple(filter(_is_lasting, constraint.patterns))
    return attrs.evolve(constraint, patterns=patterns) if patterns else None


def _is_lasting(pattern: tuple[str, ...]) -> bool:
    program, *rest = pattern
    if program in _ALWAYS:
        return True
    if program in _BY_SUB_COMMAND:
        return bool(rest)
    return "--no-verify" in rest or any(_ACT.match(part) for part in _split(rest))


def _split(words: list[str]) -> list[str]:
    """Return the parts of words such as `deploy:production`."""
    return [part for word in words for part in re.split(r"[^A-Za-z]+", word)]
