"""Custom commands in sessions: what the model reads, what runs before that, and what is refused."""

import json

import pytest
import trio
from hilum import PromptCommand, UsageError, UserQuestions
from hilum.events import CallDone, PluginEvent, PromptQueued, RunStarted
from hilum.store import MemoryStore
from hilum.testing import pause, plugin, say, use


def read_prompt(bench):
    """Return the text of the last prompt, and the data that is attached to it."""
    queued = bench.of(PromptQueued)[-1]
    return queued.text, queued.attached


async def reply(bench, text):
    """Return what hilum says about a command that is not sent."""
    with pytest.raises(UsageError) as raised:
        await bench.start(text)
    return str(raised.value)


async def send(bench, text):
    ended = await bench.run(text)
    assert ended.state == "completed", ended
    return read_prompt(bench)


REVIEW = """---
description: Review a file
argument-hint: [file] [focus]
---
Review $1 with a focus on $2. Everything: $ARGUMENTS
"""


async def test_a_command_becomes_its_prompt(opened):
    async with opened({".claude/commands/review.md": REVIEW}, answers=["ok"]) as bench:
        (listed,) = bench.session.list_commands()
        assert listed[0] == "commands"
        assert (listed[1].name, listed[1].summary) == ("review", "Review a file")
        assert listed[1].arguments == "[file] [focus]"
        text, attached = await send(bench, "/review src/a.py 'the error cases'")
        assert text == (
            "Review src/a.py with a focus on the error cases."
            " Everything: src/a.py 'the error cases'"
        )
        assert attached == ""
        assert bench.of(PromptQueued)[-1].typed == "/review src/a.py 'the error cases'"


async def test_a_changed_file_holds_at_once(opened, tmp_path):
    file = tmp_path / "workspace/.hilum/commands/hi.md"
    async with opened({".hilum/commands/hi.md": "One"}, answers=["ok"] * 3) as bench:
        assert (await send(bench, "/hi"))[0] == "One"
        file.write_text("Number two")
        assert (await send(bench, "/hi"))[0] == "Number two"
        file.rename(file.with_name("ho.md"))
        assert [command.name for _, command in bench.session.list_commands()] == ["ho"]
        assert (await send(bench, "/ho"))[0] == "Number two"


async def test_shell_inserts_run_in_the_sandbox_and_are_attached(opened, in_git):
    text = "Status: !`git status --short`\nLog: !`git log --oneline $1`\nWrite a message."
    async with opened({".claude/commands/commit.md": text}, answers=["ok"]) as bench:
        prompt, attached = await send(bench, "/commit -1")
        assert prompt == "Status: [attached 1]\nLog: [attached 2]\nWrite a message."
        assert "[attached 1] $ git status --short\n M a.py\n" in attached
        assert "[attached 2] $ git log --oneline -1\n" in attached
        assert "first commit" in attached
        notes = [
            event.data["say"] for event in bench.of(PluginEvent) if event.name == "commands.ran"
        ]
        assert notes == [
            "/commit ran `git status --short`; it ended with status 0.",
            "/commit ran `git log --oneline -1`; it ended with status 0.",
        ]
        # The output is data: it is not the user's text.
        (started,) = bench.of(RunStarted)
        sources = {part.source for part in started.message.parts if "first commit" in part.text}
        assert sources == {"piped"}


async def test_a_failing_insert_says_so_and_the_prompt_is_sent(opened):
    files = {".gemini/commands/x.toml": 'prompt = "See !{ls nowhere; exit 3}"'}
    async with opened(files, answers=["ok"]) as bench:
        _, attached = await send(bench, "/x")
        assert "No such file" in attached
        assert attached.endswith("[exit status 3]")


async def test_a_slow_insert_is_ended(opened):
    files = {".claude/commands/x.md": "See !`echo begin; sleep 600`"}
    settings = {"commands.timeout": 1.0}
    async with opened(files, answers=["ok"], settings=settings) as bench:
        _, attached = await send(bench, "/x")
        assert "begin" in attached
        assert "[ended after 1 seconds]" in attached


