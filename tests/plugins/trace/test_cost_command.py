"""``hilum cost``: which sessions it adds up, and what it prints."""

import csv
import io
import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import hilum
import pytest
import trio
from hilum import UsageError, tool
from hilum.events import ModelUsed
from hilum.messages import Price, Usage
from hilum.testing import ModelProvider, ScriptedModel, plugin, say, use
from hilum_trace.bill.bill import Bill, ChargedSession
from hilum_trace.bill.charges import fold_charges
from hilum_trace.bill.cost_command import main, parse_since
from hilum_trace.bill.cost_format import format_table

PRICE = Price(10.0, 50.0, 1.0)
TURN = Usage(input=1_000, cached=400, output=100)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user's folders, and a project in which commands run."""
    for name, folder in (("HILUM_DATA", "data"), ("HILUM_CONFIG", "config"), ("HOME", "home")):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv(name, str(tmp_path / folder))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


async def _work(folder, prompts, price, fork):
    model = ScriptedModel([say("Hi.", usage=TURN)] * prompts, price=price)
    async with hilum.open_kernel(["store"], settings={"model": "scripted/model"}) as kernel:
        kernel.router.replace(ModelProvider({"model": model}))
        async with kernel.open_session(folder) as session:
            for _ in range(prompts):
                await session.run("Hi.")
        if fork:
            await kernel.fork(session.id)
    return session.id


def work(folder, prompts=2, price=PRICE, fork=False):
    """Work in a folder, and return the id of the session."""
    folder.mkdir(exist_ok=True)
    return trio.run(_work, folder, prompts, price, fork)


def cost(capsys, *arguments):
    """Return what the command prints."""
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def test_the_table_of_a_folder(home, capsys):
    work(home / "project")
    work(home / "other", prompts=5)
    text = cost(capsys)
    header, row, total = text.splitlines()
    assert header.split() == [
        "MODEL", "COST", "SHARE", "INPUT", "CACHED", "OUTPUT", "REQUESTS", "TIME",
    ]  # fmt: skip
    assert row.split()[:7] == ["scripted/model", "$0.0228", "100.0%", "2,000", "40%", "200", "2"]
    assert total.split()[0] == "total"
    assert "7" in cost(capsys, "--all").splitlines()[-1].split()
    projects = cost(capsys, "--all", "--by", "project").splitlines()
    assert projects[1].split()[0].endswith("other")


def test_a_copy_of_a_session_is_counted_once(home, capsys):
    work(home / "project", fork=True)
    data = json.loads(cost(capsys, "--json", "--by", "session"))
    assert data["sessions"] == 2
    assert [row["requests"] for row in data["rows"]] == [2]
    assert data["total"]["input"] == 2_000


async def _ask_beside_runs(folder):
    """Ask a model for a plugin, outside of any run, and copy the session."""
    model = ScriptedModel([say("Hi.", usage=TURN)], price=PRICE)
    async with hilum.open_kernel(["store"], settings={"model": "scripted/model"}) as kernel:
        kernel.router.replace(ModelProvider({"model": model}))
        async with kernel.open_session(folder) as session:
            await session.run("Hi.")
            session.emit(
                ModelUsed(model="scripted/model", purpose="learn", plugin="mine", usage=TURN),
                session.agents["main"],
            )
        await kernel.fork(session.id)
        await kernel.fork(await kernel.fork(session.id))


def test_a_copy_is_counted_once_also_for_requests_outside_of_runs(home, capsys):
    trio.run(_ask_beside_runs, home / "project")
    data = json.loads(cost(capsys, "--json", "--by", "plugin"))
    assert data["sessions"] == 4
    assert data["total"]["requests"] == 2
    assert data["total"]["input"] == 2_000


def test_one_session_by_turn(home, capsys):
    identity = work(home / "project")
    for name in (identity, identity[:-3], "last"):
        text = cost(capsys, "--session", name, "--by", "turn")
        assert f"{identity} main, prompt 2, turn 1" in text


def test_what_is_not_known_is_said(home, capsys):
    work(home / "project", price=None)
    text = cost(capsys)
    assert "?" in text.splitlines()[1]
    assert "No price is known for 2,200 tokens" in text
    data = json.loads(cost(capsys, "--json"))
    assert data["total"]["cost"] is None
    assert data["unknown"]["unpriced_tokens"] == 2_200


def test_a_damaged_log_hides_no_other(home, capsys):
    """What can be read of it is added, and the damage is named."""
    damaged = work(home / "project")
    work(home / "project")
    with closing(sqlite3.connect(home / "data" / "sessions.db")) as database, database:
        database.execute(
            "UPDATE events SET data = x'00' WHERE key IN (SELECT min(key) FROM events)"
        )
    text = cost(capsys)
    assert text.splitlines()[1].split()[6] == "4"
    note = f"Not everything is included: session {damaged}: The log is damaged at entry 1."
    assert note in text
    only = json.loads(cost(capsys, "--json", "--session", damaged))
    assert only["total"]["requests"] == 2
    assert damaged in only["unknown"]["unreadable"][0]


def test_csv_is_read_back(home, capsys):
    work(home / "project")
    rows = list(csv.DictReader(io.StringIO(cost(capsys, "--csv", "--by", "day"))))
    assert [row["day"] for row in rows] == [time.strftime("%Y-%m-%d")]
    assert rows[0]["input"] == "2000"


