"""Budgets: what they admit, refuse and let wait, and how a run that reaches one goes on."""

import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import hilum
import pytest
import trio
from hilum import Call, models, tool
from hilum.events import CallDone, ModelAnswered, ModelUsed, PluginEvent
from hilum.messages import AssistantMessage, Price, ToolResult, Usage
from hilum.settings import load
from hilum.store import MemoryStore
from hilum.testing import ModelProvider, ScriptedModel, open_bench, pause, plugin, say, use
from hilum_store import SqliteStore
from hilum_trace.bill.budgets import BudgetSettings, SessionBudgets
from hilum_trace.bill.budgets.amounts import Amount, Estimate, Limits
from hilum_trace.bill.budgets.budget_file import BudgetFile
from hilum_trace.bill.budgets.day_budget import DayBudget
from hilum_trace.bill.budgets.spending_fold import CHANGED, SpendingFold
from hilum_view import Notice, SessionView
from hilum_view.budgets import SPENT

DEAR = Price(input=10.0, output=50.0)
TURN = Usage(input=1_000, output=100)  # costs 1.5 cents


@tool(risk="read")
def look(n: int = 0) -> str:
    """Look."""
    return f"seen {n}"


def scripted(*answers, **options):
    """A model whose answers cost 1.5 cents each."""
    return ScriptedModel(answers, price=DEAR, max_output=200, **options)


def endless(usage=TURN):
    """Calls of a tool that never end."""
    return [say("", usage=usage) + use("look", n=n) for n in range(200)]


async def test_a_run_ends_at_the_budget_of_its_session_and_goes_on_when_it_is_raised(bench):
    """One request may exceed the budget; the error says how to continue, and continuing works."""
    kit = await bench(
        plugin("tools", look),
        "budgets",
        model=scripted(*endless()),
        settings={"budgets.session.dollars": 0.05, "turns": 100},
    )
    ended = await kit.run("x")
    assert (ended.state, ended.code) == ("partial_success", "E_BUDGET")
    assert 0.035 < ended.usage.cost <= 0.05 + 0.015
    assert "The budget of $0.0500 for this session" in ended.error
    assert "/budget session 0.1 dollars" in ended.hint
    assert "budgets.session.dollars" in ended.hint
    assert "Tools run: look ×" in ended.done

    sent = len(kit.requests)
    assert (await kit.run("go on")).code == "E_BUDGET"
    assert len(kit.requests) == sent

    run = await kit.start("/budget session 0.1 dollars")
    assert "of $0.10 spent" in (await run.wait()).text
    ended = await kit.run("go on")
    assert ended.code == "E_BUDGET"
    assert len(kit.requests) > sent
    assert kit.session.agents["main"].conversation.usage.cost <= 0.1 + 0.015


async def test_without_budgets_nothing_is_refused(bench):
    kit = await bench(plugin("tools", look), "budgets", model=scripted(*endless()[:3], "done"))
    assert (await kit.run("x")).text == "done"
    run = await kit.start("/budget")
    assert "No budget is set." in (await run.wait()).text


async def test_minutes_count_models_and_tools(bench, autojump_clock):
    """Time that a call waits for the user does not count; time that it runs does."""

    @tool(risk="read", timeout=1_000)
    async def wait(n: int = 0) -> str:
        """Wait for five minutes."""
        await trio.sleep(300)
        return "waited"

    kit = await bench(
        plugin("tools", wait),
        "budgets",
        model=scripted(*[use("wait") for _ in range(20)]),
        settings={"budgets.agents": {"main": {"minutes": 12}}},
    )
    ended = await kit.run("x")
    assert ended.code == "E_BUDGET"
    assert ended.error == "The budget of 12 min for the agent main is reached: 15 min spent."
    assert "budgets.agents.main.minutes" in ended.hint
    assert len(kit.results) == 3


async def test_a_request_whose_input_does_not_fit_is_not_sent(bench):
    kit = await bench("budgets", model=scripted("Hi."), settings={"budgets.session.tokens": 1_000})
    ended = await kit.run("word " * 5_000)
    assert ended.code == "E_BUDGET"
    assert "is too small for the next request" in ended.error
    assert not kit.requests


