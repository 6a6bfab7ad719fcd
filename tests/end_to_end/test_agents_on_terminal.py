"""Agents as a developer sees them: rows while they run, results with their ids, a stop, and nothing
that is lost.
"""

import json

import trio
from hilum.messages import AssistantMessage, Text, ToolCall, UserMessage


def said(request):
    """What the user, or who started it, said to an agent last."""
    return [m for m in request.messages if isinstance(m, UserMessage)][-1].parts[0].text


def tasks(**options):
    calls = [
        ToolCall(
            f"c{n}",
            "task",
            json.dumps({"description": f"part {n}", "prompt": f"Do {n}.", **options}),
        )
        for n in range(3)
    ]
    return AssistantMessage((Text("I share it out.", "model"), *calls), stop="calls")


def define(cli, *names):
    """Agents of the user's, whose answers may be of any form."""
    folder = cli.folder / "config" / "agents"
    folder.mkdir(parents=True)
    for name in names:
        (folder / f"{name}.md").write_text(
            f"---\nname: {name}\ndescription: Helps.\n---\nYou help.\n"
        )


def scripted(first, gate, *last):
    """A model whose main agent gives ``first`` and then ``last``, and whose tasks wait for a
    gate.
    """
    answers = [first, *last]

    async def answer(request):
        if said(request).startswith("Do "):
            await gate.wait()
            return f"Found by {said(request).splitlines()[0]}"
        return answers.pop(0)

    return answer


async def test_rows_show_what_runs_and_what_waits(cli):
    """And the results are named with their ids, by which another process finds them."""
    gate = trio.Event()
    async with (
        cli.model(scripted(tasks(), gate, "All done.")),
        cli.on_terminal("run", "go") as terminal,
    ):
        await terminal.see("waiting, position 1")
        await terminal.see("waiting for 3 agents")
        await terminal.see("Ctrl-C stops all")
        gate.set()
        await terminal.see("All done.")
        await terminal.see(
            "3 agents have ended. To read a result again: hilum agents result ID, for example "
        )
        assert await terminal.end() == 0
    ids = [
        line.split()[1]
        for line in terminal.text.splitlines()
        if line.startswith("✓ ") and " part " in line
    ]
    assert len(set(ids)) == 3
    assert "Found by Do " in (await cli("agents", "result", ids[0])).out
    assert "task: part 1" in (await cli("agents", "results")).out


async def test_the_answer_of_an_agent_that_was_called_is_shown_once(cli, asks):
    """It is the last word then, and no word on the way to another."""
    answer = 'All is well.\n\n```json\n{"summary": "", "proposals": [], "applied": []}\n```'
    async with (
        cli.model(asks("list_directory"), answer),
        cli.on_terminal("run", "@refactor look") as terminal,
    ):
        await terminal.see('To answer refactor: hilum run "@refactor')
        assert await terminal.end() == 0
    # For a moment, the row of the running agent may show its words, too.
    lines = [line.strip() for line in terminal.text.splitlines()]
    assert lines.count("All is well.") == 1


async def test_elsewhere_there_is_a_line_at_each_change(cli):
    gate = trio.Event()
    gate.set()
    async with cli.model(scripted(tasks(), gate, "All done.", tasks(), "All done.")):
        done = await cli("run", "go")
        data = (await cli("run", "go", "--output-format", "json")).result
    assert done.out == "All done.\n"
    assert "\x1b" not in done.err
    for number in range(3):
        lines = [line for line in done.err.splitlines() if f" part {number}" in line]
        assert [line[0] for line in lines][-2:] == ["▸", "✓"]
        assert len(lines) <= 3
    assert {each["text"] for each in data["agents"]} == {f"Found by Do {n}." for n in range(3)}
    assert data["text"] == "All done."


async def test_a_run_waits_for_what_goes_on_in_the_background(cli, asks):
    """The agent is told of its end, and has the last word."""
    gate = trio.Event()
    call = asks("task", description="look", prompt="Do 1.", background=True)
    model = scripted(call, gate, "It goes on.", "The background found it.")
    async with cli.model(model), cli.started("run", "go", "--approve", "auto") as process:
        err = b""
        while b"It goes on." not in err:
            err += await process.stderr.receive_some()
        gate.set()
        out = b"".join([piece async for piece in process.stdout])
        assert await process.wait() == 0
    assert out == b"The background found it.\n"


async def test_who_is_handed_over_to_reports_to_the_user(cli, asks):
    gate = trio.Event()
    gate.set()
    define(cli, "helper")
    call = asks("handover", agent="helper", brief="Do 1.")
    async with cli.model(scripted(call, gate, "Handed over.")):
        done = await cli("run", "go", "--approve", "auto")
    assert done.out.startswith("Handed over.\n\n── helper (")
    assert done.out.endswith("): completed\nFound by Do 1.\n")


async def test_ctrl_c_stops_all_of_them(cli, asks):
    """Those in the background, too, when the main agent is done already; and wakes nobody."""
    call = asks("task", description="look", prompt="Do 1.", background=True)
    model = scripted(call, trio.Event(), "It goes on.")
    async with cli.model(model), cli.on_terminal("run", "go") as terminal:
        await terminal.see("It goes on.")
        await terminal.see("waiting for 1 agent")
        terminal.type("\x03")
        assert await terminal.end() == 130
    assert "stopped" in (await cli("agents", "results")).out


async def test_several_are_run_from_the_command_line_and_one_is_stopped_by_another_process(cli):
    define(cli, "helper", "second")
    gate = trio.Event()
    model = scripted("never said", gate)
    arguments = ("agents", "run", "helper", "Do 1.", "--also", "second", "Do 2.")
    async with cli.model(model), cli.on_terminal(*arguments) as terminal:
        await terminal.see(" second ")
        await terminal.see("Ctrl-C stops all")
        row = next(line for line in terminal.text.splitlines() if " second " in line)
        assert (await cli("agents", "stop", row.split()[1])).code == 0
        await terminal.see("second · stopped")
        gate.set()
        await terminal.see("): completed")
        await terminal.see("Found by Do 1.")
        await terminal.see("): stopped")
        assert await terminal.end() == 130


async def test_ctrl_c_at_agents_run(cli):
    """What it had so far is kept, and there is no traceback."""
    model = scripted("never said", trio.Event())
    async with cli.model(model), cli.on_terminal("agents", "run", "explore", "Do 1.") as terminal:
        await terminal.see("turn 1/")
        terminal.type("\x03")
        assert await terminal.end() == 130
    assert "The agent was stopped." in terminal.text
    assert "Traceback" not in terminal.text
