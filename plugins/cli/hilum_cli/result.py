"""Builds the result line of a run, which contains everything known at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from hilum import HilumError, __version__
from hilum.errors import E_DENIED, E_PLUGIN, E_STOPPED, GATE_TEXTS, approval_hint, unapproved
from hilum.events import FINAL, RunEnded
from hilum.messages import Text, UserMessage
from hilum.store import spell_folder
from hilum_view import Card, SessionView, Totals

from hilum_cli.faces import how_to_continue
from hilum_cli.output import (
    AgentSummary,
    CallState,
    CallSummary,
    FaultSummary,
    InterruptedRun,
    ResultLine,
    ServiceSummary,
    arguments_of,
    tokens,
)
from hilum_cli.rendering import card_title

if TYPE_CHECKING:
    from hilum import Kernel, Session

MAX_LEFT = 10
"""Maximum number of calls to list as unfinished work."""
END_FIELDS = ("agent", "run", "text", "commentary", "done", "code", "error", "left", "turns")
"""The fields of the result line that are copied from the run's ``RunEnded`` event."""


class Record(msgspec.Struct):
    """The record of a run, collected while it runs.

    Attributes:
        view: The view of the session, built from its events.
        session: Id of the session; empty before it is open.
        kept: Whether the session is stored, so that it can be resumed.
        workspace: Folder of the workspace.
        kind: Kind of the session.
        before: Usage of the session before this run.
        interrupted: Earlier runs that were interrupted and are not resumed.
        not_loaded: Plugins that could not be loaded.
        services: Background commands that were running at the end.
        records_files: Whether file changes are recorded.
    """

    view: SessionView
    session: str = ""
    kept: bool = False
    workspace: str = ""
    kind: str = ""
    before: Totals = msgspec.field(default_factory=Totals)
    interrupted: list[InterruptedRun] = []
    not_loaded: list[FaultSummary] = []
    services: list[ServiceSummary] = []
    records_files: bool = False

    def note_kernel(self, kernel: Kernel) -> None:
        """Record the plugins that were not loaded."""
        plugins = kernel.host.plugins
        self.not_loaded = [
            FaultSummary(plugin=plugin.name, hook="load", error=plugin.error, switched_off=True)
            for plugin in plugins.values()
            if plugin.state == "failed"
        ]
        self.records_files = "files" in plugins and plugins["files"].state == "ready"

    def note_session(self, session: Session, *, kept: bool) -> None:
        """Record the session and whether it can be resumed."""
        self.kept = kept
        self.session = session.id
        self.workspace = spell_folder(session.workspace.root)
        self.kind = session.kind

    def totals(self) -> Totals:
        """Return the session's usage so far."""
        now = self.view.totals
        return Totals(self.before.usage + now.usage, self.before.runs + now.runs)

    def result(self, end: RunEnded | None, error: HilumError | None, exit_code: int) -> ResultLine:
        """Build the result line.

        Args:
            end: The event that ended the run; ``None`` if the run did not start.
            error: The reason why the run did not start or was interrupted.
            exit_code: Exit code of the process.
        """
        fields = {} if end is None else self._end_fields(end)
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
            model=self.view.lead_actor.model,
            usage=tokens(self.view.totals.usage),
            session_usage=tokens(totals.usage),
            session_runs=totals.runs,
            calls=_calls(self.view),
            agents=_agents(self.view),
            faults=self._faults(),
            denied=self.view.unattended,
            denied_rules=self.view.denied_rules,
            interrupted=self.interrupted,
            redacted=list(self.view.redacted),
            files_changed=list(self.view.files) if self.records_files else None,
            services=self.services,
            exit_code=exit_code,
            **fields,
        )

    def _end_fields(self, end: RunEnded) -> dict[str, Any]:
        fields = {name: getattr(end, name) for name in END_FIELDS}
        fields["state"] = end.state if end.state in FINAL else "failed"
        fields["hint"] = self._hint(end)
        fields["seconds"] = round(end.seconds, 3)
        if end.state == "stopped" and not end.code:
            fields["code"] = E_STOPPED
            fields["error"] = "The run was stopped."
        return fields

    def _hint(self, end: RunEnded) -> str:
        """Return the user's next step, with the command that continues the run."""
        if end.state == "completed" or not self.kept:
            return end.hint
        # The hint about denied calls ends with a command, so that hint comes last.
        hints = [end.hint, how_to_continue(end, self.session)]
        if end.code == E_DENIED:
            hints.reverse()
        return "\n".join(hint for hint in hints if hint)

    def _faults(self) -> list[FaultSummary]:
        faults = {(fault.plugin, fault.hook): fault for fault in self.not_loaded}
        for fault in self.view.failures:
            summary = msgspec.convert(fault, FaultSummary, from_attributes=True)
            # Both the kernel and the session report a plugin that was not loaded.
            faults.setdefault((fault.plugin, fault.hook), summary)
        return list(faults.values())