async def test_without_a_price_a_budget_in_dollars_admits_nothing(bench):
    """Unless the user chooses otherwise; the error names both ways out."""
    settings = {"budgets.session.dollars": 1.0}
    kit = await bench("budgets", answers=["Hi."], settings=settings)
    ended = await kit.run("x")
    assert ended.code == "E_BUDGET"
    assert "the price of scripted/model is not known" in ended.error
    assert "budgets.unpriced" in ended.hint
    kit = await bench("budgets", answers=["Hi."], settings=settings | {"budgets.unpriced": "admit"})
    assert (await kit.run("x")).text == "Hi."


async def test_a_model_that_costs_nothing_fits_any_budget_in_dollars(bench):
    free = ScriptedModel(["Hi."], price=Price(0.0, 0.0))
    kit = await bench("budgets", model=free, settings={"budgets.session.dollars": 0})
    assert (await kit.run("x")).text == "Hi."


async def test_a_budget_holds_after_a_resume_and_so_does_its_change(bench, tmp_path):
    """What was spent and what the user changed are read from the log."""
    store = MemoryStore()
    settings = {"budgets.session.tokens": 2_500, "turns": 100}
    options = {"store": store, "folder": tmp_path, "settings": settings}
    kit = await bench(plugin("tools", look), "budgets", model=scripted(*endless()), **options)
    assert (await kit.run("x")).code == "E_BUDGET"
    session = kit.session.id
    kit.session.kernel.store._logs[session].leased = False

    model = scripted(*endless())
    kit = await bench(plugin("tools", look), "budgets", model=model, resume=session, **options)
    assert (await kit.run("y")).code == "E_BUDGET"
    assert not model.requests
    await (await kit.start("/budget session 5000 tokens")).wait()
    assert (await kit.run("y")).code == "E_BUDGET"
    assert 1 <= len(model.requests) <= 3


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("/budget house 5 dollars", "There is no budget 'house'."),
        ("/budget session five dollars", "'five' is not a number."),
        ("/budget session -5 dollars", "'-5' is not an amount."),
        ("/budget session nan tokens", "'nan' is not an amount."),
        ("/budget session 5 euros", "'euros' is not a unit."),
        ("/budget agent", "The name of the agent is missing."),
        ("/budget session", "A budget is an amount with a unit."),
        ("/budget session 5", "A budget is an amount with a unit."),
        ("/budget session $5", "session: $0.00 of $5.00 spent, $5.00 left"),
        ("/budget plugin memory 1,000 tokens", "plugin memory: 0 tokens of 1,000 tokens spent"),
        ("/budget day 1 minute", "day: 0.0 s of 1 min spent"),
        ("/budget day 90 seconds", "day: 0.0 s of 1 min 30 s spent"),
        ("/budget day 2 hours", "day: 0.0 s of 2 h spent"),
    ],
)
async def test_what_the_command_takes(bench, text, reply):
    kit = await bench("budgets", model=scripted())
    assert reply in (await (await kit.start(text)).wait()).text
    if " of " not in reply:
        assert not kit.of(PluginEvent)


async def test_the_command_takes_patterns_which_apply_to_each_name(bench):
    kit = await bench(plugin("tools", look), "budgets", model=scripted(*endless()))
    reply = (await (await kit.start("/budget agent m* 3000 tokens")).wait()).text
    assert reply == "agent main: 0 tokens of 3,000 tokens spent, 3,000 tokens left"
    assert "The budget of 3,000 tokens for the agent main" in (await kit.run("x")).error
    # A name takes precedence, whatever comes first.
    await (await kit.start("/budget agent main 9000 tokens")).wait()
    await (await kit.start("/budget agent * 1 token")).wait()
    assert "The budget of 9,000 tokens for the agent main" in (await kit.run("x")).error
    await (await kit.start("/budget agent main off")).wait()
    reply = (await (await kit.start("/budget")).wait()).text
    assert "No budget is set." in reply