def test_since_leaves_out_what_was_before(home, capsys):
    work(home / "project")
    assert "scripted/model" in cost(capsys, "--since", "1h")
    later = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() + 3_600))
    with pytest.raises(UsageError, match="is in the future"):
        cost(capsys, "--since", later)
    assert "There are no sessions that were used since then." in cost(capsys, "--since", "0m")


def test_times_of_since():
    now = time.mktime((2026, 11, 29, 10, 30, 0, 0, 0, -1))
    assert parse_since("90m", now) == now - 5_400
    assert parse_since("7d", now) == now - 7 * 86_400
    assert parse_since("today", now) == time.mktime((2026, 11, 29, 0, 0, 0, 0, 0, -1))
    assert parse_since("2026-11-01", now) == time.mktime((2026, 11, 1, 0, 0, 0, 0, 0, -1))
    assert parse_since("999999w", now) == 0.0
    assert parse_since("1h30m", now) == now - 5_400
    assert parse_since("7 days", now) == now - 7 * 86_400
    assert parse_since("2 weeks 1 day", now) == now - 15 * 86_400
    assert parse_since("Yesterday", now) == time.mktime((2026, 11, 28, 0, 0, 0, 0, 0, -1))
    afternoon = time.mktime((2026, 11, 1, 14, 30, 0, 0, 0, -1))
    assert parse_since("2026-11-01 14:30", now) == afternoon
    assert parse_since("2026-11-01T14:30:00", now) == afternoon


@pytest.mark.parametrize("text", ["", " ", "7", "d", "2026-13-01", "-7d", "7 dayz", "1h 30"])
def test_other_times_are_refused(text):
    with pytest.raises(UsageError, match="not a time for --since") as raised:
        parse_since(text, 0.0)
    assert raised.value.code == "E_BAD_ARGS"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--by", "colour"], "invalid choice"),
        (["--limit", "-1"], "--limit must not be negative"),
        (["--json", "--csv"], "not allowed with"),
        (["--session", "20200101"], "no session"),
        (["--session", "last"], "no session in .*project"),
        (["--sinc", "7d"], "[Uu]nrecognized"),
    ],
)
def test_bad_arguments(home, arguments, problem):
    with pytest.raises(hilum.HilumError, match=f"(?i){problem}"):
        main(arguments)


def test_help_explains_the_ways_to_divide(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for word in ("--by", "plugin", "--since", "7d", "--csv", "budgets"):
        assert word in text


def test_the_command_is_installed(home):
    """Through the entry point, as the user runs it."""
    done = subprocess.run(
        [sys.executable, "-m", "hilum", "cost"], capture_output=True, text=True, env=os.environ
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "There are no sessions in" in done.stdout


@tool(risk="read")
async def look() -> str:
    """Look."""
    return "seen"


async def _mixed(folder):
    """A session with a call, a sub-agent with a title, and a model without a price."""
    priced = ScriptedModel([use("look"), say("Hi.", usage=TURN)], price=PRICE)
    free = ScriptedModel([say("Hi.", usage=TURN)])
    models = {"priced": priced, "free": free}
    settings = {"model": "scripted/priced"}
    plugins = ["store", plugin("tools", look)]
    async with hilum.open_kernel(plugins, settings=settings) as kernel:
        kernel.router.replace(ModelProvider(models))
        async with kernel.open_session(folder) as session:
            await session.run("Hi.")
            session.set(model="scripted/free")
            session.note("agents.queued", actor="task-1", title="Find the\x1b[2J tests")
            agent = session.add_agent(hilum.Profile(name="task-1"), parent="main")
            await session.run("Hi.", agent=agent.name)
    return session.id


def test_the_rows_add_up_and_what_has_no_price_has_no_share(home, capsys):
    trio.run(_mixed, home / "project")
    data = json.loads(cost(capsys, "--json"))
    for field in ("requests", "calls", "input", "output"):
        assert sum(row[field] for row in data["rows"]) == data["total"][field]
    seconds = sum(row["seconds"] for row in data["rows"])
    assert seconds == pytest.approx(data["total"]["seconds"], abs=0.002)
    rows = {line.split()[0]: line.split() for line in cost(capsys).splitlines()[1:5]}
    assert rows["scripted/priced"][2] == "100.0%"
    assert rows["scripted/free"][1:3] == ["?", "?"]
    assert rows["(tools)"][-4:-2] == ["0", "1"]


def test_sub_agents_are_shown_with_their_titles(home, capsys):
    trio.run(_mixed, home / "project")
    text = cost(capsys, "--by", "agent")
    assert "task-1: Find the" in text
    assert "\x1b" not in text


def test_amounts_have_no_digits_that_mean_nothing(home, capsys):
    work(home / "project", prompts=3, price=Price(0.1, 0.7, 0.3))
    (row,) = csv.DictReader(io.StringIO(cost(capsys, "--csv")))
    assert row["cost"] == "0.00075"
    assert len(row["seconds"]) <= 5


def test_a_narrow_terminal_shows_fewer_columns(home):
    bill = Bill("plugin")
    charges = [ModelUsed(model="a/b", purpose="p", plugin="mine", usage=TURN, seconds=2.0)]
    for charge in fold_charges(charges):
        bill.add(charge, ChargedSession("s", "/folder"))
    wide = format_table(bill, 0)
    assert "MOSTLY" in wide
    narrow = format_table(bill, 0, 48).splitlines()
    assert max(map(len, narrow[:3])) <= 48
    assert narrow[0].startswith("PLUGIN")
    assert narrow[3].startswith("Without room here: MOSTLY, ")
