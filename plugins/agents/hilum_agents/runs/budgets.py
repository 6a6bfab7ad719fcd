"""The budget ledger, which tracks the tokens and US dollars that each run may spend or has granted.

A sub-agent is granted part of its owner's budget. The owner cannot spend that part until the
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

    def minus(self, used: Usage) -> Budget:
        """Return the budget that remains after the given usage."""
        tokens = self.tokens
        if tokens is not None:
            tokens -= used.total
        dollars = self.dollars
        if dollars is not None:
            dollars -= used.cost or 0.0
        return Budget(tokens, dollars)

    def limit(self, profile: Profile) -> Profile:
        """Return a profile limited to this budget, but to no less than one token."""
        tokens = self.tokens
        if tokens is not None:
            tokens = max(tokens, 1)
        dollars = self.dollars
        if dollars is not None:
            dollars = max(dollars, 0.0)
        return msgspec.structs.replace(profile, token_limit=tokens, cost_limit=dollars)


class BudgetLedger:
    """The budgets of the agents in a session.

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
        run = agent.conversation.run
        return self._unreserved(agent).minus(run.usage if run else Usage())

    def _unreserved(self, agent: Agent) -> Budget:
        """Return the limits of an agent's run, reduced by the grants to its open tasks."""
        left = self._limits(agent)
        for job in self._jobs.owned(agent.name):
            if job.lane and not job.over:
                granted = job.profile
                left = left.minus(Usage(granted.token_limit or 0, cost=granted.cost_limit))
        return left

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
        # The stored profile is the one before grants were subtracted; `release` restores it.
        self._profiles.setdefault(agent.name, agent.profile)
        agent.profile = self._unreserved(agent).limit(agent.profile)

    def release(self, name: str, used: Usage) -> None:
        """Restore an agent's limits after its run, and record the run's remaining budget."""
        agent = self._session.agents.get(name)
        profile = self._profiles.pop(name, None)
        if agent is None or profile is None:
            return
        reserved = Budget(agent.profile.token_limit, agent.profile.cost_limit)
        agent.profile = profile
        self._left[name] = reserved.minus(used)

    def limit_to_rest(self, name: str, profile: Profile) -> Profile:
        """Return a profile limited to the budget that remains from an agent's last run."""
        left = self._left.get(name)
        return profile if left is None else left.limit(profile)

    def charge(self, job: Job, usage: Usage) -> None:
        """Charge the usage of a task to its owner, once."""
        owner = self._session.agents.get(job.owner)
        if not job.lane or job.charged or owner is None:
            return
        if usage.total or usage.cost:
            # The flag is set before the event is folded, because both the tool and the scheduler
            # may charge the usage.
            job.charged = True
            model = owner.conversation.frozen.model or owner.model
            owner.emit(ev.ModelUsed(model=model, purpose=job.charge_purpose, usage=usage))