async def test_nothing_runs_when_commands_are_listed(opened, tmp_path):
    marker = tmp_path / "workspace" / "ran"
    files = {
        ".claude/commands/a.md": "!`touch ran`",
        ".gemini/commands/b.toml": 'prompt = "!{touch ran}"',
        "opencode.json": json.dumps({"command": {"c": {"template": "!`touch ran`"}}}),
    }
    async with opened(files) as bench:
        assert len(bench.session.list_commands()) == 3
        assert not marker.exists()


async def test_inserts_of_an_untrusted_project_do_not_run(opened, tmp_path):
    files = {".claude/commands/a.md": "!`touch ran`", ".claude/commands/b.md": "Only text"}
    async with opened(files, trusted=False, answers=["ok"]) as bench:
        text = await reply(bench, "/a")
        assert "/a was not sent. Its shell inserts do not run" in text
        assert "hilum trust" in text
        assert not (tmp_path / "workspace/ran").exists()
        assert (await send(bench, "/b"))[0] == "Only text"


async def test_an_insert_that_changed_since_the_project_was_trusted_does_not_run(opened, tmp_path):
    file = tmp_path / "workspace/.claude/commands/a.md"
    async with opened({".claude/commands/a.md": "!`echo one`"}, answers=["ok"]) as bench:
        await send(bench, "/a")
        file.write_text("!`touch ran`")
        assert "changed since you trusted it: changed .claude/commands/a.md" in await reply(
            bench, "/a"
        )
        assert not (tmp_path / "workspace/ran").exists()


async def test_the_users_own_commands_need_no_trust(opened):
    files = {".claude/commands/a.md": "!`echo mine`"}
    async with opened({}, user=files, trusted=False, answers=["ok"]) as bench:
        assert "mine" in (await send(bench, "/a"))[1]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"approve": "readonly"}, "The session is read-only"),
        (
            {"approve": "ask_first", "kind": "headless"},
            "needs your approval, and nobody can answer",
        ),
        ({"settings": {"commands.shell": False}}, "commands.shell is false"),
    ],
)
async def test_an_insert_is_refused_as_the_shell_tool_is(opened, tmp_path, options, reason):
    files = {".claude/commands/a.md": "First !`echo one` then !`touch ran`"}
    async with opened(files, **options) as bench:
        assert reason in await reply(bench, "/a")
        assert not (tmp_path / "workspace/ran").exists()
        assert not bench.of(PromptQueued)


async def test_a_destructive_insert_is_refused_although_calls_run_unasked(opened, tmp_path):
    files = {".claude/commands/a.md": "!`rm -rf $1`"}
    async with opened(files, kind="headless") as bench:
        text = await reply(bench, f"/a {tmp_path}/config")
        assert "was not sent" in text
        assert (tmp_path / "config").exists()


async def test_a_rule_of_the_user_holds_for_inserts(opened, tmp_path):
    rules = 'deny = ["run_terminal_cmd(git push *)"]\n'
    (tmp_path / "config").mkdir()
    (tmp_path / "config/permissions.toml").write_text(rules)
    files = {".claude/commands/a.md": "!`echo x && git push origin $1`"}
    async with opened(files) as bench:
        assert "is denied" in await reply(bench, "/a main")


async def answer_next(bench, answers):
    """Answer the next question to the user, and return the question."""
    while True:
        questions = [
            event for event in bench.of(PluginEvent) if event.name == "plan.question_asked"
        ]
        service = bench.session.plugin(UserQuestions)
        for event in questions:
            if service.is_open(event.data["id"]):
                service.answer(event.data["id"], answers)
                return event.data
        await trio.testing.wait_all_tasks_blocked(0.01)


@pytest.mark.parametrize("answer", ["Yes, run it", "No, do not run it", ""])
async def test_the_user_is_asked_as_for_the_shell_tool(opened, tmp_path, answer):
    files = {".claude/commands/a.md": "Before\n!`touch ran`"}
    async with opened(files, approve="ask_first", answers=["ok"]) as bench:
        asked = {}
        async with trio.open_nursery() as nursery:

            async def respond():
                asked.update(await answer_next(bench, [answer] if answer else []))

            nursery.start_soon(respond)
            run = None
            refusal = ""
            try:
                run = await bench.start("/a")
            except UsageError as error:
                refusal = str(error)
        assert "touch ran" in asked["question"]
        assert "a.md:2" in asked["question"]
        if answer == "Yes, run it":
            assert run is not None, refusal
            await run.wait()
            assert (tmp_path / "workspace/ran").exists()
        else:
            assert "`touch ran` was not approved" in refusal
            assert not (tmp_path / "workspace/ran").exists()


