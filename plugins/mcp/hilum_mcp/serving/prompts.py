"""The skills of the session as prompts: what the client's user picks by name, where the model has
not come to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import mcp_types as t
from hilum_skills import Skills
from mcp import MCPError

if TYPE_CHECKING:
    from hilum import Session

TASK = t.PromptArgument(name="task", description="What is to be done with it.", required=False)


class Prompts:
    """See the module.

    Args:
        session: The session.
        redact: Replaces secrets.
    """

    def __init__(self, session: Session, redact: Callable[[str], str]) -> None:
        self._session = session
        self._redact = redact

    async def prompts(self) -> list[t.Prompt]:
        """Describe them; skills of a project that is not trusted are none."""
        skills = self._session.half(Skills)
        if skills is None:
            return []
        await skills.refresh()
        named = {
            entry.skill.name: entry.skill.description for entry in reversed(skills.catalog.on())
        }
        return [
            t.Prompt(name=name, description=self._redact(about), arguments=[TASK])
            for name, about in sorted(named.items())
        ]

    async def list_prompts(
        self, ctx: Any, params: t.PaginatedRequestParams | None
    ) -> t.ListPromptsResult:
        """List them."""
        return t.ListPromptsResult(prompts=await self.prompts())

    async def get_prompt(self, ctx: Any, params: t.GetPromptRequestParams) -> t.GetPromptResult:
        """Return the instructions of a skill, and the task after them.

        Raises:
            MCPError: There is no such skill.
        """
        skills = self._session.half(Skills)
        written = await skills.read(params.name) if skills is not None else None
        if written is None:
            raise MCPError(t.INVALID_PARAMS, f"There is no prompt {params.name}.")
        task = (params.arguments or {}).get("task", "").strip()
        text = t.TextContent(text=self._redact(f"{written}\n\n{task}".rstrip()))
        return t.GetPromptResult(messages=[t.PromptMessage(role="user", content=text)])
