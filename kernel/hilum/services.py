"""Services that one plugin may provide to others, described as protocols.

A plugin provides a service if its session instance has the methods of the service's protocol. Other
plugins get a service with, for example, ``session.plugin(ReadingPolicy)``, and must also work if no
plugin provides the service. The plugins do not depend on each other's packages.

A service without session state is provided through an entry point instead: ``find_address_policy``,
for example, loads such a service, no matter which plugins the session has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast, runtime_checkable

import attrs

from hilum.discovery import STANDARD, entry_points
from hilum.errors import E_NOT_INSTALLED, NeedsUser, PluginError

if TYPE_CHECKING:
    import trio

    from hilum.agents import Agent
    from hilum.events import ApprovalAsked
    from hilum.messages import ToolCall
    from hilum.runs import Run
    from hilum.session import Session
    from hilum.tools import Call

CONTENT_POLICY_GROUP = "hilum.content_policy"
"""The group of entry points for objects or modules that provide ``ContentPolicy``."""
ADDRESS_POLICY_GROUP = "hilum.address_policy"
"""The group of entry points for objects or modules that provide ``AddressPolicy``."""
APPROVAL_TEXTS_GROUP = "hilum.approval_texts"
"""The group of entry points for objects or modules that provide ``ApprovalTexts``."""
FILE_SAVER_GROUP = "hilum.file_saver"
"""The group of entry points for objects or modules that provide ``FileSaver``."""


@runtime_checkable
class ReadingPolicy(Protocol):
    """A policy on which files must not be read without approval.

    The guard provides this service.
    """

    def withheld(self, base: str) -> Callable[[str], bool]:
        """Return a function that checks whether a search must leave out a file.

        Args:
            base: The path to search, relative to the workspace. The gates have already judged the
                call with this path.
        """
        ...

    def denied_to_commands(self) -> tuple[str, ...]:
        """Return the existing paths that rules protect from being read and that the sandbox hides.

        Blocks.
        """
        ...

    def reveal(self, argv: Sequence[str], paths: Iterable[str]) -> AbstractContextManager[None]:
        """Allow one command to see hidden files until the block ends.

        Args:
            argv: Program and arguments, exactly as the block passes them to ``session.processes``.
            paths: The files, resolved.
        """
        ...


class WarmFinding(NamedTuple):
    """A diagnostic of a file from a checker that was already running.

    Attributes:
        line: Line number, from 1.
        column: Column number in characters, from 1.
        severity: ``error``, ``warning`` or ``info``.
        code: The checker's code for this kind of diagnostic; may be empty.
        message: The message.
    """

    line: int
    column: int
    severity: str
    code: str
    message: str


@runtime_checkable
class WarmCheckers(Protocol):
    """Checkers that keep running between two checks, so that they answer within milliseconds.

    The language servers provide this service for ``hilum-lint``, which finds the checkers' programs
    and decides whether they may run.
    """

    def is_warm(self, checker: str, program: str, folder: Path) -> bool:
        """Return whether a checker runs and can be asked now.

        Args:
            checker: Name of the checker.
            program: Path of its program.
            folder: The folder in which the checker runs.
        """
        ...

    async def warm_up(self, checker: str, program: str, folder: Path) -> None:
        """Start a checker in the background, if it can keep running.

        The arguments are those of ``is_warm``.
        """
        ...

    async def wait_warm(
        self, checker: str, program: str, folder: Path, seconds: float
    ) -> bool | None:
        """Wait until a checker that was started can be asked.

        Args:
            checker: Name of the checker.
            program: Path of its program.
            folder: The folder in which the checker runs.
            seconds: Time limit.

        Returns:
            Whether it can be asked; ``None`` if it cannot keep running.
        """
        ...

    async def find_diagnostics(
        self, checker: str, program: str, folder: Path, path: Path, text: str, seconds: float
    ) -> Sequence[WarmFinding] | None:
        """Return the diagnostics of a text, as if a file contained it.

        Args:
            checker: Name of the checker.
            program: Path of its program.
            folder: The folder in which the checker runs.
            path: The file.
            text: The text.
            seconds: Time limit.

        Returns:
            The diagnostics; ``None`` if the checker did not answer, so that it must be run.
        """
        ...


class Redactor(Protocol):
    """A function that replaces the secrets in a text."""

    def __call__(self, text: str, *, guess: bool = True, settings: bool = False) -> str:
        """Return a text without its secrets.

        Args:
            text: The text.
            guess: Whether a name that suggests a secret, as in ``password = "…"``, is reason enough
                to replace the value.
            settings: Whether the text is from a settings file, in which even a plain word may be a
                password.
        """
        ...


@runtime_checkable
class ContentPolicy(Protocol):
    """A policy on which content may be sent to a model or stored without approval.

    The guard provides this policy to its session and, through the entry point group
    ``hilum.content_policy``, to code without a session. ``find_content_policy`` finds either.
    """

    def redact(self, text: str, path: str = "") -> str:
        """Return a text without its secrets. Blocks.

        Args:
            text: The text.
            path: The file that contains the text; empty if there is none. A session's policy
                remembers each file whose text it changed, so that placeholders are not written back
                to the file.
        """
        ...

    def make_redactor(
        self, environ: Mapping[str, str] | None = None, secrets: Mapping[str, str] | None = None
    ) -> Redactor:
        """Create a redactor.

        Args:
            environ: The environment whose secrets are replaced; by default, that of this process.
            secrets: More secrets, by name.
        """
        ...

    def explain_withheld_file(self, place: Path, path: str) -> str:
        """Return why a file must not be sent to a model without approval; empty if it may be sent.

        Args:
            place: The file, resolved.
            path: The file's path relative to the workspace.
        """
        ...

    def explain_unsafe_repository(self, folder: str) -> str:
        """Return why ``git status`` could run a program in a folder; empty if it cannot. Blocks."""
        ...


class WebAddress(Protocol):
    """A parsed URL."""

    @property
    def url(self) -> str:
        """The URL to send, in ASCII, without its fragment."""
        ...

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""
        ...

    @property
    def host(self) -> str:
        """A lowercase ASCII host name, or an IP address without brackets."""
        ...

    @property
    def port(self) -> int:
        """The port; by default, that of the scheme."""
        ...


class AddressPolicy(Protocol):
    """A policy on which network addresses a URL from a model, a page or a server may lead to.

    Addresses outside the public network are refused unless the user has listed them. The metadata
    services of clouds are always refused. The web plugin provides this policy; find it with
    ``find_address_policy``.
    """

    def parse_url(self, url: str) -> WebAddress:
        """Return the parts of a URL.

        Raises:
            ValueError: The URL is not an http or https URL, or different parsers would disagree
                about it.
        """
        ...

    def is_listed(self, host: str, port: int, hosts: Iterable[str]) -> bool:
        """Return whether the user has listed a host.

        Args:
            host: The host, as in ``WebAddress``.
            port: The port.
            hosts: The hosts that the user has listed, as ``host`` or ``host:port``.
        """
        ...

    async def resolve_url(
        self, url: str, *, hosts: Iterable[str] = (), loopback: bool = False
    ) -> tuple[WebAddress, tuple[str, ...]]:
        """Resolve the host of a URL and check its addresses.

        Args:
            url: The URL.
            hosts: Hosts outside the public network that are allowed, as ``host`` or ``host:port``.
            loopback: Whether this machine is allowed.

        Returns:
            The parsed URL and the addresses. The caller must connect to one of these addresses,
            because another DNS lookup could return others.

        Raises:
            AddressRefused: The address must not be contacted or, with the code ``E_UNREACHABLE``,
                the host has no address.
        """
        ...

    def open_client(
        self, *, hosts: Iterable[str] = (), loopback: bool = False, **options: Any
    ) -> Any:
        """Open an ``httpx.AsyncClient`` that checks the address of every connection.

        Args:
            hosts: Hosts outside the public network that are allowed.
            loopback: Whether this machine is allowed.
            options: Further arguments for ``httpx.AsyncClient``, except those about connections.
        """
        ...


class FileSaver(Protocol):
    """A service that saves a tool's output as files, whose changes can be shown and undone.

    The files plugin provides this service; find it with ``find_file_saver``.
    """

    async def save_file(
        self, call: Call, path: str, data: bytes, *, overwrite: bool = False
    ) -> str:
        """Save a file, and return its path in the form to show to users.

        The tool must list the parameter with the path in ``writes``, so that the guard checks the
        path.

        Args:
            call: The tool's call.
            path: The path relative to the workspace. Missing folders are created.
            data: The content.
            overwrite: Whether an existing file may be replaced.

        Raises:
            ToolError: The file exists already, the path is outside the workspace, or writing
                failed.
        """
        ...

    async def check_save(self, call: Call, path: str, *, overwrite: bool = False) -> None:
        """Check that a file can be saved, before an expensive operation creates its content.

        Raises:
            ToolError: See ``save_file``.
        """
        ...

    async def replace_files(self, call: Call, contents: Mapping[str, tuple[bytes, bytes]]) -> None:
        """Replace the contents of several files, all or none, as one step for undo.

        The tool must list the parameter with the paths in ``writes``, so that the guard checks
        them. The agent need not have read the files, because the old contents are compared.

        Args:
            call: The tool's call.
            contents: The old and the new content of each file, by path relative to the workspace.

        Raises:
            ToolError: A file does not have the old content (``E_STALE``) or cannot be written.
        """
        ...


@attrs.frozen
class Danger:
    """Something dangerous or notable in a call that waits for approval.

    Attributes:
        text: A phrase without a subject, on one line and without control characters: ``deletes src
            recursively``.
        grave: Whether the call could destroy something, run unknown code or give up protection. For
            a grave danger, a face offers to approve only this call, and no lasting approval.
    """

    text: str
    grave: bool = False


class ApprovalTexts(Protocol):
    """The texts with which every face asks for approval of a call."""

    def describe_call(self, asked: ApprovalAsked, session: Session | None = None) -> str:
        """Return what the call would do, with every argument in full. Blocks.

        Args:
            asked: The approval that is requested.
            session: The session in which the call would run. Without a session, a change to a file
                is not shown as a diff.
        """
        ...

    def find_dangers(
        self, asked: ApprovalAsked, session: Session | None = None
    ) -> Sequence[Danger]:
        """Return what is dangerous or notable in the call. Blocks, and never raises.

        The result is empty for most calls. An empty result does not mean that the call is harmless,
        because code in scripts, tests and other languages is not checked.

        Args:
            asked: The approval that is requested.
            session: The session in which the call would run. Without a session, the current folder
                counts as the workspace, and the files that a tool changes are not checked.

        Returns:
            At most five dangers, the most important one first. All grave dangers come before the
            others.
        """
        ...

    def describe_scope(self, asked: ApprovalAsked) -> str:
        """Describe which calls a lasting approval would cover."""
        ...

    def find_rule_file(self, asked: ApprovalAsked, session: Session | None = None) -> str:
        """Return the file in which an approval with ``always`` is stored as a rule.

        The result is empty if the approval would not be stored.

        Args:
            asked: The approval that is requested.
            session: The session in which the call would run.
        """
        ...


@runtime_checkable
class StoredApprovals(Protocol):
    """The approvals of a session that are stored as rules, which also apply to later sessions.

    The guard provides this to its session.
    """

    def find_stored_approvals(self, scopes: Collection[str]) -> Sequence[str]:
        """Return which scopes are stored as rules of the user for the session's folder. Blocks."""
        ...

    def remove_stored_approval(self, scope: str) -> bool:
        """Remove the rule for a scope, and return whether there was one. Blocks.

        Raises:
            HilumError: The file with the rules cannot be changed.
        """
        ...


