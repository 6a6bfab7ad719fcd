"""Writing and deleting agents' files."""

from __future__ import annotations

import json
import os
import re
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from hilum import StoreError, UsageError

from hilum_agents.definitions.loading import LONGEST_NAME, NAME
from hilum_agents.places import OWN, user_folder

if TYPE_CHECKING:
    from hilum_agents.managing import Desk

AUTHOR = """\
You write the instructions of a coding agent, as its system prompt, from one sentence of the user. Address the agent as "you".
Say what it is for, how it works step by step, what it must not do, what it looks at before it says something, and what its
answer must contain. Be concrete and short: 120 to 300 words, Markdown, no title, no front matter, no code fence around it.
Write in the language of the sentence. Give only the instructions."""


async def create(options: Namespace, desk: Desk) -> Path:
    """Write an agent's file.

    Args:
        options: What was given: name, title, description, model, scope, tools, prompt, about.
        desk: Who can be asked for the rest.

    Returns:
        The file.

    Raises:
        UsageError: Something is missing and nobody can be asked, or there is such a file already.
    """
    name = _name(options.name or _asked(desk, "Name (a-z, 0-9, _ and -):", "a name"))
    folder = _folder(options.scope or "project", desk)
    path = folder / f"{name}.md"
    if await trio.to_thread.run_sync(os.path.lexists, path):
        raise UsageError(
            f"There is an agent {name} already: {path}.",
            hint="Edit that file, or choose another name.",
        )
    description = options.description or options.about
    if not description and (desk.ask is not None or not options.title):
        description = _asked(
            desk, "What does it do, and when is it used?", "--description, --about or --title"
        )
    description = description or options.title
    title = options.title or name.replace("_", " ").replace("-", " ").title()
    about = options.about
    if not options.prompt and not about and desk.ask is not None:
        about = desk.ask(
            "What should it do? One sentence, from which the model writes its prompt (empty: write"
            " it yourself):"
        )
    prompt = options.prompt or (
        await _authored(about, desk) if about else f"You are {title}. {description}"
    )
    text = _file(
        name, title, description, options, prompt, "user" if folder == user_folder() else "project"
    )
    await trio.to_thread.run_sync(_write, path, text, desk.workspace)
    desk.say(f"Written: {path}")
    return path


async def delete(options: Namespace, desk: Desk) -> None:
    """Delete an agent's file, once that is confirmed.

    Raises:
        UsageError: There is none, it may not be deleted so, or nobody confirmed it.
    """
    scope = {"global": "user"}.get(options.scope, options.scope)
    entry = await desk.entry(options.name, scope)
    catalog = await desk.catalog()
    if not scope:
        entry = catalog.get(options.name, "project") or entry
    definition = entry.definition
    if definition.scope == "builtin":
        raise UsageError(
            f"The agent {definition.name} is built in.",
            hint="One of your own of that name takes its place.",
        )
    if definition.scope == "user" and scope != "user":
        hint = f"{desk.prog} delete {definition.name} --scope user deletes it."
        raise UsageError(
            f"The agent {definition.name} is one of yours for all projects.", hint=hint
        )
    if not options.yes:
        if desk.ask is None:
            raise UsageError(f"{definition.path} would be deleted.", hint="Confirm with --yes.")
        if desk.ask(f"Delete {definition.path}? [y/N]").casefold() not in (
            "y",
            "yes",
            "j",
            "ja",
            "是",
        ):
            desk.say("Nothing was deleted.")
            return
    await trio.to_thread.run_sync(_remove, definition.path, desk.workspace)
    desk.say(f"Deleted: {definition.path}")
    left = (await desk.catalog()).get(definition.name)
    if left is not None:
        desk.say(f"{definition.name} is now the agent of: {left.source}.")


def _asked(desk: Desk, question: str, what: str) -> str:
    answer = desk.ask(question) if desk.ask is not None else ""
    if not answer:
        raise UsageError(
            f"An agent needs {what}.", hint=f"{desk.prog} create --help shows what can be given."
        )
    return answer


def _name(given: str) -> str:
    name = given.strip().casefold()
    if not re.fullmatch(NAME, name) or len(name) > LONGEST_NAME:
        hint = f"It begins with a letter and has at most {LONGEST_NAME} of a-z, 0-9, _ and -."
        raise UsageError(f"{given!r} is no name for an agent.", hint=hint)
    if name in ("main", "readme") or name[-1] in "_-":
        why = (
            "main is the session's own agent, a readme is none, and no name that can be called ends"
            " in - or _"
        )
        raise UsageError(
            f"An agent cannot be called {name!r}.", hint=f"Choose another name: {why}."
        )
    return name


def _folder(scope: str, desk: Desk) -> Path:
    if scope in ("user", "global"):
        return user_folder()
    folder = desk.workspace / OWN
    if not Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(desk.workspace)):
        raise UsageError(
            f"{folder} leads out of the project.", hint="Put a plain folder in its place."
        )
    return folder


def _file(
    name: str, title: str, description: str, options: Namespace, prompt: str, scope: str
) -> str:
    """The text of the file; every value is quoted, so that it stays what it is."""
    fields = {
        "kind": "agent",
        "name": name,
        "title": title,
        "description": description,
        "model": options.model,
    }
    fields |= {"scope": scope, "version": "1.0.0"}
    lines = [f"{key}: {_quoted(value)}" for key, value in fields.items() if value]
    if options.tools.strip():
        tools = [
            each for part in options.tools.split(",") if (each := part.strip()) and each != "none"
        ]
        lines += ["tools:", f"  allow: [{', '.join(map(_quoted, tools))}]"]
    return "---\n" + "\n".join(lines) + f"\n---\n{prompt.strip()}\n"


def _quoted(value: str) -> str:
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*(?:/[A-Za-z0-9._-]+)?|\d+\.\d+\.\d+", value)
    if plain and value.casefold() not in ("null", "true", "false"):
        return value
    return json.dumps(value, ensure_ascii=False)


async def _authored(about: str, desk: Desk) -> str:
    """Have the model write the prompt."""
    from hilum_agents.half import author

    if desk.in_session is not None:
        text = await desk.in_session.author(AUTHOR, about)
    else:
        from hilum import open_standard_session

        async with open_standard_session(
            desk.workspace, kind="headless", needs_model=False
        ) as session:
            text = await author(session, AUTHOR, about)
    fenced = re.fullmatch(r"\s*```\w*\n(.*?)\n```\s*", text, re.DOTALL)
    return fenced[1] if fenced else text


def _write(path: Path, text: str, workspace: Path) -> None:
    """Write a new file. A project that is trusted stays so: it was the user who changed it."""
    trusted = _is_trusted(workspace)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8", newline="\n", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}.") from None
    _keep_trust(workspace, trusted, path)


def _remove(path: Path, workspace: Path) -> None:
    trusted = _is_trusted(workspace)
    try:
        path.unlink()
    except OSError as error:
        raise StoreError(f"{path} cannot be deleted: {error.strerror or error}.") from None
    _keep_trust(workspace, trusted, path)


def _is_trusted(workspace: Path) -> bool:
    from hilum_guard import trusted

    return trusted(workspace)


def _keep_trust(workspace: Path, trusted: bool, path: Path) -> None:
    """Trust a project again, if this file is all that changed in it."""
    from hilum_guard import Trust

    if trusted and [change.partition(" ")[2] for change in Trust().changes(workspace)] == [
        os.path.relpath(path, workspace)
    ]:
        Trust().add(workspace)
