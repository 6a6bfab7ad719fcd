"""``hilum run`` on a terminal: what is shown, what is asked, and what is not obeyed."""

import trio
from hilum.messages import AssistantMessage, Text, ToolCall, Usage
from hilum_replay import Answer


async def test_calls_status_and_answer_are_shown(cli, asks):
    """A line per call with its result, a status line, the answer; the cursor comes back."""
    (cli.workspace / "a.txt").write_text("alpha\n")
    shown, ran = trio.Event(), trio.Event()

    async def first():
        await shown.wait()
        return Answer(asks("read_file", path="a.txt", text="I look."), Usage(1200, output=7))

    async def second():
        await ran.wait()
        return Answer(said, Usage(1300, output=9))

    said = AssistantMessage((Text("It says alpha. And this is streamed.", "model"),))
    async with (
        cli.model(first, second),
        cli.on_terminal("run", "what is in a.txt?") as terminal,
    ):
        await terminal.see("thinking · turn 1/25")
        shown.set()
        await terminal.see("I look.")
        await terminal.see("✓ read_file path=a.txt")
        await terminal.see("1 | alpha")
        ran.set()
        await terminal.see("turn 2/25 · 2.5k in, 16 out · openai/scripted")
        assert await terminal.end() == 0
    assert terminal.text.rstrip().endswith("It says alpha. And this is streamed.")
    assert terminal.raw.rindex("\x1b[?25h") > terminal.raw.rindex("\x1b[?25l")


async def test_a_call_is_asked_for_and_yes_runs_it(cli, asks):
    """The whole call is visible, with every line of its arguments."""
    content = "".join(f"line {n}\n" for n in range(30))
    async with (
        cli.model(asks("write_file", path="x.txt", content=content), "Done."),
        cli.on_terminal("run", "write") as terminal,
    ):
        await terminal.see("write_file (write) wants to run")
        await terminal.see("line 29")
        await terminal.see("Run it? [y]es, [n]o, [a]lways")
        assert not (cli.workspace / "x.txt").exists()
        terminal.type("what\n")
        await terminal.see("Please answer y, n, a or f, then press Enter")
        terminal.type("y\n")
        assert await terminal.end() == 0
    assert (cli.workspace / "x.txt").read_text() == content


async def test_no_tells_the_model_the_reason(cli, asks):
    """It changes its plan."""
    async with (
        cli.model(asks("write_file", path="x.txt", content="x"), "I'll use y.txt.") as server,
        cli.on_terminal("run", "write") as terminal,
    ):
        await terminal.see("Run it? [y]es, [n]o, [a]lways")
        terminal.type("n use y.txt\n")
        assert await terminal.end() == 0
    assert not (cli.workspace / "x.txt").exists()
    assert b"use y.txt" in server.bodies[1]
    assert "rejected: use y.txt" in terminal.text


async def test_all_holds_for_this_tool_in_this_session(cli):
    """Also for the calls that were asked for at the same time.

    Another tool is asked for by itself.
    """
    calls = [
        ToolCall(f"w{n}", "write_file", f'{{"path": "{n}.txt", "content": "x"}}') for n in range(3)
    ]
    calls.append(ToolCall("cmd", "run_terminal_cmd", '{"command": "touch 4.txt"}'))
    async with (
        cli.model(AssistantMessage(tuple(calls), stop="calls"), "Done."),
        cli.on_terminal("run", "write") as terminal,
    ):
        for _ in range(2):  # the calls run in parallel: either tool may come first
            await terminal.see("wants to run")
            question = terminal.text.rpartition("──")[2]
            await terminal.see("Run it? [y]es, [n]o, [a]lways")
            terminal.type("a\n" if question.startswith(" write_file") else "n\n")
        assert await terminal.end() == 0
    assert sorted(path.name for path in cli.workspace.glob("*.txt")) == ["0.txt", "1.txt", "2.txt"]
    assert terminal.text.count("wants to run") == 2


async def test_what_was_typed_before_the_question_is_no_answer(cli, asks):
    """Keys pressed while the model was thinking are dropped."""
    typed = trio.Event()

    async def late():
        await typed.wait()
        return asks("write_file", path="x.txt", content="x")

    async with cli.model(late, "ok"), cli.on_terminal("run", "write") as terminal:
        await terminal.see("thinking")
        terminal.type("y\n")
        typed.set()
        await terminal.see("Run it? [y]es, [n]o, [a]lways")
        terminal.type("n\n")
        assert await terminal.end() == 0
    assert not (cli.workspace / "x.txt").exists()


async def test_an_approval_that_runs_out_is_a_no(cli, asks):
    """The question goes away, and the run continues."""
    async with (
        cli.model(asks("write_file", path="x.txt", content="x"), "Then not."),
        cli.on_terminal("run", "write", "--set", "approval_timeout=3") as terminal,
    ):
        await terminal.see("s counts as no")
        await terminal.see("The question is closed: Nobody answered within 3 seconds.")
        assert await terminal.end() == 0
    assert "Then not." in terminal.text


async def test_ctrl_c_at_a_question_stops_the_run(cli, asks):
    """As anywhere else."""
    async with (
        cli.model(asks("write_file", path="x.txt", content="x")),
        cli.on_terminal("run", "write") as terminal,
    ):
        await terminal.see("Run it? [y]es, [n]o, [a]lways")
        terminal.type("\x03")
        await terminal.see("The run was stopped; the call was not run.")
        assert await terminal.end() == 130
    assert "hilum run --resume" in terminal.text
    assert "Ctrl-D" not in terminal.text
    assert not (cli.workspace / "x.txt").exists()