class FileChange(Protocol):
    """One changed file in a recorded change."""

    @property
    def path(self) -> str:
        """The file's path relative to the workspace."""
        ...

    @property
    def before(self) -> object | None:
        """The file before the change; None if it did not exist."""
        ...

    @property
    def after(self) -> object | None:
        """The file after the change; None if it no longer exists."""
        ...


class ChangeRecord(Protocol):
    """The files that one call or command changed."""

    @property
    def changes(self) -> Sequence[FileChange]:
        """The changed files."""
        ...


@runtime_checkable
class FileChanges(Protocol):
    """The journal of the files that a session's agents have read and changed."""

    def records(
        self, scope: Literal["call", "turn", "run", "session", "undo"] = "session", name: str = ""
    ) -> Sequence[ChangeRecord]:
        """Return the effective changes made by a call, turn, run or session, oldest first.

        Args:
            scope: What made the changes.
            name: Id of the call, turn, run or undo; empty for the latest that changed a file.

        Raises:
            UsageError: Nothing was changed.
        """
        ...

    def recent(self, limit: int) -> list[tuple[str, float]]:
        """Return the most recently changed files, newest first, each with a Unix time.

        Args:
            limit: The maximum number of files.
        """
        ...

    def sharing(self, agent: str, name: str) -> AbstractContextManager[None]:
        """Count files that ``agent`` reads in the block as also read by agents called ``name``."""
        ...

    def recording(
        self, agent: Agent, what: str, own_calls: Collection[str] = ()
    ) -> AbstractAsyncContextManager[None]:
        """Record as the agent's own what any program changes in the workspace during the block.

        Changes that calls make in this time are recorded as the changes of these calls.

        Args:
            agent: The agent for which a program runs.
            what: The program, as the journal shows it.
            own_calls: Names of tools whose calls the program itself carries out, so that hilum
                cannot tell what they change. They have no changes of their own.
        """
        ...

    def mark_as_read(self, agent: Agent, files: Mapping[str, str]) -> None:
        """Record that an agent's prompt contains complete files, so that they count as read.

        Args:
            agent: The agent.
            files: The ``content_hash`` of each file, by path relative to the workspace.
        """
        ...

    def content_hash(self, data: bytes) -> str:
        """Return the hash by which the journal recognizes the content of a file."""
        ...