@pytest.mark.parametrize("name", ["agent mian", "plugin memmory", "agent x*"])
async def test_a_budget_for_an_unknown_name_is_reported(bench, name):
    """It may become the name of an agent that starts later."""
    kit = await bench("budgets", model=scripted())
    reply = (await (await kit.start(f"/budget {name} 5 dollars")).wait()).text
    kind, what = name.split()
    assert reply.startswith(f"The session has no {kind} {what!r} so far.")
    known = "agent main" if kind == "agent" else "plugin budgets"
    reply = (await (await kit.start(f"/budget {known} 5 dollars")).wait()).text
    assert "so far" not in reply


async def test_a_budget_can_be_removed_for_a_session(bench):
    kit = await bench("budgets", model=scripted("Hi."), settings={"budgets.session.tokens": 1})
    assert (await kit.run("x")).code == "E_BUDGET"
    assert "No budget is set." in (await (await kit.start("/budget session off")).wait()).text
    assert (await kit.run("x")).text == "Hi."


def test_a_project_can_only_lower_budgets(tmp_path):
    """A cloned repository raises no limit, neither by a name nor by a pattern."""
    folder = tmp_path / ".hilum"
    folder.mkdir()

    def read(text):
        (folder / "settings.toml").write_text(text)
        environ = {"HILUM_CONFIG": str(tmp_path / "none"), "HOME": str(tmp_path)}
        user = tmp_path / "none" / "settings.toml"
        user.parent.mkdir(exist_ok=True)
        user.write_text("[budgets.session]\ndollars = 1.0\n[budgets.agents.'*']\ndollars = 1.0\n")
        return load([BudgetSettings], workspace=tmp_path, environ=environ)

    lowered = read("[budgets.session]\ndollars = 0.5\ntokens = 1000\n").get(BudgetSettings)
    assert (lowered.session.dollars, lowered.session.tokens) == (0.5, 1000)
    raised = read("[budgets.session]\ndollars = 9.0\n[budgets]\nunpriced = 'admit'\n")
    assert raised.get(BudgetSettings).session.dollars == 1.0
    assert raised.get(BudgetSettings).unpriced == "refuse"
    assert len(raised.ignored) == 2
    # A name adds a budget; the pattern still applies.
    named = read("[budgets.agents.main]\ndollars = 9.0\n").get(BudgetSettings)
    assert named.agents["*"].dollars == 1.0


async def test_a_name_does_not_raise_the_limit_of_a_pattern(bench):
    kit = await bench(
        plugin("tools", look),
        "budgets",
        model=scripted(*endless()),
        settings={"budgets.agents": {"*": {"tokens": 3_000}, "main": {"tokens": 900_000}}},
    )
    ended = await kit.run("x")
    assert "The budget of 3,000 tokens for the agent main" in ended.error


async def test_a_damaged_file_of_the_day_refuses_requests(bench, tmp_path):
    """The budget cannot be checked, so nothing is sent, and the error says why."""
    kit = await bench("budgets", model=scripted("Hi."), settings={"budgets.day.dollars": 1.0})
    (kit.folder / "data" / "budgets.db").write_bytes(b"no database at all" * 100)
    ended = await kit.run("x")
    assert (ended.state, ended.code) == ("partial_success", "E_STORE")
    assert "The budget of the day cannot be checked" in ended.error
    assert not kit.requests


async def test_a_request_that_waits_for_room_can_be_stopped(bench, autojump_clock):
    """And the request in flight is not affected."""
    entered = trio.Event()

    @tool(risk="read", timeout=1e6)
    async def two(call: Call) -> str:
        """Ask twice at once."""
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(ask, call.agent)
        return "done"

    async def ask(agent):
        await models.ask_model(agent, "", "Sample.", "?", purpose="two")

    def answer(request):
        if request.agent.endswith("/two"):
            entered.set()
            return [pause(20.0)] * 100 + [say("late")]
        return use("two")

    kit = await bench(
        plugin("asking", two),
        "budgets",
        model=scripted(*[answer] * 9),
        settings={"budgets.session.tokens": 500, "silence": 1e6},
    )
    run = await kit.start("x")
    await entered.wait()
    await trio.testing.wait_all_tasks_blocked()
    assert len(kit.requests) == 2
    run.stop()
    assert (await run.wait()).state == "stopped"


