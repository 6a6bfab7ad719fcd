"""Skills: instructions for specific tasks, which the model reads when it needs them.

Skills come from Git repositories and folders. Importing the package reads no skill files and
imports neither YAML nor cattrs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import trio
from hilum import hookimpl, hookspec

from hilum_skills import lazy
from hilum_skills.settings import SkillsSettings

if TYPE_CHECKING:
    from hilum import Agent, Kernel, Session

    from hilum_skills.fetcher import Fetcher
    from hilum_skills.session_skills import Skills
    from hilum_skills.skill import Skill, load_skill
    from hilum_skills.source import SkillSource, parse_source
    from hilum_skills.specification import validate

__all__ = [
    "Skill",
    "SkillSource",
    "Skills",
    "SkillsSettings",
    "limit_skills",
    "load_skill",
    "open_kernel",
    "open_session",
    "parse_source",
    "validate",
]

# The module of each public name that is imported at first use.
_MODULES = {
    "Skill": "skill",
    "load_skill": "skill",
    "Skills": "session_skills",
    "SkillSource": "source",
    "parse_source": "source",
    "validate": "specification",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # The value is stored in the module, so that ``__getattr__`` runs only once for each name.
    module = getattr(lazy, _MODULES[name])
    value = globals()[name] = getattr(module, name)
    return value


@hookspec(shape="gather", deadline=5.0, on_failure="left out", returns=str, returns_many=True)
async def limit_skills(agent: Agent) -> Sequence[str] | None:
    """Return the names, or name patterns, of the skills that an agent may see.

    ``None`` allows all skills. An agent sees only skills that every plugin allows.
    """


@hookimpl
async def open_kernel(kernel: Kernel) -> AsyncIterator[Fetcher]:
    """Fetch missing repositories in the background until the kernel closes."""
    # The kernel, not a session, owns the fetches: a session that closes early does not interrupt
    # the fetches, and later sessions share the results.
    async with lazy.fetcher.open_fetcher(kernel) as fetcher:
        yield fetcher


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Skills]:
    """Yield the session's skills, after a limited wait for repositories that are being fetched."""
    settings = session.settings(SkillsSettings)
    fetcher = session.kernel.plugin(lazy.fetcher.Fetcher)
    clones = lazy.clones.Clones()
    # Without the kernel plugin, nothing is fetched, but repositories that were fetched earlier are
    # still found.
    failed: dict[str, str] = {}
    if fetcher is not None:
        clones = fetcher.clones
        failed = fetcher.failed
        # The kernel limits the hook to 30 seconds.
        with trio.move_on_after(min(settings.wait, 25.0)):
            await fetcher.done.wait()
    skills = lazy.session_skills.Skills(session, settings, clones, failed)
    # Scan before the session starts, because the session's tool list depends on whether there are
    # skills.
    await skills.refresh(first=True)
    yield skills
