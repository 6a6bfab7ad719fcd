"""``hilum run``: the agent's questions at the terminal and without one, and what is said of its
plan.
"""

import json

TODOS = [{"id": "a", "content": "Do a"}, {"id": "b", "content": "Do \x1b[31mb"}]


def results(server, request):
    """What the model read last, as the request has it."""
    return json.loads(server.bodies[request])["messages"][-1]["content"]


async def test_a_question_is_asked_at_the_terminal(cli, asks):
    """Escapes are shown and not obeyed, a wrong number is asked for again, and the run goes on with
    the answer.
    """
    call = asks(
        "ask_question", question="Which?\x1b[2J\nThink.", options=["Postgre\x07SQL", "SQLite"]
    )
    async with (
        cli.model(call, "SQLite it is.") as server,
        cli.on_terminal("run", "choose") as terminal,
    ):
        await terminal.see("── The agent asks:")
        await terminal.see("Which?\\x1b[2J")
        await terminal.see("1. Postgre SQL")
        await terminal.see("2. SQLite")
        await terminal.see("no answer in 5 min, takes 1")
        await terminal.see("Answer: ")
        terminal.type("3\n")
        await terminal.see("Please choose from 1 to 2.")
        await terminal.see("Answer: ")
        terminal.type("2\n")
        assert await terminal.end() == 0
        assert results(server, 1) == "The user chose:\n- SQLite"
    assert "\x1b[2J" not in terminal.raw.partition("asks:")[2].partition("Answer: ")[0]


async def test_an_answer_can_be_typed_and_several_chosen(cli, asks):
    first = asks("ask_question", question="Which?", options=["one", "two", "three"], multiple=True)
    second = asks("ask_question", question="Why?", id="c2")
    async with (
        cli.model(first, second, "Thanks.") as server,
        cli.on_terminal("run", "choose") as terminal,
    ):
        await terminal.see("Answer: ")
        terminal.type("3, 1\n")
        await terminal.see("leaves it to the agent")
        await terminal.see("Answer: ")
        terminal.type("because I can\n")
        assert await terminal.end() == 0
        assert results(server, 1) == "The user chose:\n- three\n- one"
        assert results(server, 2) == "The user answered:\nbecause I can"


async def test_enter_takes_the_first_option_and_approvals_wait_their_turn(cli, asks):
    """One thing stands at the terminal at a time."""
    from hilum.messages import AssistantMessage

    call = asks("ask_question", question="Which?", options=["one", "two"])
    write = asks("write_file", path="x.txt", content="x", id="c2")
    both = AssistantMessage((*call.parts, *write.parts), stop="calls")
    async with cli.model(both, "Done.") as server, cli.on_terminal("run", "choose") as terminal:
        for _ in range(2):
            await terminal.see("── ")
            await terminal.see("\n")
            if "wants to run" in terminal.text.rpartition("── ")[2]:
                await terminal.see("Run it? [y]es, [n]o, [a]lways")
                terminal.type("y\n")
            else:
                await terminal.see("Answer: ")
                terminal.type("\n")
        assert await terminal.end() == 0
        said = [
            m["content"] for m in json.loads(server.bodies[1])["messages"] if m["role"] == "tool"
        ]
        assert said[0] == "The user chose:\n- one"
    assert (cli.workspace / "x.txt").read_text() == "x"


async def test_ctrl_c_ends_a_question(cli, asks):
    async with (
        cli.model(asks("ask_question", question="Why?"), "Never said."),
        cli.on_terminal("run", "x") as terminal,
    ):
        await terminal.see("Answer: ")
        terminal.type("\x03")
        assert await terminal.end() == 130
    assert "Everything it had started has ended" in terminal.text


async def test_a_headless_run_goes_on_with_the_default(cli, asks):
    call = asks("ask_question", question="Which?", options=["PostgreSQL", "SQLite"])
    async with cli.model(call, "I took PostgreSQL.") as server:
        done = await cli("run", "choose")
        assert (done.code, done.out) == (0, "I took PostgreSQL.\n")
        assert results(server, 1).startswith(
            "Nobody can be asked. Continue with the first option, 'PostgreSQL'"
        )


async def test_what_is_left_of_the_list_is_said(cli, asks):
    """On standard error, below the answer; in JSON as what is left.

    With --quiet there is only the answer.
    """
    async with cli.model(*[asks("todo_write", todos=TODOS), "That is all."] * 3):
        done = await cli("run", "go")
        assert (done.code, done.out) == (0, "That is all.\n")
        assert done.err.endswith(
            "0 of 2 items are completed. Open in the todo list: Do a; Do [31mb.\n"
        )
        assert "todo 0/2" in done.err
        assert (await cli("run", "go", "--output-format", "json")).result["left"] == (
            "Open in the todo list: Do a; Do [31mb."
        )
        assert (await cli("run", "go", "--quiet")).err == ""


