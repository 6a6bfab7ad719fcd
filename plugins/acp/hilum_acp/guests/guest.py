"""One guest: its process in the sandbox, its connection, its models and the record of its changes."""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from typing import TYPE_CHECKING, Any

import hilum_guard
import trio
from hilum import FileChanges, HilumError, ToolDenied, ToolError, UsageError, environment
from hilum.hooks import find_first_error

from hilum_acp.guests import process
from hilum_acp.guests.actions import OWN_CALLS
from hilum_acp.guests.budget import Budget
from hilum_acp.guests.client import GuestClient, GuestFailed
from hilum_acp.guests.model_proxy import ModelProxy, find_http_model
from hilum_acp.guests.output_pipe import OutputPipe, create_pipe
from hilum_acp.guests.served_files import FileServer

if TYPE_CHECKING:
    from hilum import Agent, Process
    from hilum.messages import Message
    from hilum_agents.definitions.definition import Definition

START_TIMEOUT = 100.0  # seconds until a guest has opened a session; some download themselves first
STOP_TIMEOUT = 2.0  # seconds that a guest has to end its work before it is killed
TERM_TIMEOUT = 1.0  # seconds between SIGTERM and SIGKILL
EXIT_TIMEOUT = 1.0  # seconds between the end of a guest's output and its exit
CHUNK = 1 << 16
MAX_ERRORS = 4_000  # characters of standard error to keep for messages


