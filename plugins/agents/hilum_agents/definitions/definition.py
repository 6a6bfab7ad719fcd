"""Agent definitions: the contents of agent files, translated into hilum's terms."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import attrs
from hilum import Profile, ToolFilter
from hilum.frontmatter import Problem

from hilum_agents.answers import FORMS
from hilum_agents.definitions.runner import Runner
from hilum_agents.forms import Form, instructions, make_type
from hilum_agents.guest_models import MODEL_PROVIDER

Dialect = Literal["hilum", "claude", "gemini", "opencode", "copilot", "codex", "cursor"]
Scope = Literal["project", "user", "builtin"]
# Maximum number of model calls per run if the file sets no limit.
DEFAULT_TURNS = 10


@attrs.frozen
class Permission:
    """A rule in an agent's file for the agent's calls, applied in addition to the user's rules.

    If several rules match a call, the last rule applies.

    Attributes:
        effect: ``deny`` or ``ask``; ``allow`` only cancels an earlier rule in the same file.
        tool: Name of the tool, or a pattern.
        pattern: Pattern for a command or a path, as in ``permissions.toml``; ``None`` matches every
            call.
    """

    effect: Literal["allow", "ask", "deny"]
    tool: str
    pattern: str | None = None

    @property
    def text(self) -> str:
        """The rule in the notation of agent files."""
        text = f"{self.effect} {self.tool}"
        if self.pattern is not None:
            text += f"({self.pattern})"
        return text


@attrs.frozen
class Definition:
    """An agent as described by its file.

    Attributes:
        name: Name by which the agent is called.
        path: The file.
        title: Title shown to the user.
        description: Its purpose, and when to use it.
        prompt: Its instructions.
        model: ``provider/name`` or a role; empty for the session's model.
        written_model: The model exactly as written in the file.
        scope: ``project``, ``user`` or ``builtin``.
        version: Its version.
        kind: The dialect of the agent's file.
        tools: Filter for the tools that the agent may use.
        agents: Names or patterns of the agents that this agent may start; ``None`` for all.
        servers: Names of the MCP servers that the agent uses.
        own_servers: MCP servers that the file itself defines, by name. hilum does not start such
            servers, because a project file must not start programs.
        skills: Names of the skills that the agent may use; ``None`` for all.
        permissions: Rules for its calls.
        answer: Name of the agent's answer form (see ``hilum_agents.answers``); empty for none.
        form: Custom answer form that the file defines (see ``hilum_agents.forms``).
        turns: Maximum number of model calls per run.
        timeout: Time limit per run in seconds; ``None`` for the session's setting.
        token_limit: Maximum number of tokens per run; ``None`` for the session's setting.
        runner: The program that does the agent's work; ``None`` if hilum does it.
        fields: All fields in the file's front matter.
        problems: All problems found in the file, with line numbers.
        error: The reason why the file cannot be loaded; empty if it can.
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
    turns: int = DEFAULT_TURNS
    timeout: float | None = None
    token_limit: int | None = None
    runner: Runner | None = None
    fields: dict[str, object] = attrs.field(factory=dict, repr=False)
    problems: tuple[Problem, ...] = ()
    error: str = ""

    @property
    def written_names(self) -> tuple[str, ...]:
        """Names such as 写手 in the file, or of the file, by which users can call the agent, too.

        ``name`` has only ASCII letters, because models and logs use it.
        """
        stem = self.path.name.partition(".")[0]
        found = dict.fromkeys(each.casefold() for each in (self.title, stem))
        return tuple(each for each in found if not each.isascii() and each.split() == [each])

    @property
    def label(self) -> str:
        """The name, with the one that the user wrote if it has other letters."""
        written = self.written_names
        return f"{written[0]} ({self.name})" if written else self.name

    def profile(self) -> Profile:
        """Return the profile that the kernel uses to run the agent."""
        # A program takes the place of the model; `model` then names the model that the program
        # calls.
        model = self.model if self.runner is None else f"{MODEL_PROVIDER}/{self.name}"
        return Profile(
            self.name,
            self.instructions,
            model,
            self.tools,
            self.turns,
            self.timeout,
            self.token_limit,
        )

    @property
    def instructions(self) -> str:
        """The system prompt: the agent's instructions, its skills and its answer form."""
        parts = [self.prompt]
        if self.skills:
            parts.append(
                f"Skills for your work: {', '.join(self.skills)}. Read each with use_skill before"
                " you need it."
            )
        # A prompt that contains a JSON block already shows the answer form.
        if (self.answer or self.form) and "```json" not in self.prompt:
            form = make_type(self.form) if self.form else FORMS[self.answer]
            parts.append(instructions(form))
        return "\n\n".join(parts)
