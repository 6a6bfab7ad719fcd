"""What the log tells of agents that were started: a fold over events.

Nothing else keeps their state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import trio
from hilum import Profile, UsageError
from hilum import events as ev
from hilum.messages import writable

QUEUED = "agents.queued"
STATUS = "agents.status"
LOG = "agents.log"
OUTPUT = "agents.output"
TOOL_CALL = "agents.tool_call"
RESULT = "agents.result"

GO_ON = (
    "Go on with what you were asked to do, from where you were cut off. What is done above is done."
)
"""What a retry begins with."""


class Entry(msgspec.Struct, eq=False, kw_only=True):
    """One start of an agent.

    Attributes:
        id: Its id, unique.
        agent: Name of the definition.
        title: What it is about, in a few words; empty where its name says enough.
        actor: Name of the agent in the session; one that keeps its conversation has the
            definition's.
        prompt: What it is to do; dropped when it is over.
        owner: Name of the agent that started it, empty for the user.
        owner_run: The run of the owner that did.
        lane: Those of one lane wait for one another: empty for all agents of a session, else the
            owner of a task.
        urgent: Whether the user waits for it.
        keeps: Whether its conversation outlives the session.
        wakes: Whether its end is told to its owner.
        key: The call that started it, so that a repeated call finds it.
        depth: How many agents stand between it and the user.
        profile: What it may do.
        of: The earlier start that it goes on with, empty for none.
        run: Its run, once it has begun.
        status: Where it stands, ``queued`` to a final state.
        progress: 0 to 1, never falling.
        step: What it does now.
        charged: Whether its owner was charged for it.
        told: Whether its owner was told of its end.
        seq: Number of the event that holds its result, 0 while there is none.
        queued_seq: Number of the event that queued it.
        at: When it was started, Unix time.
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
    keeps: bool = False
    wakes: bool = False
    key: str = ""
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
        """Whether it has a result."""
        return self.seq > 0

    def queued(self) -> dict[str, Any]:
        """Return the data of the event that queues it."""
        whole = msgspec.structs.asdict(self)
        data = {name: whole[name] for name in _QUEUED if whole[name] not in ("", None)}
        return {"agent_id": self.id, **data, "profile": msgspec.to_builtins(self.profile)}


_QUEUED = (
    "agent",
    "title",
    "actor",
    "prompt",
    "owner",
    "owner_run",
    "lane",
    "urgent",
    "keeps",
    "wakes",
    "key",
    "depth",
    "of",
)