class Guest:
    """A guest that works for an agent.

    Args:
        agent: The agent.
        definition: The agent's file at the beginning of the run.
        plugin: The plugin to which its model calls belong in the bill.

    Attributes:
        client: The conversation with the guest.
        budget: The budget of its model calls.
        passed_messages: The messages of the agent's conversation that were passed on, by identity: their
            positions change when the conversation is compacted.
        queued_texts: Texts of the user that the guest receives when it has ended its work on a prompt.
        last_text: What the guest said last.
        is_prompting: Whether the guest works on a prompt.
        can_write: Whether the sandbox of the guest's process lets it write to the workspace.
        ended: Set when the process and everything else of the guest has ended.
    """

    def __init__(self, agent: Agent, definition: Definition, plugin: str = "") -> None:
        self.agent = agent
        self.definition = definition
        self._plugin = plugin
        self.client = GuestClient(
            str(agent.session.workspace.root),
            FileServer(agent),
            [tool.name for tool in agent.tools()],
        )
        self.budget = Budget(agent, self.client.interrupt)
        self.passed_messages: dict[int, Message] = {}
        self.queued_texts: list[str] = []
        self.last_text = ""
        self.is_prompting = False
        self.can_write = False
        self.ended = trio.Event()
        self._scope = trio.CancelScope()
        self._stopping = False
        self._errors: deque[str] = deque(maxlen=64)
        self._proxy: ModelProxy | None = None
        self._nursery: trio.Nursery | None = None
        self._recording: tuple[trio.Event, trio.Event] | None = None

    # --- the process ------------------------------------------------------------------------------

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the guest until it is stopped or ends.

        Raises:
            HilumError: The guest could not start. Later failures are in ``client.failure``.
        """
        is_started = False
        try:
            with self._scope:
                async with AsyncExitStack() as stack:
                    recorder = await stack.enter_async_context(trio.open_nursery())
                    await self._start_recording(recorder)
                    stack.callback(self._end_recording)
                    running, output = await stack.enter_async_context(self._open_process())
                    nursery = await stack.enter_async_context(trio.open_nursery())
                    stack.callback(nursery.cancel_scope.cancel)
                    self._nursery = nursery
                    await self._connect(running, output, nursery)
                    is_started = True
                    task_status.started()
                    await self._wait_for_end(running)
        # Whatever a guest causes must end only this guest, and not the session's plugin.
        except* Exception as group:
            error = find_first_error(group)
            if not is_started:
                raise self._start_error(error) from None
            self.client.fail(f"{type(error).__name__}: {error}")
        finally:
            failure = self.client.failure
            self.client.fail("It has ended.")
            self.ended.set()
        if not is_started:
            reason = failure or "It was stopped before it was ready."
            raise self._start_error(GuestFailed(reason))

    @asynccontextmanager
    async def _open_process(self) -> AsyncIterator[tuple[Process, OutputPipe]]:
        """Start the proxy and the process; on exit, end the whole process tree."""
        session = self.agent.session
        guard = session.plugin(hilum_guard.Guard)
        await process.check_sandbox(guard)
        assert guard is not None
        assert self.definition.runner is not None
        model = await find_http_model(self.agent, self.definition.model)
        listener = await guard.open_listener(network=self.definition.runner.network)
        # The proxy closes the socket, but only if it has started.
        with closing(listener):
            proxy = ModelProxy(self.agent, model, self.budget, self._note_activity, self._plugin)
            self._proxy = proxy
            port = listener.getsockname()[1]
            command = process.make_command(
                self.agent, self.definition, port, proxy.token, model.endpoint.model
            )
            self.can_write = not command.read_only
            _check_program(command.argv[0])
            async with trio.open_nursery() as nursery:
                nursery.start_soon(proxy.serve, listener)
                async with self._run_command(command, guard) as opened:
                    yield opened
                nursery.cancel_scope.cancel()

    @asynccontextmanager
    async def _run_command(
        self, command: process.GuestCommand, guard: hilum_guard.Guard
    ) -> AsyncIterator[tuple[Process, OutputPipe]]:
        """Run the guest's command; on exit, end the whole process tree."""
        extra = hilum_guard.ExtraAccess(
            network=command.network,
            cache=str(command.home),
            environment=process.KEY_VARIABLES,
            read_only=command.read_only,
            required=hilum_guard.FULL_SANDBOX,
        )
        async with AsyncExitStack() as stack:
            output = stack.enter_context(create_pipe(command.home))
            stack.push_async_callback(output.aclose)
            argv = output.wrap_command(command.argv)
            # The sandbox is wider only while this command starts.
            with guard.widen(argv, extra):
                opened = await stack.enter_async_context(
                    self.agent.session.processes.open(
                        argv,
                        env=command.env,
                        stdin=True,
                        grace=TERM_TIMEOUT,
                        purpose="service",
                    )
                )
            yield opened, output

    async def _connect(self, running: Process, output: OutputPipe, nursery: trio.Nursery) -> None:
        """Open a session of the guest.

        Raises:
            GuestFailed: The guest does not respond, or refuses.
        """
        assert running.stdin is not None
        assert running.stderr is not None
        connection = self.client.connect(output, running.stdin)
        nursery.start_soon(self._end_output, running, output)
        # What the sandbox itself writes belongs to no message.
        nursery.start_soon(self._read_errors, running.stdout)
        nursery.start_soon(self._read_errors, running.stderr)
        await nursery.start(connection.run)
        nursery.start_soon(self._follow_connection, connection.closed)
        with trio.move_on_after(START_TIMEOUT) as limit:
            await self.client.open_session()
        if limit.cancelled_caught:
            raise GuestFailed(f"It was not ready within {START_TIMEOUT:g} seconds.")

    async def _end_output(self, running: Process, output: OutputPipe) -> None:
        """End the output of a guest that has ended, perhaps before it wrote anything."""
        await running.wait_exit()
        output.close_writer()

    async def _follow_connection(self, closed: trio.Event) -> None:
        """End a guest that has closed its pipes, but does not exit."""
        await closed.wait()
        # The exit code, which follows, says more.
        await trio.sleep(EXIT_TIMEOUT)
        self.client.fail(self.client.describe_flood() or "It closed the connection.")
        self._scope.cancel()

    async def _wait_for_end(self, running: Process) -> None:
        code = await running.wait_exit()
        if not self._stopping:
            self.client.fail(f"It ended with the exit code {code}.{self._last_errors()}")

    async def _read_errors(self, stream: trio.abc.ReceiveStream) -> None:
        while data := await stream.receive_some(CHUNK):
            self._errors.append(data.decode(errors="replace")[-MAX_ERRORS:])

    def _last_errors(self) -> str:
        text = "".join(self._errors)[-MAX_ERRORS:].strip()
        return f" Its last output: {text[-500:]}" if text else ""

    def _start_error(self, error: BaseException) -> HilumError:
        name = self.definition.name
        if isinstance(error, HilumError):
            message = f"The program of the agent {name} cannot start. {error.message}"
            return UsageError(message, code=error.code, hint=error.hint)
        runner = self.definition.runner
        command = runner.command[0] if runner is not None else ""
        return UsageError(
            f"The program of the agent {name} cannot start. {error}{self._last_errors()}",
            code="E_FAILED",
            hint=f"Check that `{command}` speaks the Agent Client Protocol.",
        )

    def _note_activity(self) -> None:
        self.client.active_at = trio.current_time()

    async def settle_models(self) -> None:
        """Wait for the model calls in flight, or end them, so that they count towards the run."""
        if self._proxy is not None:
            await self._proxy.settle()

    @property
    def is_busy(self) -> bool:
        """Whether the guest waits for a model or for a command."""
        if self._proxy is not None and self._proxy.open_requests:
            return True
        return self.client.terminals.has_running

    # --- what it does -----------------------------------------------------------------------------

    def start_prompt(self, content: Sequence[dict[str, Any]]) -> None:
        """Start the guest's work on a prompt."""
        if self._nursery is None:
            return
        if self._proxy is not None:
            self._proxy.open()
        self.client.begin_prompt()
        self.is_prompting = True
        self._nursery.start_soon(self.client.prompt, list(content))

    def start_terminal(self, terminal_id: str, command: str, folder: str) -> None:
        """Run a command that the guest asked for.

        Raises:
            ToolError: The guest has closed the terminal, or has ended.
        """
        terminal = self.client.terminals.opened.get(terminal_id)
        if terminal is None or self._nursery is None:
            raise ToolError("The program has closed this terminal.", code="E_STOPPED")
        terminal.command = command
        terminal.started = True
        self._nursery.start_soon(terminal.run, self.agent.session.processes, folder)

    def abort(self) -> None:
        """End the guest's process without waiting."""
        self._scope.cancel()

    def check_access(self) -> None:
        """End the guest if its process can write, but the agent may not write any more.

        The sandbox of a running process cannot be changed.
        """
        if self.can_write and not process.may_write(self.agent):
            self.client.fail("The session has become read-only, and the program could still write.")
            self.abort()

    async def stop(self) -> None:
        """Wait for the end of the guest's work, and then end its process with all child processes."""
        self._stopping = True
        if self.is_prompting and not self.client.failure:
            with trio.move_on_after(STOP_TIMEOUT):
                await self.client.cancel()
                while not (self.client.stop_reason or self.client.failure):
                    self.client.changed = trio.Event()
                    await self.client.changed.wait()
        self._scope.cancel()
        await self.ended.wait()

    # --- what it changes --------------------------------------------------------------------------

    async def _start_recording(self, nursery: trio.Nursery) -> None:
        ending, ended = trio.Event(), trio.Event()
        await nursery.start(self._record, ending, ended)
        self._recorder = nursery
        self._recording = (ending, ended)

    async def _record(
        self,
        ending: trio.Event,
        ended: trio.Event,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        changes = self.agent.session.plugin(FileChanges)
        if changes is None:
            raise ToolDenied(
                "A guest runs only if its changes are recorded.",
                hint="Load the plugin files.",
            )
        assert self.definition.runner is not None
        what = " ".join(self.definition.runner.command)
        try:
            async with changes.recording(self.agent, what, OWN_CALLS):
                task_status.started()
                # When the guest is stopped, the recording must outlast its process.
                with trio.CancelScope(shield=True):
                    await ending.wait()
        finally:
            ended.set()

    def _end_recording(self) -> None:
        if self._recording is not None:
            self._recording[0].set()

    async def record_changes(self) -> None:
        """Record what the guest has changed so far, and continue recording."""
        if self._recording is None or self.ended.is_set():
            return
        ending, ended = self._recording
        # The next recording begins before this one ends, so that no change falls between them.
        await self._start_recording(self._recorder)
        ending.set()
        await ended.wait()


def _check_program(program: str) -> None:
    if shutil.which(program, path=environment().get("PATH", os.defpath)) is None:
        raise UsageError(
            f"There is no program {program!r}.", hint="Install it, or correct the file."
        )
