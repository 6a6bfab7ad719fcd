"""Skills for the terminal and as data: what files say is written so that a terminal obeys none of
it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hilum import estimate
from hilum_commandline import neutral

from hilum_skills.catalog import Catalog, Entry
from hilum_skills.clones import Clones
from hilum_skills.source import Source

_STATES = {
    "on": "on",
    "off": "off",
    "untrusted": "NOT TRUSTED",
    "hidden": "hidden",
    "broken": "BROKEN",
}
MOST_DESCRIPTION = 150


def row(entry: Entry) -> str:
    """One skill in two lines."""
    skill = entry.skill
    why = f" ({entry.reason})" if entry.state in ("hidden", "broken") else ""
    description = skill.description.replace("\n", " ")
    if len(description) > MOST_DESCRIPTION:
        description = description[: MOST_DESCRIPTION - 1] + "…"
    by_user = "" if skill.by_model else "; only when you name it"
    count = 0 if skill.error else len(skill.problems)
    problems = f"; {count} problem{'s' * (count > 1)}" if count else ""
    return f"  {skill.name}  [{_STATES[entry.state]}{by_user}{problems}]{why}\n      {description}".rstrip()


def rows(catalog: Catalog, known: Sequence[Source], clones: Clones) -> Iterator[str]:
    """All skills by source, then what is wrong."""
    if not catalog.entries and not known:
        yield (
            "There are no skills. hilum skills add owner/name fetches some; hilum skills --help"
            " tells more."
        )
    names = list(
        dict.fromkeys(
            [*(entry.source for entry in catalog.entries), *(source.text for source in known)]
        )
    )
    by_name = {source.text: source for source in known}
    for name in names:
        if name in by_name and by_name[name].kind == "git":
            clone = clones.find(by_name[name])
        else:
            clone = None
        if clone:
            fetched = (
                f"  ({clone.commit[:10]}, {time.strftime('%Y-%m-%d', time.localtime(clone.at))})"
            )
        else:
            fetched = ""
        if name in {source.text for source in catalog.missing}:
            missing = "  (not fetched yet: hilum skills update)"
        else:
            missing = ""
        yield f"{name}{fetched}{missing}"
        yield from (row(entry) for entry in catalog.entries if entry.source == name)
    for complaint in catalog.complaints:
        yield f"! {complaint}"
    if catalog.untrusted:
        yield f"! Skills of this project are off. {catalog.distrust}"


def page(entry: Entry) -> str:
    """Everything about one skill."""
    skill = entry.skill
    facts = [
        ("from", entry.source),
        ("file", str(skill.file)),
        ("state", _STATES[entry.state]),
        ("reason", entry.reason),
        (
            "tools",
            (
                f"{', '.join(skill.allowed_tools)} (named by the skill; no approval of anything)"
                if skill.allowed_tools
                else ""
            ),
        ),
    ]
    facts += [
        (key, str(value))
        for key, value in skill.fields.items()
        if key not in ("name", "description", "allowed-tools")
    ]
    lines = [
        skill.name,
        f"  {skill.description}",
        *(f"  {key}: {value}" for key, value in facts if value),
    ]
    lines += [f"  ! line {problem.line}: {problem.message}" for problem in skill.problems]
    files = skill.resources()
    lines += ["  files:", *(f"    {name}" for name in files[:100])] if files else []
    return "\n".join([*lines, "", skill.body])


def about(entry: Entry, *, body: bool = False) -> dict[str, Any]:
    """One skill as plain data."""
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


def listed(catalog: Catalog, known: Sequence[Source], clones: Clones) -> dict[str, Any]:
    """Everything as plain data."""
    repositories = []
    for source in known:
        clone = clones.find(source) if source.kind == "git" else None
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
    skills = [about(entry) for entry in catalog.entries]
    return {"skills": skills, "sources": repositories, "problems": list(catalog.complaints)}


@contextmanager
def progress(name: str) -> Iterator[Callable[[str], None]]:
    """Show how far something is, on standard error: in place on a terminal, else one line for each
    thing begun.
    """
    terminal = sys.stderr.isatty()
    last = ""
    width = 0

    def step(words: str) -> None:
        nonlocal last, width
        text = neutral(f"{name}: {words}")
        if terminal:
            print(f"\r{text.ljust(width)}", end="", file=sys.stderr, flush=True)
            width = len(text)
        elif words.partition(" ")[0] != last:
            last = words.partition(" ")[0]
            print(text, file=sys.stderr, flush=True)

    try:
        yield step
    finally:
        if terminal and width:
            print("\r" + " " * width + "\r", end="", file=sys.stderr, flush=True)