class FileDiff(Protocol):
    """The changes to one file as a unified diff."""

    @property
    def path(self) -> str:
        """The path, escaped so that a terminal does not interpret it."""
        ...

    @property
    def what(self) -> Literal["created", "deleted", "changed"]:
        """The kind of change."""
        ...

    @property
    def diff(self) -> str:
        """The unified diff; empty if there is no text to compare."""
        ...

    @property
    def note(self) -> str:
        """Changes that the diff does not show, such as permissions."""
        ...

    @property
    def added(self) -> int:
        """Number of added lines."""
        ...

    @property
    def removed(self) -> int:
        """Number of removed lines."""
        ...


class UndoPreview(Protocol):
    """What an undo would do."""

    @property
    def diffs(self) -> Sequence[FileDiff]:
        """The files that would change, from their current to their new content."""
        ...

    @property
    def merged(self) -> Sequence[str]:
        """The files in ``diffs`` that others have also changed; those changes would be kept."""
        ...

    @property
    def skipped(self) -> Mapping[str, str]:
        """The files that would not be restored, each with the reason."""
        ...

    @property
    def unrecorded(self) -> Sequence[str]:
        """Commands whose changes are unknown and would therefore not be undone."""
        ...


class RunChanges(Protocol):
    """The files that a run changed, and how many lines it changed."""

    @property
    def files(self) -> Sequence[str]:
        """The paths of the files."""
        ...

    @property
    def added(self) -> int:
        """Number of added lines."""
        ...

    @property
    def removed(self) -> int:
        """Number of removed lines."""
        ...

    @property
    def unrecorded(self) -> int:
        """Number of commands whose changes are unknown."""
        ...


