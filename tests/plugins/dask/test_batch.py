"""``hilum batch`` on this machine, with real sessions against a scripted model over HTTP."""

import json
import subprocess
import sys

import pytest
import trio
from hilum.messages import AssistantMessage, Text, ToolCall, Usage
from hilum_dask.costs import CostLimit
from hilum_replay.faults import Fault
from hilum_replay.server import Answer

pytestmark = pytest.mark.slow(cases=4, of="file")

PRICES = ("--set", 'models.models."openai/scripted".price={input=1.0,output=1000.0}')


def say(text, *, output=10):
    """Return an answer that used a number of tokens."""
    return Answer(AssistantMessage((Text(text, "model"),), "m"), Usage(input=100, output=output))


async def solve(request):
    """A model that writes the file that the prompt names, and then says so."""
    messages = request.body.decode()
    name = messages.partition("task:")[2].split()[0]
    if '"role":"tool"' in messages.replace(" ", ""):
        return say(f"I wrote {name}.")
    arguments = json.dumps({"path": f"{name}.txt", "content": f"{name}\n"})
    return AssistantMessage((ToolCall("c1", "write_file", arguments),), stop="calls")


async def test_sessions_solve_tasks_in_workspaces_of_their_own(batch, repo):
    """Results, patches, sessions and verify commands; a second start has nothing to do."""
    tasks = batch.tasks(
        {"id": "a/1", "prompt": "task:one please", "verify": "grep -q one one.txt"},
        {"id": "b", "prompt": "task:two please", "verify": "test -e missing.txt"},
        "task:three please",
    )
    options = (tasks, "--out", "out", "--repo", "repo", "--approve", "auto", "--jobs", "2")
    async with batch.model(solve) as server:
        done = await batch(*options, "--parquet", "table.parquet")
        assert done.code == 3, done.err
        assert "2 of 3 tasks solved, 0 open." in done.out
        assert "b: completed, but its verify command failed" in done.err
        rows = batch.rows
        assert list(rows) == ["a/1", "b", "3"]
        assert {row["state"] for row in rows.values()} == {"completed"}, rows
        assert (rows["a/1"]["passed"], rows["b"]["passed"]) == (True, False)
        assert rows["a/1"]["text"] == "I wrote one."
        assert rows["3"]["input"] == 100
        patch = batch.out / rows["a/1"]["patch"]
        await trio.run_process(["git", "apply", patch], cwd=repo)
        assert (repo / "one.txt").read_text() == "one\n"
        assert not list((batch.out / "work").iterdir())
        count = len(server.requests)
        again = await batch(*options, "--json")
        assert (again.code, json.loads(again.out)["solved"]) == (3, 2)
        assert len(server.requests) == count
        assert batch.rows == rows
    check_parquet(batch.folder / "table.parquet")
    trace = await batch("trace", "out", "a/1")
    assert "write_file" in trace.out
    status = await batch("status", "out", "--tasks", "--json")
    found = json.loads(status.out)
    assert (found["tasks"], found["solved"], found["driver"]) == (3, 2, None)
    assert found["rows"][0] == {"id": "a/1", "state": "completed"}


