"""The guard of one session: judges its calls, keeps its secrets out of the log, its commands in the
sandbox, its rules.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, unquote_plus

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
    environment,
    hookimpl,
)
from hilum.events import ApprovalAnswered, ApprovalAsked, CallDone, Delta, Event, PromptQueued

from hilum_guard import judging, rule_files, sandbox
from hilum_guard.addresses import ascii_host, host_of, named_hosts, typed
from hilum_guard.judging import SECRET_ADDRESS
from hilum_guard.keeping import Keeper
from hilum_guard.redaction import PLACEHOLDER, Redactor, is_settings, is_source, settings_secrets
from hilum_guard.secret_paths import SecretFiles
from hilum_guard.settings import GuardSettings
from hilum_guard.tool_names import STANDARD

if TYPE_CHECKING:
    from hilum_guard.gate import Call
    from hilum_guard.held_rules import DeniedPaths


# Texts of results that are remembered as clean.
MAX_CLEAN = 256
# Characters of a result or of arguments above which a thread looks at them: the redactor takes
# about 0.2 ms for 1,000.
IN_THREAD = 20_000


class Explained(NamedTuple):
    """What would happen to a call, and why: for the user.

    ``outcome`` is a sentence; ``source`` what decides, as a rule with its file; ``scope`` the rule
    that a lasting yes would be; ``commands`` the simple commands that were found in a command.
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
        self._session = session
        self.box = box
        self._config = config_folder()
        self._settings = session.settings(GuardSettings)
        self._offered: dict[tuple[str, str], bool] = {}
        self._asked: dict[str, ApprovalAsked] = {}
        self._redacted: set[str] = set()
        # Texts of results as they were cleaned last, which come again as those of events.
        self._clean: dict[str, None] = {}
        self._read = 0
        self._wanted = trio.Event()
        self.keeper = Keeper(session, box)
        self._executed: dict[str, Callable[[], Iterable[str]]] = {}
        self._redactor = Redactor({**os.environ, **environment()}, _secrets(self._config))
        self.rules = rule_files.Rules(stamp=("never read",))
        self._tools: frozenset[str] | None = None
        self._begun = self._taken = 0
        self._secret_files = SecretFiles()
        self._heard = 0
        self._hosts = {
            ascii_host(str(host).rpartition(":")[0] or str(host))
            for row in session.kernel.explain()
            if row.key in ("web.hosts", "browser.hosts")
            for host in row.value
        }
        # Calls of commands that name files of secrets, by agent and call: text, folder, and these
        # files. They were asked for, so such a command sees them until its call is done.
        self._uses: dict[tuple[str, str], tuple[str, str, frozenset[str]]] = {}
        self._revealed: dict[tuple[str, ...], frozenset[str]] = {}
        box.held["rules that deny"] = lambda: self._denied_paths().held()
        box.held["secrets"] = lambda: sandbox.Held(hidden=tuple(self._secrets_of_workspace()))
        box.uses = self._uses_of

    async def reload(self) -> None:
        """Read the rules again if their files or the tools changed; note mistakes."""
        number = self._begin()
        question = self._question(None, "")
        rules = await trio.to_thread.run_sync(judging.read_rules, question, abandon_on_cancel=True)
        self._take_rules(rules, question, number)

    def _begin(self) -> int:
        """Return the number of a reading of the rules: what began later saw the files later."""
        self._begun += 1
        return self._begun

    def _take_rules(self, rules: rule_files.Rules, question: judging.Question, number: int) -> None:
        """Keep the rules that a thread read, unless a reading that began later was here first.

        Note mistakes.
        """
        if number < self._taken:
            return
        self._taken = number
        before = self.rules.mistakes
        self.rules = rules
        self._tools = question.names
        if rules.mistakes and rules.mistakes != before:
            say = (
                "The rules have mistakes; until they are mended, nothing that changes something"
                " runs:"
            )
            listed = "".join(f"\n  {mistake}" for mistake in rules.mistakes)
            self._session.note("guard.mistakes", say=say + listed, mistakes=list(rules.mistakes))

    # --- calls ------------------------------------------------------------------------------------

    async def judge(
        self, tool: Tool, arguments: str, key: tuple[str, str] | None = None
    ) -> tuple[Verdict | None, str]:
        """Judge a call; gives the verdict, none for no opinion, and what it comes from.

        Args:
            tool: The tool.
            arguments: Its arguments, as JSON.
            key: The agent and the id of the call, for the files of secrets that a command sees
                until its call is done; none for a call that will not run.
        """
        while True:
            number = self._begin()
            question = self._question(tool, arguments)
            # One hop for all that looks at the disk. It can be abandoned: a gate that takes long is
            # held to be broken.
            judged = await trio.to_thread.run_sync(judging.judge, question, abandon_on_cancel=True)
            self._take_rules(judged.rules, question, number)
            if judged.undecided:
                await self.box.enforced()
            elif self._session.approve == question.approve:  # else the policy changed meanwhile
                break
        if key is not None and judged.uses and judged.call is not None:
            folder = str(judged.call.folder or self._session.workspace.root)
            self._uses[key] = (str(judged.call.case.arguments["command"]), folder, judged.uses)
        return judged.verdict, judged.source

    def _question(self, tool: Tool | None, arguments: str) -> judging.Question:
        return judging.Question(
            tool=tool,
            arguments=arguments,
            workspace=self._session.workspace,
            config=self._config,
            rules=self.rules,
            tools=self._tools,
            # While the session opens there are no tools yet, so names are compared with the first
            # call.
            names=frozenset(self._session.tools) or None,
            catalog=self._catalog(),
            approve=self._session.approve,
            kind=self._session.kind,
            enforced=self.box.known,
            offline=self._settings.network == "none",
            unheld=self._settings.unsandboxed == "run",
            known_hosts=(
                self._known_hosts() if tool is not None and tool.risk == "network" else frozenset()
            ),
            # The thread must not iterate over what the event loop adds to.
            named=partial(self._named, dict(self._executed)),
            placeholder=partial(
                self._placeholder,
                frozenset(self._redacted),
                frozenset(self._session.redaction.names),
            ),
            carries_secret=self._carries_secret,
        )

    def _carries_secret(self, call: Call) -> bool:
        url = call.case.arguments.get("url")
        if call.case.category != "network" or not isinstance(url, str) or not url:
            return False
        return any(self._redactor(text) != text for text in {url, unquote(url), unquote_plus(url)})

    def _known_hosts(self) -> frozenset[str]:
        """Return the hosts that the user's prompts and settings, or results of a search, have named
        so far.
        """
        while events := self._session.journal.since(self._heard):
            for event in events:
                self._hosts.update(self._hosts_in(event))
            self._heard = events[-1].seq
        return frozenset(self._hosts - {""})

    def _hosts_in(self, event: Event) -> Iterator[str]:
        if isinstance(event, PromptQueued):
            agent = self._session.agents.get(event.agent)
            # What a sub-agent is asked was written by a model, and a piped prompt by another
            # program.
            if not event.piped and (agent is None or not agent.parent):
                yield from named_hosts(typed(event.text))
        elif isinstance(event, CallDone) and event.result.name == "web_search":
            for found in event.result.data.get("results", ()):
                yield host_of(found.get("url")) if isinstance(found, dict) else ""

    def _catalog(self) -> dict[str, str]:
        """Return the permission categories of all tools that rules can name."""
        return {**STANDARD, **{tool.name: tool.risk for tool in self._session.tools.values()}}

    def _denied_paths(self) -> DeniedPaths:
        from hilum_guard.held_rules import denied_paths

        return denied_paths(
            tuple(self.rules.of("deny")), self._session.workspace.root, self._catalog()
        )

    def _secrets_of_workspace(self) -> Iterator[str]:
        """Yield the files of the workspace that commands do not see. Blocks."""
        from hilum_guard.rules import exact_path  # with the first command

        root = str(self._session.workspace.root)
        shown = {
            os.path.realpath(os.path.join(root, os.path.expanduser(path)))
            for path in self._settings.readable
        }
        named = {
            rule.pattern for rule in self.rules.of("allow") if rule.tool in ("read_file", "read")
        }
        for path in self._secret_files.of_workspace(root):
            relative = path[len(root) + 1 :]
            real = os.path.realpath(path)
            if real not in shown and not named & {relative, exact_path(relative)}:
                yield real

    def withheld(self, base: str) -> Callable[[str], bool]:
        """Return what tells whether a search leaves a file out: ``read_file`` would need approval
        for it, or be denied.

        The rules are those of the last call that was judged, which is the search itself.

        Args:
            base: The path that the search names, relative to the workspace. It was judged as a path
                of the call: where it needed approval, what it needed it for is approved.
        """
        from hilum_guard.withholding import make_filter

        return make_filter(self.rules, base, self._session.workspace.root, self._catalog())

    def _uses_of(self, argv: tuple[str, ...], folder: str) -> frozenset[str]:
        """Return the hidden files that a command sees in a folder, as the user was asked about
        them.
        """
        if not argv:
            return frozenset()
        wanted = (argv[-1], os.path.realpath(folder))
        found = [paths for text, place, paths in self._uses.values() if (text, place) == wanted]
        return self._revealed.get(argv, frozenset()).union(*found)

    def denied_to_commands(self) -> tuple[str, ...]:
        """Return the existing paths that rules keep from being read and the sandbox hides.

        Blocks.
        """
        return self._denied_paths().hidden

    @contextmanager
    def reveal(self, argv: Sequence[str], paths: Iterable[str]) -> Iterator[None]:
        """Let one command see hidden files while the block lasts: those whose reading the user
        approved, or to list names.

        Args:
            argv: Program and arguments, as they are given to ``session.processes`` in the block.
            paths: The files, resolved.
        """
        self._revealed[(*argv,)] = frozenset(paths)
        try:
            yield
        finally:
            self._revealed.pop((*argv,), None)

    async def explain(self, tool: Tool, arguments: str) -> Explained:
        """Return what would happen to a call by the approval policy and the guard.

        Takes what ``judge`` takes.
        """
        from hilum_guard.gate import read_call

        approve = self._session.approve
        if approve == "readonly" and tool.risk != "read":
            return Explained(
                "It would be refused.", f"{tool.name} can {tool.risk}.", "approve = readonly"
            )
        verdict, source = await self.judge(tool, arguments)
        commands: tuple[str, ...] = ()
        with suppress(ToolError):
            call = await trio.to_thread.run_sync(
                read_call, tool, arguments, self._session.workspace
            )
            read = call.case.command
            commands = tuple(" ".join(command.words) for command in read.commands) if read else ()
        if verdict is None:
            verdict = Verdict("allow", "Nothing speaks against it.")
        asked = "It would be asked; where nobody is there to ask, refused."
        outcome = {
            "allow": "It would run.",
            "ask": asked,
            "deny": f"It would be refused ({verdict.code}).",
        }[verdict.kind]
        return Explained(
            outcome, verdict.reason, f"{source}, approve = {approve}", verdict.scope, commands
        )

    def _placeholder(self, redacted: frozenset[str], names: frozenset[str], call: Call) -> str:
        """Return why a call must not run that has the placeholder of a secret in it, empty if it
        may.

        A write would destroy the secret that the placeholder stood for in what was read, or put the
        placeholder where the secret of a prompt belongs; and a command would use it as if it were
        the secret.

        Args:
            redacted: The files that were read with a placeholder in them.
            names: The names of the secrets that were replaced in prompts and answers.
            call: The call.
        """
        if not call.changes and call.case.command is None:
            return ""
        found = set(PLACEHOLDER.findall(msgspec.json.encode(call.case.arguments).decode()))
        if call.changes and found and redacted.intersection(call.case.paths):
            return (
                "The text has [REDACTED:…] in it, which stands for a secret in this file. Edit"
                " around it."
            )
        stood_for = sorted(found & {f"[REDACTED:{name}]" for name in names})
        if stood_for:
            return (
                f"{stood_for[0]} stands for a secret that you do not have. Leave its place empty or"
                " read it from the environment, and ask the user to put it there."
            )
        return ""

    @hookimpl(tryfirst=True)
    async def on_tool_call(self, agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
        """Judge a call."""
        verdict, source = await self.judge(tool, call.arguments, (agent.name, call.id))
        run = agent.conversation.run
        state = run.calls.get(call.id) if run else None
        if state is not None and state.withheld and (path := _path_of(call)):
            # The model sees a placeholder for what it writes there.
            await trio.to_thread.run_sync(self._remember, path)
        if verdict is not None and verdict.kind == "ask" and source == "protected file":
            # What the user agrees to now must not be taken for what a killed session's command
            # left.
            await self.keeper.recover()
            await self.keeper.expect(agent, call, tool)
        if verdict is not None and verdict.kind == "ask" and verdict.scope:
            # What a rule does not silence is not kept as one: a rule that asks stands above one
            # that allows, and a secret belongs into no file of rules.
            self._offered[call.id, verdict.scope] = (
                source != SECRET_ADDRESS and not source.startswith(("ask ", "deny "))
            )
            if not self._wanted.is_set():
                self._read = self._session.journal.last
                self._wanted.set()
        return verdict

    @hookimpl(trylast=True)
    async def check_result(
        self, agent: Agent, call: ToolCall, result: ToolResult
    ) -> ToolResult | None:
        """Undo what a command left for others to execute.

        Replace secrets before the result is logged and seen by anyone.
        """
        self._uses.pop((agent.name, call.id), None)
        checked = await self.keeper.check_result(agent, call, result)
        cleaned = await self._without_secrets(call, checked or result)
        if cleaned is not None and (path := _path_of(call)):
            await trio.to_thread.run_sync(self._remember, path)
        return cleaned or checked

    async def _without_secrets(self, call: ToolCall, result: ToolResult) -> ToolResult | None:
        path = _path_of(call)
        # What a command prints may be a program as well as settings: words alone are no passwords
        # there.
        of_file = bool(path) and result.name != "run_terminal_cmd"
        guess = not (of_file and is_source(path))
        settings = of_file and is_settings(path)
        texts: dict[str, None] = {}
        for part in result.parts:
            if isinstance(part, Text):
                texts[part.text] = None
        _cleaned(result.data, lambda text: texts.setdefault(text) or text)

        def clean_all() -> dict[str, str]:
            return {text: self._redactor(text, guess=guess, settings=settings) for text in texts}

        if sum(map(len, texts)) > IN_THREAD:
            cleaned = await trio.to_thread.run_sync(clean_all)
        else:
            cleaned = clean_all()
        while len(self._clean) > MAX_CLEAN:
            del self._clean[next(iter(self._clean))]
        self._clean.update(dict.fromkeys(cleaned.values()))
        if all(text == new for text, new in cleaned.items()):
            return None
        parts = tuple(
            Text(cleaned[part.text], part.source) if isinstance(part, Text) else part
            for part in result.parts
        )
        return msgspec.structs.replace(
            result, parts=parts, data=_cleaned(result.data, cleaned.__getitem__)
        )

    @hookimpl(trylast=True)
    def redact_texts(self, texts: Sequence[str], origin: str) -> list[str] | None:
        """Replace secrets in texts before they are logged. May be called from a thread.

        Values that are only called a secret count in prompts alone: what a model writes is mostly
        code and examples, and the secrets that it could repeat were replaced when it read them.
        """
        if origin == "prompt" and not self._settings.redact_prompts:
            return None
        known = self._clean if origin == "result" else {}
        return [
            text if text in known else self._redactor(text, guess=origin == "prompt")
            for text in texts
        ]

    def redact(self, text: str, path: str = "") -> str:
        """Replace secrets in a text that gets to a model by another way than a tool's result.

        May be called from a thread.

        Args:
            text: The text.
            path: The file it is from, if it is from one: what stands for a secret is then not
                written back to it.
        """
        cleaned = self._redactor(text, guess=not is_source(path), settings=is_settings(path))
        if path and cleaned != text:
            self._remember(path)
        return cleaned

    def _remember(self, path: str) -> None:
        workspace = self._session.workspace
        try:
            self._redacted.add(workspace.relative(workspace.resolve(path)))
        except ToolError:
            pass

    # --- processes --------------------------------------------------------------------------------

    def protect(self, name: str, paths: Callable[[], sandbox.Held] | None) -> None:
        """Have the sandbox hold paths against every command of the session from now on, as far as
        it holds anything.

        Args:
            name: Who wants it; a later call under the same name takes the place of the earlier one.
            paths: Gives the paths; called in a thread before each command, so it may look at the
                disk. ``None`` to end it.
        """
        if paths is None:
            self.box.held.pop(name, None)
        else:
            self.box.held[name] = paths

    def protect_executed(self, by: str, paths: Callable[[], Iterable[str]]) -> None:
        """Protect files that the user has agreed to have executed: commands cannot write them, and
        file tools ask.

        Args:
            by: What executes them; a later call for the same takes the place of the earlier one.
            paths: Returns the files, absolute and resolved. Called in a thread; it may block.
        """
        self._executed[by] = paths
        self.box.held[by] = lambda: sandbox.Held(tuple(paths()))

    def _named(
        self, executed: Mapping[str, Callable[[], Iterable[str]]]
    ) -> tuple[tuple[str, str], ...]:
        """Return what is executed though its name does not say so, each with what executes it.

        Blocks.
        """
        found = [(path, "Git, as its configuration says") for path in self.box.watch.named_files()]
        for by, paths in executed.items():
            found += [(path, by) for path in paths()]
        return tuple(found)

    @contextmanager
    def widen(self, argv: Sequence[str], wider: sandbox.Wider) -> Iterator[None]:
        """Let one command, named by all of its words, do more than others while the block lasts:
        for what the user approved.

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
        """Return a command a clean environment and put it into the sandbox."""
        return await self.box.wrap_process(command)

    @hookimpl
    def build_prompt_layer(self, agent: Agent) -> Layer:
        """Tell the model where its commands run."""
        return self.box.build_prompt_layer(agent)

    # --- rules that a lasting yes makes -----------------------------------------------------------

    async def keep_rules(self) -> None:
        """Make rules of lasting answers, until cancelled."""
        await self._wanted.wait()  # most sessions never ask, and need not read along
        async for event in self._session.events(self._read):
            if not isinstance(event, Delta):
                await self._take(event)

    async def keep_rest(self) -> None:
        """Make rules of the lasting answers that were given last."""
        while self._wanted.is_set() and (events := self._session.journal.since(self._read)):
            for event in events:
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
            why = "another rule, or a secret in it, has it asked each time"
            say = f"{rule} is not kept as a rule: {why} (hilum permissions list)."
            self._session.note("guard.rule_not_kept", say=say, rule=rule)
            return
        try:
            await trio.to_thread.run_sync(
                rule_files.add, self._config, self._session.workspace.root, "allow", rule
            )
        except HilumError as error:
            self._session.note(
                "guard.rule_not_kept", say=f"{rule} is not kept as a rule. {error}", rule=rule
            )
        else:
            say = (
                f"Kept as a rule for this folder in {file}: allow {rule}. hilum permissions remove"
                " takes it out."
            )
            self._session.note("guard.rule_kept", say=say, rule=rule, file=str(file))


def _secrets(config: Path) -> dict[str, str]:
    """Return the secrets in the user's settings."""
    file = config / "settings.toml"
    if not file.exists():
        return {}
    import tomllib  # 7 ms, only when there is something to read

    try:
        return settings_secrets(tomllib.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):  # the kernel has told of it
        return {}


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


async def sweep_in_thread() -> None:
    """Remove what killed sessions left.

    It may be much, so nobody waits for it; the next session removes the rest.
    """
    with suppress(OSError):
        await trio.to_thread.run_sync(sandbox.sweep, abandon_on_cancel=True)


@asynccontextmanager
async def open_guard(session: Session) -> AsyncIterator[Guard]:
    """Create the guard of a session, and end what it started."""
    async with asynccontextmanager(sandbox.open_session)(session) as box:
        guard = Guard(session, box)
        await guard.reload()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(guard.keep_rules)
            guard.keeper.start(nursery)
            await guard.keeper.recover()
            nursery.start_soon(sweep_in_thread)
            yield guard
            guard.keeper.stop()
            nursery.cancel_scope.cancel()
        await guard.keep_rest()