class CallChanges(Protocol):
    """The changes by one call that are still in effect."""

    @property
    def name(self) -> str:
        """The name to pass to ``FileHistory`` with the scope ``call``, unique in the session."""
        ...

    @property
    def call(self) -> str:
        """Id of the call."""
        ...

    @property
    def agent(self) -> str:
        """Name of the agent that made the call."""
        ...

    @property
    def run(self) -> str:
        """Id of the run that the user prompted, even if a sub-agent made the call."""
        ...

    @property
    def tool(self) -> str:
        """Name of the tool."""
        ...

    @property
    def what(self) -> str:
        """The command, or another short description."""
        ...

    @property
    def at(self) -> float:
        """Unix time of the change in seconds."""
        ...

    @property
    def files(self) -> Sequence[str]:
        """The paths of the files."""
        ...

    @property
    def added(self) -> int:
        """Number of added lines."""
        ...

    @property
    def removed(self) -> int:
        """Number of removed lines."""
        ...


HistoryScope = Literal["call", "turn", "run", "session", "undo", "since"]
"""The kinds of parts in a session's history; ``since`` is everything after an event."""


@runtime_checkable
class FileHistory(Protocol):
    """The history of the files that a session changed, which can be shown and undone.

    A part of the history is named by its scope and an id: of a call, a turn, a run or an undo. For
    ``since``, the id is the sequence number of an event, and the part is everything after that
    event. An empty id stands for the latest part that changed something.

    The files plugin provides this service.
    """

    async def diff(self, scope: HistoryScope = "run", name: str = "") -> Sequence[FileDiff]:
        """Return the changes in a part of the history that are still in effect, sorted by path.

        Raises:
            UsageError: The history has no such part.
        """
        ...

    async def preview_undo(
        self, scope: HistoryScope = "run", name: str = "", *, merge: bool = True
    ) -> UndoPreview:
        """Return what ``undo`` would do with these arguments and ``keep_going``."""
        ...

    async def undo(
        self,
        scope: HistoryScope = "run",
        name: str = "",
        *,
        keep_going: bool = False,
        merge: bool = True,
    ) -> object:
        """Undo a part of the history. To undo an undo, pass the scope ``undo``.

        Args:
            scope: The kind of part.
            name: The id of the part.
            keep_going: Whether to restore the other files if a file cannot be restored.
            merge: Whether to restore files that others have changed in the meantime, while keeping
                those changes. If false, these files are not restored.

        Raises:
            UsageError: The history has no such part, or commands are running (``E_BUSY``).
            ToolError: A file cannot be restored (``E_STALE``), or the undo failed. After an error,
                nothing is undone.
        """
        ...

    async def summarize_runs(self, runs: Sequence[str]) -> Mapping[str, RunChanges]:
        """Return what each of several runs changed, including changes by its sub-agents.

        Args:
            runs: Ids of runs that the user prompted; runs without changes are left out.
        """
        ...

    async def list_calls(self, limit: int = 50) -> Sequence[CallChanges]:
        """Return the last calls whose changes are still in effect, newest first.

        Args:
            limit: Maximum number of calls.
        """
        ...


