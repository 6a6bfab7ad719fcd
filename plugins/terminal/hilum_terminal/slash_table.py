"""The built-in commands of the terminal. A command's module is imported when the command runs."""

from __future__ import annotations

from typing import Literal

import attrs

Group = Literal["conversation", "going back", "model", "project", "program", "plugins", "skills"]
GROUPS: tuple[Group, ...] = (
    "conversation",
    "going back",
    "model",
    "project",
    "program",
    "plugins",
    "skills",
)
Origin = Literal["terminal", "plugin", "program"]


@attrs.frozen
class SlashCommand:
    """A command that the user types as ``/name arguments``.

    Attributes:
        name: Name of the command, without the slash.
        summary: What the command does, on one line, without a period.
        arguments: Arguments of the command, for example ``[focus]``.
        group: The heading under which the help lists the command.
        target: ``module:function`` in this package; the function takes the chat and the text of the
            arguments.
        aliases: Other names.
        words: Words that can be the first argument.
        completer: ``module:function`` that returns more values for the arguments.
        origin: Who carries out the command: the terminal, a plugin that interprets the prompt, or
            the program ``hilum`` as a child process.
        keeps_conversation: Whether the command leaves the session, its settings and its files as
            they are, so that a message need not wait for it.
    """

    name: str
    summary: str
    arguments: str = ""
    group: Group = "conversation"
    target: str = ""
    aliases: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    completer: str = ""
    origin: Origin = "terminal"
    keeps_conversation: bool = False

    @property
    def usage(self) -> str:
        """The command and its arguments, as the user types them."""
        return f"/{self.name} {self.arguments}".rstrip()


BUILT_IN: tuple[SlashCommand, ...] = (
    SlashCommand(
        "help",
        "Show the commands, or one command",
        "[COMMAND]",
        target="slash_help:show_help",
        aliases=("?",),
        completer="slash_help:complete_names",
        keeps_conversation=True,
    ),
    SlashCommand(
        "clear",
        "Start a new conversation; this one can be resumed",
        target="slash_session:clear",
        aliases=("new",),
    ),
    SlashCommand(
        "resume",
        "Continue another conversation in this folder",
        "[ID]",
        target="slash_session:resume",
        completer="slash_session:complete_sessions",
    ),
    SlashCommand(
        "rename", "Give this conversation a title", "TITLE", target="slash_session:rename"
    ),
    SlashCommand(
        "compact",
        "Compact the conversation to a summary",
        "[FOCUS]",
        target="slash_session:compact",
    ),
    SlashCommand(
        "copy",
        "Copy the last answer, or its last code block",
        "[code]",
        target="slash_session:copy",
        words=("code",),
        keeps_conversation=True,
    ),
    SlashCommand(
        "export",
        "Write this conversation to a file",
        "[markdown|html|jsonl] [FILE]",
        target="slash_session:export",
        words=("markdown", "html", "jsonl"),
        keeps_conversation=True,
    ),
    SlashCommand(
        "queue", "Show queued prompts, and take them back", target="slash_background:queue"
    ),
    SlashCommand(
        "ps",
        "List background commands and agents",
        target="slash_background:list_running",
        keeps_conversation=True,
    ),
    SlashCommand(
        "background",
        "Move the command that the agent waits for to the background",
        target="slash_background:move_to_background",
        aliases=("bg",),
    ),
    SlashCommand(
        "stop",
        "Stop a background command or agent",
        "[ID|all]",
        target="slash_background:stop",
        completer="slash_background:complete_running",
    ),
    SlashCommand("quit", "Exit hilum", target="slash_session:quit_program", aliases=("exit",)),
    SlashCommand(
        "rewind",
        "Go back to an earlier prompt: the conversation, the files or both",
        group="going back",
        target="slash_rewind:rewind",
        aliases=("checkpoint",),
    ),
    SlashCommand(
        "fork",
        "Continue in a copy of this conversation",
        group="going back",
        target="slash_session:fork",
        aliases=("branch",),
    ),
    SlashCommand(
        "diff",
        "Show file changes, by default those of the last prompt",
        "[call|turn|run|session|since] [ID]",
        group="going back",
        target="slash_files:show_diff",
        words=("call", "turn", "run", "session", "since", "undo", "--stat", "--list"),
        keeps_conversation=True,
    ),
    SlashCommand(
        "undo",
        "Undo file changes, by default those of the last prompt",
        "[call|turn|run|since] [ID]",
        group="going back",
        target="slash_undo:undo",
        words=("call", "turn", "run", "since", "undo", "--dry-run"),
    ),
    SlashCommand("redo", "Undo the last undo", group="going back", target="slash_undo:redo"),
    SlashCommand(
        "model",
        "Show the models, and choose one",
        "[PROVIDER/NAME]",
        group="model",
        target="slash_settings:choose_model",
        completer="slash_settings:complete_models",
    ),
    SlashCommand(
        "mode",
        "Choose what the agent may do",
        "[MODE]",
        group="model",
        target="slash_settings:choose_mode",
        completer="slash_settings:complete_modes",
    ),
    SlashCommand(
        "approve",
        "Choose which calls need your approval",
        "[POLICY]",
        group="model",
        target="slash_settings:choose_policy",
        completer="slash_settings:complete_policies",
    ),
    SlashCommand(
        "context",
        "Show what fills the context window",
        "[all]",
        group="model",
        target="slash_usage:show_context",
        words=("all",),
        keeps_conversation=True,
    ),
    SlashCommand(
        "cost",
        "Show tokens and cost by model, agent, plugin and tool",
        "[turns]",
        group="model",
        target="slash_usage:show_cost",
        aliases=("usage",),
        words=("turns",),
        keeps_conversation=True,
    ),
    SlashCommand(
        "setup",
        "Choose a model: find keys and local servers, and test one request",
        group="model",
        target="slash_setup:set_up_model",
    ),
    SlashCommand(
        "continue",
        "Continue the last run if it was cut off, stopped or failed",
        target="slash_session:continue_run",
    ),
    SlashCommand(
        "init",
        "Write an AGENTS.md for this project",
        "[OPTIONS]",
        group="project",
        target="slash_init:init",
    ),
    SlashCommand(
        "trust",
        "Trust this folder and its extensions",
        "[--list] [--remove]",
        group="project",
        target="slash_program:trust",
        words=("--list", "--remove"),
    ),
    SlashCommand(
        "permissions",
        "Show and change the rules for calls",
        "[COMMAND]",
        group="project",
        target="slash_program:permissions",
    ),
    SlashCommand(
        "doctor",
        "Check the installation, the settings and this machine",
        "[ARGUMENTS]",
        group="program",
        target="slash_program:doctor",
        words=("--online",),
    ),
    SlashCommand(
        "plugins",
        "List the plugins, and what is wrong with them",
        group="program",
        origin="program",
        keeps_conversation=True,
    ),
)
