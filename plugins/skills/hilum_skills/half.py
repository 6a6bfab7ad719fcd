"""The half of a session: keeps the catalog fresh, gives the layers, and hands out what skills
hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import trio
from hilum import (
    Agent,
    Layer,
    NoteMessage,
    Session,
    Tool,
    ToolError,
    ToolMessage,
    Workspace,
    errors,
    hookimpl,
    tool,
)

from hilum_skills import layers
from hilum_skills.catalog import Catalog, Entry, changed, look
from hilum_skills.clones import Clones
from hilum_skills.settings import SkillsSettings
from hilum_skills.skill import Skill

MOST_SHOWN = 10_000
MAX_INSTRUCTIONS = (
    30_000  # characters of a skill's instructions at once; most are shorter than 20,000
)
MOST_TOLD = 8


class Skills:
    """The skills of a session.

    Args:
        session: Whose they are.
        settings: As they hold for its workspace.
        clones: What was fetched.
        failed: Why sources could not be fetched, by source; it grows while they are being fetched.

    Attributes:
        catalog: What there is, as it was found last.
    """

    def __init__(
        self, session: Session, settings: SkillsSettings, clones: Clones, failed: dict[str, str]
    ) -> None:
        self._session = session
        self._settings = settings
        self._clones = clones
        self._failed = failed
        self._told: set[str] = set()
        self._told_failed: set[str] = set()
        self._lock = trio.Lock()
        self._layers: dict[tuple[bool, layers.Limits], list[Layer]] = {}
        self.catalog = Catalog()

    async def refresh(self, *, first: bool = False) -> None:
        """Look again if the disk has changed; tell the user what is new and wrong."""
        root = self._session.workspace.root
        async with self._lock:
            if not first and not await trio.to_thread.run_sync(changed, self.catalog, root):
                if not self._failed.keys() <= self._told_failed:
                    self._tell()
                return
            had = bool(self.catalog.on())
            self.catalog = await trio.to_thread.run_sync(look, self._settings, root, self._clones)
            self._layers.clear()
            self._tell()
            if not first and had != bool(self.catalog.on()):
                self._session.tools_changed()

    async def read(self, name: str) -> str | None:
        """Return the instructions of a skill and the list of its other files.

        ``None`` where none of that name holds.
        """
        await self.refresh()
        entry = self._on(name)
        if entry is None:
            return None
        return "\n".join(await _written(entry.skill)).rstrip()

    # --- hooks ------------------------------------------------------------------------------------

    @hookimpl
    async def build_prompt_layer(self, agent: Agent) -> list[Layer]:
        """Return the skills that hold now, and that the agent may use."""
        await self.refresh()
        if not self.catalog.on():
            return []
        usable = any(tool.name == "use_skill" for tool in agent.tools())
        limits = tuple(
            [
                tuple(names)
                for _, names in await self._session.hooks.gather("limit_skills", agent=agent)
            ]
        )
        if (usable, limits) not in self._layers:
            made = layers.layers(self.catalog, self._settings, usable=usable, limits=limits)
            self._layers[usable, limits] = made
        return self._layers[usable, limits]

    @hookimpl
    def provide_tools(self) -> list[Tool]:
        """Return the tool, if there are skills."""
        return [self.use_skill] if self.catalog.on() else []

    @hookimpl(optionalhook=True)
    async def keep_on_trim(self, agent: Agent) -> str | None:
        """Return the instructions of the skills that the agent has begun to use.

        Those in the layers stay there anyway.
        """
        whole = layers.whole(self.catalog, self._settings)
        known = {
            entry.skill.name: entry.skill
            for entry in self.catalog.on()
            if not (whole and entry.skill.by_model)
        }
        active = [known[name] for name in layers.names_in(_texts(agent), known)]
        return "\n\n".join(layers.write(skill) for skill in active) or None

    @tool(risk="read", effect="pure", timeout=30)
    async def use_skill(
        self,
        agent: Agent,
        name: str,
        resource: str = "",
        start_line: Annotated[int, msgspec.Meta(ge=1)] = 1,
    ) -> str:
        """Read the instructions of a skill, or one of its other files.

        Args:
            name: Name of the skill.
            resource: A file of the skill, by the path that its instructions or its list of files
                give; empty for the instructions.
            start_line: The first line to read, where a part was shown before.
        """
        await self.refresh()
        entry = self._on(name.strip())
        if entry is None:
            raise self._refusal(name.strip())
        if resource:
            return await self._resource(entry.skill, resource, start_line)
        skill = entry.skill
        written, listed = await _written(skill)
        in_layers = skill.by_model and layers.whole(self.catalog, self._settings)
        if len(written) > MAX_INSTRUCTIONS:
            written = _part(written, start_line, f"The skill {skill.name}", MAX_INSTRUCTIONS)
        if in_layers or any(written in text for text in _texts(agent)):
            where = "in your instructions" if in_layers else "above"
            return f"The skill {skill.name} is already active: its instructions stand {where}." + (
                f"\n{listed}" if listed else ""
            )
        return f"{written}\n{listed}".rstrip()

    # --- inside -----------------------------------------------------------------------------------

    def _on(self, name: str) -> Entry | None:
        entry = self.catalog.get(name)
        if entry is not None and entry.state == "on":
            return entry
        return None

    def _refusal(self, name: str) -> ToolError:
        entry = self.catalog.get(name)
        if entry is not None:
            message = f"The skill {name!r} cannot be used: {entry.reason}."
            return ToolError(
                message,
                code=errors.E_DENIED,
                hint="Go on without it; the user decides which skills hold.",
            )
        known = ", ".join(sorted(entry.skill.name for entry in self.catalog.on())[:50])
        return ToolError(
            f"There is no skill {name!r}.",
            code=errors.E_NOT_FOUND,
            hint=f"Known: {known or 'none'}.",
        )

    async def _resource(self, skill: Skill, path: str, start: int) -> str:
        """Read a file in the skill's folder, and nowhere else."""
        folder = Workspace(skill.folder)
        try:
            if path.startswith(("/", "~")):
                path = _relative(path, skill)
            if await trio.to_thread.run_sync(lambda: folder.resolve(path).is_dir()):
                inside = [
                    name
                    for name in await _resources(skill)
                    if name.startswith(f"{path.strip('/')}/")
                ]
                raise ToolError(f"{path!r} is a folder.", hint=layers.list_resources(inside, skill))
            content = await folder.read_text(path)
        except ToolError as error:
            if error.code == errors.E_PATH_TRAVERSAL:
                message = f"{path!r} is not in the folder of the skill {skill.name}."
                raise ToolError(
                    message, code=error.code, hint="Files elsewhere are read with read_file."
                ) from None
            message = error.message.replace("in the workspace", f"in the skill {skill.name}")
            hint = error.hint
            if error.code == errors.E_FILE_NOT_FOUND:
                hint = layers.list_resources(await _resources(skill), skill)
            raise ToolError(message, code=error.code, hint=hint) from None
        return _part(content, start, path)

    def _tell(self) -> None:
        """Say what is wrong, each thing once in a session."""
        complaints = [
            f"The skill {entry.skill.name} of {entry.source} is skipped: {entry.reason}"
            for entry in self.catalog.entries
            if entry.state == "broken"
        ]
        hidden = [
            entry for entry in self.catalog.entries if entry.state == "hidden" and not entry.same
        ]
        complaints += [
            f"A skill of {entry.source} is left out: {entry.reason}." for entry in hidden
        ]
        self._told_failed.update(self._failed)
        complaints += [
            f"Skills of {source} were not fetched: {why}" for source, why in self._failed.items()
        ]
        complaints += self.catalog.complaints
        untrusted = self.catalog.untrusted
        if untrusted:
            names = ", ".join(entry.skill.name for entry in untrusted[:MOST_TOLD])
            if len(untrusted) > MOST_TOLD:
                more = f" and {len(untrusted) - MOST_TOLD} more"
            else:
                more = ""
            say = f"Skills of this project are off: {names}{more}. {self.catalog.distrust}"
            if say not in self._told:
                self._told.add(say)
                self._session.note(
                    "skills.untrusted", say=say, skills=[entry.skill.name for entry in untrusted]
                )
        new = [complaint for complaint in dict.fromkeys(complaints) if complaint not in self._told]
        if new:
            self._told.update(new)
            if len(new) > MOST_TOLD:
                more = f"\n… and {len(new) - MOST_TOLD} more; `hilum skills` shows them all."
            else:
                more = ""
            self._session.note(
                "skills.problems", say="\n".join(new[:MOST_TOLD]) + more, problems=new[:200]
            )


