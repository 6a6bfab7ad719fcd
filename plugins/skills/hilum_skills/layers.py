"""What the model reads of skills: layers of the prompt, and a skill's instructions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from hilum import Layer, estimate

from hilum_skills.catalog import Catalog, Entry
from hilum_skills.settings import SkillsSettings
from hilum_skills.skill import LONGEST_DESCRIPTION, LONGEST_NAME, Skill

Limits = tuple[tuple[str, ...], ...]
RANK = 50
MOST_BODY = 100_000
MOST_LISTED = 100
_INDEX = """\
Skills are instructions for special tasks, chosen by the user. Before a task that fits the description of one, call use_skill
with its name, and follow what it says. Do not guess what a skill says from its description."""
_FULL = """\
Skills are instructions for special tasks, chosen by the user; they follow here whole. Follow one when the task fits its
description. Files that it names are read with use_skill."""


def whole(catalog: Catalog, settings: SkillsSettings) -> bool:
    """Return whether skills go into the prompt with all their text."""
    if settings.inject != "auto":
        return settings.inject == "full"
    return sum(estimate(entry.skill.body) for entry in _shown(catalog)) <= settings.budget


def layers(
    catalog: Catalog, settings: SkillsSettings, *, usable: bool, limits: Limits = ()
) -> list[Layer]:
    """Create the layers of the prompt: one for each skill, or one for each source, so that a change
    of one leaves the others.

    Args:
        catalog: What there is.
        settings: How it is shown.
        usable: Whether the agent has the tool ``use_skill``; an index is of no use without.
        limits: Names or patterns of the only skills that are shown; a skill must be in each of
            them.
    """
    shown = [
        entry
        for entry in _shown(catalog)
        if all(_is_in(entry.skill.name, names) for names in limits)
    ]
    if not shown:
        return []
    if whole(catalog, settings):
        return [
            Layer(RANK, "skills", _FULL),
            *(Layer(RANK, f"skill {e.skill.name}", write(e.skill)) for e in shown),
        ]
    if not usable:
        return []
    listed: dict[str, list[str]] = {}
    for entry in shown:
        listed.setdefault(entry.source, []).append(_line(entry.skill))
    return [
        Layer(RANK, "skills", _INDEX),
        *(Layer(RANK, f"skills of {source}", "\n".join(lines)) for source, lines in listed.items()),
    ]


def write(skill: Skill) -> str:
    """Write a skill's instructions; nothing in them can end the element."""
    body = re.sub(r"<(?=\s*(?:/\s*)?skill\b)", r"<\\", skill.body[:MOST_BODY], flags=re.IGNORECASE)
    if len(skill.body) > MOST_BODY:
        cut = f'\n[Cut here; read on with resource="{skill.file.name}".]'
    else:
        cut = ""
    folder = _attribute(str(skill.folder))
    head = f'<skill name="{_attribute(skill.name)}" version="{skill.version}" folder="{folder}">'
    return f"{head}\n{body}{cut}\n</skill>"


def list_resources(names: Sequence[str], skill: Skill) -> str:
    """Return which other files a skill has; empty where it has none."""
    if not names:
        return ""
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    shown = "\n".join(f"- {_plain(name)}" for name in names[:MOST_LISTED])
    return (
        f'Files of this skill, read with use_skill(name="{skill.name}",'
        f' resource="…"):\n{shown}{more}'
    )


def _shown(catalog: Catalog) -> list[Entry]:
    return [entry for entry in catalog.on() if entry.skill.by_model]


def _is_in(name: str, names: Iterable[str]) -> bool:
    return any(fnmatchcase(name.casefold(), each.casefold()) for each in names)


def _line(skill: Skill) -> str:
    description = skill.description[:LONGEST_DESCRIPTION]
    return f"- {skill.name[: 2 * LONGEST_NAME]}: {description}"


def names_in(texts: Iterable[str], known: Iterable[str]) -> list[str]:
    """Which of the known skills have their instructions in some texts, each once, in order."""
    by_attribute = {_attribute(name): name for name in known}
    found = (
        match[1]
        for text in texts
        for match in re.finditer(r'^<skill name="([^"\n]{1,500})" version="', text, re.MULTILINE)
    )
    return [by_attribute[name] for name in dict.fromkeys(found) if name in by_attribute]


def _attribute(text: str) -> str:
    return _plain(
        text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace("\n", " ")
    )


def _plain(text: str) -> str:
    """A name of a file, which may hold any character, on one line."""
    return "".join(char if char.isprintable() else "?" for char in text)