class BackgroundCommand(Protocol):
    """A command that runs in the background."""

    @property
    def id(self) -> str:
        """The command's id in the session."""
        ...

    @property
    def command(self) -> str:
        """The command line."""
        ...

    @property
    def title(self) -> str:
        """A short name of the command, to show on one line."""
        ...

    @property
    def began(self) -> float:
        """Time on trio's clock at which the command started."""
        ...

    @property
    def ended(self) -> trio.Event:
        """Set when all of the command's processes have ended."""
        ...

    def read_output_end(self, limit: int) -> str:
        """Return the end of the output so far, of both streams, without escape sequences.

        Agents that read the output later are unaffected.

        Args:
            limit: Maximum number of bytes.
        """
        ...

    async def stop(self, reason: str, grace: float) -> None:
        """End the command with all its child processes.

        Args:
            reason: Who ends the command, in words for the agent.
            grace: Seconds between SIGTERM and SIGKILL.
        """
        ...


@runtime_checkable
class BackgroundCommands(Protocol):
    """The commands of a session that run in the background."""

    @property
    def keep_running(self) -> bool:
        """Whether the program, when a run ends, waits for the commands instead of ending them."""
        ...

    def running(self) -> Iterable[BackgroundCommand]:
        """Return the commands that are running."""
        ...

    def move_waiting(self) -> int:
        """Move the commands that agents are waiting for to the background, on behalf of the user.

        The calls return at once, with the output so far and the ids of the commands, which
        continue to run.

        Returns:
            The number of commands that are moved; 0 if no agent is waiting for a command.

        Raises:
            ToolError: Too many commands are already in the background.
        """
        ...


@runtime_checkable
class Confinement(Protocol):
    """A service that describes what confines the commands of a session.

    The guard provides this service.
    """

    def describe_confinement(self) -> str:
        """Return the kind of sandbox in one word, such as ``bubblewrap``; empty if there is none.

        Before the first command, the result is the sandbox that the system will most likely use.
        """
        ...

    def explain_refusal(self, output: str) -> str:
        """Return why the sandbox refused something to a failed command of the user.

        Args:
            output: The output of the command.

        Returns:
            A text for the user, which also says what to do; empty if the output does not show that
            the sandbox refused anything.
        """
        ...


@runtime_checkable
class EditorFiles(Protocol):
    """The files of a session as the user's editor has them, with text that is not saved yet.

    The face of an editor provides this service. A tool that reads or changes a file must use it:
    what the agent reads is what the user sees, and no change may overwrite unsaved text that the
    agent has not read.
    """

    @property
    def can_write_in_editor(self) -> bool:
        """Whether the editor also writes files."""
        ...

    async def read_in_editor(self, path: Path) -> str | None:
        """Return the text of a file as the editor shows it; ``None`` if the editor has none.

        The text may differ from the file in its newlines and in the newline at its end.

        Args:
            path: The file, as an absolute path in the workspace.

        Raises:
            ToolError: The editor does not respond.
        """
        ...

    async def write_in_editor(self, path: Path, text: str) -> bool:
        """Replace the text of a file in the editor and save it; return whether the editor did.

        Args:
            path: The file, as an absolute path in the workspace.
            text: The new text.

        Raises:
            ToolError: The editor does not respond.
        """
        ...