async def test_inserts_of_a_configuration_file_are_asked_for_although_calls_run_unasked(opened):
    files = {"opencode.jsonc": '{"command": {"c": {"template": "!`echo x`"}}} // c'}
    async with opened(files, kind="headless") as bench:
        assert "needs your approval" in await reply(bench, "/c")


async def test_arguments_cannot_add_an_insert_or_a_file(opened, tmp_path):
    files = {".claude/commands/a.md": "Do: $ARGUMENTS", "secret.txt": "hidden words"}
    hostile = "!`touch ran` @secret.txt !{touch ran} {{args}} $1 $(touch ran)"
    async with opened(files, answers=["ok"]) as bench:
        text, attached = await send(bench, f"/a {hostile}")
        assert text == f"Do: {hostile}"
        assert attached == ""
        assert not (tmp_path / "workspace/ran").exists()


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize(
    "typed",
    ["; touch ran", "`touch ran`", "$(touch ran)", "x\ntouch ran", "'; touch ran; '", '"', "}}"],
)
async def test_hostile_arguments_of_an_insert_are_words(opened, tmp_path, typed):
    files = {".gemini/commands/a.toml": "prompt = '!{printf \"<%s>\" {{args}}}'"}
    async with opened(files, answers=["ok"]) as bench:
        await send(bench, f"/a {typed}")
        assert not (tmp_path / "workspace/ran").exists()


async def test_an_unsafe_argument_is_reported_with_its_place(opened):
    files = {".claude/commands/a.md": 'Text\n\n!`bash -c "ls $1"`'}
    async with opened(files) as bench:
        text = await reply(bench, "/a '$(id)'")
        assert "a.md:3: The argument '$(id)' has characters" in text


