"""Formats skills as text for the terminal and as plain data."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hilum import estimate
from hilum.command import escape_terminal

from hilum_skills.catalog import CatalogEntry, SkillCatalog
from hilum_skills.clones import Clones
from hilum_skills.source import SkillSource

_STATES = {
    "on": "on",
    "off": "off",
    "untrusted": "NOT TRUSTED",
    "hidden": "hidden",
    "broken": "BROKEN",
}
MAX_DESCRIPTION = 150
MAX_FILES = 100


def format_entry(entry: CatalogEntry) -> str:
    """Return a two-line description of a skill."""
    skill = entry.skill
    why = ""
    if entry.state in ("hidden", "broken"):
        why = f" ({entry.reason})"
    description = skill.description.replace("\n", " ")
    if len(description) > MAX_DESCRIPTION:
        description = description[: MAX_DESCRIPTION - 1] + "…"
    # ``disable-model-invocation``: the model does not see the skill.
    by_user = "" if skill.by_model else "; only when you name it"
    problems = ""
    if skill.problems and not skill.error:
        count = len(skill.problems)
        problems = "; 1 problem" if count == 1 else f"; {count} problems"
    state = _STATES[entry.state]
    first = f"  {skill.name}  [{state}{by_user}{problems}]{why}"
    return f"{first}\n      {description}".rstrip()


def format_catalog(
    catalog: SkillCatalog,
    known: Sequence[SkillSource],
    clones: Clones,
) -> Iterator[str]:
    """Yield all skills by source, then all problems."""
    if not catalog.entries and not known:
        yield (
            "There are no skills. `hilum skills add owner/name` adds some. To write one, create"
            " `.hilum/skills/NAME/SKILL.md` with a front matter that has `name` and `description`."
            " `hilum skills --help`"
            " explains more."
        )
    by_name = {source.text: source for source in known}
    missing = {source.text for source in catalog.missing}
    by_source: dict[str, list[CatalogEntry]] = {}
    for entry in catalog.entries:
        by_source.setdefault(entry.source, []).append(entry)
    for name in dict.fromkeys([*by_source, *by_name]):
        if name in missing:
            note = "  (not fetched yet: hilum skills update)"
        else:
            note = _format_commit(by_name.get(name), clones)
        yield f"{name}{note}"
        yield from map(format_entry, by_source.get(name, ()))
    for complaint in catalog.complaints:
        yield f"! {complaint}"
    if catalog.untrusted:
        yield f"! Skills of this project are off. {catalog.distrust}"


def _format_commit(source: SkillSource | None, clones: Clones) -> str:
    """Return the commit of a fetched source and the time of the fetch; empty for other sources."""
    clone = None if source is None else clones.find(source)
    if clone is None:
        return ""
    day = time.strftime("%Y-%m-%d", time.localtime(clone.at))
    return f"  ({clone.commit[:10]}, {day})"


def format_skill(entry: CatalogEntry) -> str:
    """Return all details of a skill as text."""
    skill = entry.skill
    tools = ""
    # The list of tools is only displayed: a skill from a repository must not approve its own tool
    # calls.
    if skill.allowed_tools:
        tools = f"{', '.join(skill.allowed_tools)} (listed by the skill; this does not approve any call)"
    facts = {
        "from": entry.source,
        "file": skill.file,
        "state": _STATES[entry.state],
        "reason": entry.reason,
        "tools": tools,
    }
    shown_above = ("name", "description", "allowed-tools")
    facts |= {key: value for key, value in skill.fields.items() if key not in shown_above}
    lines = [skill.name, f"  {skill.description}"]
    lines += [f"  {key}: {value}" for key, value in facts.items() if str(value)]
    lines += [f"  ! line {problem.line}: {problem.message}" for problem in skill.problems]
    files = skill.resources()
    if files:
        lines.append("  files:")
        lines += [f"    {name}" for name in files[:MAX_FILES]]
    return "\n".join([*lines, "", skill.body])


def entry_data(entry: CatalogEntry, *, body: bool = False) -> dict[str, Any]:
    """Return a skill as plain data."""
    skill = entry.skill
    found = {
        "name": skill.name,
        "description": skill.description,
        "source": entry.source,
        "kind": entry.kind,
        "state": entry.state,
        "reason": entry.reason,
        "file": str(skill.file),
        "tokens": estimate(skill.body),
        "allowed_tools": list(skill.allowed_tools),
        "by_model": skill.by_model,
        "problems": [problem._asdict() for problem in skill.problems],
    }
    if body:
        return found | {"fields": skill.fields, "files": skill.resources(), "body": skill.body}
    return found


def catalog_data(
    catalog: SkillCatalog,
    known: Sequence[SkillSource],
    clones: Clones,
) -> dict[str, Any]:
    """Return all skills and sources as plain data."""
    repositories = []
    for source in known:
        clone = clones.find(source)
        repositories.append(
            {
                "source": source.text,
                "kind": source.kind,
                "where": source.where,
                "ref": source.ref,
                "path": source.path,
                "commit": clone.commit if clone else "",
                "fetched": clone.at if clone else None,
            }
        )
    skills = [entry_data(entry) for entry in catalog.entries]
    return {"skills": skills, "sources": repositories, "problems": list(catalog.complaints)}


@contextmanager
def show_progress(name: str) -> Iterator[Callable[[str], None]]:
    """Show progress on standard error: in place on a terminal, otherwise one line per step."""
    terminal = sys.stderr.isatty()
    last = ""
    width = 0

    def step(words: str) -> None:
        nonlocal last, width
        text = escape_terminal(f"{name}: {words}")
        if terminal:
            print(f"\r{text.ljust(width)}", end="", file=sys.stderr, flush=True)
            width = len(text)
        # A line for each percent would clutter a log.
        elif words.partition(" ")[0] != last:
            last = words.partition(" ")[0]
            print(text, file=sys.stderr, flush=True)

    try:
        yield step
    finally:
        if terminal and width:
            print("\r" + " " * width + "\r", end="", file=sys.stderr, flush=True)