async def test_ctrl_d_at_a_question_counts_as_no_and_the_run_goes_on(cli, asks):
    """It says so; the model reads that the call was rejected."""
    async with (
        cli.model(asks("write_file", path="x.txt", content="x"), "Then not.") as server,
        cli.on_terminal("run", "write") as terminal,
    ):
        await terminal.see("Run it? [y]es, [n]o, [a]lways")
        terminal.type("\x04")
        await terminal.see("Input ended (Ctrl-D): the call is denied.")
        assert await terminal.end() == 0
    assert "Then not." in terminal.text
    assert b"the user closed the input" in server.bodies[1]
    assert not (cli.workspace / "x.txt").exists()


async def test_a_dangerous_call_can_only_be_allowed_once(cli, asks):
    """No answer is offered that would allow it again, and none is taken."""
    async with (
        cli.model(asks("run_terminal_cmd", command="git init -q && rm -rf build"), "ok"),
        cli.on_terminal("run", "clean") as terminal,
    ):
        await terminal.see("Danger: deletes build recursively")
        await terminal.see("This call is dangerous, so only this call can be allowed.")
        await terminal.see("Run it? [y]es, [n]o, [?] help: ")
        for answer in ("a\n", "f\n"):
            terminal.type(answer)
            await terminal.see("Please answer y or n, then press Enter")
        terminal.type("n\n")
        assert await terminal.end() == 0
    assert not (cli.workspace / ".git").exists()


async def test_help_says_what_each_answer_covers_before_it_is_chosen(cli, asks):
    """Also that Ctrl-C is something else than Ctrl-D; then the question stands there again."""
    async with (
        cli.model(asks("run_terminal_cmd", command="touch a.txt"), "ok"),
        cli.on_terminal("run", "touch") as terminal,
    ):
        await terminal.see("Run it? [y]es, [n]o, [a]lways, [f]orever, [?] help: ")
        before = " ".join(terminal.text.split())
        assert "[a]lways: allow every command `touch …` until the session ends." in before
        assert (
            "[f]orever: allow every command `touch …` in this folder, also in later sessions"
            in before
        )
        terminal.type("?\n")
        await terminal.see("Ctrl-D: the same as no; the run continues.")
        await terminal.see("Ctrl-C: stops the whole run")
        await terminal.see("Run it? [y]es, [n]o, [a]lways")
        terminal.type("always\n")
        assert await terminal.end() == 0
    assert not (cli.folder / "config" / "permissions.toml").exists(), "always ends with the session"


async def test_forever_is_kept_as_a_rule(cli, asks):
    """In the user's file, for this folder."""
    async with (
        cli.model(asks("run_terminal_cmd", command="touch a.txt"), "ok"),
        cli.on_terminal("run", "touch") as terminal,
    ):
        await terminal.see("[f]orever, [?] help: ")
        terminal.type("f\n")
        assert await terminal.end() == 0
    assert "touch" in (cli.folder / "config" / "permissions.toml").read_text()


async def test_foreign_text_cannot_drive_the_terminal(cli, asks):
    """Neither a model's text, nor arguments, nor what a tool found."""
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\rhidden"
    (cli.workspace / "evil.txt").write_text(evil)
    said = AssistantMessage(
        (Text(evil, "model"), *asks("read_file", path="evil.txt").parts), stop="calls"
    )
    async with (
        cli.model(said, asks("write_file", path="x\x1b[2J.txt", content=evil), evil),
        cli.on_terminal("run", "read") as terminal,
    ):
        await terminal.see("Run it? [y]es, [n]o, [a]lways")
        terminal.type("n\n")
        assert await terminal.end() == 0
    for bad in ("\x1b]0", "\x1b[2J", "\x9b", "\u202e", "\x07", "\rhidden"):
        assert bad not in terminal.raw
    assert terminal.text.count("\\x1b]0;owned") >= 3


async def test_redirected_progress_is_plain_lines(cli):
    """NO terminal, no colours, no cursor movements; TERM=dumb is treated so, too."""
    async with cli.model("Done."), cli.on_terminal("run", "hi", TERM="dumb") as terminal:
        assert await terminal.end() == 0
    assert "\x1b" not in terminal.raw
    assert "Done." in terminal.text


async def test_a_long_change_is_folded_and_shown_whole_on_request(cli, asks):
    """A new file of 303 lines: its beginning and end, then all of it, and what a lasting yes would
    cover.
    """
    content = "".join(f"row {n}\n" for n in range(303))
    async with (
        cli.model(asks("write_file", path="x.txt", content=content), "ok"),
        cli.on_terminal("run", "write") as terminal,
    ):
        await terminal.see("[v]iew all")
        assert "creates x.txt (303 lines)" in terminal.text
        assert "row 150" not in terminal.text
        assert "+row 302" in terminal.text
        assert "[a]lways: allow every call of write_file until the session ends." in " ".join(
            terminal.text.split()
        )
        terminal.type("v\n")
        await terminal.see("+row 150")
        terminal.type("y\n")
        assert await terminal.end() == 0
    assert (cli.workspace / "x.txt").read_text() == content


async def test_escapes_in_a_command_are_visible_in_the_question(cli, asks):
    """What runs is what was shown."""
    async with (
        cli.model(asks("run_terminal_cmd", command="touch 'a\x1b[31mb' c"), "ok"),
        cli.on_terminal("run", "touch") as terminal,
    ):
        await terminal.see("Run it? [y]es, [n]o, [a]lways")
        assert "touch 'a\\x1b[31mb' c" in terminal.text
        terminal.type("n\n")
        assert await terminal.end() == 0