def _texts(agent: Agent) -> Iterator[str]:
    """The texts in which skills' instructions can stand: results of the tool, and notes, such as
    the summary at a cut.
    """
    for message in agent.conversation.messages:
        if isinstance(message, ToolMessage):
            yield from (
                result.text
                for result in message.results
                if result.name == "use_skill" and not result.code
            )
        elif isinstance(message, NoteMessage):
            yield message.text


def _relative(path: str, skill: Skill) -> str:
    """A path that a skill names by its absolute place, as one below its folder."""
    given = Path(path).expanduser()
    if given.is_relative_to(skill.folder):
        return str(given.relative_to(skill.folder))
    return path


async def _resources(skill: Skill) -> list[str]:
    return await trio.to_thread.run_sync(skill.resources, abandon_on_cancel=True)


async def _written(skill: Skill) -> tuple[str, str]:
    return layers.write(skill), layers.list_resources(await _resources(skill), skill)


def _part(content: str, start: int, path: str, room: int = MOST_SHOWN) -> str:
    """The lines from one on that fit; what is left is told."""
    lines = content.split("\n")
    if content.endswith("\n"):
        lines.pop()
    shown: list[str] = []
    limit = room
    for line in lines[start - 1 :]:
        if shown and room < len(line):
            break
        shown.append(line[:limit])
        room -= len(line) + 1
    if not shown:
        return f"{path} has {len(lines)} lines; there is no line {start}."
    last = start + len(shown) - 1
    if last < len(lines):
        rest = f"\n[Lines {start} to {last} of {len(lines)}; read on with start_line={last + 1}.]"
    else:
        rest = ""
    return "\n".join(shown) + rest
