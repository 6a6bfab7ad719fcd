"""The sums of a bill are those of a provider that counts itself, however the bill is divided."""

import sys
from pathlib import Path

import pytest
import trio
from hilum.events import Compacted, ModelFailed
from hilum_replay import Fault
from hilum_trace.bill.bill import DIMENSIONS, Bill, ChargedSession
from hilum_trace.bill.budgets.spending_fold import SpendingFold
from hilum_trace.bill.charges import fold_charges

sys.path.insert(0, str(Path(__file__).parent))
from counting_server import PROMPT, CountingProvider, counted_session, greedy_plugin

FAULTS = {number: Fault(status=500) for number in (30, 31, 120)}


async def events_of(session):
    events = []
    while page := await session.kernel.store.read(session.id, len(events)):
        events += page
    return events


def bills_of(events):
    """The bills of a session's events by each dimension."""
    bills = {by: Bill(by) for by in DIMENSIONS}
    for charge in fold_charges(events):
        for bill in bills.values():
            bill.add(charge, ChargedSession("s1", "/work"))
    return bills


@pytest.mark.parametrize("turns", [200, pytest.param(1_000, marks=pytest.mark.slow(cases=0))])
async def test_sums_agree_with_the_provider(turns):
    """With sub-agents, compactions, summaries and retries, and over a thousand turns.

    The bar is 1 %; the sums are exact.
    """
    provider = CountingProvider(turns)
    async with counted_session(provider, greedy_plugin(), faults=FAULTS, window=40_000) as session:
        with trio.fail_after(300):
            ended = await session.run(PROMPT)
        events = await events_of(session)
    assert ended.text == "All done.", ended
    counted = provider.counted
    assert provider.answered >= turns
    assert provider.subtasks > turns / 50
    assert provider.summaries
    assert [each for each in events if isinstance(each, Compacted)]
    failed = [each for each in events if isinstance(each, ModelFailed)]
    assert len(failed) == len(FAULTS)

    bills = bills_of(events)
    for by, bill in bills.items():
        for amount in (bill.total, sum_of(bill)):
            assert amount.input == counted.input, by
            assert amount.cached == counted.cached, by
            assert amount.cache_write == counted.cache_write, by
            assert amount.output == counted.output, by
            assert amount.cost == pytest.approx(counted.cost), by
            assert amount.requests == provider.answered, by
        assert not bill.uncounted
        assert not bill.total.unpriced
    assert bills["plugin"].rows()[0].name == "greedy"
    assert bills["model"].rows()[0].name == "lab/model"
    assert {row.name for row in bills["agent"].rows()} >= {"main"}
    # A failed request (500) may have been charged for; the bill says so.
    assert bills["plugin"].lost == len(FAULTS)
    # The budgets count the same time and tokens, and those of failed requests.
    spending = SpendingFold(lambda model: None)
    spending.apply(events)
    for by, bill in bills.items():
        assert sum_of(bill).seconds == pytest.approx(bill.total.seconds), by
        assert bill.total.seconds == pytest.approx(spending.total.minutes * 60), by
        assert bill.total.tokens + bill.lost_tokens == spending.total.tokens, by


def sum_of(bill):
    """The sum of a bill's rows."""
    amount = type(bill.total)()
    for row in bill.rows():
        for name in ("input", "cached", "cache_write", "output", "cost", "requests", "seconds"):
            setattr(amount, name, getattr(amount, name) + getattr(row.amount, name))
    return amount