async def test_a_plugin_may_ask_a_model_when_it_closes(bench):
    """Budgets close after it, so that they still apply."""
    asked = []

    async def open_session(session):
        yield object()
        agent = session.agents["main"]
        asked.append(await models.ask_model(agent, "", "Learn.", "?", purpose="learn"))

    model = scripted("Learned.")
    async with open_bench(
        plugin("late", open_session=open_session),
        "budgets",
        model=model,
        settings={"budgets.day.dollars": 1.0},
    ):
        pass
    assert [message.text for message in asked] == ["Learned."]


class Reserved:
    """A process of its own that reserves a request and is killed."""

    CODE = """
import sys
from pathlib import Path
from hilum_trace.bill.budgets.amounts import Amount, Estimate
from hilum_trace.bill.budgets.budget_file import BudgetFile
request = Estimate(Amount(0.1, 100), Amount(0.2, 200, 1.0))
print(BudgetFile(Path(sys.argv[1])).add(request, 3600.0), flush=True)
sys.stdin.read()
"""

    def __init__(self, path):
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.CODE, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.line = self.process.stdout.readline()

    def kill(self):
        self.process.kill()
        self.process.communicate()


def test_requests_of_other_processes_are_seen_until_they_are_killed(tmp_path):
    path = tmp_path / "data" / "budgets.db"
    file = BudgetFile(path)
    request = Estimate(Amount(1.0, 10), Amount(2.0, 20, 3.0))
    number, before = file.add(request, 60.0)
    assert before == []
    assert path.stat().st_mode & 0o777 == 0o600
    other = Reserved(path)
    try:
        assert "dollars=1.0" in other.line
        _, before = file.add(request, 60.0)
        assert len(before) == 2
    finally:
        other.kill()
    file.remove(number)
    _, before = file.add(request, 60.0)
    assert before == [request]  # only the second one; the killed process has none


def test_requests_that_expired_are_forgotten(tmp_path):
    file = BudgetFile(tmp_path / "budgets.db")
    request = Estimate(Amount(), Amount(1.0, 1, 1.0))
    file.add(request, -1.0)
    assert file.add(request, 60.0)[1] == []


def test_what_was_spent_on_a_day_never_becomes_less(tmp_path):
    file = BudgetFile(tmp_path / "budgets.db")
    assert file.record("2026-01-31", {"a": Amount(1.0, 10, 0.5)}) == Amount(1.0, 10, 0.5)
    assert file.record("2026-01-31", {"b": Amount(2.0, 20, 1.0)}) == Amount(3.0, 30, 1.5)
    assert file.record("2026-01-31", {"a": Amount(0.5, 11, 0.1)}) == Amount(3.0, 31, 1.5)
    assert file.record("2026-02-01", {}) == Amount()
    assert file.record("2026-02-05", {}) == Amount()
    assert file.record("2026-01-31", {}) == Amount()  # of a day that was over long ago


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE requests SET pid = 'text'",
        "UPDATE requests SET pid = -1",
        "UPDATE requests SET tokens = 'text'",
        "UPDATE requests SET dollars = -5.0",
        "UPDATE requests SET minutes = 9e999",
        "UPDATE spending SET tokens = -1000000000000",
        "UPDATE spending SET dollars = 'text'",
        "UPDATE spending SET minutes = x'ff'",
        "UPDATE spending SET tokens = 9e999",
    ],
)
async def test_a_file_with_impossible_numbers_refuses_requests(bench, change):
    """A negative amount would make the budget larger, and a text would be a crash."""
    kit = await bench("budgets", model=scripted("Hi."), settings={"budgets.day.dollars": 1.0})
    file = BudgetFile(kit.folder / "data" / "budgets.db")
    file.add(Estimate(Amount(), Amount(0.1, 1, 1.0)), 60.0)
    file.record(time.strftime("%Y-%m-%d"), {"other": Amount(0.1, 1, 1.0)})
    with closing(sqlite3.connect(kit.folder / "data" / "budgets.db")) as database:
        database.execute(change)
        database.commit()
    ended = await kit.run("x")
    assert ended.code == "E_STORE"
    assert "budgets.db is damaged: the table" in ended.error
    assert not kit.requests


