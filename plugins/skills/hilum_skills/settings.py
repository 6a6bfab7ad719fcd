"""The settings of the plugin."""

from __future__ import annotations

from typing import Literal

from hilum import section, setting


@section("skills")
class SkillsSettings:
    """Where skills come from, and how the model gets them.

    ``hilum skills`` keeps its own list beside the settings.
    """

    inject: Literal["auto", "full", "index"] = setting(
        default="auto",
        project="user",
        help=(
            "How skills stand in the prompt: whole (full), by name and description (index), whole"
            " while all fit (auto)."
        ),
    )
    budget: int = setting(
        default=8_000,
        minimum=0,
        project="lower",
        help="With auto: tokens that all skills together may take in the prompt.",
    )
    sources: list[str] = setting(
        factory=list,
        project=False,
        help="Further repositories and folders with skills, as hilum skills add takes them.",
    )
    disabled: list[str] = setting(
        factory=list, project=False, help="Skills, by name, that are left out."
    )
    folders: bool = setting(
        default=True,
        project="lower",
        help=(
            "Look into .hilum/skills, .agents/skills and .claude/skills of the project and of the"
            " home."
        ),
    )
    wait: float = setting(
        default=20.0,
        minimum=0.0,
        project=False,
        help="Seconds that a session waits for repositories that are not there yet.",
    )
    timeout: float = setting(
        default=120.0,
        minimum=1.0,
        project=False,
        help="Seconds that fetching a repository may take.",
    )
    megabytes: int = setting(
        default=200, minimum=1, project=False, help="Most that is fetched of a repository."
    )
