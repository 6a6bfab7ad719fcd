"""Command lines of other agents, with placeholders."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from hilum_eval.arm import Arm

MINI_SWE_AGENT = "mini-swe-agent"
HILUM = "hilum"
PLACEHOLDERS = ("prompt", "prompt_file", "workspace", "base_url", "model")
PATH_SETTINGS = ("python", "config")
"""Settings that are paths, relative to the file of the arm."""
ADAPTER_SETTINGS = (*PATH_SETTINGS, "sandbox")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def find_problem(arm: Arm) -> str:
    """Return what is wrong with the agent of an arm; empty if nothing is.

    Args:
        arm: The arm.
    """
    if arm.agent == HILUM:
        return "resume: only a command line can have it" if arm.resume else ""
    for name in ("plugins", "without"):
        if getattr(arm, name):
            return f"{name}: only the agent {HILUM!r} has plugins"
    unknown = sorted(set(arm.settings) - set(ADAPTER_SETTINGS))
    if unknown:
        known = ", ".join(ADAPTER_SETTINGS)
        return f"settings.{unknown[0]}: of other agents, only {known} can be set"
    if arm.agent == MINI_SWE_AGENT:
        return "resume: only a command line can have it" if arm.resume else ""
    return _check_template("agent", arm.agent) or (
        _check_template("resume", arm.resume) if arm.resume else ""
    )


def expand(template: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the arguments of a command line. No shell is involved, so no value needs quoting.

    Args:
        template: The command line with placeholders.
        values: The value of each placeholder.
    """
    return tuple(replace_placeholders(word, values) for word in shlex.split(template))


def replace_placeholders(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its placeholders replaced; other braces stay."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def _check_template(key: str, template: str) -> str:
    try:
        words = shlex.split(template)
    except ValueError as error:
        return f"{key}: is no command line ({error})"
    names = set(_PLACEHOLDER.findall(template))
    if not words or not names & {"prompt", "prompt_file"}:
        return (
            f"{key}: {template!r} is neither {HILUM!r} nor {MINI_SWE_AGENT!r} nor a command line"
            " with {prompt} or {prompt_file}"
        )
    unknown = sorted(names - set(PLACEHOLDERS))
    # Braces of the shell and of JSON are no placeholders, but a misspelled one is a mistake.
    if unknown:
        return f"{key}: {{{unknown[0]}}} is not one of {', '.join(PLACEHOLDERS)}"
    return ""