def test_the_process_of_a_request_may_have_any_number(tmp_path):
    """A number that no process can have is that of a process that has ended."""
    file = BudgetFile(tmp_path / "budgets.db")
    request = Estimate(Amount(), Amount(1.0, 1, 1.0))
    file.add(request, 60.0)
    with closing(sqlite3.connect(tmp_path / "budgets.db")) as database:
        database.execute(f"UPDATE requests SET pid = {2**62}")
        database.commit()
    assert file.add(request, 60.0)[1] == []


async def test_a_request_of_any_size_can_be_checked(bench):
    """Another program may ask for more tokens than SQLite can count."""
    kit = await bench("budgets", settings={"budgets.day.tokens": 5_000})
    call = models.ModelCall(
        model="a/b", input=2**63, max_output=10**400, price=DEAR, plugin="", purpose=""
    )
    budgets = kit.session.plugin(SessionBudgets)
    refused = await budgets.on_model_call(kit.session.agents["main"], call)
    assert refused.code == "E_BUDGET"


async def test_one_deep_log_does_not_stop_all_work_under_a_budget_of_the_day(tmp_path):
    """What is damaged in one session is the problem of this session."""
    environ = {"HILUM_DATA": str(tmp_path), "HILUM_CONFIG": str(tmp_path), "HOME": str(tmp_path)}
    settings = {"model": "scripted/model", "budgets.day.tokens": 3_000}
    (tmp_path / "work").mkdir()
    for round_ in range(2):
        async with hilum.open_kernel(
            ["budgets", "store"], settings=settings, environ=environ
        ) as kernel:
            kernel.router.replace(ModelProvider({"model": scripted(say("Hi.", usage=TURN))}))
            async with kernel.open_session(tmp_path / "work") as session:
                ended = await session.run("x")
        assert ended.code == "", round_
        with closing(sqlite3.connect(tmp_path / "sessions.db")) as database:
            deep = b'{"type":"plugin_event","seq":3,"name":"x","data":{"x":' + b"[" * 50_000
            database.execute("UPDATE events SET data = ? WHERE key & 0xffffffff = 3", (deep,))
            database.commit()


async def test_deleting_a_session_gives_nothing_back_to_the_day(tmp_path):
    store = MemoryStore()
    environ = {"HILUM_DATA": str(tmp_path), "HILUM_CONFIG": str(tmp_path), "HOME": str(tmp_path)}
    codes = []
    for _ in range(6):
        async with hilum.open_kernel(
            ["budgets"],
            settings={"model": "scripted/model", "budgets.day.tokens": 3_000},
            store=store,
            environ=environ,
        ) as kernel:
            model = scripted(say("Hi.", usage=TURN))
            kernel.router.replace(ModelProvider({"model": model}))
            async with kernel.open_session(tmp_path) as session:
                ended = await session.run("x")
            codes.append(ended.code)
            await store.delete(session.id)
    assert codes == ["", "", "", "E_BUDGET", "E_BUDGET", "E_BUDGET"]
    assert "3,300 tokens spent" in ended.error


async def run_once(tmp_path, store, **settings):
    """Run one prompt, whose answer has 1,100 tokens, in a session of its own."""
    environ = {"HILUM_DATA": str(tmp_path), "HILUM_CONFIG": str(tmp_path), "HOME": str(tmp_path)}
    settings = {"model": "scripted/model", **settings}
    async with hilum.open_kernel(
        ["budgets"], settings=settings, store=store, environ=environ
    ) as kernel:
        kernel.router.replace(ModelProvider({"model": scripted(say("Hi.", usage=TURN))}))
        async with kernel.open_session(tmp_path) as session:
            return await session.run("x")


