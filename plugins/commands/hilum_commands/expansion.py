"""Makes the prompt of a command: fills in arguments, runs shell inserts, and attaches files.

Nothing runs before the whole prompt could be built. Each shell insert is judged by every gate like
a call of the shell tool, runs in the session's sandbox, and needs the user's approval if such a call
would. Outputs and files are attached to the prompt as data, because the user did not write them.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio
from hilum import (
    Agent,
    HilumError,
    Judgement,
    Session,
    Text,
    ToolCall,
    ToolError,
    ToolResult,
    UserQuestions,
    find_content_policy,
    judge_whole_call,
)
from hilum.errors import E_FILE_NOT_FOUND
from hilum.hooks import PLUGIN_EXCEPTIONS
from hilum.trust import explain_distrust

from hilum_commands.arguments import fill_text, find_places, read_arguments
from hilum_commands.command_file import CommandFile
from hilum_commands.settings import CommandsSettings
from hilum_commands.shell_quoting import UnsafeArgument, fill_command
from hilum_commands.template import Argument, FileReference, ShellInsert

SHELL_TOOL = "run_terminal_cmd"
READ_TOOL = "read_file"
MAX_OUTPUT = 30_000  # characters of the output of one shell insert
MAX_FILE = 50_000  # characters of one attached file
MAX_ATTACHED = 200_000  # characters of all outputs and files
MAX_INSERTS = 20
MAX_FILES = 50
MAX_NOTED = 200
RUN = "Yes, run it"
SKIP = "No, do not run it"
NOT_GIVEN = "(not given)"
# A name that can hardly be anything else than a file: `src/cart.py`, unlike `@types/node`.
_FILE_PATH = re.compile(r"(?:[^/\s]+/)+[^/\s]*\.\w{1,8}")


class CommandRefused(Exception):
    """The prompt of a command cannot be made. The message tells the user why."""


class _NotAttached(Exception):
    """A file is not attached. The message says why."""


class Expanded(NamedTuple):
    """The prompt of a command.

    Attributes:
        text: The text.
        attached: The outputs of shell inserts and the content of files.
        left_out: What the user typed or referred to that is not in the prompt, each with the
            reason.
    """

    text: str
    attached: str
    left_out: Sequence[str] = ()


class Expansion:
    """The expansion of one command.

    Args:
        session: The session.
        settings: The settings of the session's workspace.
        name: The name of the command.
        command: The command.
        typed: What the user typed after the command.
    """

    def __init__(
        self,
        session: Session,
        settings: CommandsSettings,
        name: str,
        command: CommandFile,
        typed: str,
    ) -> None:
        self._session = session
        self._settings = settings
        self._name = name
        self._command = command
        takes_rest = command.dialect in ("hilum", "opencode")
        self._arguments = read_arguments(typed, command.pieces, last_takes_rest=takes_rest)
        self._attached: list[str] = []
        self._left_out: list[str] = []
        self._files = 0

    @property
    def _agent(self) -> Agent:
        return self._session.agents["main"]

    async def expand(self) -> Expanded:
        """Return the prompt.

        Raises:
            CommandRefused: A shell insert must not run, or an argument is unsafe.
        """
        for path in self._command.includes:
            await self._check_included(path)
        lines = self._fill_inserts()
        if lines:
            await self._check_shell()
        text = ""
        for piece in self._command.pieces:
            if isinstance(piece, str):
                text += piece
            elif isinstance(piece, Argument):
                text += self._fill(piece)
            elif isinstance(piece, ShellInsert):
                line = lines[id(piece)]
                text += self._attach(f"$ {line}", await self._run(line, piece))
            else:
                text += await self._reference(piece)
        places = list(find_places(self._command.pieces))
        if self._arguments.text and not places:
            text = f"{text.rstrip()}\n\n{self._arguments.text}"
        for word in self._arguments.find_unused(places):
            self._left_out.append(f"{word}: The command has no place for this argument.")
        return Expanded(text, "\n\n".join(self._attached), self._left_out)

    def _fill(self, place: Argument) -> str:
        value = self._arguments.find(place)
        return NOT_GIVEN if place.is_input and not value else value

    # --- shell inserts ----------------------------------------------------------------------------

    def _fill_inserts(self) -> dict[int, str]:
        """Return the command line of each shell insert, by the identity of the insert.

        Raises:
            CommandRefused: An argument is unsafe, or there are too many inserts.
        """
        lines = {}
        for piece in self._command.pieces:
            if not isinstance(piece, ShellInsert):
                continue
            try:
                lines[id(piece)] = fill_command(piece.parts, self._arguments)
            except UnsafeArgument as error:
                raise CommandRefused(f"{self._locate(piece)}: {error}") from None
        if len(lines) > MAX_INSERTS:
            raise CommandRefused(f"It has {len(lines)} shell inserts, more than {MAX_INSERTS}.")
        return lines

    def _locate(self, insert: ShellInsert) -> str:
        return f"{self._command.path}:{insert.line}"

    async def _check_shell(self) -> None:
        """Check that shell inserts may run at all.

        Raises:
            CommandRefused: They may not.
        """
        if not self._settings.shell:
            raise CommandRefused("Its shell inserts are off: commands.shell is false.")
        if self._command.source.scope == "project":
            root = self._session.workspace.root
            why = await trio.to_thread.run_sync(explain_distrust, root)
            if why:
                raise CommandRefused(
                    f"Its shell inserts do not run, because they come from this project. {why}"
                )
        tool = self._session.tools.get(SHELL_TOOL)
        if tool is None:
            raise CommandRefused("Its shell inserts need the plugin `shell`, which is not loaded.")
        agent = self._agent
        if not agent.mode.tools.admits(tool.name, tool.risk):
            raise CommandRefused(
                f"Its shell inserts do not run in {agent.mode.name} mode, in which the agent has no"
                " shell either."
            )
        if not agent.profile.tools.admits(tool.name, tool.risk) or not tool.serves(agent):
            raise CommandRefused("Its shell inserts do not run, because the agent has no shell.")

    async def _run(self, line: str, insert: ShellInsert) -> str:
        """Run a shell insert and return its output.

        Raises:
            CommandRefused: It must not run.
        """
        judged = await self._permit(line, insert)
        rewritten = msgspec.json.decode(judged.call.arguments)
        run_line = str(rewritten.get("command", ""))
        if rewritten != {"command": run_line}:
            raise CommandRefused(f"A plugin changed how `{line}` runs, which is not possible here.")
        printed = await self._run_line(run_line)
        return await self._check_result(judged.call, printed)

    async def _permit(self, line: str, insert: ShellInsert) -> Judgement:
        """Judge a shell insert like a call of the shell tool, and ask the user if necessary."""
        judged = await self._judge(line)
        # Trust in a folder does not cover its configuration files.
        is_covered = self._command.source.scope == "user" or not self._command.source.is_file
        if judged.verdict.kind == "allow" and is_covered:
            return judged
        reason = judged.verdict.reason or "The command comes from a configuration file."
        if not self._session.attended:
            # A rule does not replace the question about a file of the project.
            rule = judged.verdict.rule if is_covered else ""
            command = f"hilum permissions allow {shlex.quote(rule)}"
            hint = f" `{command}` allows it." if rule else ""
            raise CommandRefused(
                f"`{line}` needs your approval, and nobody can answer here: {reason}{hint}"
            )
        questions = self._session.plugin(UserQuestions)
        if questions is None:
            raise CommandRefused(f"`{line}` needs your approval, and nothing can ask you: {reason}")
        question = (
            f"/{self._name} runs a command before its prompt ({self._locate(insert)}):\n\n{line}\n\n"
            f"{reason}"
        )
        answer = await questions.ask(self._agent, "", question, (RUN, SKIP))
        if answer.answers != (RUN,):
            raise CommandRefused(f"`{line}` was not approved.")
        again = await self._judge(line)
        # The question showed these effects. A script may have changed in the meantime.
        changed = again.call.arguments != judged.call.arguments
        if changed or again.verdict != judged.verdict or not again.effects <= judged.effects:
            raise CommandRefused(f"The effect of `{line}` changed after approval was requested.")
        return again

    async def _judge(self, line: str) -> Judgement:
        arguments = msgspec.json.encode({"command": line}).decode()
        try:
            judged = await judge_whole_call(self._agent, SHELL_TOOL, arguments)
        except HilumError as error:
            raise CommandRefused(f"`{line}` cannot be checked: {error}") from None
        if judged.verdict.kind == "deny":
            raise CommandRefused(f"`{line}` is denied: {judged.verdict.reason}")
        return judged

    async def _run_line(self, line: str) -> str:
        """Run a command line in the session's sandbox, and return its output with its status."""
        printed: list[str] = []

        def add(stream: str, data: bytes) -> None:
            if sum(map(len, printed)) < 4 * MAX_OUTPUT:
                printed.append(data.decode(errors="replace"))

        with trio.move_on_after(self._settings.timeout) as scope:
            try:
                done = await self._session.processes.run(["bash", "-c", line], on_output=add)
            except HilumError as error:
                self._note(line, "did not start")
                return f"[did not run: {error}]"
        output = _cut("".join(printed), MAX_OUTPUT)
        if scope.cancelled_caught:
            self._note(line, f"was ended after {self._settings.timeout:g} seconds")
            return f"{output}\n[ended after {self._settings.timeout:g} seconds]"
        self._note(line, f"ended with status {done.returncode}")
        return f"{output}\n[exit status {done.returncode}]" if done.returncode else output

    def _note(self, line: str, outcome: str) -> None:
        shown = " ".join(line.split())
        if len(shown) > MAX_NOTED:
            shown = f"{shown[:MAX_NOTED]} …"
        say = f"/{self._name} ran `{shown}`; it {outcome}."
        self._session.note("commands.ran", say=say, command=self._name)

    async def _check_result(self, call: ToolCall, text: str) -> str:
        """Return a text as the plugins that check results change it."""
        part = Text(text, f"tool:{call.name}")
        result = ToolResult(call.id, call.name, (part,))
        hooks = self._session.hooks
        reason = hooks.refusal("check_result")
        if reason:
            return f"[withheld: {reason}]"
        try:
            checked: ToolResult = await hooks.pipe(
                "check_result", "result", agent=self._agent, call=call, result=result
            )
        except PLUGIN_EXCEPTIONS as error:
            return f"[withheld: a plugin that checks results failed: {error}]"
        return checked.text

    # --- files ------------------------------------------------------------------------------------

    async def _reference(self, reference: FileReference) -> str:
        """Attach a file, and return the text that takes the place of the reference."""
        path = fill_text(reference.parts, self._arguments).strip()
        written = reference.written
        if not reference.is_certain and any(isinstance(part, Argument) for part in reference.parts):
            written = f"@{path}"
        if self._command.dialect == "copilot":
            path = self._locate_link(path)
        try:
            place = await trio.to_thread.run_sync(self._resolve, path)
        except ToolError as error:
            if self._command.dialect == "copilot" or not reference.is_certain:
                # Otherwise it is a name, a decorator, or a link for people.
                if error.code != E_FILE_NOT_FOUND or _FILE_PATH.fullmatch(path):
                    self._left_out.append(f"{path}: {error.message}")
                return written
            self._left_out.append(f"{path}: {error.message}")
            return self._attach(path, f"[not attached: {error}]")
        if place is None:
            self._left_out.append(f"{path}: It is a folder; only its path is sent.")
            return written if not reference.is_certain else path
        self._files += 1
        if self._files > MAX_FILES:
            self._left_out.append(f"{path}: A prompt has at most {MAX_FILES} attached files.")
            return path
        try:
            content = await self._read(place)
        except _NotAttached as error:
            self._left_out.append(f"{path}: {error}")
            content = f"[not attached: {error}]"
        mark = self._attach(path, content)
        return f"{written} {mark}" if self._command.dialect == "copilot" else f"{path} {mark}"

    def _locate_link(self, target: str) -> str:
        """Return the target of a link, which is relative to the command's file."""
        root = self._session.workspace.root
        return os.path.relpath(self._command.path.parent / target, root)

    def _resolve(self, path: str) -> Path | None:
        """Return the place of a file; ``None`` if the path is a folder. Blocks.

        Raises:
            ToolError: There is no such file in the workspace.
        """
        real = self._session.workspace.resolve(path, must_exist=True)
        return None if real.is_dir() else real

    async def _check_included(self, path: Path) -> None:
        """Check that the agent may read a file whose text is part of the command.

        The user's own files need no check: their text is the user's.

        Raises:
            CommandRefused: It may not.
        """
        if self._command.source.scope == "user":
            return
        try:
            place = await trio.to_thread.run_sync(self._resolve, str(path))
        except ToolError as error:
            raise CommandRefused(f"It includes {path.name}: {error}") from None
        why = "It is a folder." if place is None else await self._explain_withheld(place)
        if why:
            raise CommandRefused(f"It includes {path.name}, which is withheld: {why}")

    async def _explain_withheld(self, place: Path) -> str:
        """Return why the agent may not read a file without the user's approval; empty if it may."""
        shown = self._session.workspace.relative(place)
        policy = find_content_policy(self._session)
        if policy is not None:
            why = await trio.to_thread.run_sync(policy.explain_withheld_file, place, shown)
            if why:
                return why
        arguments = msgspec.json.encode({"path": shown}).decode()
        try:
            judged = await judge_whole_call(self._agent, READ_TOOL, arguments)
        except HilumError as error:
            return str(error)
        return "" if judged.verdict.kind == "allow" else judged.verdict.reason

    async def _read(self, place: Path) -> str:
        """Return the content of a file.

        The conditions are those of a file that is added to a prompt as context.

        Raises:
            _NotAttached: They are not met.
        """
        shown = self._session.workspace.relative(place)
        policy = find_content_policy(self._session)
        if policy is not None:
            why = await trio.to_thread.run_sync(policy.explain_withheld_file, place, shown)
            if why:
                raise _NotAttached(why)
        arguments = msgspec.json.encode({"path": shown}).decode()
        try:
            judged = await judge_whole_call(self._agent, READ_TOOL, arguments)
            if judged.verdict.kind != "allow":
                raise _NotAttached(judged.verdict.reason)
            if msgspec.json.decode(judged.call.arguments) != {"path": shown}:
                raise _NotAttached("a plugin changed how it is read")
            content = await self._session.workspace.read_text(shown)
        except HilumError as error:
            raise _NotAttached(str(error)) from None
        if policy is not None:
            content = await trio.to_thread.run_sync(policy.redact, content, shown)
        return await self._check_result(judged.call, _cut(content, MAX_FILE))

    def _attach(self, title: str, content: str) -> str:
        """Attach data, and return the text that refers to it."""
        number = len(self._attached) + 1
        left = MAX_ATTACHED - sum(map(len, self._attached))
        if left < len(content):
            content = _cut(content, max(left, 0))
        self._attached.append(f"[attached {number}] {title}\n{content}".rstrip())
        return f"[attached {number}]"


def _cut(text: str, limit: int) -> str:
    """Return a text without its middle if it is too long."""
    text = text.rstrip()
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n… {left_out:,} characters left out …\n{text[len(text) - half :]}"


def describe_shell_inserts(command: CommandFile) -> Sequence[str]:
    """Return the shell inserts of a command as they are written, for people who read the command."""
    found = []
    for piece in command.pieces:
        if isinstance(piece, ShellInsert):
            parts = (part if isinstance(part, str) else f"<{part.key}>" for part in piece.parts)
            found.append("".join(parts))
    return found