def _calls(view: SessionView) -> list[CallSummary]:
    calls = []
    for card in view.cards:
        arguments, invalid = arguments_of(card.call.arguments)
        calls.append(
            CallSummary(
                id=card.call.id,
                name=card.call.name,
                arguments=arguments,
                invalid_arguments=invalid,
                agent=card.agent,
                turn=card.turn,
                state=_state_of(card),
                code=card.code,
                seconds=round(card.seconds, 3),
                result=card.text,
            )
        )
    return calls


def _state_of(card: Card) -> CallState:
    if not card.ended:
        return "running"
    return "failed" if card.code else "completed"


def _agents(view: SessionView) -> list[AgentSummary]:
    agents = []
    for agent in view.agents.ended():
        error = agent.result.get("error")
        agents.append(
            AgentSummary(
                agent_id=agent.id,
                agent=agent.agent,
                title=agent.title,
                owner=agent.owner,
                status=agent.status,
                seconds=round(agent.seconds, 3),
                text=str(agent.result.get("text", "")),
                error=error if isinstance(error, dict) else None,
            )
        )
    return agents


def failed_result(error: HilumError) -> ResultLine:
    """Build the result line for a run that could not start."""
    return Record(SessionView()).result(None, error, error.exit_code)


def cut_off_runs(session: Session) -> list[InterruptedRun]:
    """Return the runs that were interrupted when the session was last written."""
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


def _refused_by_gates(view: SessionView) -> list[Card]:
    """Return the calls that a broken gate refused and that did not succeed later."""
    refused: dict[tuple[str, str, str], Card] = {}
    for card in view.cards:
        key = (card.agent, card.call.name, card.call.arguments)
        if card.code in (E_DENIED, E_PLUGIN) and any(text in card.text for text in GATE_TEXTS):
            refused[key] = card
        # The same call succeeded later, so nothing is missing.
        elif card.ended and not card.code:
            refused.pop(key, None)
    return list(refused.values())


def without_effect(end: RunEnded, view: SessionView, approve: str) -> RunEnded:
    """Return the end of a run, changed to a partial success if its calls could not run.

    The end is changed if every call needed approval or if a broken gate refused a call.

    Args:
        end: The end of the run.
        view: The view with the run's calls.
        approve: The approval policy of the session.
    """
    if end.state != "completed":
        return end
    refused = _refused_by_gates(view)
    if refused:
        return _refused_end(end, refused, sum(card.ended for card in view.cards))
    # If another call had an effect, the model may have found another way, so its answer counts.
    if not view.unattended or view.effects:
        return end
    return msgspec.structs.replace(
        end,
        state="partial_success",
        code=E_DENIED,
        error=unapproved(view.unattended),
        hint=approval_hint(approve, view.denied_rules, by_policy=view.denied_by_policy),
    )


def _refused_end(end: RunEnded, refused: Sequence[Card], calls: int) -> RunEnded:
    """Return the end of a run in which a broken gate refused calls.

    Args:
        end: The end of the run.
        refused: The refused calls.
        calls: Total number of ended calls.
    """
    if len(refused) == calls:
        what = "No call was run."
    elif len(refused) == 1:
        what = f"The call of {refused[0].call.name} was refused by a gate that is not working."
    else:
        what = f"{len(refused)} calls were refused by a gate that is not working."
    why = refused[-1].text.removeprefix(f"{refused[-1].code}: ")
    return msgspec.structs.replace(
        end,
        state="partial_success",
        code=E_PLUGIN,
        error=f"{what} {why}",
        hint=(
            "`hilum doctor` shows which gates are closed; fix the plugin, or leave it out"
            " with --no-plugin."
        ),
        left=end.left or "; ".join(card_title(card) for card in refused[:MAX_LEFT]),
    )