@pytest.mark.parametrize("data", [b"no event", b'{"type": "dreamt", "seq": 2}'])
async def test_one_unreadable_event_gives_nothing_back_to_the_day(tmp_path, data):
    """What follows it in the log counts as well."""
    path = tmp_path / "sessions.db"
    await run_once(tmp_path, SqliteStore(path))
    with sqlite3.connect(path) as file:
        file.execute("UPDATE events SET data = ? WHERE key & 0xffffffff = 2", (data,))
    file.close()
    ended = await run_once(tmp_path, SqliteStore(path), **{"budgets.day.tokens": 1_100})
    assert ended.code == "E_BUDGET"
    assert "1,100 tokens spent" in ended.error


class UnreadableStore(MemoryStore):
    """A store that cannot read the logs of sessions, and has no raw access to them."""

    async def read(self, session, after=0, limit=1000):
        raise hilum.StoreError("The file is damaged.")


async def test_a_log_that_no_store_can_read_refuses_requests(tmp_path):
    """Without raw access, the budget cannot be checked."""
    ended = await run_once(tmp_path, UnreadableStore(), **{"budgets.day.tokens": 90_000})
    assert (ended.state, ended.code) == ("partial_success", "E_STORE")
    assert "The budget of the day cannot be checked: The file is damaged." in ended.error


def count_reservations(tmp_path):
    with sqlite3.connect(tmp_path / "budgets.db") as file:
        (count,) = file.execute("SELECT count(*) FROM requests").fetchone()
    file.close()
    return count


async def test_a_cancelled_request_gives_its_reservation_back(tmp_path):
    """Whenever the cancellation arrives: while it is recorded, or before it is removed."""
    request = Estimate(Amount(1.0, 10), Amount(2.0, 20, 3.0))
    environ = {"HILUM_DATA": str(tmp_path), "HILUM_CONFIG": str(tmp_path), "HOME": str(tmp_path)}
    async with hilum.open_kernel(["budgets"], store=MemoryStore(), environ=environ) as kernel:
        day = DayBudget(kernel, lambda model: DEAR, 3_600.0)
        _, number = await day.reserve(Limits(tokens=1_000), request)
        assert count_reservations(tmp_path) == 1
        with trio.CancelScope() as scope:
            scope.cancel()
            await day.end_request(number, "s")
        assert count_reservations(tmp_path) == 0

        with trio.CancelScope() as scope:

            async def cancel_and_read():
                scope.cancel()
                return Amount(tokens=1_000)

            day.spent = cancel_and_read
            await day.reserve(Limits(tokens=1_000), request)
        assert count_reservations(tmp_path) == 0


NO_AMOUNTS = [float("nan"), float("inf"), -float("inf"), -1e9, 1e300]


@pytest.mark.parametrize("number", NO_AMOUNTS)
def test_numbers_of_a_log_that_cannot_be_right_count_nothing(number):
    """A log from another machine may contain any numbers; none raises or removes a budget."""
    usage = Usage(input=1_000, output=-(10**30), cost=number)
    events = [
        ModelAnswered(message=AssistantMessage(()), usage=TURN, seconds=6.0),
        ModelAnswered(message=AssistantMessage(()), usage=usage, seconds=number),
        ModelUsed(model="a/b", purpose="x", usage=usage, seconds=number),
        CallDone(result=ToolResult("c", "look", ()), seconds=number),
        PluginEvent(name=CHANGED, data={"budget": "session", "unit": "dollars", "limit": number}),
        PluginEvent(name=CHANGED, data={"budget": "session", "unit": "tokens", "limit": "many"}),
        PluginEvent(name=CHANGED, data={"budget": "session", "unit": ["tokens"], "limit": 5}),
    ]
    fold = SpendingFold(lambda model: DEAR)
    fold.apply(events)
    assert fold.total == Amount(0.0, 3_100, 0.1)
    assert fold.longest == 0.1
    assert fold.changes.get("session", {}).get("dollars") in (None, 1e300)
    assert "tokens" not in fold.changes.get("session", {})


