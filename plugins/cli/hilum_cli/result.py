"""The result line of a run: everything that is known at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from hilum import HilumError, Kernel, Session, __version__
from hilum.errors import E_DENIED, E_PLUGIN, GATE_TEXTS, approval_hint, unapproved
from hilum.events import FINAL, RunEnded
from hilum.messages import Text, UserMessage
from hilum.store import spell_folder

from hilum_cli import exits
from hilum_cli.output import (
    AgentSummary,
    CallSummary,
    FaultSummary,
    InterruptedRun,
    ResultLine,
    ServiceSummary,
    arguments_of,
    tokens,
)
from hilum_cli.progress import CallView, Progress
from hilum_cli.totals import Totals

MAX_LEFT = 10
"""Calls that are named as not done."""


class Record(msgspec.Struct):
    """What is known of a run, collected while it goes on.

    Attributes:
        progress: The fold over its events.
        session: Id of the session; empty before it is open.
        workspace: Folder of the workspace.
        kind: Kind of the session.
        before: What the session had used before this run.
        interrupted: Earlier runs that were cut off and are not resumed.
        not_loaded: Plugins that could not be loaded.
        services: Background commands that ran at the end.
        records_files: Whether changes of files are recorded.
    """

    progress: Progress
    session: str = ""
    workspace: str = ""
    kind: str = ""
    before: Totals = msgspec.field(default_factory=Totals)
    interrupted: list[InterruptedRun] = []
    not_loaded: list[FaultSummary] = []
    services: list[ServiceSummary] = []
    records_files: bool = False

    def note_kernel(self, kernel: Kernel) -> None:
        """Note which plugins were not loaded."""
        plugins = kernel.host.plugins
        self.not_loaded = [
            FaultSummary(plugin=plugin.name, hook="load", error=plugin.error, switched_off=True)
            for plugin in plugins.values()
            if plugin.state == "failed"
        ]
        self.records_files = "files" in plugins and plugins["files"].state == "ready"

    def note_session(self, session: Session) -> None:
        """Note which session it is."""
        self.session = session.id
        self.workspace = spell_folder(session.workspace.root)
        self.kind = session.kind

    def totals(self) -> Totals:
        """Return what the session has used until now."""
        return Totals(
            self.before.usage + self.progress.usage, self.before.runs + self.progress.runs
        )

    def result(self, end: RunEnded | None, error: HilumError | None, exit_code: int) -> ResultLine:
        """Build the line.

        Args:
            end: How the run ended; ``None`` where it did not start.
            error: What kept the run from starting, or broke it off.
            exit_code: Exit code of the process.
        """
        fields: dict[str, Any] = {}
        if end is not None:
            fields = {
                "agent": end.agent,
                "run": end.run,
                "state": end.state if end.state in FINAL else "failed",
                "text": end.text,
                "commentary": end.commentary,
                "done": end.done,
                "code": end.code,
                "error": end.error,
                "hint": end.hint,
                "left": end.left,
                "turns": end.turns,
                "seconds": round(end.seconds, 3),
            }
            if end.state == "stopped" and not end.code:
                fields["code"] = "E_STOPPED"
                fields["error"] = "The run was stopped."
        if error is not None:
            fields |= {
                "state": "failed",
                "code": error.code,
                "error": error.message,
                "hint": error.hint,
            }
        totals = self.totals()
        return ResultLine(
            version=__version__,
            session=self.session,
            workspace=self.workspace,
            kind=self.kind,
            model=self.progress.model,
            usage=tokens(self.progress.usage),
            session_usage=tokens(totals.usage),
            session_runs=totals.runs,
            calls=_calls(self.progress),
            agents=_agents(self.progress),
            faults=self._faults(),
            denied=self.progress.unattended,
            interrupted=self.interrupted,
            redacted=list(self.progress.redacted),
            files_changed=list(self.progress.files) if self.records_files else None,
            services=self.services,
            exit_code=exit_code,
            **fields,
        )

    def _faults(self) -> list[FaultSummary]:
        faults = [*self.not_loaded]
        for fault in self.progress.faults:
            summary = FaultSummary(
                plugin=fault.plugin,
                hook=fault.hook,
                error=fault.error,
                switched_off=fault.switched_off,
            )
            if (summary.plugin, summary.hook) not in {
                (known.plugin, known.hook) for known in faults
            }:
                faults.append(summary)
        return faults


def _calls(progress: Progress) -> list[CallSummary]:
    calls = []
    for view in progress.calls.values():
        arguments, invalid = arguments_of(view.call.arguments)
        calls.append(
            CallSummary(
                id=view.call.id,
                name=view.call.name,
                arguments=arguments,
                invalid_arguments=invalid,
                agent=view.agent,
                turn=view.turn,
                state=view.state,
                code=view.code,
                seconds=round(view.seconds, 3),
                result=view.text,
            )
        )
    return calls


def _agents(progress: Progress) -> list[AgentSummary]:
    agents = []
    for view in progress.agents.ended():
        error = view.result.get("error")
        agents.append(
            AgentSummary(
                agent_id=view.id,
                agent=view.agent,
                title=view.title,
                owner=view.owner,
                status=view.status,
                seconds=round(view.seconds, 3),
                text=str(view.result.get("text", "")),
                error=error if isinstance(error, dict) else None,
            )
        )
    return agents


def failed_result(error: HilumError) -> ResultLine:
    """Build the line for a run that could not start."""
    return ResultLine(
        version=__version__,
        code=error.code,
        error=error.message,
        hint=error.hint,
        exit_code=error.exit_code,
    )


def cut_off_runs(session: Session) -> list[InterruptedRun]:
    """Return the runs that were cut off when the session was last written."""
    found = []
    for agent in session.agents.values():
        run = agent.conversation.run
        if run is None:
            continue
        calls = [state.call.name for state in agent.conversation.open_calls()]
        prompt = _last_prompt(agent.conversation.messages)
        found.append(InterruptedRun(run=run.id, agent=agent.name, prompt=prompt, calls=calls))
    return found


def _last_prompt(messages: Sequence[object]) -> str:
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            first = message.parts[0]
            return first.text if isinstance(first, Text) else ""
    return ""


def _refused_by_gates(progress: Progress) -> list[CallView]:
    """Return the calls that a plugin refused because it is not in working order, and that were not
    done later.
    """
    refused: dict[tuple[str, str, str], CallView] = {}
    for view in progress.calls.values():
        key = (view.agent, view.call.name, view.call.arguments)
        if view.code in (E_DENIED, E_PLUGIN) and any(text in view.text for text in GATE_TEXTS):
            refused[key] = view
        elif view.done and not view.code:
            refused.pop(key, None)
    return list(refused.values())


def without_effect(end: RunEnded, progress: Progress, approve: str) -> RunEnded:
    """Return the end of a run in which no call could run, or a broken gate refused one, as what it
    is: not complete.

    Args:
        end: The end.
        progress: The run's calls.
        approve: The approval policy of the session.
    """
    refused = _refused_by_gates(progress)
    if end.state == "completed" and refused:
        done = sum(view.done for view in progress.calls.values())
        if len(refused) == done:
            what = "No call was run."
        elif len(refused) == 1:
            what = f"The call of {refused[0].call.name} was refused by a gate that is not working."
        else:
            what = f"{len(refused)} calls were refused by a gate that is not working."
        why = refused[-1].text.removeprefix(f"{refused[-1].code}: ")
        return msgspec.structs.replace(
            end,
            state="partial_success",
            code="E_PLUGIN",
            error=f"{what} {why}",
            hint=(
                "`hilum doctor` shows which gates are closed; correct the plugin, or leave it out"
                " with --no-plugin."
            ),
            left=end.left or "; ".join(view.title() for view in refused[:MAX_LEFT]),
        )
    if end.state != "completed" or not progress.unattended or progress.effects:
        return end
    return msgspec.structs.replace(
        end,
        state="partial_success",
        code=E_DENIED,
        error=unapproved(progress.unattended),
        hint=approval_hint(approve),
    )


def exit_code_of(end: RunEnded, signal: int, *, cut_short: bool) -> int:
    """Return the exit code of a run.

    Args:
        end: How it ended.
        signal: Number of the signal that stopped it, 0 for none.
        cut_short: Whether the signal stopped what the run had started, after the run itself was
            done.
    """
    if cut_short:
        return 128 + signal
    return exits.of_run(end, signal)
