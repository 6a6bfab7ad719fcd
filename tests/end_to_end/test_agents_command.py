"""``hilum agents run`` against a model over HTTP.

What it found is found again by other processes.
"""

import json
from pathlib import Path

import jsonschema
import pytest
import trio
from hilum.messages import AssistantMessage, Text
from hilum_replay import Answer


async def test_a_result_is_there_for_other_processes(cli) -> None:
    """And the agent remembers."""
    asked = []

    def answer(request):
        asked.append(json.loads(request.body)["messages"])
        return Answer(AssistantMessage((Text(f"Answer {len(asked)}.", "model"),)))

    async def hilum(*arguments: str) -> str:
        done = await cli("agents", *arguments)
        assert done.code == 0, done.err
        return done.out

    async with cli.model(answer):
        folder = cli.folder / "config" / "agents"
        folder.mkdir(parents=True)
        (folder / "helper.md").write_text(
            "---\nname: helper\ndescription: Helps.\ntools: []\n---\nYou help.\n"
        )
        with trio.fail_after(60):
            assert "Answer 1." in await hilum("run", "helper", "Help", "me.")
            await hilum("run", "helper", "Again.")
            rows = json.loads(await hilum("results", "--json"))
            assert [row["status"] for row in rows] == ["completed"] * 2
            assert "Answer 1." in await hilum("result", rows[0]["agent_id"][:6])
            assert "was deleted" in await hilum("clear", "helper")
            await hilum("run", "helper", "Third.")
    assert "Answer 1." in json.dumps(asked[1])
    assert "Answer 1." not in json.dumps(asked[2])


SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "output.schema.json").read_text())


def write_agents(cli, *names):
    """Write agents of the user that may use all tools."""
    folder = cli.folder / "config" / "agents"
    folder.mkdir(parents=True)
    for name in names:
        (folder / f"{name}.md").write_text(
            f"---\nname: {name}\ndescription: Helps.\n---\nYou help.\n"
        )


async def test_the_result_for_programs_is_as_documented(cli, asks):
    """Every field is there and no other: of a run that completed, of one that failed, and in a
    list.
    """
    shape = SCHEMA["$defs"]["AgentResult"] | {
        "$defs": SCHEMA["$defs"],
        "additionalProperties": False,
    }
    write_agents(cli, "helper", "other")
    async with cli.model(asks("write_file", path="x.txt", content="x"), "Done."):
        done = await cli("agents", "run", "helper", "Help.", "--approve", "auto", "--json")
    assert done.code == 0, done.err
    jsonschema.validate(done.result, shape)
    assert (done.result["files_made"], done.result["text"]) == (["x.txt"], "Done.")
    again = await cli("agents", "result", done.result["agent_id"], "--json")
    assert again.result == done.result
    async with cli.model(lambda request: "Done."):
        several = await cli("agents", "run", "helper,other", "Help.", "--json")
    assert len(several.result) == 2
    for each in several.result:
        jsonschema.validate(each, shape)
    async with cli.model(lambda request: asks("read_file", path="nothing")):
        failed = await cli("agents", "run", "other", "Help.", "--timeout", "0.1", "--json")
    assert failed.code != 0
    jsonschema.validate(failed.result, shape)
    assert failed.result["error"]["message"]


async def test_an_agent_whose_calls_nobody_could_approve_did_not_complete(cli, asks):
    """The exit code tells it, and the text what to do about it."""
    write_agents(cli, "helper")
    async with cli.model(asks("write_file", path="x.txt", content="x"), "Done."):
        done = await cli(
            "agents",
            "run",
            "helper",
            "Help.",
        )
    assert done.code == 3, done.err
    assert "no user was present" in done.out


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(("kind", "runs"), [("shared", False), ("headless", True), ("", True)])
async def test_a_rule_for_shared_sessions_holds_where_the_kind_is_shared(cli, asks, kind, runs):
    """From the command line: ``--kind`` of ``hilum run`` and of ``hilum agents run``."""
    write_agents(cli, "helper")
    (cli.folder / "config" / "permissions.toml").write_text(
        '[session.shared]\ndeny = ["write_file"]\n'
    )
    chosen = ["--kind", kind] if kind else []
    for number, command in enumerate((["run", "Help."], ["agents", "run", "helper", "Help."])):
        async with cli.model(asks("write_file", path=f"{number}.txt", content="x"), "Done."):
            done = await cli(*command, "--approve", "auto", *chosen)
        assert done.code == 0, done.err
        assert (cli.workspace / f"{number}.txt").exists() is runs


async def test_a_shared_session_that_nobody_attends_asks_nobody(cli, asks):
    """It does not wait for an answer that cannot come."""
    write_agents(cli, "helper")
    async with cli.model(asks("write_file", path="x.txt", content="x"), "Not possible."):
        done = await cli("agents", "run", "helper", "Help.", "--kind", "shared", "--json")
    assert done.result["actions"][0]["code"] == "E_DENIED"
    assert not (cli.workspace / "x.txt").exists()
