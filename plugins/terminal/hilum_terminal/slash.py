"""Commands that the user types as ``/name arguments``.

There are three kinds of commands. If several commands share a name, the first one in this order is
used:

1. Commands of the terminal (``slash_table``), which act on the open session.
2. Commands of plugins: ``interpret_prompt`` carries them out, and ``list_commands`` lists them,
   such as ``/agents``, ``/mcp``, the prompts of MCP servers and ``/NAME`` of a skill.
3. Commands of the program: every entry point of ``hilum.commands`` is ``/name arguments``. Such a
   command runs as a child process; the first line of its docstring is its description.

Text that begins with a slash and an unknown command name is never sent to the model. A path such as
``/etc/hosts`` is not a command, and neither is text that begins with a space.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, cast

import attrs
import trio
from hilum import HilumError, UsageError, list_program_commands
from hilum.errors import similar_names

from hilum_terminal.chat_protocol import Chat, Choice
from hilum_terminal.completion import Candidate
from hilum_terminal.input_kinds import COMMAND_NAME, is_command
from hilum_terminal.second_terminal import OWNER_COMMANDS, refuse_joined
from hilum_terminal.slash_table import BUILT_IN, SlashCommand
from hilum_terminal.text_width import one_line

if TYPE_CHECKING:
    from hilum import Session

Run = Callable[[Chat, str], Awaitable[None]]
Complete = Callable[[Chat, str], Awaitable[Sequence[Choice]]]
# Commands that run a conversation themselves, which needs the terminal.
NOT_IN_CHAT = frozenset({"acp", "chat", "run", "demo", "replay", "serve"})
MAX_SIMILAR = 4
"""Maximum number of commands to suggest for a name that is missing its folder."""
# Seconds after which the values of an argument are requested again.
FRESH = 60.0
# The same after a failure, which may be over soon. Not every key must repeat a slow request.
FRESH_FAILURE = 3.0


# --- the commands ---------------------------------------------------------------------------------


def list_commands(session: Session) -> list[SlashCommand]:
    """Return all commands in a session: from the terminal, the plugins and the program.

    If two commands have the same name, the second one is left out.
    """
    commands: dict[str, SlashCommand] = {}
    taken: set[str] = set()
    for command in (*BUILT_IN, *_list_plugin_commands(session), *_program_commands()):
        if command.name not in taken:
            commands[command.name] = command
            taken.update((command.name, *command.aliases))
    return list(commands.values())


def _list_plugin_commands(session: Session) -> Iterable[SlashCommand]:
    for plugin, listed in session.list_commands():
        # Otherwise, a name from a server could control the terminal or look like another command.
        if listed.mark != "/" or not listed.name.isprintable() or not listed.name.strip():
            continue
        yield SlashCommand(
            listed.name,
            # The summary comes from a plugin, a skill or a server, so only one line of it is shown.
            one_line(listed.summary) or f"From the plugin {plugin}",
            one_line(listed.arguments),
            "skills" if plugin == "skills" else "plugins",
            words=tuple(listed.words),
            origin="plugin",
        )


def list_mentions(session: Session) -> list[Candidate]:
    """Return the names, other than files, that a prompt can mention with ``@``, such as agents."""
    found: list[Candidate] = []
    for _, listed in session.hooks.collect("list_commands", session=session):
        if listed.mark == "@" and listed.name.isprintable():
            found.append(Candidate(listed.name, one_line(listed.summary)))
    return found


@functools.cache
def _program_commands() -> tuple[SlashCommand, ...]:
    """Return the commands of the ``hilum`` program.

    The result is cached, because reading the descriptions from the source files takes 20 ms.
    """
    commands = []
    for name, description in list_program_commands().items():
        if name not in NOT_IN_CHAT:
            commands.append(
                SlashCommand(
                    name,
                    description,
                    "[ARGUMENTS]",
                    "program",
                    origin="program",
                    keeps_conversation=True,
                )
            )
    return tuple(commands)


def find_command(session: Session, text: str) -> tuple[SlashCommand, str] | None:
    """Return the command at the beginning of a text, and the text of its arguments.

    Args:
        session: The session.
        text: The text, which begins with a slash.
    """
    typed = text[1:]
    commands = list_commands(session)
    # Longer names are tried first, because the name of a server's prompt may contain spaces and
    # begin with another name.
    commands.sort(key=lambda command: len(command.name), reverse=True)
    for command in commands:
        for name in (command.name, *command.aliases):
            rest = typed.removeprefix(name)
            if typed.startswith(name) and (not rest or rest[0].isspace()):
                return command, rest.strip()
    return None


# --- running --------------------------------------------------------------------------------------


async def run_command(chat: Chat, text: str) -> bool:
    """Run the command that the user typed.

    The command's errors are shown.

    Args:
        chat: The conversation.
        text: The user's text.

    Returns:
        Whether the text was a command. Any other text is a prompt for the agent.
    """
    if not text.startswith("/"):
        return False
    if text.strip() == "/":
        text = "/help"
    found = find_command(chat.session, text)
    if found is None:
        if not is_command(text):
            return False
        chat.show_error(_unknown_command_error(chat.session, text))
        return True
    command, arguments = found
    try:
        await _run(chat, command, arguments, text)
    except HilumError as error:
        chat.show_error(error)
    return True


async def _run(chat: Chat, command: SlashCommand, arguments: str, text: str) -> None:
    if command.origin == "terminal" and command.name in OWNER_COMMANDS:
        refuse_joined(chat.session, f"/{command.name}")
    if command.origin == "plugin":
        # The plugin's ``interpret_prompt`` carries it out. The plugin may also start a run, whose
        # events the conversation shows like those of any other run.
        run = await chat.session.prompt(text)
        if run.reply is not None:
            chat.say(run.reply)
    elif command.origin == "program":
        from hilum_terminal.slash_program import run_program

        await run_program(chat, command.name, arguments)
    else:
        await cast(Run, _load(command.target))(chat, arguments)


def _load(target: str) -> Callable[..., object]:
    """Import a function, given as ``module:function`` in this package."""
    module, _, function = target.partition(":")
    found: Callable[..., object] = getattr(import_module(f"hilum_terminal.{module}"), function)
    return found


def _unknown_command_error(session: Session, text: str) -> UsageError:
    match = COMMAND_NAME.match(text)
    name = (match[1] if match else None) or ""
    names = [
        known for command in list_commands(session) for known in (command.name, *command.aliases)
    ]
    # A file in a folder may need its folder in the name: `/backend:test` for `/test`.
    near = sorted(known for known in names if known.endswith(f":{name}"))[:MAX_SIMILAR]
    near = near or similar_names(name, sorted(names))
    hint = "To send text that begins with a slash, type a space before it."
    if near:
        listed = " or ".join(f"/{each}" for each in near)
        hint = f"Did you mean {listed}? {hint}"
    else:
        hint = f"/help lists the commands. {hint}"
    return UsageError(f"There is no command /{name}.", hint=hint)


# --- completion -----------------------------------------------------------------------------------


@attrs.define
class _Asked:
    """A request to a completer, and its result.

    Attributes:
        session: The session.
        command: Name of the command.
        moment: Time of the request, on trio's clock.
        choices: The values; empty until the completer has returned them.
        error: Why the completer failed; None if it did not.
        answered: Event that is set when the completer has returned or failed.
    """

    session: Session
    command: str
    moment: float
    choices: Sequence[Choice] = ()
    error: HilumError | None = None
    answered: trio.Event = attrs.field(factory=trio.Event)


class ArgumentValues:
    """A cache of the values for the argument that is being typed.

    A completer may be slow, for example because it requests the models from all providers. Further
    keys therefore wait for the same result or use it, until ``forget`` is called or ``FRESH``
    seconds have passed.
    """

    def __init__(self) -> None:
        self._asked: _Asked | None = None

    def forget(self) -> None:
        """Clear the cache."""
        self._asked = None

    async def find(self, chat: Chat, command: SlashCommand) -> Sequence[Choice]:
        """Return the values that a command's completer offers.

        Raises:
            HilumError: The completer failed, now or a moment ago.
        """
        asked = self._asked
        now = trio.current_time()
        if (
            asked is not None
            and asked.session is chat.session
            and asked.command == command.name
            and now - asked.moment < (FRESH if asked.error is None else FRESH_FAILURE)
        ):
            await asked.answered.wait()
            if asked.error is not None:
                raise asked.error
            return asked.choices
        asked = _Asked(chat.session, command.name, now)
        self._asked = asked
        try:
            asked.choices = await cast(Complete, _load(command.completer))(chat, "")
        except HilumError as error:
            asked.error = error
            raise
        except BaseException:
            # The request was cancelled, or the completer has a bug.
            self._asked = None
            raise
        finally:
            asked.answered.set()
        return asked.choices


async def complete(chat: Chat, text: str, values: ArgumentValues | None = None) -> list[Choice]:
    """Return completions for the command that is being typed.

    Args:
        chat: The conversation.
        text: The text up to the cursor, which begins with a slash.
        values: The cache of argument values, kept between keys.

    Returns:
        Choices whose values are the whole text after completion, without a trailing space. Complete
        names come first, then names that begin with the typed text, then names that contain it.
    """
    if not text.startswith("/") or "\n" in text:
        return []
    if not _program_commands.cache_info().currsize:
        await trio.to_thread.run_sync(_program_commands)
    typed = text[1:]
    if " " not in typed:
        return _complete_name(chat.session, typed)
    found = find_command(chat.session, text)
    if found is None:
        # A name with spaces may be incomplete.
        return _complete_name(chat.session, typed)
    command, stripped = found
    if not stripped and not text[-1].isspace():
        # The name may be incomplete, because no argument follows it yet.
        return _complete_name(chat.session, typed)
    # The arguments are kept as typed, because a trailing space begins another argument.
    arguments = stripped + text[len(text.rstrip()) :] if stripped else ""
    choices = [Choice(word, word) for word in command.words]
    if command.completer:
        values = values or ArgumentValues()
        choices += await values.find(chat, command)
    before = text[: len(text) - len(arguments)]
    wanted = arguments.casefold()
    exact: list[Choice] = []
    others: list[Choice] = []
    for choice in choices:
        word = str(choice.value)
        if word.casefold().startswith(wanted):
            completion = Choice(before + word, choice.label, choice.hint)
            if word == arguments:
                exact.append(completion)
            else:
                others.append(completion)
    return [*exact, *others]


def _complete_name(session: Session, typed: str) -> list[Choice]:
    wanted = typed.casefold()
    exact = []
    first = []
    later = []
    for command in list_commands(session):
        names = [command.name, *command.aliases]
        choice = Choice(f"/{command.name}", command.usage, command.summary)
        if typed in names:
            # A complete alias counts as a complete name.
            exact.append(Choice(f"/{typed}", command.usage, command.summary))
        elif any(name.casefold().startswith(wanted) for name in names):
            first.append(choice)
        elif any(wanted in name.casefold() for name in names):
            later.append(choice)
    return [*exact, *first, *later]
