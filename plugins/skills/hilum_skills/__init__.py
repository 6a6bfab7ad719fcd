"""Skills: instructions for special tasks, from git repositories and folders, which the model reads
when it needs them.

Importing the package reads no file and loads neither YAML nor git.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import trio
from hilum import hookimpl, hookspec

from hilum_skills.settings import SkillsSettings

if TYPE_CHECKING:
    from hilum import Agent, Kernel, Session

    from hilum_skills.fetching import Fetching
    from hilum_skills.half import Skills
    from hilum_skills.skill import Skill, load_skill
    from hilum_skills.source import Source, parse_source
    from hilum_skills.strict import validate

__all__ = [
    "Skill",
    "Skills",
    "SkillsSettings",
    "Source",
    "limit_skills",
    "load_skill",
    "open_kernel",
    "open_session",
    "parse_source",
    "validate",
]

# Where what is public stands, loaded at first use.
_HOMES = {
    "Skill": "skill",
    "load_skill": "skill",
    "Skills": "half",
    "Source": "source",
    "parse_source": "source",
    "validate": "strict",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"hilum_skills.{_HOMES[name]}"), name)
    return value


@hookspec(shape="gather", deadline=5.0, fault="left out", gives=str, many=True)
async def limit_skills(agent: Agent) -> Sequence[str] | None:
    """Return names, or patterns of names, of the only skills that an agent is shown.

    ``None`` for all. Every answer narrows.
    """


@hookimpl
async def open_kernel(kernel: Kernel) -> AsyncIterator[Fetching]:
    """Fetch repositories that are not there yet, until the kernel closes."""
    from hilum_skills.fetching import open_fetching

    async with open_fetching(kernel) as fetching:
        yield fetching


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Skills]:
    """Find the session's skills; wait a while for repositories that are being fetched."""
    from hilum_skills.clones import Clones
    from hilum_skills.fetching import Fetching
    from hilum_skills.half import Skills

    settings = session.settings(SkillsSettings)
    fetching = session.kernel.half(Fetching)
    if fetching is not None:
        with trio.move_on_after(
            min(settings.wait, 25.0)
        ):  # the session's start has a deadline of its own
            await fetching.over.wait()
    half = Skills(
        session,
        settings,
        fetching.clones if fetching else Clones(),
        fetching.failed if fetching else {},
    )
    await half.refresh(first=True)
    yield half
