"""Formats skills for the model, as layers of the prompt or as the instructions of one skill."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from hilum import Layer, estimate

from hilum_skills.catalog import CatalogEntry, SkillCatalog
from hilum_skills.settings import SkillsSettings
from hilum_skills.skill import MAX_DESCRIPTION, MAX_NAME, Skill

Limits = tuple[tuple[str, ...], ...]
# Skills come after rules (40): they change more often, and the cached prefix ends at the first
# changed layer.
RANK = 50
MAX_BODY = 100_000
MAX_LISTED = 100
# Matches the tag only at the start of a line, as ``format_instructions`` writes it, not in quoted
# text.
_OPENING = r'(?m)^<skill name="([^"\n]{1,500})" version="'
_INDEX = """\
Skills are instructions for special tasks, chosen by the user. Before a task that fits the
description of one, call use_skill with its name, and follow its instructions. Do not guess them
from the description."""
_FULL = """\
Skills are instructions for special tasks, chosen by the user; their full text follows. Follow one
when the task fits its description. Use use_skill to read files that it names."""


def is_full_text(catalog: SkillCatalog, settings: SkillsSettings) -> bool:
    """Return whether the prompt contains the full text of skills."""
    if settings.inject != "auto":
        return settings.inject == "full"
    tokens = sum(estimate(entry.skill.body) for entry in _list_shown(catalog))
    return tokens <= settings.budget


def make_layers(
    catalog: SkillCatalog,
    settings: SkillsSettings,
    *,
    usable: bool,
    limits: Limits = (),
) -> list[Layer]:
    """Create the prompt layers, one for each skill or one for each source.

    With separate layers, a change to one layer leaves the other layers unchanged.

    Args:
        catalog: The skills.
        settings: The settings.
        usable: Whether the agent has the tool ``use_skill``, without which an index of skills is
            useless.
        limits: Lists of names or patterns. Only skills that match every list are included.
    """
    shown = [entry for entry in _list_shown(catalog) if _is_allowed(entry.skill.name, limits)]
    if not shown:
        return []
    if is_full_text(catalog, settings):
        layers = [Layer(RANK, "skills", _FULL)]
        for entry in shown:
            text = format_instructions(entry.skill)
            layers.append(Layer(RANK, f"skill {entry.skill.name}", text))
        return layers
    # Without the tool, an index would refer to instructions that the model cannot read.
    if not usable:
        return []
    listed: dict[str, list[str]] = {}
    for entry in shown:
        name = entry.skill.name[: 2 * MAX_NAME]
        description = entry.skill.description[:MAX_DESCRIPTION]
        listed.setdefault(entry.source, []).append(f"- {name}: {description}")
    # Skills are grouped into one layer for each source, because there may be hundreds of skills
    # with short descriptions.
    layers = [Layer(RANK, "skills", _INDEX)]
    for source, lines in listed.items():
        layers.append(Layer(RANK, f"skills of {source}", "\n".join(lines)))
    return layers


def format_instructions(skill: Skill) -> str:
    """Return a skill's instructions in an element that the instructions cannot close."""
    # A body that contains ``</skill>`` could make the text that follows look like the user's.
    body = re.sub(r"<(?=\s*(?:/\s*)?skill\b)", r"<\\", skill.body[:MAX_BODY], flags=re.IGNORECASE)
    if len(skill.body) > MAX_BODY:
        cut = f'\n[Cut here; read on with resource="{skill.file.name}".]'
    else:
        cut = ""
    folder = _attribute(str(skill.folder))
    head = f'<skill name="{_attribute(skill.name)}" version="{skill.version}" folder="{folder}">'
    return f"{head}\n{body}{cut}\n</skill>"


def format_resources(names: Sequence[str], skill: Skill) -> str:
    """Return the list of a skill's other files; empty if there are none."""
    if not names:
        return ""
    lines = [f'Files of this skill, read with use_skill(name="{skill.name}", resource="…"):']
    lines += [f"- {_plain(name)}" for name in names[:MAX_LISTED]]
    listed = "\n".join(lines)
    if len(names) > MAX_LISTED:
        listed += f" and {len(names) - MAX_LISTED} more"
    return listed


def _list_shown(catalog: SkillCatalog) -> list[CatalogEntry]:
    return [entry for entry in catalog.enabled() if entry.skill.by_model]


def _is_allowed(name: str, limits: Limits) -> bool:
    return all(_matches_any(name.casefold(), patterns) for patterns in limits)


def _matches_any(name: str, patterns: Iterable[str]) -> bool:
    # ``fnmatch`` is not used, because its results depend on the operating system.
    return any(fnmatchcase(name, pattern.casefold()) for pattern in patterns)


def find_active_names(texts: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the unique names of known skills whose instructions are in the texts."""
    by_attribute = {_attribute(name): name for name in known}
    found: dict[str, None] = {}
    for text in texts:
        found |= dict.fromkeys(re.findall(_OPENING, text))
    return [by_attribute[name] for name in found if name in by_attribute]


def _attribute(text: str) -> str:
    return _plain(
        text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace("\n", " ")
    )


def _plain(text: str) -> str:
    """Return a string on one line, because a file name may contain any character."""
    # A newline in a file name would add lines to the prompt.
    return "".join(char if char.isprintable() else "?" for char in text)
