"""Operations that show what a user can choose: commands, modes, models and completions."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import trio
from hilum import HilumError, ModelAccess

from hilum_serve.api.work import needs_administer
from hilum_serve.hub import HostedSession, check_folder
from hilum_serve.operations import Call, operation
from hilum_serve.phrases import Parts, find_parts
from hilum_serve.users import Rights

MAX_COMPLETIONS = 50
MAX_MODELS = 1_000


class CommandFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A command that a prompt can begin with, or a name that it can mention.

    Attributes:
        name: The name, without the mark.
        mark: ``/`` or ``@``.
        summary: What it does.
        arguments: Its arguments, as shown to users.
        words: Possible first words of the arguments.
        plugin: The plugin that carries it out.
        rights: The right that it needs.
    """

    name: str
    mark: Literal["/", "@"]
    summary: str
    arguments: str
    words: tuple[str, ...]
    plugin: str
    rights: Rights


class CommandList(msgspec.Struct, frozen=True):
    """The commands and names of the session's plugins."""

    commands: list[CommandFacts]


class ModeFacts(msgspec.Struct, frozen=True):
    """A mode.

    Attributes:
        name: Its name.
        description: What the agent may do in it.
        current: Whether the session is in it.
        description_parts: The description with codes of its sentences, for translations.
    """

    name: str
    description: str
    current: bool
    description_parts: Parts = []


class ModeList(msgspec.Struct, frozen=True):
    """The modes of the session."""

    modes: list[ModeFacts]


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A model.

    Attributes:
        name: Its name, as provider/name.
        window: Size of its context window in tokens; 0 if unknown.
        input: Price of a million input tokens in US dollars; null if unknown.
        output: Price of a million output tokens in US dollars; null if unknown.
        usable: Whether nothing is known to be missing.
        problem: What is missing; empty if nothing is.
        current: Whether the session uses it.
    """

    name: str
    window: int
    input: float | None
    output: float | None
    usable: bool
    problem: str
    current: bool


class ModelList(msgspec.Struct, frozen=True):
    """The known models, those that can be used first; no server is contacted."""

    models: list[ModelFacts]


class CompleteQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What to complete.

    Attributes:
        text: The text after ``@``.
        limit: Maximum number of completions.
    """

    text: Annotated[str, msgspec.Meta(max_length=500)] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_COMPLETIONS)] = 20


class Completion(msgspec.Struct, frozen=True):
    """A possible completion.

    Attributes:
        text: The text to insert after ``@``; a folder ends with a slash.
        kind: Whether it is a file, a folder or an agent.
        description: What it is.
    """

    text: str
    kind: Literal["file", "folder", "agent"]
    description: str = ""


class CompletionList(msgspec.Struct, frozen=True):
    """Completions, best first."""

    completions: list[Completion]


@operation("GET", "/api/sessions/{session}/commands", rights="watch", returns=CommandList)
async def list_commands(call: Call[None, None]) -> CommandList:
    """List the commands that prompts can begin with."""
    found = []
    for plugin, command in call.hosted.session.list_commands():
        found.append(
            CommandFacts(
                name=command.name,
                mark=command.mark,
                summary=command.summary,
                arguments=command.arguments,
                words=tuple(command.words),
                plugin=plugin,
                rights="administer" if needs_administer(plugin, command) else "prompt",
            )
        )
    return CommandList(found)


@operation("GET", "/api/sessions/{session}/modes", rights="watch", returns=ModeList)
async def list_modes(call: Call[None, None]) -> ModeList:
    """List the modes of a session."""
    session = call.hosted.session
    current = session.mode.name
    modes = session.modes.values()
    found = []
    for mode in modes:
        parts = find_parts(mode.description)
        found.append(ModeFacts(mode.name, mode.description, mode.name == current, parts))
    return ModeList(found)


@operation("GET", "/api/sessions/{session}/models", rights="watch", returns=ModelList)
async def list_models(call: Call[None, None]) -> ModelList:
    """List the known models, with window and price."""
    session = call.hosted.session
    kernel = session.kernel
    current = await find_current_model(call.hosted)
    found: dict[str, ModelFacts] = {}
    access = kernel.plugin(ModelAccess)
    if access is not None:
        statuses = await access.survey_models(kernel, known_only=True)
        for status in sorted(statuses, key=lambda status: not status.usable):
            for info in status.models:
                price = info.price
                found[info.name] = ModelFacts(
                    name=info.name,
                    window=info.window,
                    input=price.input if price is not None else None,
                    output=price.output if price is not None else None,
                    usable=status.usable,
                    problem="" if status.usable else status.message,
                    current=info.name == current,
                )
    if current and current not in found:
        found = {current: _describe_model(call.hosted, current), **found}
    return ModelList(list(found.values())[:MAX_MODELS])


async def find_current_model(hosted: HostedSession) -> str:
    """Return the name of the session's model; empty if there is none."""
    return await hosted.session.kernel.router.find_current(hosted.session.model)


def _describe_model(hosted: HostedSession, name: str) -> ModelFacts:
    """Return the session's model, which its provider does not list."""
    window = 0
    problem = ""
    try:
        window = hosted.session.kernel.router.model(name).info.window
    except HilumError as error:
        problem = error.message
    return ModelFacts(
        name=name,
        window=window,
        input=None,
        output=None,
        usable=not problem,
        problem=problem,
        current=True,
    )


@operation(
    "GET",
    "/api/sessions/{session}/complete",
    rights="watch",
    query=CompleteQuery,
    returns=CompletionList,
)
async def complete(call: Call[CompleteQuery, None]) -> CompletionList:
    """Complete a mention of a file, a folder or an agent."""
    hosted = call.hosted
    text = call.query.text
    limit = call.query.limit
    found = []
    for _, command in hosted.session.list_commands():
        if command.mark == "@" and command.name.casefold().startswith(text.casefold()):
            found.append(Completion(command.name, "agent", command.summary))
    await check_folder(hosted.workspace)
    index = await hosted.files.index(hosted.session)
    ranked = await trio.to_thread.run_sync(index.rank, text, limit)
    for number in ranked:
        path = index.texts[number]
        found.append(Completion(path, "folder" if path.endswith("/") else "file"))
    return CompletionList(found[:limit])
