"""Offers the session's skills as prompts, which the client's user selects by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import mcp_types as t
from hilum_skills import Skills
from mcp import MCPError

if TYPE_CHECKING:
    from hilum import Session

TASK = t.PromptArgument(name="task", description="The task for the skill.", required=False)


class SkillPrompts:
    """The skills that are offered as prompts.

    Args:
        session: The session.
        redact: A function that replaces secrets.
    """

    def __init__(self, session: Session, redact: Callable[[str], str]) -> None:
        self._session = session
        self._redact = redact

    async def find_prompts(self) -> list[t.Prompt]:
        """Return the prompts, without the skills of an untrusted project."""
        skills = self._session.plugin(Skills)
        if skills is None:
            return []
        await skills.refresh()
        # If several skills have the same name, the first one takes precedence, so it is added last.
        descriptions = {
            entry.skill.name: entry.skill.description
            for entry in reversed(skills.catalog.enabled())
        }
        return [
            t.Prompt(name=name, description=self._redact(description), arguments=[TASK])
            for name, description in sorted(descriptions.items())
        ]

    async def list_prompts(
        self,
        ctx: Any,
        params: t.PaginatedRequestParams | None,
    ) -> t.ListPromptsResult:
        """Handle ``prompts/list``."""
        return t.ListPromptsResult(prompts=await self.find_prompts())

    async def get_prompt(self, ctx: Any, params: t.GetPromptRequestParams) -> t.GetPromptResult:
        """Handle ``prompts/get``: return the instructions of a skill, followed by the task.

        Raises:
            MCPError: There is no such skill.
        """
        skills = self._session.plugin(Skills)
        instructions = await skills.read(params.name) if skills is not None else None
        if instructions is None:
            raise MCPError(t.INVALID_PARAMS, f"There is no prompt {params.name}.")
        task = (params.arguments or {}).get("task", "").strip()
        text = self._redact(f"{instructions}\n\n{task}".rstrip())
        message = t.PromptMessage(role="user", content=t.TextContent(text=text))
        return t.GetPromptResult(messages=[message])
