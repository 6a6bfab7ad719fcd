"""Create and delete agent definition files."""

from __future__ import annotations

import json
import os
import re
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import trio
from hilum import StoreError, UsageError, open_standard_session
from hilum.trust import TrustedFolders, is_trusted

from hilum_agents.authoring import write_with_model
from hilum_agents.command_context import CommandContext
from hilum_agents.definitions.loading import MAX_NAME, NAME
from hilum_agents.folders import OWN, user_folder

AUTHOR = """\
You write the system prompt of a coding agent, based on one sentence from the user.
Address the agent as "you". State its purpose, how it works step by step, what it must not do, what
it must check before it makes a claim, and what its answer must contain. Be concrete and short: 120
to 300 words, Markdown, no title, no front matter, no code fence around it. Write in the language of
that sentence. Return only the instructions."""
_YES = ("y", "yes", "j", "ja", "是")


async def create_agent(options: Namespace, context: CommandContext) -> Path:
    """Write the file of a new agent.

    Args:
        options: The parsed options: name, title, description, model, scope, tools, prompt and
            about.
        context: The context of the action, which is used to ask the user for missing values.

    Returns:
        The path of the file.

    Raises:
        UsageError: A value is missing and nobody can be asked, or the file already exists.
    """
    name = _check_name(options.name or _ask(context, "Name (a-z, 0-9, _ and -):", "a name"))
    folder = _folder(options.scope, context)
    path = folder / f"{name}.md"
    # A dangling symbolic link also counts as an existing file.
    if await trio.to_thread.run_sync(os.path.lexists, path):
        raise UsageError(
            f"The agent {name} already exists: {path}.",
            hint="Edit that file, or choose another name.",
        )
    words = re.sub(r"[_-]", " ", name)
    title = options.title or words.title()
    description = _description(options, context)
    prompt = await _prompt(options, context, f"You are {title}. {description}")
    fields = {
        "kind": "agent",
        "name": name,
        "title": title,
        "description": description,
        "model": options.model,
        "scope": "user" if folder == user_folder() else "project",
        "version": "1.0.0",
    }
    text = _file_text(fields, options.tools, prompt)
    await trio.to_thread.run_sync(_write, path, text, context.workspace)
    context.say(f"Created: {path}")
    return path


def _description(options: Namespace, context: CommandContext) -> str:
    given: str = options.description or options.about
    if given:
        return given
    if options.title and context.ask is None:
        return str(options.title)
    question = "What does it do, and when is it used?"
    return _ask(context, question, "--description, --about or --title")


async def _prompt(options: Namespace, context: CommandContext, default: str) -> str:
    if options.prompt:
        return str(options.prompt)
    about: str = options.about
    if not about and context.ask is not None:
        about = context.ask(
            "What should it do? The model writes its prompt from one sentence (leave it empty to"
            " write the prompt yourself):"
        )
    return await _written_by_model(about, context) if about else default


def _ask(context: CommandContext, question: str, missing: str) -> str:
    answer = context.ask(question) if context.ask is not None else ""
    if not answer:
        raise UsageError(
            f"An agent needs {missing}.", hint=f"`{context.prog} create --help` shows the options."
        )
    return answer


async def delete_agent(options: Namespace, context: CommandContext) -> None:
    """Delete an agent's file after a confirmation.

    Args:
        options: The parsed options: name, scope and yes.
        context: The context of the action, which is used to ask the user for confirmation.

    Raises:
        UsageError: There is no such agent, the agent cannot be deleted, or the user did not confirm
            the deletion.
    """
    scope = {"global": "user"}.get(options.scope, options.scope)
    entry = await context.entry(options.name, scope)
    if not scope:
        # A user's own agent may hide the project agent that the user wants to delete.
        entry = (await context.catalog()).get(options.name, "project") or entry
    definition = entry.definition
    if definition.scope == "builtin":
        raise UsageError(
            f"The agent {definition.name} is built in and cannot be deleted.",
            hint="To replace it, create an agent with the same name.",
        )
    if definition.scope == "user" and scope != "user":
        raise UsageError(
            f"The agent {definition.name} is your own and is available in all projects.",
            hint=f"`{context.prog} delete {definition.name} --scope user` deletes it.",
        )
    if not _confirmed(options, context, definition.path):
        context.say("Nothing was deleted.")
        return
    await trio.to_thread.run_sync(_remove, definition.path, context.workspace)
    context.say(f"Deleted: {definition.path}")
    left = (await context.catalog()).get(definition.name)
    if left is not None:
        context.say(f"{definition.name} now comes from: {left.source}.")