async def test_a_plan_says_how_it_is_carried_out(cli, asks):
    """And the command that it names does it, with the list."""
    async with cli.model(asks("todo_write", todos=TODOS), "First a, then b.", "Done.") as server:
        done = await cli("run", "--mode", "plan", "how?")
        assert done.out == "First a, then b.\n"
        assert (
            "Nothing has been changed yet.\nTo carry out the plan: hilum run --resume 2" in done.err
        )
        session = done.err.partition("hilum run --resume ")[2].split()[0]
        assert f"{session} --accept" in done.err
        assert (await cli("run", "--resume", session, "--accept")).out == "Done.\n"
        assert b"- [pending] a: Do a" in server.bodies[2].replace(b"\\n", b"\n")
        assert b"Your plan is accepted." in server.bodies[2]
        again = await cli("run", "--resume", session, "--accept")
        assert (again.code, again.out) == (2, "")
        assert "No plan is waiting for a decision." in again.err
        assert (await cli("run", "--accept", "x")).code == 2


async def test_a_plan_is_rejected_changed_and_accepted_at_the_terminal(cli, asks):
    """Each leads to the run that follows; the editor works on the plan as it is."""
    editor = cli.folder / "editor"
    editor.write_text('#!/bin/sh\necho "And then c." >> "$1"\n')
    editor.chmod(0o755)
    say = "Carry it out? [y/e/n] "
    model = cli.model(asks("todo_write", todos=TODOS), "First a, then b.", "Only a.", "Done.")
    arguments = ("run", "--mode", "plan", "how?")
    async with model as server, cli.on_terminal(*arguments, VISUAL=str(editor)) as terminal:
        await terminal.see("First a, then b.")
        await terminal.see(say)
        terminal.type("n keep the API\n")
        await terminal.see("Only a.")
        await terminal.see(say)
        terminal.type("what\n")
        await terminal.see("Please answer y, e or n")
        terminal.type("e\n")
        await terminal.see("And then c.")
        await terminal.see(say)
        terminal.type("y\n")
        await terminal.see("Done.")
        assert await terminal.end() == 0
        assert "Your plan is rejected: keep the API" in results(server, 2)
        assert "It now reads:\n\nOnly a.\nAnd then c." in results(server, 3)
    assert "hilum run --resume" not in terminal.text


async def test_a_plan_can_be_decided_on_later(cli, asks):
    """Enter and Ctrl-C leave it as it is; going on without a prompt asks again; n drops it."""
    async with cli.model(asks("todo_write", todos=TODOS), "First a, then b.", "Never said."):
        for arguments, key in (
            (("--mode", "plan", "how?"), "\n"),
            (("--resume",), "\x03"),
            (("--resume",), "n\n"),
        ):
            async with cli.on_terminal("run", *arguments) as terminal:
                await terminal.see("First a, then b.")
                await terminal.see("Carry it out? [y/e/n] ")
                terminal.type(key)
                assert await terminal.end() == 0
            assert ("--accept" in terminal.text) == (key != "n\n")
        done = await cli("run", "--resume")
        assert (done.code, done.out) == (2, "")


async def test_an_editor_that_fails_changes_nothing(cli, asks):
    async with cli.model(asks("todo_write", todos=TODOS), "First a, then b."):
        async with cli.on_terminal(
            "run", "--mode", "plan", "how?", VISUAL="/no/such/editor"
        ) as terminal:
            await terminal.see("Carry it out? [y/e/n] ")
            terminal.type("e\n")
            await terminal.see("cannot be used")
            await terminal.see("Carry it out? [y/e/n] ")
            terminal.type("\x04")
            assert await terminal.end() == 0
        assert "Traceback" not in terminal.text


async def test_the_list_is_shown_as_it_changes(cli, asks):
    """The whole list once, and then what changes; the calls themselves are not shown."""
    began = [{"id": "a", "status": "in_progress"}]
    done = [{"id": "a", "status": "completed"}, {"id": "b", "status": "in_progress"}]
    calls = [asks("todo_write", todos=todos) for todos in (TODOS, began, done)]
    async with cli.model(*calls, "That is all."):
        err = (await cli("run", "go")).err
    assert (
        "· todo 0/2\n  ○ Do a\n  ○ Do [31mb\n· todo 0/2  ▸ Do a\n· todo 1/2  ✓ Do a  ▸ Do [31mb\n"
        in err
    )
    assert "todo_write" not in err


async def test_without_the_plugin_nothing_is_said(cli):
    async with cli.model("Hi."):
        done = await cli("run", "--mode", "plan", "--no-plugin", "plan", "how?")
        assert (done.code, done.out) == (0, "Hi.\n")
        assert "plan carried out" not in done.err
