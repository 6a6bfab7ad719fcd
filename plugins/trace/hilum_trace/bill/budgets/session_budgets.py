"""The budgets of a session, which admit or refuse each request to a model.

A request is decided and reserved without any other task in between, so that parallel requests
cannot use the same rest of a budget.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import trio
from hilum import (
    Agent,
    HilumError,
    Interpretation,
    ModelCall,
    ModelCallDenied,
    PromptCommand,
    Session,
    StoreError,
    UsageError,
    hookimpl,
)
from hilum.messages import MAX_NUMBER, Price, Usage
from hilum_view.budgets import SPENT, BudgetView

from hilum_trace.bill.budgets import budget_texts
from hilum_trace.bill.budgets.amounts import (
    UNITS,
    Amount,
    Decision,
    Estimate,
    Limits,
    Unit,
    decide,
)
from hilum_trace.bill.budgets.budget_command import (
    BudgetChange,
    BudgetStatus,
    format_budgets,
    is_pattern,
    parse_change,
)
from hilum_trace.bill.budgets.settings import BudgetSettings, LimitSettings
from hilum_trace.bill.budgets.spending_fold import CHANGED, WARNED, SpendingFold, amount_of
from hilum_trace.bill.requests import MAYBE_CHARGED

if TYPE_CHECKING:
    from hilum_trace.bill.budgets.day_budget import DayBudget

NAME = "budget"
COMMAND = PromptCommand(
    NAME,
    "Show the budgets, or change one for this session",
    "[session|day|agent NAME|plugin NAME] [AMOUNT dollars|tokens|minutes | off]",
    ("session", "day", "agent", "plugin"),
)
SESSION = "session"
DAY = "day"
# A provider may count more tokens than estimated, by this factor at most with common tokenizers.
INPUT_MARGIN = 1.3
# Seconds between two looks at the requests of other processes.
DAY_INTERVAL = 0.5
# Minutes that a request counts for before any request has ended.
FIRST_MINUTES = 0.1


class _InFlight(NamedTuple):
    """A request in flight, and the time on trio's clock at which it was sent."""

    agent: str
    plugin: str
    request: Estimate
    since: float


