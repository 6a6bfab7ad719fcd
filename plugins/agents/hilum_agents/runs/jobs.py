"""Jobs: one for each start of an agent, folded from the session's events.

A job's state is stored only in events, so a resumed session restores every job from its log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import trio
from hilum import Profile, UsageError
from hilum import events as ev
from hilum.errors import E_UNKNOWN
from hilum.messages import replace_surrogates

QUEUED = "agents.queued"
STATUS = "agents.status"
LOG = "agents.log"
PROMPTED = "agents.prompted"
OUTPUT = "agents.output"
TOOL_CALL = "agents.tool_call"
RESULT = "agents.result"

_CHARGE_PREFIX = "agent "
_QUEUED_FIELDS = (
    "agent",
    "title",
    "actor",
    "prompt",
    "owner",
    "owner_run",
    "lane",
    "urgent",
    "persistent",
    "notify_owner",
    "key",
    "call",
    "depth",
    "of",
)
# Keys in the event's data that differ from attribute names; the keys are fixed, because user
# interfaces read the event.
_EVENT_KEYS = {"persistent": "keeps", "notify_owner": "wakes"}


class Job(msgspec.Struct, eq=False, kw_only=True):
    """A job: one start of an agent.

    Attributes:
        id: Unique id.
        agent: Name of the agent's definition.
        title: Subject of the job in a few words; empty if the agent's name is enough.
        actor: Name of the agent in the session. An agent with a persistent conversation has the
            name of its definition.
        prompt: The task; discarded when the job ends.
        owner: Name of the agent that started the job; empty if the user started it.
        owner_run: Id of the owner's run that started the job.
        lane: Name of the lane, a group of jobs that share a limit: empty for the session's
            top-level agents, otherwise the name of the agent that started these sub-agents.
        urgent: Whether the user is waiting for the job.
        persistent: Whether the conversation outlives the session.
        notify_owner: Whether to notify the owner when the job ends; an idle owner is prompted with
            the notice.
        key: Key of the tool call that started the job, by which a repeated call finds the job.
        call: Id of that call; empty if no call started the job. Faces show the job with the call.
        depth: Number of agents between the job and the user.
        profile: Model, tools and limits of the agent.
        of: Id of the job that this job continues; empty for none.
        run: Id of the run; empty until it begins.
        status: Current state, from ``queued`` to a final state.
        progress: Progress from 0 to 1; never decreases.
        step: Current activity, as a sentence.
        charged: Whether the usage was charged to the owner.
        told: Whether the owner has been notified of the job's end.
        seq: Number of the event that contains the result; 0 until that event exists.
        queued_seq: Number of the event that queued the job.
        at: Unix time at which the job was started.
        ended: An event that is set when the result has been written.
    """

    id: str
    agent: str
    title: str = ""
    actor: str
    prompt: str
    owner: str = ""
    owner_run: str = ""
    lane: str = ""
    urgent: bool = True
    persistent: bool = False
    notify_owner: bool = False
    key: str = ""
    call: str = ""
    depth: int = 1
    profile: Profile = Profile()
    of: str = ""
    run: str = ""
    status: str = "queued"
    progress: float = 0.0
    step: str = ""
    charged: bool = False
    told: bool = False
    seq: int = 0
    queued_seq: int = 0
    at: float = 0.0
    ended: trio.Event = msgspec.field(default_factory=trio.Event)

    @property
    def over(self) -> bool:
        """Whether the job has a result."""
        return self.seq > 0

    @property
    def mark(self) -> str:
        """The text that identifies the job in a notice to its owner.

        The fold looks for this mark in logged prompts and notes to determine which notices were
        sent.
        """
        return f"[agent {self.id}]"

    @property
    def charge_purpose(self) -> str:
        """The purpose of the event that charges this job's usage to the job's owner."""
        return f"{_CHARGE_PREFIX}{self.id}"

    def queued_data(self) -> dict[str, Any]:
        """Return the data of the event that queues the job."""
        data: dict[str, Any] = {"agent_id": self.id}
        for name in _QUEUED_FIELDS:
            value = getattr(self, name)
            if value not in ("", None):
                data[_EVENT_KEYS.get(name, name)] = value
        data["profile"] = msgspec.to_builtins(self.profile)
        return data

    def status_data(self) -> dict[str, Any]:
        """Return the job's state as plain data."""
        return {
            "agent_id": self.id,
            "agent": self.agent,
            "title": self.title,
            "status": self.status,
            "progress": self.progress,
            "current_step": self.step,
            "owner": self.owner,
            "started": self.at,
        }


