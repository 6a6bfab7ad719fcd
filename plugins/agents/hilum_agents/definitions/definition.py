"""What a definition is: an agent as its file describes it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import attrs
from hilum import Profile, ToolFilter
from hilum_frontmatter import Problem

from hilum_agents.forms import Form, instructions, make_type

Dialect = Literal["hilum", "claude", "gemini", "opencode", "copilot", "codex", "cursor"]
Scope = Literal["project", "user", "builtin"]
TURNS = 10
"""Most model calls of a run, where the file says nothing."""


@attrs.frozen
class Permission:
    """What an agent's calls of a tool meet, on top of what the user's rules say.

    Of several that fit the last one counts.

    Attributes:
        effect: ``deny`` or ``ask``; ``allow`` only takes back what an earlier permission of the
            same agent denies or asks.
        tool: Name of the tool, or a pattern.
        pattern: Words of a command or a path, as in ``permissions.toml``; ``None`` for every call.
    """

    effect: Literal["allow", "ask", "deny"]
    tool: str
    pattern: str | None = None

    @property
    def text(self) -> str:
        """As it is written."""
        return f"{self.effect} {self.tool}" + ("" if self.pattern is None else f"({self.pattern})")


@attrs.frozen
class Definition:
    """An agent as its file describes it.

    Attributes:
        name: What it is called by.
        path: The file it was read from.
        title: What it is shown as.
        description: What it does and when to use it.
        prompt: Its instructions.
        model: ``provider/name`` or a role; empty for the session's model.
        written_model: The model as the file has it.
        scope: Where it belongs: ``project``, ``user`` or ``builtin``.
        version: Its version.
        kind: The dialect of its file.
        tools: Which tools it may use.
        agents: Which agents it may start; ``None`` for all.
        servers: MCP servers it wants, by name.
        own_servers: MCP servers that the file itself describes, as it has them, by name. They are
            started by nobody here.
        skills: The skills it may use, by name; ``None`` for all.
        permissions: What narrows its calls.
        answer: The form its answer is held to (see ``hilum_agents.answers``); empty for none.
        form: Such a form of its own, in place of a name (see ``hilum_agents.forms``).
        turns: Most model calls of a run.
        timeout: Seconds a run may take; ``None`` for the session's setting.
        token_limit: Tokens a run may use; ``None`` for the session's setting.
        fields: Everything that stands in its front matter.
        problems: What is not as it should be, with lines.
        error: Why it does not load; empty if it does.
    """

    name: str
    path: Path
    title: str = ""
    description: str = ""
    prompt: str = attrs.field(default="", repr=False)
    model: str = ""
    written_model: str = ""
    scope: Scope = "user"
    version: str = ""
    kind: Dialect = "hilum"
    tools: ToolFilter = ToolFilter()
    agents: tuple[str, ...] | None = None
    servers: tuple[str, ...] = ()
    own_servers: dict[str, object] = attrs.field(factory=dict, repr=False)
    skills: tuple[str, ...] | None = None
    permissions: tuple[Permission, ...] = ()
    answer: str = ""
    form: Form | None = None
    turns: int = TURNS
    timeout: float | None = None
    token_limit: int | None = None
    fields: dict[str, object] = attrs.field(factory=dict, repr=False)
    problems: tuple[Problem, ...] = ()
    error: str = ""

    def profile(self) -> Profile:
        """Return what the kernel needs to run it."""
        return Profile(
            self.name,
            self.instructions,
            self.model,
            self.tools,
            self.turns,
            self.timeout,
            self.token_limit,
        )

    @property
    def instructions(self) -> str:
        """Its prompt, and what its file asks for elsewhere that it has to be told: skills, and the
        form of its answer.
        """
        parts = [self.prompt]
        if self.skills:
            parts.append(
                f"Skills for your work: {', '.join(self.skills)}. Read each with use_skill before"
                " it is needed."
            )
        if (self.answer or self.form) and "```json" not in self.prompt:
            from hilum_agents.answers import FORMS

            parts.append(instructions(make_type(self.form) if self.form else FORMS[self.answer]))
        return "\n\n".join(parts)