class SessionBudgets:
    """The budgets of a session.

    Args:
        session: The session.
        settings: The settings for budgets.
        nursery: The nursery for writing to the file that other processes see.
    """

    def __init__(self, session: Session, settings: BudgetSettings, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._session = session
        self._settings = settings
        self._fold = SpendingFold(self._find_price)
        self._in_flight: dict[int, _InFlight] = {}
        self._released = trio.Event()
        self._day_budget: DayBudget | None = None

    # --- hooks ------------------------------------------------------------------------------------

    @hookimpl
    def on_model_call(
        self, agent: Agent, call: ModelCall
    ) -> Awaitable[ModelCallDenied | None] | None:
        """Reserve an amount for a request in all budgets that apply, or refuse it."""
        call.on_end(self._release)
        # The limits may have changed since the session was last open, also for a request that is
        # refused.
        self._show()
        if not self._may_have_limits():
            return None
        if not _have_limits(self._find_budgets(agent.name, call.plugin)):
            return None  # no task is started, because most sessions have no budgets
        return self._reserve(agent, call)

    async def _reserve(self, agent: Agent, call: ModelCall) -> ModelCallDenied | None:
        while True:
            self._show()
            budgets = self._find_budgets(agent.name, call.plugin)
            if not _have_limits(budgets):
                return None
            try:
                request = self._estimate(call, budgets)
            except ModelCallDenied as error:
                return error
            day_limits = budgets.pop(DAY, Limits())
            released = self._released
            decision, name = self._decide(budgets, request)
            if decision.exceeded is not None:
                return budget_texts.refusal(name, decision.exceeded)
            if decision.must_wait:
                await released.wait()
                continue
            # Nothing has run since the decision, so no other request was admitted meanwhile.
            sent = _InFlight(agent.name, call.plugin, request, trio.current_time())
            self._in_flight[id(call)] = sent
            if not any(day_limits.set_units()):
                return None
            try:
                decision, number = await self._day.reserve(day_limits, request)
            except ModelCallDenied as error:
                return error
            if decision.exceeded is not None:
                return budget_texts.refusal(DAY, decision.exceeded)
            if not decision.must_wait:
                call.on_end(partial(self._release_day, number))
                return None
            # Requests of other processes decide whether there is room.
            self._release(call)
            await trio.sleep(DAY_INTERVAL)

    @hookimpl
    async def interpret_prompt(self, session: Session, text: str) -> Interpretation | None:
        """Carry out the command ``/budget``."""
        words = text.split()
        # A space before the command makes it plain text.
        if not text.startswith("/") or words[0] != f"/{NAME}":
            return None
        try:
            note = ""
            if len(words) > 1:
                change = parse_change(words[1:])
                self._change(change)
                note = "" if change.limit is None else self._explain_unused(change.budget)
            reply = note + format_budgets(await self.status())
        except HilumError as error:
            reply = str(error)
        return Interpretation(text, reply=reply)

    @hookimpl
    def list_commands(self) -> list[PromptCommand]:
        """List the command ``/budget``."""
        return [COMMAND]

    def _explain_unused(self, budget: str) -> str:
        """Return a line if a budget applies to no agent or plugin yet; otherwise nothing."""
        kind, _, what = budget.partition(" ")
        if kind == "agent":
            known = {*self._fold.agents, *self._session.agents}
        elif kind == "plugin":
            known = {*self._fold.plugins, *self._session.kernel.host.plugins}
        else:
            return ""
        if any(fnmatchcase(name, what) for name in known):
            return ""
        return f"The session has no {kind} {what!r} so far. If there is one later, the budget applies.\n"

    @property
    def _day(self) -> DayBudget:
        """The budget of the day, whose file is only needed if the budget has limits."""
        if self._day_budget is None:
            # Most sessions have no budget of the day. The module takes 3 ms to import, which is 2 %
            # of the import of all plugins (tests/benchmarks/start.py).
            from hilum_trace.bill.budgets.day_budget import DayBudget

            lifetime = self._session.options.answer_timeout
            self._day_budget = DayBudget(self._session.kernel, self._find_price, lifetime)
        return self._day_budget

    # --- budgets ----------------------------------------------------------------------------------

    async def status(self) -> list[BudgetStatus]:
        """Return the budgets that have limits, and what was spent.

        Raises:
            StoreError: The store cannot be read.
        """
        self._catch_up()
        found = []
        for name in self._list_names():
            limits = self._limits(name)
            if any(limits.set_units()):
                spent = await self._day.spent() if name == DAY else self._spent(name)
                found.append(BudgetStatus(name, limits, spent))
        return found

    def _list_names(self) -> list[str]:
        """Return the names of the budgets that may have limits."""
        names = [SESSION, DAY]
        for agent in {**self._fold.agents, **self._session.agents}:
            names += [name for name in self._find_budgets(agent, "") if name not in names]
        for plugin in self._fold.plugins:
            names += [name for name in self._find_budgets("", plugin) if name not in names]
        # A pattern is a budget of its own for each name that it matches.
        named = [name for name in self._fold.changes if not is_pattern(name)]
        names += [name for name in named if name not in names]
        return names

    def _show(self) -> None:
        """Write to the log what is spent of each budget, so that all faces show it.

        An event is written only when another per cent is spent, so a budget has a hundred at most.
        """
        self._catch_up()
        if not self._may_have_limits() and not self._fold.shown.all:
            return
        current: dict[tuple[str, str], BudgetView] = {}
        for name in self._list_names():
            for unit, limit in self._limits(name).set_units():
                spent = self._spent(name).of(unit)
                if name == DAY:
                    spent = self._find_spent_today(unit)
                current[name, unit] = BudgetView(name, unit, spent, limit)
        try:
            for known in list(self._fold.shown.all.values()):
                if (known.budget, known.unit) not in current:
                    self._session.note(SPENT, budget=known.budget, unit=known.unit, limit=None)
            for key, budget in current.items():
                self._show_budget(key, budget)
        except StoreError:
            # The log cannot be written. The request that comes next reports it.
            return
        self._catch_up()

    def _may_have_limits(self) -> bool:
        """Return whether a limit was set anywhere, which few users do."""
        settings = self._settings
        if settings.agents or settings.plugins or self._fold.changes:
            return True
        units = [getattr(each, unit) for each in (settings.session, settings.day) for unit in UNITS]
        return any(limit is not None for limit in units)

    def _find_spent_today(self, unit: Unit) -> float:
        """Return what was spent today, as far as that is known without reading the logs."""
        if self._day_budget is not None:
            return self._day_budget.known.of(unit)
        # The session has just opened. The first request finds out the amount.
        shown = self._fold.shown.all.get((DAY, unit))
        return shown.spent if shown is not None else 0.0

    def _show_budget(self, key: tuple[str, str], budget: BudgetView) -> None:
        known = self._fold.shown.all.get(key)
        if (
            known is None
            or known.limit != budget.limit
            or int(known.share * 100) != int(budget.share * 100)
        ):
            facts = msgspec.structs.asdict(budget)
            self._session.note(SPENT, **facts)
        if budget.is_nearly_spent and budget.limit and self._fold.warned.get(key) != budget.limit:
            text = budget_texts.warning(budget)
            facts = {"budget": budget.budget, "unit": budget.unit, "limit": budget.limit}
            self._session.note(WARNED, **facts, say=text)

    def _find_budgets(self, agent: str, plugin: str) -> dict[str, Limits]:
        """Return the limits of all budgets that apply to a request, by name."""
        names = [SESSION, DAY]
        if agent:
            names.append(f"agent {agent}")
        if plugin:
            names.append(f"plugin {plugin}")
        return {name: self._limits(name) for name in names}

    def _limits(self, name: str) -> Limits:
        """Return the limits of a budget: the strictest ones that the settings contain.

        A limit that the user set with ``/budget`` takes precedence.
        """
        limits = Limits()
        for given in self._settings_of(name):
            for unit in UNITS:
                limit = getattr(given, unit)
                known = getattr(limits, unit)
                if limit is not None and (known is None or limit < known):
                    limits = limits.replace(unit, limit)
        for changed in self._changes_of(name):
            for unit, limit in changed.items():
                limits = limits.replace(unit, limit)
        return limits

    def _changes_of(self, name: str) -> Iterator[Mapping[Unit, float | None]]:
        """Yield what the user changed about a budget; later changes take precedence.

        A change for a name takes precedence over changes for patterns.
        """
        for pattern, changed in self._fold.changes.items():
            if is_pattern(pattern) and fnmatchcase(name, pattern):
                yield changed
        yield self._fold.changes.get(name, {})

    def _settings_of(self, name: str) -> Iterator[LimitSettings]:
        """Yield the settings that apply to a budget.

        A pattern applies in addition to a name, so that a project cannot raise the limit of a
        pattern by naming one agent.
        """
        kind, _, what = name.partition(" ")
        if kind == SESSION:
            yield self._settings.session
        elif kind == DAY:
            yield self._settings.day
        else:
            table = self._settings.agents if kind == "agent" else self._settings.plugins
            for pattern, limits in table.items():
                if fnmatchcase(what, pattern):
                    yield limits

    def _spent(self, name: str) -> Amount:
        """Return what was spent of a budget."""
        kind, _, what = name.partition(" ")
        if kind == SESSION:
            return self._fold.total
        if kind == "agent":
            return self._fold.agents.get(what, Amount())
        return self._fold.plugins.get(what, Amount())

    def _change(self, change: BudgetChange) -> None:
        """Change a budget for this session. The change is in the log, so it survives a resume."""
        units = [change.unit] if change.unit is not None else list(UNITS)
        for unit in units:
            self._session.note(CHANGED, budget=change.budget, unit=unit, limit=change.limit)
        self._show()
        self._wake()

    # --- requests ---------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Fold the events that were written since the last request."""
        while events := self._session.journal.since(self._fold.last):
            self._fold.apply(events)

    def _estimate(self, call: ModelCall, budgets: dict[str, Limits]) -> Estimate:
        """Return what a request will use.

        Raises:
            ModelCallDenied: A budget is in dollars, and the price is not known.
        """
        # Another program may claim any number, also one that SQLite cannot store.
        input_tokens = min(call.input, MAX_NUMBER)
        longest_input = int(input_tokens * INPUT_MARGIN)
        longest_output = min(call.max_output, MAX_NUMBER)
        least = call.cost(input_tokens, 0)
        most = call.cost(longest_input, longest_output)
        if least is None or most is None:
            for name, limits in budgets.items():
                if limits.dollars is not None and self._settings.unpriced == "refuse":
                    raise budget_texts.unpriced_error(name, limits.dollars, call.model)
            least = most = 0.0
        minutes = max(self._fold.longest, FIRST_MINUTES)
        return Estimate(
            Amount(least, input_tokens),
            Amount(most, longest_input + longest_output, minutes),
        )

    def _decide(self, budgets: dict[str, Limits], request: Estimate) -> tuple[Decision, str]:
        """Return the decision about a request, and the name of the budget that decides."""
        waits_for = ""
        for name, limits in budgets.items():
            in_flight = self._in_flight_of(name)
            decision = decide(limits, self._spent(name), in_flight, request)
            if decision.exceeded is not None:
                return decision, name
            if decision.must_wait:
                waits_for = name
        return Decision(must_wait=bool(waits_for)), waits_for

    def _in_flight_of(self, name: str) -> list[Estimate]:
        """Return what the requests in flight that a budget applies to will use."""
        kind, _, what = name.partition(" ")
        now = trio.current_time()
        found = []
        for each in self._in_flight.values():
            if kind == "agent" and each.agent != what:
                continue
            if kind == "plugin" and each.plugin != what:
                continue
            # A request that takes longer than those before uses the time that it has taken.
            minutes = max(each.request.most.minutes, (now - each.since) / 60)
            found.append(each.request._replace(most=each.request.most._replace(minutes=minutes)))
        return found

    def _release(self, call: ModelCall) -> None:
        """Replace the reserved amount by what was used, which the log contains by now."""
        sent = self._in_flight.pop(id(call), None)
        if sent is None:
            return
        # The log contains no event for a plugin's request that failed.
        if sent.plugin and call.was_sent and call.usage is None and self._may_cost(call):
            usage = Usage(input=call.input, cost=sent.request.least.dollars)
            seconds = trio.current_time() - sent.since
            self._fold.charge(amount_of(usage, seconds), sent.agent, sent.plugin)
        self._show()
        self._wake()

    def _may_cost(self, call: ModelCall) -> bool:
        """Return whether the provider may charge for a request without an answer."""
        return not call.failed or call.failed in MAYBE_CHARGED

    def _release_day(self, number: int, call: ModelCall) -> None:
        """Remove the reservation that other processes see."""
        # The file is written in a thread, for which the end of a request cannot wait.
        self._nursery.start_soon(self._end_day_request, number)

    async def _end_day_request(self, number: int) -> None:
        await self._day.end_request(number, self._session.id)
        self._show()

    def _wake(self) -> None:
        """Wake the requests that wait for room in a budget."""
        self._released.set()
        self._released = trio.Event()

    def _find_price(self, model: str) -> Price | None:
        """Return the price of a model's tokens; ``None`` if it is not known."""
        try:
            return self._session.kernel.router.model(model).info.price
        except UsageError:
            return None


def _have_limits(budgets: Mapping[str, Limits]) -> bool:
    """Return whether any budget has a limit."""
    return any(any(limits.set_units()) for limits in budgets.values())