def check_parquet(path):
    """Check that the table has a row for each task, and typed columns."""
    # pyarrow leaves threads to a test that imports it.
    code = (
        "import pyarrow.parquet, sys; table = pyarrow.parquet.read_table(sys.argv[1]);"
        "print(table.num_rows, table.schema.field('passed').type, table['id'].to_pylist())"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert done.stdout == "3 bool ['a/1', 'b', '3']\n", done.stderr


async def test_sessions_are_in_the_folder_of_the_batch(batch):
    """Also if the user's sessions are in a database: costs and traces are read from the folder."""
    pytest.importorskip("hilum_postgres")
    database = "postgresql://127.0.0.1:1/missing"
    async with batch.model(lambda request: say("Done.")):
        done = await batch(batch.tasks("task:x"), "--out", "out", HILUM_POSTGRES_URL=database)
        assert done.code == 0, done.err
    assert "openai/scripted" in (await batch("trace", "out", "1")).out


async def test_failures_that_may_pass_are_repeated(batch):
    """The provider refuses at first; the result says how many attempts there were."""
    faults = [Fault(status=429, headers={"retry-after": "1000"})]
    async with batch.model(lambda request: say("Done."), faults=faults) as server:
        done = await batch(batch.tasks("task:one"), "--out", "out")
    assert done.code == 0, done.err
    assert "1: attempt 1 failed (E_LLM_429" in done.err
    assert (batch.rows["1"]["attempts"], len(server.requests)) == (2, 2)


async def test_the_cost_of_all_tasks_is_limited(batch):
    """Each task reserves its share; the limit is exceeded by one answer for each running task."""
    tasks = batch.tasks(*({"id": f"t{number}", "prompt": "task:x"} for number in range(6)))
    options = (tasks, "--out", "out", "--jobs", "2", *PRICES)

    async def script(request):
        return say("Done.", output=100)  # ten cents

    async with batch.model(script) as server:
        done = await batch(*options, "--budget", "0.35", "--json")
        found = json.loads(done.out)
        assert done.code == 3, done.err
        assert found["budget_reached"]
        assert 0 < found["open"] < 6
        assert found["cost"] <= 0.35 + 2 * 0.1001
        assert found["cost"] >= 0.25
        requests = len(server.requests)
        # The same command with the same limit starts nothing.
        done = await batch(*options, "--budget", "0.35", "--json")
        assert json.loads(done.out)["open"] == found["open"]
        assert len(server.requests) == requests
        done = await batch(*options, "--budget", "10", "--json")
        assert (done.code, json.loads(done.out)["open"]) == (0, 0), done.err
        assert len(batch.rows) == 6


async def test_a_task_goes_on_when_others_gave_back_their_share(batch):
    """Its session continues, so that nothing is paid for twice."""
    tasks = batch.tasks(
        {"id": "cheap", "prompt": "task:cheap"}, {"id": "dear", "prompt": "task:dear"}
    )
    turns = 0

    async def script(request):
        nonlocal turns
        text = request.body.decode()
        if "task:cheap" in text:
            return say("Done.", output=1)
        turns += 1
        if turns < 8:
            call = ToolCall(f"c{turns}", "write_file", f'{{"path": "{turns}", "content": ""}}')
            return Answer(AssistantMessage((call,), stop="calls"), Usage(input=1, output=100))
        return say("At last.", output=1)

    async with batch.model(script):
        done = await batch(
            tasks, "--out", "out", "--jobs", "2", "--budget", "1.0", "--approve", "auto", *PRICES
        )
    rows = batch.rows
    assert done.code == 0, (done.err, rows)
    assert rows["dear"]["text"] == "At last."
    assert rows["dear"]["attempts"] == 2
    assert 0.7 < rows["dear"]["task_cost"] < 0.8
    assert turns == 8
    patch = (batch.out / rows["dear"]["patch"]).read_text()
    assert patch.count("diff --git") == 7


async def test_a_share_that_was_too_small_grows(batch):
    """Fewer tasks run at once, until the rest of the budget is too small for a single one."""
    tasks = batch.tasks(*({"id": f"t{number}", "prompt": "task:x"} for number in range(12)))

    async def script(request):
        return say("Done.", output=60)  # six cents

    # The price of the input makes a request cost more than a third of what is left at the end.
    price = 'models.models."openai/scripted".price={input=8.0,output=1000.0}'
    options = ("--jobs", "3", "--budget", "0.3", "--json", "--set", price)
    async with batch.model(script) as server:
        done = await batch(tasks, "--out", "out", *options)
    found = json.loads(done.out)
    assert done.code == 3, done.err
    assert found["budget_reached"]
    assert len(server.requests) == len(batch.rows) == 5


def test_a_share_grows_up_to_everything_that_is_left():
    """After a share that was too small, the next one is larger, or the limit is reached."""
    limit = CostLimit(0.3, 0.0, spent=0.18)
    share = limit.reserve(3, 9)
    assert share == pytest.approx(0.04)
    limit.settle(share, None, is_finished=False)
    grown = limit.reserve(3, 9, too_small=share)
    assert grown == pytest.approx(0.08)
    # The rest is not larger than the share that was too small, so the task waits for the other one.
    assert limit.reserve(3, 8, too_small=share) is None
    assert not limit.is_reached
    limit.settle(grown, None, is_finished=False)
    everything = limit.reserve(3, 9, too_small=grown)
    assert everything == pytest.approx(0.12)
    limit.settle(everything, None, is_finished=False)
    assert limit.reserve(3, 9, too_small=everything) is None
    assert limit.is_reached


async def test_a_model_without_a_price_is_refused_under_a_limit(batch):
    """A limit that cannot be kept is no limit."""
    async with batch.model(lambda request: say("Done.")) as server:
        done = await batch(batch.tasks("task:x"), "--out", "out", "--budget", "1")
        assert done.code == 3
        assert not server.requests
    assert batch.rows == {} or "price" in batch.rows["1"]["error"]


async def test_a_model_that_stops_answering_ends_with_the_time_limit(batch):
    """The other tasks go on."""

    async def script(request):
        if "task:slow" in request.body.decode():
            await trio.sleep_forever()
        return say("Done.")

    tasks = batch.tasks({"id": "slow", "prompt": "task:slow", "timeout": 1}, "task:fast")
    async with batch.model(script):
        done = await batch(tasks, "--out", "out", "--jobs", "2")
    rows = batch.rows
    assert done.code == 3
    assert (rows["slow"]["state"], rows["slow"]["code"]) == ("timed_out", "E_TIMEOUT")
    assert rows["2"]["state"] == "completed"


async def test_a_verify_command_that_hangs_is_named(batch):
    """The answer is kept, and the row says why the task is not solved."""
    task = {"id": "slow", "prompt": "task:x", "verify": "sleep 600", "timeout": 4}
    async with batch.model(lambda request: say("Done.")):
        done = await batch(batch.tasks(task), "--out", "out")
    row = batch.rows["slow"]
    assert done.code == 3
    assert (row["state"], row["passed"], row["code"]) == ("completed", False, "E_TIMEOUT")
    assert row["text"] == "Done."
    assert "The verify command took longer than 4 s" in row["error"]
    assert "The verify command took longer than 4 s" in done.err


def commit(repo):
    """Commit all files."""
    subprocess.run(["git", "add", "-A"], cwd=repo, check=True)
    words = "git -c user.name=t -c user.email=t@localhost commit -qm settings"
    subprocess.run(words.split(), cwd=repo, check=True)


async def test_settings_of_the_project_are_not_read(batch, repo):
    """Neither their mistakes nor keys that projects must not set reach the session."""
    settings = repo / ".hilum" / "settings.toml"
    settings.parent.mkdir()
    settings.write_text('model = "openai/other"\nno_such_key = 1\n[store]\npath = "/x"\n[')
    commit(repo)
    tasks = batch.tasks(*({"prompt": f"task:{n}", "repo": str(repo)} for n in "abc"), "task:d")
    async with batch.model(lambda request: say("Done.")):
        done = await batch(tasks, "--out", "out", "--jobs", "2")
    assert done.code == 0, (done.err, batch.rows)
    assert [row["model"] for row in batch.rows.values()] == ["openai/scripted"] * 4


async def test_without_a_model_the_batch_stops_early(batch):
    """A thousand tasks must not fail for one missing key; --retry-failed repeats those that did."""
    tasks = batch.tasks(*(f"task:{number}" for number in range(4)))
    done = await batch(
        tasks, "--out", "out", "--jobs", "1", "--model", "openai/x", OPENAI_API_KEY=""
    )
    assert "no task can run" in done.err
    assert "--retry-failed" in done.err
    assert len(batch.rows) == 3
    async with batch.model(lambda request: say("Done.")):
        done = await batch(tasks, "--out", "out", "--retry-failed")
    assert done.code == 0, done.err
    assert len(batch.rows) == 4