@runtime_checkable
class AnnouncedCalls(Protocol):
    """The calls that the user approved when they were announced.

    Another program that works as an agent announces a change, and then makes it with a second
    call. The guard does not let the approval policy ask about the second call. All other reasons to
    ask or to deny remain.
    """

    def was_announced(self, call: ToolCall) -> bool:
        """Return whether the user has approved exactly this call when it was announced."""
        ...


@runtime_checkable
class OfferedServers(Protocol):
    """The MCP servers that a face offers to its sessions, as an editor does.

    The kernel instance of the face's plugin provides this service (``kernel.plugin``). Such a
    server starts under the same conditions as a server that the project configures.
    """

    def offered_mcp_servers(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the servers by name, each as in a file with ``mcpServers``."""
        ...


@runtime_checkable
class RecordedResults(Protocol):
    """What programs outside of calls answered in a recorded session, which a replay does not start.

    A replay provides this service. A plugin that starts such programs itself, for example in a
    gate, writes what they answered to the log with ``session.note``, and takes it from here in a
    replay.
    """

    async def take_result(self, name: str, key: str) -> Mapping[str, Any] | None:
        """Return the data of the next recorded plugin event; ``None`` if there is none left.

        What the program did to files is done again before this method returns.

        Args:
            name: The name of the event.
            key: The item ``key`` of the event's data.
        """
        ...


class PlanProposal(Protocol):
    """A plan that waits for the user's decision."""

    @property
    def run(self) -> str:
        """Id of the run that proposed the plan."""
        ...

    @property
    def text(self) -> str:
        """The plan."""
        ...


class OpenItem(Protocol):
    """An unfinished item on a todo list."""

    @property
    def content(self) -> str:
        """The work to do."""
        ...


@runtime_checkable
class Plans(Protocol):
    """The todo lists of a session's agents and the plans that wait for the user's decision."""

    def proposal(self, agent: str = "main") -> PlanProposal | None:
        """Return an agent's plan that waits for the user's decision."""
        ...

    def progress(self, agent: str = "main") -> Mapping[str, int]:
        """Count the todo items: ``total``, ``completed``, ``in_progress`` and ``pending``."""
        ...

    def left_over(self, agent: str = "main") -> Sequence[OpenItem]:
        """Return the items that were open when an agent's last run ended."""
        ...

    async def accept(self, text: str | None = None, *, agent: str = "main") -> Run:
        """Accept the proposed plan and start the run that carries it out.

        Args:
            text: The plan as the user edited it; None for the unchanged plan.
            agent: The agent.

        Raises:
            UsageError: No plan waits for a decision.
        """
        ...

    async def reject(self, reason: str = "", *, agent: str = "main") -> Run | None:
        """Reject the proposed plan; if a reason is given, start a run that works out another plan.

        Raises:
            UsageError: No plan waits for a decision.
        """
        ...


class UserAnswer(Protocol):
    """The user's answer to a question."""

    @property
    def answers(self) -> tuple[str, ...]:
        """The chosen or typed answers; empty if the user gave no answer."""
        ...

    @property
    def by(self) -> str:
        """What ended the question: ``user``, ``timeout``, ``headless``, ``shown`` or ``stop``."""
        ...


@runtime_checkable
class UserQuestions(Protocol):
    """The questions that a session's agents and plugins ask the user."""

    async def ask(
        self,
        agent: Agent,
        call: str,
        question: str,
        options: Sequence[str] = (),
        *,
        multiple: bool = False,
    ) -> UserAnswer:
        """Ask the user on behalf of a running tool, and wait for the answer.

        Args:
            agent: The agent that made the call.
            call: Id of the call; empty if the question does not come from a call.
            question: The approval that is requested.
            options: Answers to choose from, the recommended one first.
            multiple: Whether the user may choose several answers.
        """
        ...

    def is_open(self, question: str) -> bool:
        """Return whether a question still waits for its answer."""
        ...

    def answer(self, question: str, answers: str | Sequence[str] = (), *, by: str = "user") -> None:
        """Answer a question.

        Args:
            question: Id of the question.
            answers: Options or other texts. Without answers, the agent decides.
            by: Why there is no answer: ``user`` if the user leaves it to the agent, ``headless`` if
                nobody could be asked, ``shown`` if the user could only read the question.

        Raises:
            UsageError: The question is not open, or the answers are not valid.
        """
        ...


def find_address_policy() -> AddressPolicy:
    """Return the address policy from the first installed plugin that has one.

    Raises:
        NeedsUser: No such plugin is installed. There is no default, because an unchecked address
            must not be mistaken for a checked one.
    """
    service = _require_service(ADDRESS_POLICY_GROUP, "check network addresses", "'hilum[web]'")
    return cast(AddressPolicy, service)


def find_approval_texts() -> ApprovalTexts:
    """Return the service for approval texts from the first installed plugin that has one.

    Raises:
        NeedsUser: No such plugin is installed. There is no default, because a face must not ask
            for approval of a call that it cannot show completely.
    """
    service = _require_service(APPROVAL_TEXTS_GROUP, "describe calls for approval", "hilum-guard")
    return cast(ApprovalTexts, service)


def find_file_saver() -> FileSaver:
    """Return the service for saving files from the first installed plugin that has one.

    Raises:
        NeedsUser: No such plugin is installed. There is no default, because a file that was written
            in another way could not be restored.
    """
    service = _require_service(FILE_SAVER_GROUP, "save files", "hilum-files")
    return cast(FileSaver, service)


def _require_service(group: str, purpose: str, package: str) -> object:
    """Load the service for an entry point group.

    Args:
        group: The group of entry points.
        purpose: A verb phrase for what the service does.
        package: The package that provides the service, as ``pip install`` takes it.

    Raises:
        NeedsUser: No installed plugin has the service.
        PluginError: See ``_load_service``.
    """
    service = _load_service(group)
    if service is None:
        problem = f"No installed plugin can {purpose}."
        raise NeedsUser(problem, code=E_NOT_INSTALLED, hint=f"pip install {package}")
    return service


def _load_service(group: str) -> object | None:
    """Load a group's service: the one from the standard set or, if there is none, the first one.

    Raises:
        PluginError: The service lacks methods of its protocol.
    """
    points = list(entry_points(group).values())
    # Other distributions come last, so that none can silently replace the guard's policy.
    points.sort(key=lambda point: point.distribution.lower() not in STANDARD)
    if not points:
        return None
    service = points[0].load()
    protocol = _PROTOCOLS[group]
    methods = [name for name in vars(protocol) if not name.startswith("_")]
    missing = [name for name in methods if not callable(getattr(service, name, None))]
    if missing:
        raise PluginError(
            f"The entry point {points[0].name} ({group}) of {points[0].distribution} is not a"
            f" service: it has no {', '.join(missing)}.",
            hint=f"Update or uninstall {points[0].distribution}.",
        )
    return service


_PROTOCOLS: dict[str, type] = {
    CONTENT_POLICY_GROUP: ContentPolicy,
    ADDRESS_POLICY_GROUP: AddressPolicy,
    APPROVAL_TEXTS_GROUP: ApprovalTexts,
    FILE_SAVER_GROUP: FileSaver,
}


def find_content_policy(session: Session | None = None) -> ContentPolicy | None:
    """Return the content policy of a session or, by default, of the first plugin with one.

    Secrets are thus replaced even in a session whose guard was deliberately left out. If no
    installed plugin has a policy, the result is None.

    Args:
        session: The session, if there is one.
    """
    if session is not None:
        policy = session.plugin(ContentPolicy)
        if policy is not None:
            return policy
    return cast("ContentPolicy | None", _load_service(CONTENT_POLICY_GROUP))


def make_redactor(
    environ: Mapping[str, str] | None = None, secrets: Mapping[str, str] | None = None
) -> Redactor:
    """Create a redactor for texts that are written to files or leave this machine.

    Args:
        environ: The environment whose secrets are replaced; by default, that of this process.
        secrets: More secrets, by name.

    Raises:
        PluginError: No installed plugin has a content policy. There is no default, because a text
            that was not searched for secrets must not look as if it had been.
    """
    policy = find_content_policy()
    if policy is None:
        raise PluginError(
            "No installed plugin can remove secrets from texts.",
            code=E_NOT_INSTALLED,
            hint="pip install hilum-guard",
        )
    return policy.make_redactor(environ, secrets)
