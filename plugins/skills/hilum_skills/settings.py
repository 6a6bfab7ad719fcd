"""The settings for skills: table ``[skills]``."""

from __future__ import annotations

from typing import Literal

from hilum import section, setting


@section("skills")
class SkillsSettings:
    """Where skills come from, and how the model receives them.

    ``hilum skills`` stores its own list next to ``settings.toml``.
    """

    inject: Literal["auto", "full", "index"] = setting(
        default="auto",
        project="user",
        help=(
            "How skills appear in the prompt: in full (full), by name and description (index), or"
            " in full if all of them fit (auto)."
        ),
    )
    budget: int = setting(
        default=8_000,
        minimum=0,
        project="lower",
        help="If inject is auto: maximum number of tokens that all skills together may take in the prompt.",
    )
    sources: list[str] = setting(
        factory=list,
        project=False,
        help="Additional repositories and folders with skills, as passed to hilum skills add.",
    )
    disabled: list[str] = setting(
        factory=list,
        project=False,
        help="Names of skills to disable.",
    )
    folders: bool = setting(
        default=True,
        project="lower",
        help=(
            "Look for skills in .hilum/skills, .agents/skills and the folders of other agents"
            " (.claude/skills, .gemini/skills, .github/skills …), in the project and in your home"
            " folder."
        ),
    )
    wait: float = setting(
        default=20.0,
        minimum=0.0,
        project=False,
        help="Seconds that a session waits for repositories that have not been fetched yet.",
    )
    timeout: float = setting(
        default=120.0,
        minimum=1.0,
        project=False,
        help="Time limit for fetching a repository, in seconds.",
    )
    megabytes: int = setting(
        default=200,
        minimum=1,
        project=False,
        help="Maximum size of a fetched repository, in megabytes.",
    )
