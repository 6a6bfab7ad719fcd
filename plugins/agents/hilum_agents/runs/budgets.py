"""The ledger of budgets: the tokens and US dollars that each run has, and what it has granted.

A sub-agent is granted a part of its owner's budget. The owner cannot spend that part until the
sub-agent ends; the sub-agent's usage is then charged to the owner.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from hilum import Agent, Profile, Session, Usage
from hilum import events as ev

from hilum_agents.runs.jobs import Job, JobTable


class Budget(NamedTuple):
    """An amount of tokens and US dollars; ``None`` means no limit."""

    tokens: int | None
    dollars: float | None


class BudgetLedger:
    """The budgets of the agents of a session.

    Args:
        session: The session.
        jobs: Its jobs.
        cost_limit: Maximum cost, in US dollars, of a run whose profile sets no limit.
    """

    def __init__(self, session: Session, jobs: JobTable, cost_limit: float | None) -> None:
        self._session = session
        self._jobs = jobs
        self._cost_limit = cost_limit
        self._profiles: dict[str, Profile] = {}
        self._left: dict[str, Budget] = {}

    def available(self, agent: Agent) -> Budget:
        """Return the remaining budget of an agent's run.

        The usage of the run and the grants to open tasks are subtracted.
        """
        limits = self._limits(agent)
        used = _usage(agent)
        grants = [job.profile for job in self._jobs.owned(agent.name) if job.lane and not job.over]
        tokens = limits.tokens
        if tokens is not None:
            tokens -= used.total + sum(grant.token_limit or 0 for grant in grants)
        dollars = limits.dollars
        if dollars is not None:
            dollars -= (used.cost or 0.0) + sum(grant.cost_limit or 0.0 for grant in grants)
        return Budget(tokens, dollars)

    def _limits(self, agent: Agent) -> Budget:
        """Return the limits of an agent's run, ignoring grants."""
        profile = self._profiles.get(agent.name, agent.profile)
        tokens = profile.token_limit
        if tokens is None:
            tokens = agent.session.options.token_limit
        dollars = profile.cost_limit
        if dollars is None:
            dollars = self._cost_limit
        return Budget(tokens, dollars)

    def reserve(self, agent: Agent) -> None:
        """Lower the limits of an agent's run by the grants to its open tasks."""
        # The profile before grants were subtracted; `release` restores it.
        self._profiles.setdefault(agent.name, agent.profile)
        left = self.available(agent)
        used = _usage(agent)
        token_limit: int | None = None
        if left.tokens is not None:
            token_limit = max(left.tokens + used.total, 1)
        cost_limit: float | None = None
        if left.dollars is not None:
            cost_limit = max(left.dollars + (used.cost or 0.0), 0.0)
        agent.profile = msgspec.structs.replace(
            agent.profile,
            token_limit=token_limit,
            cost_limit=cost_limit,
        )

    def release(self, name: str, used: Usage) -> None:
        """Restore an agent's limits after its run, and record the run's remaining budget."""
        agent = self._session.agents.get(name)
        profile = self._profiles.pop(name, None)
        if agent is None or profile is None:
            return
        reserved = agent.profile
        agent.profile = profile
        tokens: int | None = None
        if reserved.token_limit is not None:
            tokens = max(reserved.token_limit - used.total, 1)
        dollars: float | None = None
        if reserved.cost_limit is not None:
            dollars = max(reserved.cost_limit - (used.cost or 0.0), 0.0)
        self._left[name] = Budget(tokens, dollars)

    def limit_to_rest(self, name: str, profile: Profile) -> Profile:
        """Return a profile limited to the budget that an agent's last run has left."""
        left = self._left.get(name)
        if left is None:
            return profile
        return msgspec.structs.replace(profile, token_limit=left.tokens, cost_limit=left.dollars)

    def charge(self, job: Job, usage: Usage) -> None:
        """Charge the usage of a task to its owner, once."""
        owner = self._session.agents.get(job.owner)
        if not job.lane or job.charged or owner is None:
            return
        if usage.total or usage.cost:
            # Set before the event is folded, because both the tool and the scheduler may charge it.
            job.charged = True
            model = owner.conversation.frozen.model or owner.model
            owner.emit(ev.ModelUsed(model=model, purpose=job.charge_purpose, usage=usage))


def _usage(agent: Agent) -> Usage:
    """Return the usage of an agent's current run."""
    run = agent.conversation.run
    return run.usage if run else Usage()
