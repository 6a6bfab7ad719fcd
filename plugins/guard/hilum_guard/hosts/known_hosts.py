"""Collect the hosts that the user or a search mentioned. Fetching from them needs no approval."""

from __future__ import annotations

from collections.abc import Iterator

from hilum import Session
from hilum.events import CallDone, Event, PromptQueued, SteeringQueued

from hilum_guard.hosts.addresses import ascii_host, find_named_hosts, host_of, remove_piped_text


class KnownHosts:
    """The known hosts of one session.

    Args:
        session: The session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._read = 0
        self._hosts = set[str]()
        for row in session.kernel.explain():
            if row.key in ("web.hosts", "browser.hosts"):
                # An entry may include a port: `host:8080`.
                for entry in map(str, row.value):
                    self._hosts.add(ascii_host(entry.rpartition(":")[0] or entry))

    def read(self) -> frozenset[str]:
        """Return the hosts mentioned so far in typed prompts, settings and search results."""
        while events := self._session.journal.since(self._read):
            for event in events:
                self._hosts.update(self._find_hosts(event))
            self._read = events[-1].seq
        return frozenset(self._hosts - {""})

    def _find_hosts(self, event: Event) -> Iterator[str]:
        if isinstance(event, SteeringQueued):
            yield from find_named_hosts(event.text)
        elif isinstance(event, PromptQueued):
            agent = self._session.agents.get(event.agent)
            is_sub_agent = agent is not None and agent.parent
            # A model wrote the prompt of a sub-agent, and another program wrote a piped prompt.
            if not event.piped and not is_sub_agent:
                yield from find_named_hosts(remove_piped_text(event.text))
        elif isinstance(event, CallDone) and event.result.name == "web_search":
            # The user sees the search results, and fetching one of them is the usual next step.
            for found in event.result.data.get("results", ()):
                if isinstance(found, dict):
                    yield host_of(found.get("url"))
