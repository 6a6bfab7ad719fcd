"""A run without anybody to approve: its end names the rule that lets the denied call run."""

import json
import shlex

import pytest

ADVICE = "hilum permissions allow "
CASES = [
    ("ask_first", "write_file", {"path": "it's new.txt", "content": "x\n"}, "write_file"),
    (
        "ask_first",
        "run_terminal_cmd",
        {"command": "touch 'made.txt'"},
        "run_terminal_cmd(touch *)",
    ),
    (
        "auto",
        "run_terminal_cmd",
        {"command": "echo x > .envrc"},
        "run_terminal_cmd(=echo x > .envrc)",
    ),
    ("auto", "write_file", {"path": ".envrc", "content": "x\n"}, "write_file(/.envrc)"),
]


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize(("approve", "tool", "arguments", "rule"), CASES)
async def test_the_last_line_names_the_rule(cli, asks, approve, tool, arguments, rule):
    """The command on the last line can be copied; after it, the call is not denied any more."""
    async with cli.model(asks(tool, **arguments), "I could not."):
        done = await cli("run", "do it", "--approve", approve)
    assert done.code == 3
    last = done.err.rstrip("\n").splitlines()[-1]
    command = shlex.split(last[last.index(ADVICE) :])
    assert command[3:] == [rule]
    assert ("--approve auto" in last) == (approve == "ask_first")
    assert (await cli(*command[1:])).code == 0
    async with cli.model(asks(tool, **arguments), "Done."):
        done = await cli("run", "do it", "--approve", approve, "--output-format", "json")
    assert done.result["denied"] == 0


async def test_the_json_result_names_the_rules(cli, asks):
    """As a list, and in the hint where nothing was changed."""
    async with cli.model(asks("write_file", path="a.txt", content="x\n"), "I could not."):
        done = await cli("run", "write", "--output-format", "json")
    assert done.result["denied_rules"] == ["write_file"]
    assert done.result["hint"].endswith("hilum permissions allow write_file")
    assert json.loads(done.out)["calls"][0]["code"] == "E_DENIED"


async def test_a_run_with_effects_names_the_rules_as_well(cli, asks):
    """One call ran, another was denied: the run is completed, and the advice is still there."""
    (cli.workspace / ".envrc").write_text("old\n")
    answers = [
        asks("write_file", path="a.txt", content="x\n"),
        asks("write_file", id="c2", path="sub/.envrc", content="x\n"),
        "One of two.",
    ]
    async with cli.model(*answers):
        done = await cli("run", "write", "--approve", "auto")
    assert done.code == 0
    assert "1 call was denied because nobody could approve" in done.err
    assert "hilum permissions allow 'write_file(/sub/.envrc)'" in done.err


async def test_no_rule_is_named_where_a_rule_of_the_user_asks(cli, asks):
    """A rule that asks stands above one that allows."""
    assert (await cli("permissions", "ask", "write_file(a.txt)")).code == 0
    async with cli.model(asks("write_file", path="a.txt", content="x\n"), "I could not."):
        done = await cli("run", "write", "--approve", "auto")
    assert done.code == 3
    assert "Run it at a terminal, where you can approve these calls: hilum" in done.err
    assert "hilum permissions allow" not in done.err


@pytest.mark.parametrize("approve", ["ask_first", "auto"])
async def test_no_rule_is_named_that_would_not_help(cli, asks, approve):
    """The files that restrict the agent, and hilum's rules, need approval each time."""
    for path in (".hilum/rules.lock", ".claude/settings.json"):
        async with cli.model(asks("write_file", path=path, content="x\n"), "I could not."):
            done = await cli("run", "write", "--approve", approve)
        assert done.code == 3
        assert "Run it at a terminal, where you can approve these calls: hilum" in done.err
        assert "hilum permissions allow" not in done.err
        assert "--approve auto" not in done.err


async def test_a_rule_for_a_file_that_restricts_the_agent_is_said_not_to_help(cli):
    done = await cli("permissions", "allow", "delete_file(/.claude/settings.json)")
    assert "Each change of this file still needs approval" in done.out
    done = await cli("permissions", "allow", "write_file(/src/a.py)")
    assert "still needs approval" not in done.out