def _confirmed(options: Namespace, context: CommandContext, path: Path) -> bool:
    if options.yes:
        return True
    if context.ask is None:
        raise UsageError(f"Deleting {path} requires confirmation.", hint="Confirm it with --yes.")
    return context.ask(f"Delete {path}? [y/N]").casefold() in _YES


def _check_name(given: str) -> str:
    """Return a valid agent name in lowercase.

    Raises:
        UsageError: The name is not valid for an agent.
    """
    name = given.strip().casefold()
    if not re.fullmatch(NAME, name) or len(name) > MAX_NAME:
        raise UsageError(
            f"{given!r} is not a valid agent name.",
            hint=f"Use at most {MAX_NAME} of the characters a-z, 0-9, _ and -; begin with a letter.",
        )
    # `main` is the session's own agent, and README.md is never loaded as an agent.
    if name in ("main", "readme"):
        raise UsageError(f"The name {name!r} is reserved.", hint="Choose another name.")
    if name[-1] in "_-":
        raise UsageError(
            f"An agent cannot be called {name!r}.", hint="A name must end with a letter or a digit."
        )
    return name


def _folder(scope: str, context: CommandContext) -> Path:
    """Return the folder for a new agent.

    Raises:
        UsageError: The project's agent folder is a symbolic link that leads out of the project.
    """
    if scope in ("user", "global"):
        return user_folder()
    folder = context.workspace / OWN
    # A symbolic link in a cloned project must not make hilum write outside the project.
    if not Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(context.workspace)):
        raise UsageError(
            f"{folder} is a link that leads out of the project.",
            hint="Replace it with a regular folder.",
        )
    return folder


def _file_text(fields: dict[str, str], tools: str, prompt: str) -> str:
    lines = [f"{key}: {_quote(value)}" for key, value in fields.items() if value]
    if tools.strip():
        names = [name.strip() for name in tools.split(",")]
        allowed = [_quote(name) for name in names if name not in ("", "none")]
        lines += ["tools:", f"  allow: [{', '.join(allowed)}]"]
    return "\n".join(["---", *lines, "---", prompt.strip(), ""])


def _quote(value: str) -> str:
    """Return a string as a YAML value that parses back to the same string."""
    is_plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*(?:/[A-Za-z0-9._-]+)?|\d+\.\d+\.\d+", value)
    if is_plain and value.casefold() not in ("null", "true", "false"):
        return value
    return json.dumps(value, ensure_ascii=False)


async def _written_by_model(about: str, context: CommandContext) -> str:
    """Return a prompt that the model generates from a one-sentence description."""
    if context.in_session is not None:
        text = await write_with_model(context.in_session.session, AUTHOR, about)
    else:
        opened = open_standard_session(context.workspace, kind="headless", needs_model=False)
        async with opened as session:
            text = await write_with_model(session, AUTHOR, about)
    # Models wrap Markdown in a code fence even when instructed not to.
    fenced = re.fullmatch(r"\s*```\w*\n(.*?)\n```\s*", text, re.DOTALL)
    return fenced[1] if fenced else text


def _write(path: Path, text: str, workspace: Path) -> None:
    def write() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Mode `x` never overwrites a file that was created in the meantime.
        with open(path, "x", encoding="utf-8", newline="\n", errors="replace") as file:
            file.write(text)

    _change(path, workspace, "written", write)


def _remove(path: Path, workspace: Path) -> None:
    _change(path, workspace, "deleted", path.unlink)


def _change(path: Path, workspace: Path, what: str, action: Callable[[], object]) -> None:
    """Change an agent's file for the user, without revoking trust in the file's project.

    Raises:
        StoreError: The file cannot be changed.
    """
    # Trust is checked before the change, because any change to its files makes a project untrusted.
    was_trusted = is_trusted(workspace)
    try:
        action()
    except OSError as error:
        raise StoreError(f"{path} cannot be {what}: {error.strerror or error}.") from None
    if was_trusted:
        TrustedFolders().add_if_only_changed(workspace, path)
