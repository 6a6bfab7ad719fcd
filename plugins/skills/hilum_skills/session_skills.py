"""The session plugin for skills: updates the catalog, and provides prompt layers and a tool."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import trio
from hilum import (
    Agent,
    Interpretation,
    Layer,
    NoteMessage,
    PromptCommand,
    Session,
    Tool,
    ToolError,
    ToolMessage,
    Workspace,
    errors,
    hookimpl,
    tool,
)

from hilum_skills import prompt_layers
from hilum_skills.catalog import CatalogEntry, SkillCatalog, build_catalog, has_changed
from hilum_skills.clones import Clones
from hilum_skills.settings import SkillsSettings
from hilum_skills.skill import Skill

# Maximum number of characters to return at once from a file.
MAX_RESOURCE = 10_000
# Maximum number of characters to return at once from a skill's instructions; most skills have fewer
# than 20,000.
MAX_INSTRUCTIONS = 30_000
MAX_NOTED = 8
# Maximum number of files to look at in the event loop. On a local disk, each takes 5 µs.
MAX_QUICK_LOOKS = 64
# After a look that takes longer, the looks move to a thread: the files may be on a network.
MAX_QUICK_SECONDS = 0.01
# Seconds until another look in the event loop, because the machine may only have been busy.
SLOW_SECONDS = 10.0
# Maximum number of skills to list in an error for the model.
MAX_NAMED = 50


class Skills:
    """The session plugin for skills.

    Args:
        session: The session.
        settings: The settings of the session's workspace.
        clones: The fetched repositories.
        failed: Why sources could not be fetched, by source. Entries are added while repositories
            are being fetched.

    Attributes:
        catalog: The skills that the most recent scan found.
    """

    def __init__(
        self,
        session: Session,
        settings: SkillsSettings,
        clones: Clones,
        failed: dict[str, str],
    ) -> None:
        self._session = session
        self._settings = settings
        self._clones = clones
        self._failed = failed
        self._reported: set[str] = set()
        self._reported_failures: set[str] = set()
        self._lock = trio.Lock()
        self._slow_until = 0.0
        # Layers are cached, because otherwise all skills would be formatted again for every agent
        # and prompt.
        self._layers: dict[tuple[bool, prompt_layers.Limits], list[Layer]] = {}
        self.catalog = SkillCatalog()

    async def refresh(self, *, first: bool = False) -> None:
        """Scan again if watched files have changed, and report new problems to the user."""
        root = self._session.workspace.root
        # Agents may build their prompts at the same time, but only one agent scans.
        async with self._lock:
            if not first and not await trio.to_thread.run_sync(has_changed, self.catalog, root):
                self._report_failures()
                return
            had = bool(self.catalog.enabled())
            self.catalog = await trio.to_thread.run_sync(
                build_catalog,
                self._settings,
                root,
                self._clones,
            )
            self._layers.clear()
            self._report()
            if not first and had != bool(self.catalog.enabled()):
                # Refresh the agents' tool lists, because ``use_skill`` exists only while there are
                # skills.
                self._session.tools_changed()

    def _report_failures(self) -> None:
        # A fetch that fails after the session has started does not change a watched file.
        if not self._failed.keys() <= self._reported_failures:
            self._report()

    def _is_surely_unchanged(self) -> bool:
        """Return whether a look at a few files, in the event loop, shows that nothing changed."""
        began = time.monotonic()
        if began < self._slow_until or self._lock.locked():
            return False
        if len(self.catalog.watched) > MAX_QUICK_LOOKS:
            return False
        # With skills of a project, the look reads the file with the trusted folders.
        if not self.catalog.stamp or self.catalog.stamp[0] is not None:
            return False
        is_changed = has_changed(self.catalog, self._session.workspace.root)
        ended = time.monotonic()
        if ended - began > MAX_QUICK_SECONDS:
            self._slow_until = ended + SLOW_SECONDS
        return not is_changed

    async def read(self, name: str) -> str | None:
        """Return the instructions of a skill and the list of its other files.

        The result is ``None`` if there is no enabled skill with that name.
        """
        await self.refresh()
        entry = self.catalog.get(name)
        if entry is None or entry.state != "on":
            return None
        return "\n".join(await _format_skill(entry.skill)).rstrip()

    # --- hooks ------------------------------------------------------------------------------------

    @hookimpl
    def build_prompt_layer(self, agent: Agent) -> list[Layer] | Awaitable[list[Layer]]:
        """Return the layers with the enabled skills that the agent may use."""
        # A task and a thread for each turn would cost more than the look itself.
        is_unchanged = self._is_surely_unchanged()
        if is_unchanged:
            self._report_failures()
            if not self.catalog.enabled():
                return []
        return self._build_layers(agent, refresh=not is_unchanged)

    async def _build_layers(self, agent: Agent, *, refresh: bool) -> list[Layer]:
        if refresh:
            await self.refresh()
        if not self.catalog.enabled():
            return []
        usable = any(tool.name == "use_skill" for tool in agent.tools())
        gathered = await self._session.hooks.gather("limit_skills", agent=agent)
        limits = tuple(tuple(names) for _, names in gathered)
        layers = self._layers.get((usable, limits))
        if layers is None:
            layers = prompt_layers.make_layers(
                self.catalog,
                self._settings,
                usable=usable,
                limits=limits,
            )
            self._layers[usable, limits] = layers
        return layers

    @hookimpl
    def provide_tools(self) -> list[Tool]:
        """Return the tool ``use_skill`` if there are enabled skills."""
        return [self.use_skill] if self.catalog.enabled() else []

    @hookimpl
    def list_commands(self) -> list[PromptCommand]:
        """Return a command for each enabled skill."""
        skills = [entry.skill for entry in self.catalog.enabled()]
        return [PromptCommand(skill.name, skill.description, "[REQUEST]") for skill in skills]

    # Skills come last, so that they do not take the names of other plugins' commands.
    @hookimpl(trylast=True)
    def interpret_prompt(self, text: str) -> Interpretation | None:
        """Return the prompt that replaces ``/name request``: a request to use the skill."""
        if not text.startswith("/"):
            return None
        name, _, request = text[1:].partition(" ")
        entry = self.catalog.get(name.strip())
        if entry is None or entry.state != "on":
            return None
        return Interpretation(f"Use the skill {entry.skill.name}.\n\n{request}".rstrip())

    # The plugin `memory`, which may not be installed, declares this hook.
    @hookimpl(optionalhook=True)
    async def keep_on_compaction(self, agent: Agent) -> str | None:
        """Return the instructions of the skills that the agent is using.

        Instructions in the prompt's layers always survive a compaction.
        """
        in_layers = prompt_layers.is_full_text(self.catalog, self._settings)
        known: dict[str, Skill] = {}
        for entry in self.catalog.enabled():
            if not (in_layers and entry.skill.by_model):
                known[entry.skill.name] = entry.skill
        names = prompt_layers.find_active_names(_find_texts(agent), known)
        active = [prompt_layers.format_instructions(known[name]) for name in names]
        return "\n\n".join(active) or None

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
            resource: A file of the skill, as its instructions or its list of files name it; empty
                for the instructions.
            start_line: The first line to read, to continue a partial result.
        """
        await self.refresh()
        name = name.strip()
        entry = self.catalog.get(name)
        if entry is None or entry.state != "on":
            raise self._make_refusal(name, entry)
        if resource:
            return await self._read_resource(entry.skill, resource, start_line)
        skill = entry.skill
        written, listed = await _format_skill(skill)
        in_layers = skill.by_model and prompt_layers.is_full_text(self.catalog, self._settings)
        # The kernel would shorten a longer result without a way to read the rest.
        if len(written) > MAX_INSTRUCTIONS:
            written = _cut_lines(written, start_line, f"The skill {skill.name}", MAX_INSTRUCTIONS)
        if in_layers or any(written in text for text in _find_texts(agent)):
            where = "in your instructions" if in_layers else "above"
            # Repeated instructions would cost thousands of tokens without new information.
            written = f"The skill {skill.name} is already active: its instructions are {where}."
        return f"{written}\n{listed}".rstrip()

    # --- inside -----------------------------------------------------------------------------------

    def _make_refusal(self, name: str, entry: CatalogEntry | None) -> ToolError:
        if entry is not None:
            message = f"The skill {name!r} cannot be used: {entry.reason}."
            return ToolError(
                message,
                code=errors.E_DENIED,
                hint="Continue without it; the user decides which skills are enabled.",
            )
        names = sorted(entry.skill.name for entry in self.catalog.enabled())
        known = ", ".join(names[:MAX_NAMED]) or "none"
        return ToolError(
            f"There is no skill {name!r}.",
            code=errors.E_NOT_FOUND,
            hint=f"Known: {known}.",
        )

    async def _read_resource(self, skill: Skill, path: str, start: int) -> str:
        """Return the content of a file, which must be in the skill's folder."""
        # A `Workspace` for the skill's folder applies the same checks against ``..`` and links as
        # other tools.
        folder = Workspace(skill.folder)
        try:
            # The instructions contain the folder's path, so models pass absolute paths.
            if path.startswith(("/", "~")):
                path = _make_relative(path, skill)
            if await trio.to_thread.run_sync(lambda: folder.resolve(path).is_dir()):
                prefix = f"{path.strip('/')}/"
                inside = [name for name in await _list_files(skill) if name.startswith(prefix)]
                hint = prompt_layers.format_resources(inside, skill)
                raise ToolError(f"{path!r} is a folder.", hint=hint)
            content = await folder.read_text(path)
        except ToolError as error:
            if error.code == errors.E_PATH_TRAVERSAL:
                message = f"{path!r} is not in the folder of the skill {skill.name}."
                raise ToolError(
                    message,
                    code=error.code,
                    hint="Read files elsewhere with read_file.",
                ) from None
            message = error.message.replace("in the workspace", f"in the skill {skill.name}")
            hint = error.hint
            if error.code == errors.E_FILE_NOT_FOUND:
                hint = prompt_layers.format_resources(await _list_files(skill), skill)
            raise ToolError(message, code=error.code, hint=hint) from None
        return _cut_lines(content, start, path)

    def _report(self) -> None:
        """Report each problem to the user once per session."""
        self._reported_failures.update(self._failed)
        self._report_untrusted()
        complaints = dict.fromkeys(self._find_complaints())
        new = [complaint for complaint in complaints if complaint not in self._reported]
        if not new:
            return
        self._reported.update(new)
        say = "\n".join(new[:MAX_NOTED])
        if len(new) > MAX_NOTED:
            say += f"\n… and {len(new) - MAX_NOTED} more; `hilum skills` shows them all."
        self._session.note("skills.problems", say=say, problems=new[:200])

    def _find_complaints(self) -> Iterator[str]:
        for entry in self.catalog.entries:
            if entry.state == "broken":
                yield f"The skill {entry.skill.name} from {entry.source} is skipped: {entry.reason}"
        for entry in self.catalog.entries:
            if entry.state == "hidden" and not entry.same:
                yield f"A skill from {entry.source} is left out: {entry.reason}."
        for source, why in self._failed.items():
            yield f"Skills of {source} were not fetched: {why}"
        yield from self.catalog.complaints

    def _report_untrusted(self) -> None:
        names = [entry.skill.name for entry in self.catalog.untrusted]
        if not names:
            return
        shown = ", ".join(names[:MAX_NOTED])
        if len(names) > MAX_NOTED:
            shown += f" and {len(names) - MAX_NOTED} more"
        say = f"Skills of this project are off: {shown}. {self.catalog.distrust}"
        if say not in self._reported:
            self._reported.add(say)
            self._session.note("skills.untrusted", say=say, skills=names)