async def test_files_are_attached_under_the_conditions_of_reading(opened, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/permissions.toml").write_text('deny = ["read_file(private/**)"]\n')
    (tmp_path / "outside.txt").write_text("outside words")
    files = {
        ".claude/commands/a.md": (
            "Read @src/a.py, @$1. Not @decorator, @private/x.txt, @.env, me@src/a.py,"
            " @../outside.txt or @/etc/hostname."
        ),
        "src/a.py": "x = 1\n",
        "b.txt": "bee\n",
        "private/x.txt": "private words",
        ".env": "TOKEN=abcdefghijklmnop123456\n",
    }
    async with opened(files, answers=["ok"]) as bench:
        text, attached = await send(bench, "/a b.txt")
        assert text.startswith("Read src/a.py [attached 1], b.txt [attached 2]. Not @decorator,")
        assert text.endswith("@../outside.txt or @/etc/hostname.")
        assert "[attached 1] src/a.py\nx = 1" in attached
        assert "[attached 2] b.txt\nbee" in attached
        assert "private words" not in attached
        assert "outside words" not in attached
        assert "abcdefghijklmnop" not in attached
        assert attached.count("[not attached:") == 2


def read_left_out(bench):
    """Return what hilum says about things that are not in the prompt."""
    return [
        line.strip()
        for event in bench.of(PluginEvent)
        if event.name == "commands.left_out"
        for line in event.data["say"].splitlines()
    ]


async def test_each_reference_that_is_not_attached_is_named_to_the_user(opened):
    text = "@.env @/etc/passwd @../other/A.md @src/nope.py @src @src/a.py @decorator @types/node"
    files = {".claude/commands/a.md": text, ".env": "KEY=abc", "src/a.py": "x = 1\n"}
    async with opened(files, answers=["ok"]) as bench:
        await send(bench, "/a")
        first, *left_out = read_left_out(bench)
        assert first == "Not in the prompt of /a:"
        named = [line.partition(":")[0] for line in left_out]
        assert named == [".env", "/etc/passwd", "../other/A.md", "src/nope.py", "src"]
        assert all(line.partition(": ")[2] for line in left_out)


async def test_a_prompt_that_contains_everything_needs_no_notice(opened):
    files = {".claude/commands/a.md": "Read @src/a.py for $1", "src/a.py": "[not attached: x]\n"}
    async with opened(files, answers=["ok"]) as bench:
        await send(bench, "/a me")
        assert read_left_out(bench) == []


@pytest.mark.parametrize(
    ("text", "typed", "unused"),
    [
        ("Fix $1.", "one two three", ["two", "three"]),
        ("Fix $2.", "one two", ["one"]),
        ("Fix $1 of $ARGUMENTS.", "one two", []),
        ("Fix it.", "one two", []),
    ],
)
async def test_an_argument_without_a_place_is_named(opened, text, typed, unused):
    async with opened({".claude/commands/a.md": text}, answers=["ok"]) as bench:
        await send(bench, f"/a {typed}")
        named = [line.partition(":")[0] for line in read_left_out(bench)[1:]]
        assert named == unused


async def test_a_gemini_reference_names_a_missing_file(opened):
    files = {".gemini/commands/a.toml": 'prompt = "See @{nowhere.md}"'}
    async with opened(files, answers=["ok"]) as bench:
        text, attached = await send(bench, "/a")
        assert text == "See [attached 1]"
        assert "[attached 1] nowhere.md\n[not attached:" in attached


LIMITED = """---
allowed-tools: Bash(git status:*), Edit
---
Do it.
"""


async def test_allowed_tools_narrow_the_run_and_approve_nothing(opened, in_git):
    answers = [
        use("run_terminal_cmd", command="touch ran"),
        use("write_file", path="new.txt", content="x"),
        use("read_file", path="a.py"),
        use("run_terminal_cmd", command="git status --short && touch ran"),
        use("run_terminal_cmd", command="git status --short"),
        say("done"),
        use("run_terminal_cmd", command="touch later"),
        say("done"),
    ]
    async with opened({".claude/commands/a.md": LIMITED}, answers=answers) as bench:
        await bench.run("/a")
        codes = [result.code for result in bench.results]
        assert codes == ["E_DENIED", "E_DENIED", "", "E_DENIED", ""]
        assert "the command /a allows only Bash(git status:*), Edit" in bench.results[0].text
        assert not (in_git / "ran").exists()
        # The next prompt is not restricted.
        await bench.run("Now touch")
        assert (in_git / "later").exists()


async def test_the_restriction_holds_for_agents_that_the_run_starts(opened, tmp_path):
    text = "---\nallowed-tools: Task, Bash(echo:*)\n---\nDo it."
    answers = [
        use("task", description="do it", prompt="Touch it."),
        use("run_terminal_cmd", command="touch ran"),
        use("run_terminal_cmd", command="echo fine"),
        say("It was denied."),
        say("done"),
    ]
    files = {".claude/commands/a.md": text}
    plugins = ("agents", "scheduler")
    async with opened(files, plugins=plugins, answers=answers) as bench:
        await bench.run("/a")
        codes = {(result.name, result.code) for result in bench.results}
        assert ("run_terminal_cmd", "E_DENIED") in codes
        assert ("run_terminal_cmd", "") in codes
        assert ("task", "") in codes
        assert not (tmp_path / "workspace/ran").exists()


async def test_the_restriction_holds_after_a_compaction_and_a_resume(opened, tmp_path):
    """It is in the prompt, which every compaction keeps and the log contains."""
    files = {".claude/commands/a.md": LIMITED}
    store = MemoryStore()
    first = [use("read_file", path="x"), pause(1000)]
    async with opened(files, answers=first, store=store) as bench:
        run = await bench.start("/a")
        await bench.wait_for(CallDone)
        run.stop()
        await run.wait()
        session = bench.session.id
    answers = [use("run_terminal_cmd", command="touch ran"), say("done")]
    async with opened(answers=answers, store=store, resume=session) as bench:
        bench.session.compact()
        await (await bench.session.retry()).wait()
        assert bench.results[-1].code == "E_DENIED"
        assert not (tmp_path / "workspace/ran").exists()


async def test_a_command_that_allows_a_tool_does_not_approve_its_calls(opened):
    text = "---\nallowed-tools: Bash(touch:*)\n---\nDo it."
    answers = [use("run_terminal_cmd", command="touch ran"), say("done")]
    files = {".claude/commands/a.md": text}
    async with opened(files, answers=answers, approve="ask_first", kind="headless") as bench:
        await bench.run("/a")
        assert bench.results[0].code == "E_DENIED"


async def test_a_command_names_its_agent(opened):
    agent = "---\nname: critic\ndescription: Criticizes\n---\nBe a critic.\n"
    files = {
        ".claude/agents/critic.md": agent,
        ".opencode/commands/c.md": "---\nagent: critic\n---\nCriticize $ARGUMENTS !`echo out`",
        ".opencode/commands/d.md": "---\nagent: nobody\n---\nDo it",
        ".opencode/commands/e.md": "---\nsubtask: true\n---\nApart",
        ".github/prompts/f.prompt.md": "---\nagent: ask\n---\nAnswer",
    }
    answers = ["ok"] * 3 + [use("write_file", path="x", content="y"), say("done")]
    async with opened(files, plugins=("agents",), answers=answers) as bench:
        await bench.run("/c it")
        queued = bench.of(PromptQueued)[-1]
        assert queued.agent == "critic"
        assert "out" in queued.attached
        await bench.run("/d")
        assert bench.of(PromptQueued)[-1].agent == "main"
        notes = [event.data for event in bench.of(PluginEvent) if event.name == "commands.ignored"]
        assert "'nobody'" in notes[0]["say"]
        await bench.run("/e")
        assert bench.of(PromptQueued)[-1].agent == "e-1"
        await bench.run("/f")
        assert bench.results[-1].code == "E_DENIED"


async def test_hilum_and_its_plugins_keep_their_names(opened):
    files = {
        ".claude/commands/clear.md": "Mine",
        ".claude/commands/sessions.md": "Mine",
        ".claude/commands/extra.md": "Mine",
        ".claude/commands/both.md": "Of the project",
        ".cursor/commands/both.md": "Of Cursor",
    }
    extra = plugin("extra", list_commands=lambda: [PromptCommand("extra")])
    user = {".claude/commands/both.md": "Of the user", ".claude/commands/own.md": "Own"}
    async with opened(files, user=user, plugins=(extra,), answers=["ok"]) as bench:
        listed = [c.name for name, c in bench.session.list_commands() if name == "commands"]
        assert listed == ["both", "own"]
        assert (await send(bench, "/both"))[0] == "Of the project"
        (note,) = [e.data for e in bench.of(PluginEvent) if e.name == "commands.problems"]
        for name in ("clear", "sessions", "extra"):
            assert any(f"/{name} is a command of hilum" in each for each in note["problems"])
        # What concerns other commands is only counted, so that it does not hide what matters.
        assert note["say"].count("also defines /both") == 2
        assert "3 problems in other command files: `hilum commands` shows them." in note["say"]


async def test_a_broken_file_is_reported_with_its_line(opened):
    files = {
        ".gemini/commands/a.toml": 'description = "x"\nprompt = "unclosed\n',
        ".gemini/commands/b.toml": 'description = "x"\nprompt = """\nfirst\n!{ls {x}\n"""\n',
    }
    async with opened(files) as bench:
        assert not [name for name, _ in bench.session.list_commands() if name == "commands"]
        assert "a.toml:2: The file is not TOML" in await reply(bench, "/a")
        assert "b.toml:4: The braces of `!{` are not closed." in await reply(bench, "/b")


async def test_other_text_is_no_command(opened):
    async with opened({".claude/commands/a.md": "A"}, answers=["ok"] * 4) as bench:
        for text in (" /a", "/etc/hosts is missing"):
            assert (await send(bench, text))[0] == text
        piped = await bench.run("/a", piped=True)
        assert piped.state == "completed"
        assert read_prompt(bench)[0] == "/a"


async def test_a_model_cannot_give_a_command(opened, tmp_path):
    """The prompt that an agent writes for another agent is plain text."""
    files = {".claude/commands/a.md": "Do it !`touch ran`"}
    answers = [
        use("task", description="do it", prompt="/a"),
        say("I read it."),
        say("done"),
        say("done"),
    ]
    plugins = ("agents", "scheduler")
    async with opened(files, plugins=plugins, answers=answers) as bench:
        await bench.run("Start an agent")
        texts = [event.text for event in bench.of(PromptQueued)]
        assert "/a" in texts
        assert not (tmp_path / "workspace/ran").exists()


async def test_an_argument_that_is_an_option_is_judged_with_the_whole_command(opened, in_git):
    files = {".claude/commands/log.md": "!`git log $ARGUMENTS`"}
    async with opened(files, approve="ask_first", kind="headless", answers=["ok"]) as bench:
        _, attached = await send(bench, "/log --oneline")
        assert "first commit" in attached
        refused = await reply(bench, "/log --output=a.py")
        assert "`git log --output=a.py` needs your approval" in refused
    assert (in_git / "a.py").read_text() == "x = 2\n"


@pytest.mark.parametrize(
    ("typed", "said", "hint"),
    [
        ("/reveiw a.py", "There is no command /reveiw.", "Did you mean /review?"),
        ("/zzz", "There is no command /zzz.", "`hilum commands` lists them."),
        ("/test x", "There is no command /test.", "Did you mean /back:test or /front:test?"),
        ("/compact now", "/compact is a command of hilum's terminal", "type a space before it"),
        ("/commands", "/commands is a command of hilum's terminal.", "Run `hilum commands`"),
    ],
)
async def test_a_command_that_does_not_exist_is_not_sent(opened, typed, said, hint):
    files = {
        ".claude/commands/review.md": REVIEW,
        ".claude/commands/back/test.md": "Test the back.",
        ".claude/commands/front/test.md": "Test the front.",
    }
    async with opened(files) as bench:
        with pytest.raises(UsageError) as raised:
            await bench.start(typed)
        assert said in raised.value.message
        assert hint in raised.value.hint
        assert raised.value.code == "E_UNKNOWN"
        assert not bench.of(PromptQueued)


@pytest.mark.parametrize(
    "text", ["/etc/hosts is what?", "/tmp is full", "/src has a bug", " /zzz", "/** x", "/2 of it"]
)
async def test_a_path_and_text_after_a_space_are_sent(opened, text):
    async with opened({"src/a.py": ""}, answers=["ok"]) as bench:
        assert (await send(bench, text))[0] == text


@pytest.mark.parametrize(
    "text",
    [
        " /init",
        " /budget 1",
        " /hooks",
        " /agents",
        " /reload-rules",
        " @review look",
        " use the review agent to look",
    ],
)
async def test_after_a_space_no_plugin_reads_a_command_or_a_call(opened, text):
    plugins = ("agents", "budgets", "hooks_claude", "init", "rules", "scheduler")
    async with opened({"a.py": ""}, plugins=plugins, answers=["ok"]) as bench:
        assert (await send(bench, text))[0] == text
        assert bench.of(RunStarted)[-1].agent == "main"


async def test_reload_rules_is_carried_out_with_a_word_after_it(opened):
    async with opened({"a.py": ""}, plugins=("rules",)) as bench:
        run = await bench.start("/reload-rules now")
        assert run.reply.startswith("Read again:")


async def test_an_included_file_is_withheld_as_from_the_agent(opened, tmp_path):
    config = {
        name: {"template": f"{{file:{path}}} $1"}
        for name, path in (("plan", "docs/plan.md"), ("leak", ".env"), ("denied", "private/a.md"))
    }
    files = {
        "opencode.json": json.dumps({"command": config}),
        "docs/plan.md": "Plan first.",
        ".env": "KEY=abc",
        "private/a.md": "Mine.",
        ".claude/settings.json": '{"permissions": {"deny": ["Read(./private/**)"]}}',
    }
    async with opened(files, kind="headless", answers=["ok"]) as bench:
        assert (await send(bench, "/plan it"))[0] == "Plan first. it"
        assert "includes .env, which is withheld" in await reply(bench, "/leak")
        refused = await reply(bench, "/denied")
        assert "includes a.md, which is withheld: " in refused
        assert "Read(./private/**) of Claude Code" in refused


async def test_a_subtask_with_an_unknown_model_uses_the_model_of_the_session(opened):
    text = "---\nmodel: nobody/some-model\nsubtask: true\n---\nCheck the code."
    async with opened({".opencode/command/check.md": text}, answers=["ok"]) as bench:
        assert (await send(bench, "/check"))[0] == "Check the code."
        (note,) = [e.data["say"] for e in bench.of(PluginEvent) if e.name == "commands.ignored"]
        assert "asks for the model 'nobody/some-model'; the session's model answers" in note