async def test_what_is_spent_of_budgets_is_shown_and_warned_of_once(bench):
    """The view, from which terminals and pages read, has the latest amounts."""
    kit = await bench(
        plugin("tools", look),
        "budgets",
        model=scripted(*endless()),
        settings={
            "budgets.session.tokens": 11_000,
            "budgets.agents": {"*": {"dollars": 90.0}},
            "turns": 100,
        },
    )
    assert (await kit.run("x")).code == "E_BUDGET"
    view = SessionView().apply_all(kit.events)
    session, agent = view.budgets.all.values()
    assert (session.describe(), session.is_nearly_spent) == ("11,000 of 11,000 tokens", True)
    assert (agent.budget, agent.unit, agent.limit) == ("agent main", "dollars", 90.0)
    assert not agent.is_nearly_spent
    assert view.budgets.tightest == session
    notices = [entry.text for entry in view.entries if isinstance(entry, Notice)]
    assert [text for text in notices if "nearly used up" in text] == [
        "The budget for this session is nearly used up: 8,800 of 11,000 tokens spent."
    ]
    # An event is written only when another per cent is spent.
    assert len([each for each in kit.of(PluginEvent) if each.name == SPENT]) < 20

    await (await kit.start("/budget session 22000 tokens")).wait()
    assert (await kit.run("go on")).code == "E_BUDGET"
    view = SessionView().apply_all(kit.events)
    assert view.budgets.all["session", "tokens"].limit == 22_000
    warnings = [each for each in kit.of(PluginEvent) if each.name == "budgets.warned"]
    assert [each.data["limit"] for each in warnings] == [11_000, 22_000]

    await (await kit.start("/budget session off")).wait()
    view = SessionView().apply_all(kit.events)
    assert ("session", "tokens") not in view.budgets.all


async def test_the_budget_of_the_day_is_shown_with_what_other_sessions_spent(bench):
    kit = await bench(
        "budgets",
        model=scripted(say("Hi.", usage=TURN), say("Hi.", usage=TURN)),
        settings={"budgets.day.tokens": 100_000},
    )
    file = BudgetFile(kit.folder / "data" / "budgets.db")
    day = time.strftime("%Y-%m-%d")
    file.record(day, {"another": Amount(0.0, 50_000, 0.0)})
    await kit.run("x")
    await kit.run("y")
    view = SessionView().apply_all(kit.events)
    assert view.budgets.all["day", "tokens"].spent >= 51_100


async def test_a_resumed_session_shows_the_limits_of_today_and_not_those_of_before(bench, tmp_path):
    """Also if its first request is refused, and if a limit was removed."""
    store = MemoryStore()
    options = {"store": store, "folder": tmp_path}
    settings = {"budgets.session.tokens": 90_000, "budgets.session.dollars": 9.0}
    answer = say("Hi.", usage=TURN)
    kit = await bench("budgets", model=scripted(answer), settings=settings, **options)
    await kit.run("x")
    session = kit.session.id
    store._logs[session].leased = False
    settings = {"budgets.session.tokens": 1_000}
    kit = await bench(
        "budgets", model=scripted(answer), settings=settings, resume=session, **options
    )
    assert (await kit.run("y")).code == "E_BUDGET"
    view = SessionView().apply_all(await store.read(session))
    assert {key: each.limit for key, each in view.budgets.all.items()} == {
        ("session", "tokens"): 1_000
    }


async def test_without_budgets_nothing_is_shown(bench):
    kit = await bench("budgets", model=scripted("Hi."))
    await kit.run("x")
    assert not kit.of(PluginEvent)


async def test_requests_are_refused_while_the_plugin_does_not_work(bench):
    """The gate fails closed."""
    kit = await bench("budgets", model=scripted("Hi."), settings={"budgets.session.dollars": 1.0})
    kit.session.hooks.remove("budgets", "it crashed")
    ended = await kit.run("x")
    assert (ended.state, ended.code) == ("partial_success", "E_PLUGIN")
    assert "--no-plugin budgets" in ended.hint
    assert not kit.requests