def _find_texts(agent: Agent) -> Iterator[str]:
    """Yield the texts that can contain instructions: results of ``use_skill``, and notes.

    A note may be the summary of a compaction, which preserves instructions.
    """
    for message in agent.conversation.messages:
        if isinstance(message, ToolMessage):
            for result in message.results:
                if result.name == "use_skill" and not result.code:
                    yield result.text
        elif isinstance(message, NoteMessage):
            yield message.text


def _make_relative(path: str, skill: Skill) -> str:
    """Return an absolute path in the skill's folder as a path relative to the folder."""
    given = Path(os.path.expanduser(path))
    if given.is_relative_to(skill.folder):
        return str(given.relative_to(skill.folder))
    return path


async def _list_files(skill: Skill) -> list[str]:
    # The thread only reads, so it can be abandoned if the call is cancelled while the disk is slow.
    return await trio.to_thread.run_sync(skill.resources, abandon_on_cancel=True)


async def _format_skill(skill: Skill) -> tuple[str, str]:
    files = await _list_files(skill)
    instructions = prompt_layers.format_instructions(skill)
    return instructions, prompt_layers.format_resources(files, skill)


def _cut_lines(content: str, start: int, path: str, room: int = MAX_RESOURCE) -> str:
    """Return as many lines from ``start`` as fit, with a notice about the remaining lines."""
    lines = content.split("\n")
    if content.endswith("\n"):
        lines.pop()
    shown: list[str] = []
    limit = room
    for line in lines[start - 1 :]:
        if shown and room < len(line):
            break
        # The first line is always returned, shortened if necessary, so that each call makes
        # progress.
        shown.append(line[:limit])
        room -= len(line) + 1
    if not shown:
        return f"{path} has {len(lines)} lines; there is no line {start}."
    last = start + len(shown) - 1
    if last < len(lines):
        shown.append(
            f"[Lines {start} to {last} of {len(lines)}; read on with start_line={last + 1}.]"
        )
    return "\n".join(shown)
