"""The guard of one session: judges its calls, keeps its secrets out of the log, its commands in the sandbox, its rules."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import trio
from hilum import (
    Agent,
    Command,
    HilumError,
    Layer,
    Session,
    Text,
    Tool,
    ToolCall,
    ToolError,
    ToolResult,
    Verdict,
    config_folder,
    deny,
    hookimpl,
)
from hilum.events import ApprovalAnswered, ApprovalAsked, Delta, Event

from hilum_guard import rule_files, sandbox
from hilum_guard.redaction import PLACEHOLDER, Redactor, settings_secrets
from hilum_guard.settings import GuardSettings

if TYPE_CHECKING:
    from hilum_guard.gate import Call


class Explained(NamedTuple):
    """What would happen to a call, and why: for the user.

    ``outcome`` is a sentence; ``source`` what decides, as a rule with its file; ``scope`` the rule that a lasting yes would
    be; ``commands`` the simple commands that were found in a command.
    """

    outcome: str
    reason: str
    source: str
    scope: str = ""
    commands: tuple[str, ...] = ()


class Guard:
    """The half of the guard.

    Args:
        session: Whose calls it judges.
        box: Where the session's commands run.

    Attributes:
        rules: The rules that hold, as they were read last.
    """

    def __init__(self, session: Session, box: sandbox.Sandbox) -> None:
        self._session, self.box = session, box
        self._config = config_folder()
        self._settings = session.settings(GuardSettings)
        self._offered: dict[tuple[str, str], bool] = {}
        self._asked: dict[str, ApprovalAsked] = {}
        self._redacted: set[str] = set()
        self._read, self._wanted = 0, trio.Event()
        self._redactor = Redactor(secrets=_secrets(self._config))
        self.rules = rule_files.Rules(stamp=("never read",))
        self.reload()

    def reload(self) -> None:
        """Read the rules again if their files changed; tell of mistakes."""
        root = self._session.workspace.root
        if self.rules.stamp == rule_files.stamp(self._config, root):
            return
        before, self.rules = self.rules.mistakes, rule_files.load(self._config, root)
        if self.rules.mistakes and self.rules.mistakes != before:
            say = "The rules have mistakes; until they are mended, nothing that changes something runs:"
            listed = "".join(f"\n  {mistake}" for mistake in self.rules.mistakes)
            self._session.note("guard.mistakes", say=say + listed, mistakes=list(self.rules.mistakes))

    # --- calls --------------------------------------------------------------------------------------------------------

    async def judge(self, tool: Tool, arguments: str) -> tuple[Verdict | None, str]:
        """Judge a call; gives the verdict, none for no opinion, and what it comes from.

        Args:
            tool: The tool.
            arguments: Its arguments, as JSON.
        """
        from hilum_guard.gate import Gate, read_call

        self.reload()
        try:
            call = read_call(tool, arguments, self._session.workspace)
        except ToolError as error:
            return deny(str(error), code=error.code), "arguments"
        if placed := self._placeholder(call):
            return deny(placed), "a hidden secret"
        held = self._session.approve != "auto" or call.case.command is None or await self._held()
        return Gate(self.rules, self._session.approve, held).judge(call)

    async def explain(self, tool: Tool, arguments: str) -> Explained:
        """Say what would happen to a call by the approval policy and the guard. Takes what ``judge`` takes."""
        from hilum_guard.gate import read_call

        approve = self._session.approve
        if approve == "readonly" and tool.risk != "read":
            return Explained("It would be refused.", f"{tool.name} can {tool.risk}.", "approve = readonly")
        verdict, source = await self.judge(tool, arguments)
        commands: tuple[str, ...] = ()
        with suppress(ToolError):
            read = read_call(tool, arguments, self._session.workspace).case.command
            commands = tuple(" ".join(command.words) for command in read.commands) if read else ()
        if verdict is None:
            verdict = Verdict("allow", "Nothing speaks against it.")
        asked = "It would be asked; where nobody is there to ask, refused."
        outcome = {"allow": "It would run.", "ask": asked, "deny": f"It would be refused ({verdict.code})."}[
            verdict.kind
        ]
        return Explained(outcome, verdict.reason, f"{source}, approve = {approve}", verdict.scope, commands)

    async def _held(self) -> bool:
        return self._settings.unsandboxed == "run" or (await self.box.enforced()).files

    def _placeholder(self, call: Call) -> str:
        """Say why a write would destroy a secret: its text has the placeholder that stood for one in what was read."""
        known = call.changes and self._redacted.intersection(call.case.paths)
        if known and PLACEHOLDER.search(msgspec.json.encode(call.case.arguments).decode()):
            return "The text has [REDACTED:…] in it, which stands for a secret in this file. Edit around it."
        return ""

    @hookimpl(tryfirst=True)
    async def on_tool_call(self, agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
        """Judge a call."""
        verdict, source = await self.judge(tool, call.arguments)
        if verdict is not None and verdict.kind == "ask" and verdict.scope:
            # A rule that asks stands above one that allows: a lasting yes to it would be none.
            self._offered[call.id, verdict.scope] = not source.startswith(("ask ", "deny "))
            if not self._wanted.is_set():
                self._read = self._session.journal.last
                self._wanted.set()
        return verdict

    @hookimpl(trylast=True)
    async def check_result(self, agent: Agent, call: ToolCall, result: ToolResult) -> ToolResult | None:
        """Replace secrets in a result before it is logged and seen by anyone."""
        path = _path_of(call)
        guess = result.name == "run_terminal_cmd" or _guesses(path)
        found = False

        def clean(text: str) -> str:
            nonlocal found
            cleaned = self._redactor(text, guess=guess)
            found |= cleaned != text
            return cleaned

        parts = tuple(Text(clean(part.text), part.source) if isinstance(part, Text) else part for part in result.parts)
        data = _cleaned(result.data, clean)
        if not found:
            return None
        if path:
            self._remember(path)
        return msgspec.structs.replace(result, parts=parts, data=data)

    def redact(self, text: str, path: str = "") -> str:
        """Replace secrets in a text that gets to a model by another way than a tool's result. May be called from a thread.

        Args:
            text: The text.
            path: The file it is from, if it is from one: what stands for a secret is then not written back to it.
        """
        cleaned = self._redactor(text, guess=_guesses(path))
        if path and cleaned != text:
            self._remember(path)
        return cleaned

    def _remember(self, path: str) -> None:
        workspace = self._session.workspace
        try:
            self._redacted.add(workspace.relative(workspace.resolve(path)))
        except ToolError:
            pass

    # --- processes ----------------------------------------------------------------------------------------------------

    def protect(self, name: str, paths: Callable[[], sandbox.Held] | None) -> None:
        """Have the sandbox hold paths against every command of the session from now on, as far as it holds anything.

        Args:
            name: Who wants it; a later call under the same name takes the place of the earlier one.
            paths: Gives the paths; called in a thread before each command, so it may look at the disk. ``None`` to end it.
        """
        if paths is None:
            self.box.held.pop(name, None)
        else:
            self.box.held[name] = paths

    @contextmanager
    def widen(self, argv: Sequence[str], wider: sandbox.Wider) -> Iterator[None]:
        """Let one command, named by all of its words, do more than others while the block lasts: for what the user approved.

        Args:
            argv: Program and arguments, as they are given to ``session.processes`` in the block.
            wider: What it may do.
        """
        self.box.wider[(*argv,)] = wider
        try:
            yield
        finally:
            self.box.wider.pop((*argv,), None)

    @hookimpl(trylast=True)
    async def wrap_process(self, command: Command) -> Command:
        """Give a command a clean environment and put it into the sandbox."""
        return await self.box.wrap_process(command)

    @hookimpl
    def build_prompt_layer(self, agent: Agent) -> Layer:
        """Tell the model where its commands run."""
        return self.box.build_prompt_layer(agent)

    # --- rules that a lasting yes makes -------------------------------------------------------------------------------

    async def keep_rules(self) -> None:
        """Make rules of lasting answers, until cancelled."""
        await self._wanted.wait()  # most sessions never ask, and need not read along
        async for event in self._session.events(self._read):
            if not isinstance(event, Delta):
                await self._take(event)

    async def keep_rest(self) -> None:
        """Make rules of the lasting answers that were given last."""
        for event in self._session.journal.since(self._read) if self._wanted.is_set() else ():
            await self._take(event)

    async def _take(self, event: Event) -> None:
        self._read = event.seq
        if isinstance(event, ApprovalAsked):
            self._asked[event.id] = event
        elif isinstance(event, ApprovalAnswered):
            asked = self._asked.pop(event.id, None)
            if asked and event.accepted and event.remember == "always":
                keep = self._offered.get((asked.call.id, asked.scope))
                if keep is not None:  # else somebody else asked
                    await self._keep(asked.scope, keep)

    async def _keep(self, rule: str, keep: bool) -> None:
        file = rule_files.user_file(self._config)
        if not keep:
            say = f"{rule} is not kept as a rule: another rule has it asked each time (hilum permissions list)."
            self._session.note("guard.rule_not_kept", say=say, rule=rule)
            return
        try:
            await trio.to_thread.run_sync(rule_files.add, self._config, self._session.workspace.root, "allow", rule)
        except HilumError as error:
            self._session.note("guard.rule_not_kept", say=f"{rule} is not kept as a rule. {error}", rule=rule)
        else:
            say = f"Kept as a rule for this folder in {file}: allow {rule}. hilum permissions remove takes it out."
            self._session.note("guard.rule_kept", say=say, rule=rule, file=str(file))


def _secrets(config: Path) -> dict[str, str]:
    """Give the secrets in the user's settings."""
    file = config / "settings.toml"
    if not file.exists():
        return {}
    import tomllib  # 7 ms, only when there is something to read

    try:
        return settings_secrets(tomllib.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):  # the kernel has told of it
        return {}


def _guesses(path: str) -> bool:
    """Whether a value counts as a secret that is only called one: in a program's source that is mostly none."""
    return "." not in path.strip("./").rpartition("/")[2]


def _path_of(call: ToolCall) -> str:
    """The file a call names, if it names one."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError:
        return ""
    path = arguments.get("path") if isinstance(arguments, dict) else None
    return path if isinstance(path, str) else ""


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    """Clean all texts in plain data."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _cleaned(inner, clean) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(inner, clean) for inner in value]
    return value


@asynccontextmanager
async def open_guard(session: Session) -> AsyncIterator[Guard]:
    """Make the guard of a session, and end what it started."""
    async with asynccontextmanager(sandbox.open_session)(session) as box:
        guard = Guard(session, box)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(guard.keep_rules)
            yield guard
            nursery.cancel_scope.cancel()
        await guard.keep_rest()