def _job_of(event: ev.PluginEvent) -> Job:
    """Return the job that an event adds to the queue."""
    data = event.data
    keys = {name: _EVENT_KEYS.get(name, name) for name in _QUEUED_FIELDS}
    fields = {name: data[key] for name, key in keys.items() if key in data}
    return Job(
        id=data["agent_id"],
        profile=msgspec.convert(data["profile"], Profile),
        queued_seq=event.seq,
        at=event.at,
        **fields,
    )


class JobTable:
    """All jobs of a session, folded from its events.

    Attributes:
        by_id: Every job by id, oldest first.
        by_run: The jobs with an unfinished run, by run id.
        by_key: The jobs started by tool calls, by the key of the call.
        latest: The last job of each agent in the session.
        last: Number of the last folded event.
    """

    def __init__(self) -> None:
        self.by_id: dict[str, Job] = {}
        self.by_run: dict[str, Job] = {}
        self.by_key: dict[str, Job] = {}
        self.latest: dict[str, Job] = {}
        self.last = 0
        self._not_begun: dict[str, list[Job]] = {}
        self._owned: dict[str, list[Job]] = {}
        self._parent_runs: dict[str, str] = {}
        # The runs of the user's prompts, whose jobs are written afterwards under the same id.
        self._runs_without_job: set[str] = set()

    # --- the fold ---------------------------------------------------------------------------------

    def apply(self, event: ev.Event) -> None:
        """Apply one event."""
        self.last = max(self.last, event.seq)
        match event:
            case ev.PluginEvent(name=name) if name == QUEUED:
                self._add(_job_of(event))
            case ev.PluginEvent(name=name) if name in (STATUS, RESULT):
                self._update(event)
            case ev.PromptQueued(agent=actor, run=run, text=text):
                self.match_prompt(actor, run, text)
                self._find_marks(actor, text)
            case ev.RoundEnded(agent=owner, notes=notes):
                self._find_marks(owner, *notes)
            case ev.ModelUsed(purpose=purpose) if purpose.startswith(_CHARGE_PREFIX):
                job = self.by_id.get(purpose.removeprefix(_CHARGE_PREFIX))
                if job is not None:
                    job.charged = True

    def _add(self, job: Job) -> None:
        self.by_id[job.id] = job
        self._not_begun.setdefault(job.actor, []).append(job)
        self._owned.setdefault(job.owner, []).append(job)
        self.latest[job.actor] = job
        # The prompt of a job that continues an agent may contain notices, which then count as sent.
        self._find_marks(job.actor, job.prompt)
        if job.key:
            self.by_key[job.key] = job
        if job.id in self._runs_without_job:
            # Otherwise, a resumed session would take the job for one that has not begun.
            self._runs_without_job.remove(job.id)
            self.begin(job, job.id)

    def _update(self, event: ev.PluginEvent) -> None:
        data = event.data
        job = self.by_id.get(data["agent_id"])
        if job is None or job.over:
            return
        job.status = data["status"]
        job.progress = max(job.progress, data["progress"])
        job.step = data["current_step"]
        if event.name == RESULT:
            self._close(job, event.seq)

    def _close(self, job: Job, seq: int) -> None:
        job.seq = seq
        # The prompt and profile remain in the log. If the job kept them, a long session would hold
        # the prompts of all its jobs in memory.
        job.prompt = ""
        job.profile = Profile()
        self.by_run.pop(job.run, None)
        waiting = self._not_begun.get(job.actor, [])
        if job in waiting:
            waiting.remove(job)
        if not waiting:
            self._not_begun.pop(job.actor, None)
        if not job.notify_owner or job.told:
            self._forget_owned(job)
        job.ended.set()

    def _forget_owned(self, job: Job) -> None:
        owned = self._owned.get(job.owner, [])
        if job in owned:
            owned.remove(job)

    def match_prompt(self, actor: str, run: str, text: str) -> None:
        """Assign a run to an agent's first job with this prompt, unless the run has a job.

        An agent works on its jobs one at a time and in order, so the first match is the right job.

        Args:
            actor: Name of the agent in the session.
            run: Id of the run.
            text: The prompt.
        """
        if run in self.by_run:
            return
        for job in self._not_begun.get(actor, []):
            # The log replaces invalid characters, so the prompt must be compared in that form.
            if replace_surrogates(job.prompt) == text:
                self.begin(job, run)
                return
        if actor != "main":
            self._runs_without_job.add(run)

    def begin(self, job: Job, run: str) -> None:
        """Assign a run to a job. A job that already has a run keeps that run."""
        # Both the event and the scheduler report the run; the second report has no effect.
        waiting = self._not_begun.get(job.actor, [])
        if job not in waiting:
            return
        waiting.remove(job)
        job.run = run
        self.by_run[run] = job
        if job.lane:
            self._parent_runs[run] = job.owner_run

    def _find_marks(self, owner: str, *texts: str) -> None:
        """Record that an owner was notified of the jobs whose marks are in the given texts."""
        for job in self.owned(owner):
            if job.over and any(job.mark in text for text in texts):
                job.told = True
                self._forget_owned(job)

    # --- queries ----------------------------------------------------------------------------------

    def continuation(self, job: Job) -> Job | None:
        """Return the job that continues the given job."""
        newest_first = reversed(self.by_id.values())
        return next((other for other in newest_first if other.of == job.id), None)

    def under(self, run: str) -> list[Job]:
        """Return all open descendants of a run: its sub-agents, their sub-agents, and so on."""
        return [job for job in self.open() if job.lane and run in self._runs_above(job)]

    def _runs_above(self, job: Job) -> Iterator[str]:
        run = job.owner_run
        while run:
            yield run
            run = self._parent_runs.get(run, "")

    def owned(self, owner: str) -> list[Job]:
        """Return an owner's jobs that are open, or whose end has not been reported to the owner."""
        return list(self._owned.get(owner, []))

    def unannounced(self, owner: str) -> list[Job]:
        """Return an owner's ended jobs that have not been reported to the owner yet."""
        return [job for job in self.owned(owner) if job.over and job.notify_owner and not job.told]

    def open(self) -> Iterator[Job]:
        """Yield the jobs without a result, oldest first."""
        for jobs in [self.by_run.values(), *self._not_begun.values()]:
            # The list is a copy, because the caller may end jobs while it iterates.
            yield from [job for job in jobs if not job.over]

    def find(self, name: str) -> Job:
        """Return the job with the given id, which may be abbreviated to its beginning.

        Raises:
            UsageError: No job matches, or several jobs do.
        """
        if name in self.by_id:
            return self.by_id[name]
        matching = [job for job in self.by_id.values() if name and job.id.startswith(name)]
        if len(matching) != 1:
            raise no_single_job(name, len(matching))
        return matching[0]


def no_single_job(name: str, count: int, command: str = "hilum agents") -> UsageError:
    """Return the error for an id that matches no job, or more than one.

    Args:
        name: The text that the user typed.
        count: Number of matching jobs.
        command: The command whose action ``results`` lists the jobs, such as ``hilum agents``.
    """
    hint = f"`{command} results` lists the ids."
    if count:
        message = f"The ids of {count} agent runs begin with {name!r}."
    else:
        message = f"No agent run has the id {name!r}."
    return UsageError(message, code=E_UNKNOWN, hint=hint)