class Ledger:
    """The fold.

    Attributes:
        entries: All that were started, by id, oldest first.
        last: Number of the last event folded.
        by_run: Those that run, by run.
    """

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.by_run: dict[str, Entry] = {}
        self.last = 0
        self._keys: dict[str, Entry] = {}
        self._unbegun: dict[str, list[Entry]] = {}
        self._owned: dict[str, list[Entry]] = {}
        self._latest: dict[str, Entry] = {}
        self._above: dict[str, str] = {}

    def apply(self, event: ev.Event) -> None:
        """Take in one event."""
        self.last = max(self.last, event.seq)
        match event:
            case ev.PluginEvent(name=name) if name in (QUEUED, STATUS, RESULT):
                self._own(event)
            case ev.PromptQueued(agent=actor, run=run, text=text):
                self._prompted(actor, run, text)
                self._told(actor, text)
            case ev.RoundEnded(agent=owner, notes=notes):
                self._told(owner, *notes)
            case ev.ModelUsed(purpose=purpose) if purpose.startswith("agent "):
                entry = self.entries.get(purpose.removeprefix("agent "))
                if entry is not None:
                    entry.charged = True

    def _own(self, event: ev.PluginEvent) -> None:
        data = event.data
        if event.name == QUEUED:
            named = {name: data[name] for name in _QUEUED if name in data}
            profile = msgspec.convert(data["profile"], Profile)
            entry = Entry(
                id=data["agent_id"], profile=profile, queued_seq=event.seq, at=event.at, **named
            )
            self.entries[entry.id] = entry
            self._unbegun.setdefault(entry.actor, []).append(entry)
            self._owned.setdefault(entry.owner, []).append(entry)
            self._latest[entry.actor] = entry
            self._told(entry.actor, entry.prompt)
            if entry.key:
                self._keys[entry.key] = entry
            return
        known = self.entries.get(data["agent_id"])
        if known is None or known.over:
            return
        known.status = data["status"]
        known.progress = max(known.progress, data["progress"])
        known.step = data["current_step"]
        if event.name == RESULT:
            self._close(known, event.seq)

    def _close(self, entry: Entry, seq: int) -> None:
        entry.seq = seq
        entry.prompt = ""
        entry.profile = Profile()  # the log has them, should they be needed again
        self.by_run.pop(entry.run, None)
        waiting = self._unbegun.get(entry.actor, [])
        if entry in waiting:
            waiting.remove(entry)
        if not waiting:
            self._unbegun.pop(entry.actor, None)
        if not entry.wakes or entry.told:
            self._forget_owned(entry)
        entry.ended.set()

    def _forget_owned(self, entry: Entry) -> None:
        owned = self._owned.get(entry.owner, [])
        if entry in owned:
            owned.remove(entry)

    def _prompted(self, actor: str, run: str, text: str) -> None:
        """Note the run of the entry whose prompt this is: an agent works on one at a time, in
        order.
        """
        for entry in self._unbegun.get(actor, []):
            if writable(entry.prompt) == text:
                self.begun(entry, run)
                return

    def begun(self, entry: Entry, run: str) -> None:
        """Note that this is its run."""
        if entry in self._unbegun.get(entry.actor, []):
            self._unbegun[entry.actor].remove(entry)
            entry.run = run
            self.by_run[run] = entry
            if entry.lane:
                self._above[run] = entry.owner_run

    def _told(self, owner: str, *texts: str) -> None:
        for entry in [entry for entry in self._owned.get(owner, []) if entry.over]:
            if any(mark(entry) in text for text in texts):
                entry.told = True
                self._forget_owned(entry)

    def by_key(self, key: str) -> Entry | None:
        """Return what a call has started."""
        return self._keys.get(key)

    def latest(self, actor: str) -> Entry | None:
        """Return the last start of an agent of the session, ``None`` where it was not started
        here.
        """
        return self._latest.get(actor)

    def followed(self, entry: Entry) -> Entry | None:
        """Return the start that goes on with an entry."""
        return next((one for one in reversed(self.entries.values()) if one.of == entry.id), None)

    def under(self, run: str) -> list[Entry]:
        """Return the tasks that are open and were started by a run, or by one that it has started,
        and so on.
        """
        return [entry for entry in self.open() if entry.lane and run in self._runs_above(entry)]

    def _runs_above(self, entry: Entry) -> Iterator[str]:
        run = entry.owner_run
        while run:
            yield run
            run = self._above.get(run, "")

    def owned(self, owner: str) -> list[Entry]:
        """Return what an agent has started: what is not over, and what it was not told of."""
        return list(self._owned.get(owner, []))

    def open(self) -> Iterator[Entry]:
        """Yield what has no result yet, oldest first."""
        for waiting in [self.by_run.values(), *self._unbegun.values()]:
            yield from [entry for entry in waiting if not entry.over]

    def find(self, name: str) -> Entry:
        """Return an entry by its id, or the beginning of one.

        Raises:
            UsageError: There is none, or there are several.
        """
        if name in self.entries:
            return self.entries[name]
        found = [
            entry for identity, entry in self.entries.items() if name and identity.startswith(name)
        ]
        if len(found) != 1:
            if found:
                what = "More than one agent that ran begins with"
            else:
                what = "No agent that ran has the id"
            raise UsageError(f"{what} {name!r}.", hint="hilum agents results lists them.")
        return found[0]


def mark(entry: Entry) -> str:
    """Return the words by which an owner is told of an entry's end.

    They are how the log knows that it was.
    """
    return f"[agent {entry.id}]"


def status_of(entry: Entry) -> dict[str, Any]:
    """Return where an entry stands, as plain data."""
    return {
        "agent_id": entry.id,
        "agent": entry.agent,
        "title": entry.title,
        "status": entry.status,
        "progress": entry.progress,
        "current_step": entry.step,
        "owner": entry.owner,
        "started": entry.at,
    }
