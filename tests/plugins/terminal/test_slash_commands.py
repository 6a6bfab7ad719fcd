"""Commands about sessions, settings, files, usage and background work, on real sessions."""

from types import SimpleNamespace

import hilum_agents
import hilum_agents.runs as hilum_agents_runs
import hilum_files
import hilum_prompt
import hilum_shell
import hilum_skills
import msgspec
import trio
from hilum import Layer, UsageError
from hilum.events import ApprovalAnswered, ApprovalAsked
from hilum.messages import ToolCall, Usage
from hilum.models import Price
from hilum.services import BackgroundCommands
from hilum.store import unreadable_event_error
from hilum.testing import ModelProvider, ScriptedModel, pause, plugin, say, use
from hilum.window import WindowPart, WindowUse
from hilum_terminal.chat_protocol import CommandOutput
from hilum_terminal.slash import complete
from hilum_terminal.slash_program import _was_stored
from hilum_terminal.slash_usage import context_rows
from hilum_terminal.styles import PLAIN
from hilum_view import Notice, Prompt

from .slash_chat import open_chat


def write(path, text):
    return [use("write_file", path=path, content=text), say(f"Wrote {path}.")]


def files_in(chat):
    return sorted(path.name for path in chat.bench.workspace.iterdir())


# --- sessions -------------------------------------------------------------------------------------


async def test_clear_starts_a_new_conversation_and_keeps_the_old_one():
    async with open_chat(answers=["Hello."]) as chat:
        unused = chat.session.id
        assert await chat.type("/clear") == ""
        assert chat.session.id != unused
        await chat.session.run("Greet me.")
        old = chat.session.id
        said = await chat.type("/new")
        assert said == f"This is a new conversation. To return to the earlier one: /resume {old}"
        assert chat.view.totals.runs == 0
        await chat.type(f"/resume {old}")
        assert chat.session.id == old
        assert chat.view.totals.runs == 1
        await chat.type("/clear please")
        assert "/clear takes no arguments" in chat.error
        assert chat.session.id == old


async def test_resume_lists_other_sessions_with_a_preview():
    async with open_chat(answers=["Hello.", "Goodbye."]) as chat:
        await chat.session.run("Greet me.")
        first = chat.session.id
        await chat.type("/clear")
        await chat.session.run("Leave me.")
        second = chat.session.id
        await chat.type("/resume", None)
        assert chat.session.id == second
        _, choices = chat.questions[-1]
        greeting = next(choice for choice in choices if choice.value == first)
        assert second not in [choice.value for choice in choices]
        assert greeting.label == "Greet me."
        assert "> Greet me.\n\nHello." in greeting.preview
        assert " · " not in greeting.hint
        await chat.type("/fork")
        await chat.type("/resume", None)
        # A copy can be told from its original, which has the same title.
        hints = {choice.value: choice.hint for choice in chat.questions[-1][1]}
        assert "copy" not in hints[second]
        copy = chat.session.id
        await chat.type(f"/resume {second}")
        await chat.type("/resume", None)
        hints = {choice.value: choice.hint for choice in chat.questions[-1][1]}
        assert hints[copy].split(" · ")[1] == "copy"
        await chat.type("/resume", "Greet me.")
        assert chat.session.id == first
        assert "that you are in" in await chat.type(f"/resume {first}")
        await chat.type("/resume nothing-like-this")
        assert "E_UNKNOWN" in chat.error
        # The bench itself has a session open, as another terminal would.
        await chat.type(f"/resume {chat.bench.session.id}")
        assert "E_BUSY" in chat.error
        assert chat.session.id == first


async def test_resume_lists_a_damaged_session_beside_the_others(monkeypatch):
    async with open_chat(answers=["Hello.", "Goodbye."]) as chat:
        await chat.session.run("Greet me.")
        damaged = chat.session.id
        await chat.type("/clear")
        await chat.session.run("Leave me.")
        sound = chat.session.id
        await chat.type("/clear")
        store = chat.session.kernel.store
        read = store.read

        async def read_undamaged(session, after=0, limit=1000):
            if session == damaged:
                raise unreadable_event_error(session, 3, "it is missing")
            return await read(session, after, limit)

        monkeypatch.setattr(store, "read", read_undamaged)
        await chat.type("/resume", None)
        choices = {choice.value: choice for choice in chat.questions[-1][1]}
        assert choices[damaged].hint.endswith(" · damaged")
        assert "Event 3" in choices[damaged].preview
        assert "Goodbye." in choices[sound].preview


async def test_fork_continues_in_a_copy():
    async with open_chat(answers=["Hello.", "In the copy."]) as chat:
        await chat.session.run("Greet me.")
        old = chat.session.id
        said = await chat.type("/fork")
        assert said == f"This is a copy. To return to the original: /resume {old}"
        assert chat.view.forked == old
        await chat.session.run("Again.")
        await chat.type(f"/resume {old}")
        assert chat.view.totals.runs == 1


async def test_rename_takes_a_title_or_asks_for_one():
    async with open_chat(answers=["Hello."]) as chat:
        store = chat.session.kernel.store
        await chat.type("/rename  The   greeting ")
        assert (await store.info(chat.session.id)).title == "The greeting"
        await chat.type("/rename", None)
        await chat.type("/rename", "Another")
        assert (await store.info(chat.session.id)).title == "Another"


async def test_compact_passes_its_focus_on():
    plans = []

    async def trim_context(agent, messages, sizes, budget):
        plans.append(agent.conversation.compaction_requested.focus)

    async with open_chat(plugin("memory", trim_context=trim_context), answers=["Hello."]) as chat:
        assert "nothing to compact" in await chat.type("/compact")
        await chat.session.run("Greet me.")
        assert "compacted now" in await chat.type("/compact the tests,  please")
        await trio.testing.wait_all_tasks_blocked()
        assert plans == ["the tests, please"]


async def test_copy_takes_the_last_answer_or_its_last_code():
    answers = [say("Text.\n\n```python\nprint(1)\n```\n\n~~~\nlast\nlines\n~~~\n")]
    async with open_chat(answers=answers) as chat:
        await chat.type("/copy")
        assert "nothing to copy yet" in chat.error
        await chat.session.run("Write code.")
        assert (
            await chat.type("/copy code")
            == "Copied the last block of code (10 characters) somewhere."
        )
        await chat.type("/copy")
        assert chat.copied[0] == "last\nlines"
        assert chat.copied[1].startswith("Text.")
        await chat.type("/copy everything")
        assert "E_BAD_ARGS" in chat.error


async def test_copy_code_says_that_the_last_answer_has_no_code():
    async with open_chat(answers=["No code here."]) as chat:
        await chat.session.run("Say something.")
        await chat.type("/copy code")
        assert chat.error == (
            "E_NOT_FOUND: The last answer contains no block of code. /copy copies the whole answer."
        )
        assert chat.copied == []


async def test_doctor_reports_the_terminal_and_the_settings_of_the_conversation(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    small = ScriptedModel(name="scripted/small")
    async with open_chat(models={"small": small}) as chat:
        chat.session.set(model="scripted/small")
        chat.outputs = [CommandOutput(1, "ok    model           openai/gpt\n", "")]
        said = await chat.type("/doctor --online")
        assert chat.commands == [["doctor", "--in-conversation", "--online"]]
        assert "ok    terminal        xterm-256color, " in said
        assert "ok    conversation    model scripted/small, mode" in said
        # The list says what is wrong; a sentence about a failure would contradict it.
        assert "Exit code 1" in said
        assert "The command failed" not in said
        # A program reads JSON, and gets what the command prints.
        await chat.type("/doctor --json")
        assert chat.commands[-1] == ["doctor", "--json"]


async def test_export_writes_the_session_in_the_format_that_is_asked_for():
    async with open_chat(files={"there.md": "old"}) as chat:
        session = chat.session.id
        root = chat.bench.workspace
        await chat.type("/export")
        await chat.type("/export html")
        await chat.type("/export 'my work.html'")
        await chat.type("/export jsonl work.txt")
        await chat.type("/export there.md", False)
        await chat.type("/export there.md", True)
        expected = [
            ["markdown", f"{root}/hilum-{session}.md"],
            ["html", f"{root}/hilum-{session}.html"],
            ["html", f"{root}/my work.html"],
            ["jsonl", f"{root}/work.txt"],
            ["markdown", f"{root}/there.md", "--force"],
        ]
        assert chat.commands == [
            ["sessions", "export", session, "--format", format, "-o", *rest]
            for format, *rest in expected
        ]
        chat.outputs = [CommandOutput(2, "", "hilum: E_BAD_ARGS: no\n")]
        assert await chat.type("/export") == "hilum: E_BAD_ARGS: no"
        await chat.type("/export a b")
        assert "takes one file" in chat.error


async def test_quit_and_exit_leave_the_program():
    for text in ("/quit", "/exit"):
        async with open_chat() as chat:
            await chat.type(text)
            assert chat.has_quit


# --- settings -------------------------------------------------------------------------------------


async def test_models_are_listed_with_the_current_one_selected():
    class BrokenProvider(ModelProvider):
        name = "broken"

        async def names(self):
            raise RuntimeError("no network")

    class KeylessProvider(ModelProvider):
        name = "keyless"

        def model(self, name):
            raise UsageError(f"keyless/{name} cannot be used: KEYLESS_API_KEY is not set.")

        async def names(self):
            return ["best"]

    class MixedProvider(KeylessProvider):
        name = "mixed"

        def model(self, name):
            if name != "old":
                return super().model(name)
            return ScriptedModel(name="mixed/old")

        async def names(self):
            return ["new", "old"]

    small = ScriptedModel(name="scripted/small", window=32_000, price=Price(0.5, 1.5))
    async with open_chat(hilum_prompt, models={"small": small}) as chat:
        router = chat.session.kernel.router
        router.add(BrokenProvider({}))
        router.add(KeylessProvider({}))
        router.add(MixedProvider({}))
        await chat.type("/model", None)
        labels = chat.labels()
        assert [label.split(" · ")[0] for label in labels] == [
            "scripted/model",
            "scripted/small",
            "mixed/old",
            "keyless/best",
            "mixed/new",
        ]
        assert labels[0].startswith("scripted/model · in use")
        assert labels[1] == "scripted/small · 32k · $0.50 in, $1.50 out per M"
        # The name is not repeated, and the menu offers only what can be used.
        assert labels[3] == "keyless/best · cannot be used: KEYLESS_API_KEY is not set."
        offered = [choice.label for choice in await complete(chat, "/model ")]
        assert offered == ["scripted/model", "scripted/small", "mixed/old"]
        # Enter keeps the current one.
        assert await chat.type("/model") == ""
        # The transcript confirms the change, so the command itself does not.
        assert await chat.type("/model", "small") == ""
        assert chat.session.model == "scripted/small"
        assert await chat.type("/model scripted/small") == "The model is already scripted/small."
        await chat.type("/model scripted/model")
        assert chat.session.model == "scripted/model"
        await chat.type("/model keyless/best")
        assert "KEYLESS_API_KEY" in chat.error
        assert chat.session.model == "scripted/model"


async def test_mode_and_policy_are_chosen_or_named():
    async with open_chat(hilum_prompt) as chat:
        await chat.type("/mode")
        assert chat.session.mode.name == "agent"
        assert chat.labels()[0].startswith("agent · ")
        await chat.type("/mode", "plan")
        assert chat.session.mode.name == "plan"
        await chat.type("/mode ask")
        assert chat.session.mode.name == "ask"
        assert await chat.type("/mode ask") == "The mode is already ask."
        await chat.type("/mode flying")
        assert "flying" in chat.error
        assert await chat.type("/approve", "readonly") == ""
        assert await chat.type("/approve readonly") == "The approval policy is already readonly."
        (notice,) = [each for each in chat.view.entries[-1:] if isinstance(each, Notice)]
        assert notice.text == "approval policy: readonly (denies all calls that do more than read)"
        await chat.type("/approve ask-first")
        assert chat.session.approve == "ask_first"
        await chat.type("/approve everything")
        assert chat.session.approve == "ask_first"
        assert chat.errors


async def test_permissions_show_what_this_session_allows():
    async with open_chat() as chat:
        chat.session.agents["main"].conversation.grants.add("run_terminal_cmd(make *)")
        said = await chat.type("/permissions")
        assert "Approval of calls: auto" in said
        assert "run_terminal_cmd(make *)" in said
        await chat.type("/permissions test run_terminal_cmd 'git push'")
        assert chat.commands[-1] == ["permissions", "test", "run_terminal_cmd", "git push"]


async def test_permissions_remove_looks_for_a_stored_rule():
    """A rule is removed only if an approval of this scope was given for later sessions."""
    scope = "run_terminal_cmd(make *)"
    other = "run_terminal_cmd(ls *)"
    events = []
    for number, (asked, remember) in enumerate([(other, "always"), (scope, "session")]):
        call = ToolCall(f"c{number}", "run_terminal_cmd", "{}")
        events.append(ApprovalAsked(id=f"a{number}", call=call, risk="execute", scope=asked))
        events.append(ApprovalAnswered(id=f"a{number}", accepted=True, remember=remember))
    pages = []

    def since(position):
        # One event per page: the whole log must not be read at once.
        pages.append(position)
        found = events[position : position + 1]
        return [msgspec.structs.replace(event, seq=position + 1) for event in found]

    session = SimpleNamespace(journal=SimpleNamespace(since=since))
    assert not await _was_stored(session, scope)
    assert pages == [0, 1, 2, 3, 4]
    pages.clear()
    assert await _was_stored(session, other)
    assert pages == [0, 1]


async def test_permissions_remove_revokes_an_approval_of_this_session():
    async with open_chat() as chat:
        grants = chat.session.agents["main"].conversation.grants
        grants.add("run_terminal_cmd(make)")
        assert "No longer allowed" in await chat.type("/permissions remove run_terminal_cmd(make)")
        # No rule is stored, so the program has nothing to remove.
        assert chat.commands == []
        await chat.type("/permissions remove run_terminal_cmd(make)")
        assert chat.commands == [["permissions", "remove", "run_terminal_cmd(make)"]]


async def test_trust_takes_effect_in_the_reopened_session():
    async with open_chat(answers=["Hello."]) as chat:
        await chat.session.run("Greet me.")
        session = chat.session
        await chat.type("/trust", False)
        assert chat.session is session
        await chat.type("/trust", True)
        assert chat.session is not session
        assert chat.session.id == session.id
        await chat.type("/trust --list")
        chat.outputs = [CommandOutput(2, "", "no")]
        await chat.type("/trust /nowhere")
        assert chat.commands[-2:] == [["trust", "--list"], ["trust", "/nowhere"]]


# --- files ----------------------------------------------------------------------------------------


async def test_diff_undo_and_redo_act_on_this_session():
    answers = [*write("a.txt", "one\n"), *write("b.txt", "\x1b[2Jtwo\n")]
    async with open_chat(hilum_files, answers=answers) as chat:
        assert await chat.type("/diff") == "No files were changed."
        await chat.session.run("first")
        await chat.session.run("second")
        said = await chat.type("/diff")
        assert said.splitlines()[:2] == ["By the prompt: second", "created b.txt (+1 −0)"]
        assert "\\x1b[2Jtwo" in said
        assert "\x1b" not in said
        assert (await chat.type("/diff session --stat")).splitlines() == [
            "created a.txt (+1 −0)",
            "created b.txt (+1 −0)",
        ]
        await chat.type("/diff --list")
        assert chat.commands == [["diff", "--list", "--session", chat.session.id]]
        dry_run = (await chat.type("/undo --dry-run")).splitlines()
        assert dry_run[:2] == ["By the prompt: second", "will delete b.txt (+0 −1)"]
        assert "Nothing was changed." in await chat.type("/undo")
        assert files_in(chat) == ["a.txt", "b.txt"]
        assert "/redo restores" in await chat.type("/undo", True)
        assert files_in(chat) == ["a.txt"]
        # The second run changes nothing any more.
        assert (await chat.type("/diff")).splitlines()[0] == "By the prompt: first"
        await chat.type("/undo session", True)
        assert files_in(chat) == []
        assert "will recreate a.txt" in await chat.type("/redo", True)
        await chat.type("/redo", True)
        assert files_in(chat) == ["a.txt", "b.txt"]
        wrong = []
        for text in ("/redo", "/undo turn x", "/undo run a b", "/diff call nothing", "/undo 'x"):
            await chat.type(text)
            if not chat.errors:
                wrong.append(text)
        assert not wrong


async def test_an_undo_says_what_it_keeps_and_skips():
    content = "one\ntwo\nthree\nfour\nfive\n"
    answers = [*write("mixed.txt", content), *write("gone.txt", "x\n")]
    answers[1:2] = []
    async with open_chat(hilum_files, answers=answers) as chat:
        await chat.session.run("write both")
        (chat.bench.workspace / "gone.txt").write_text("something else\n")
        await chat.type("/undo", True)
        assert "Will be skipped: gone.txt" in chat.details[-1]
        assert files_in(chat) == ["gone.txt"]


async def test_an_undo_that_can_restore_nothing_lets_the_next_one_go_further_back():
    answers = [*write("a.txt", "one\n"), *write("b.txt", "two\n")]
    async with open_chat(hilum_files, answers=answers) as chat:
        await chat.session.run("first")
        await chat.session.run("second")
        (chat.bench.workspace / "b.txt").write_text("mine\n")
        said = await chat.type("/undo --dry-run")
        assert "Will be skipped: b.txt" in said
        assert "The next" not in said
        assert "The next /undo goes further back." in await chat.type("/undo")
        await chat.type("/undo", True)
        assert files_in(chat) == ["b.txt"]


async def test_undo_call_lists_calls_and_undoes_the_chosen_one_only():
    edit = use("edit_file", path="a.txt", old_string="two\n", new_string="TWO\n")
    answers = [
        *write("a.txt", "one\ntwo\n"),
        [use("write_file", path="b.txt", content="b\n"), edit],
        say("Done."),
    ]
    async with open_chat(hilum_files, answers=answers) as chat:
        assert "No call" in await chat.type("/undo call")
        await chat.session.run("first")
        await chat.session.run("second prompt")
        assert await chat.type("/undo call", None) == ""
        labels = chat.labels()
        calls = [label.split(" · ")[0] for label in labels]
        # The two calls of one response ran at the same time.
        assert sorted(calls[:2]) == ["edit_file a.txt", "write_file b.txt"]
        assert calls[2:] == ["write_file a.txt"]
        assert labels[0].endswith("· second prompt")
        assert "+1 −1" in labels[calls.index("edit_file a.txt")]
        preview = chat.questions[-1][1][calls.index("write_file b.txt")].preview
        assert "will delete b.txt (+0 −1)" in preview
        assert "Prompt: second prompt" in preview
        assert "/redo restores" in await chat.type("/undo call", "write_file b.txt")
        assert files_in(chat) == ["a.txt"]
        assert (chat.bench.workspace / "a.txt").read_text() == "one\nTWO\n"
        # The undone call is not listed any more.
        await chat.type("/undo call", None)
        assert len(chat.labels()) == 2
        said = await chat.type("/undo call --dry-run", "edit_file")
        assert "will restore a.txt (+1 −1)" in said
        assert (chat.bench.workspace / "a.txt").read_text() == "one\nTWO\n"


async def test_undo_call_reports_a_conflict_before_it_changes_anything():
    answers = [
        *write("a.txt", "one\n"),
        use("edit_file", path="a.txt", old_string="one", new_string="two"),
        say("Done."),
    ]
    async with open_chat(hilum_files, answers=answers) as chat:
        await chat.session.run("first")
        await chat.session.run("second")
        path = chat.bench.workspace / "a.txt"
        path.write_text("three\n")
        said = await chat.type("/undo call", "edit_file a.txt")
        assert "cannot be undone" in chat.labels()[0]
        assert "Will be skipped: a.txt: " in chat.questions[-1][1][0].preview
        assert "Nothing would be changed." in said
        assert "Will be skipped: a.txt: " in said
        assert path.read_text() == "three\n"
        # The file is changed while the list is open.
        path.write_text("two\n")
        assert "skipped" not in await chat.type("/undo call --dry-run", "edit_file a.txt")


async def test_undo_call_keeps_later_changes_only_after_a_question():
    answers = [
        *write("a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n"),
        use("edit_file", path="a.txt", old_string="2\n", new_string="two\n"),
        say("Done."),
    ]
    async with open_chat(hilum_files, answers=answers) as chat:
        await chat.session.run("first")
        await chat.session.run("second")
        path = chat.bench.workspace / "a.txt"
        path.write_text(path.read_text().replace("8", "eight"))
        assert "Nothing was changed" in await chat.type("/undo call", "edit_file", False)
        assert "merged with later changes" in chat.labels(-2)[0]
        assert "which will be kept: a.txt" in chat.details[-1]
        await chat.type("/undo call", "edit_file", True)
        assert path.read_text() == "1\n2\n3\n4\n5\n6\n7\neight\n9\n"


async def test_undo_call_without_previews_shows_the_changes_and_asks():
    async with open_chat(hilum_files, answers=write("a.txt", "one\n")) as chat:
        chat.has_keys = False
        await chat.session.run("first")
        said = await chat.type("/undo call", 0, False)
        assert "will delete a.txt (+0 −1)" in said
        assert files_in(chat) == ["a.txt"]
        await chat.type("/undo call", 0, True)
        assert files_in(chat) == []


async def test_without_the_files_plugin_an_undo_is_an_error():
    async with open_chat() as chat:
        for text in ("/diff", "/undo", "/redo"):
            await chat.type(text)
            assert "E_NOT_INSTALLED" in chat.error


# --- usage ----------------------------------------------------------------------------------------


async def test_cost_is_shown_by_model_agent_plugin_and_tool():
    usage = Usage(input=1_000, cached=400, output=50, cost=0.25)
    answers = [
        use("write_file", path="a.txt", content="one\n"),
        say("Done.", usage=usage),
    ]
    async with open_chat(hilum_files, answers=answers) as chat:
        assert "No model has been called" in await chat.type("/cost")
        await chat.session.run("write")
        lines = (await chat.type("/cost")).splitlines()
        words = [line.split() for line in lines]
        assert lines[1].startswith("$0.25 ·")
        assert ["MODEL", "CALLS", "INPUT", "CACHED", "OUTPUT", "COST"] in words
        for first in ("scripted/model", "main", "conversation"):
            row = next(row for row in words if row[:1] == [first])
            assert row[1] == "2"
            assert row[-1] == "$0.25"
        for first in ("hilum_files", "write_file"):
            row = next(row for row in words if row[:1] == [first])
            assert row[1:3] == ["1", "0"]


async def test_cost_shows_what_is_spent_of_budgets():
    answers = [say("Done.", usage=Usage(input=1_000, output=50))]
    settings = {"budgets.session.tokens": 2_000, "budgets.agents": {"main": {"minutes": 30}}}
    async with open_chat("budgets", answers=answers, settings=settings) as chat:
        await chat.session.run("x")
        lines = (await chat.type("/cost")).splitlines()
        words = [" ".join(line.split()) for line in lines]
        assert "BUDGET SPENT LIMIT SHARE" in words
        assert "session 1,050 tokens 2,000 tokens 52%" in words
        assert "agent main 0.0 s 30 min 0%" in words


async def test_cost_turns_lists_each_model_call_with_its_duration():
    usage = Usage(input=1_000, cached=400, output=50, cost=0.25)
    answers = [
        use("write_file", path="a.txt", content="one\n"),
        say("Done.", usage=usage),
        say("Again."),
    ]
    async with open_chat(hilum_files, answers=answers) as chat:
        assert "No model has been called" in await chat.type("/cost turns")
        await chat.session.run("write it")
        await chat.session.run("once more")
        lines = (await chat.type("/cost turns")).splitlines()
        assert "write it" in lines
        assert "once more" in lines
        words = [line.split() for line in lines]
        header = ["TURN", "TIME", "CALLS", "INPUT", "CACHED", "OUTPUT", "COST"]
        assert words.count(header) == 2
        turns = [row for row in words if row and row[0] in ("1", "2")]
        assert [row[0] for row in turns] == ["1", "2", "1"]
        # The calls of each turn, and the tokens of the second one.
        assert [row[-5] for row in turns] == ["1", "0", "0"]
        assert turns[1][-4:] == ["1,000", "40%", "50", "$0.25"]
        await chat.type("/cost nonsense")
        assert "/cost turns lists" in chat.error


async def test_context_shows_the_parts_of_the_window():
    rules = plugin("rules", build_prompt_layer=lambda: Layer(40, "rules", "Be brief. " * 200))
    usage = Usage(input=2_000, cached=1_500, output=5)
    async with open_chat(hilum_files, rules, answers=[say("Yes.", usage=usage)]) as chat:
        before = await chat.type("/context")
        assert "Estimates: the provider has not counted" in before
        assert "Last request" not in before
        await chat.session.run("Ready?")
        said = await chat.type("/context")
        assert "Last request: 2,000 tokens, 1,500 of them cached (75%)." in said
        labels = [line.split("  ")[0] for line in said.splitlines()]
        assert {"Instructions", "Tools", "Your prompts", "Answers"} <= set(labels)
        assert "  2 more" in said
        assert "2 more" not in await chat.type("/context all")
        await chat.type("/context some")
        assert chat.errors


def test_the_parts_of_a_context_add_up():
    parts = (
        WindowPart("instructions", "rules", 600),
        WindowPart("tools", "read_file", 300),
        WindowPart("tools", "x" * 90, 100),
        WindowPart("prompts", "", 50),
    )
    use_of_window = WindowUse("a/big", 2_000, 100, 1_600, parts, counted=True)
    rows = context_rows(use_of_window, Usage(), width=60, theme=PLAIN)
    assert rows[0] == "Context of a/big: 1,050 of 2,000 tokens"
    assert (rows[1].count("█"), len(rows[1])) == (31, 60)
    assert "Compaction at 1,600 tokens (80% of the window): 550 left." in " ".join(rows)
    table = [row.split() for row in rows if row.endswith("%")]
    assert [row[-2:] for row in table] == [
        ["600", "30%"],
        ["600", "30%"],
        ["400", "20%"],
        ["300", "15%"],
        ["100", "5%"],
        ["50", "2%"],
    ]


# --- background work ------------------------------------------------------------------------------


async def test_background_commands_are_listed_and_stopped():
    answers = [
        use("run_terminal_cmd", command="sleep 100", background=True),
        use("run_terminal_cmd", command="sleep 200", background=True),
        say("Started."),
    ]
    async with open_chat(hilum_shell, answers=answers) as chat:
        assert await chat.type("/ps") == "Nothing runs in the background."
        assert "Nothing runs" in await chat.type("/stop")
        await chat.session.run("start")
        said = await chat.type("/ps")
        assert "s1  command ·" in said
        assert said.count("s1") == 1
        assert "sleep 200" in said
        await chat.type("/stop s7")
        assert "s7" in chat.error
        await chat.type("/stop", None)
        assert await chat.type("/stop s1") == "Stopped: s1"
        commands = chat.session.plugin(BackgroundCommands)
        assert [command.id for command in commands.running()] == ["s2"]
        assert await chat.type("/stop", "sleep 200") == "Stopped: s2"
        assert not list(commands.running())
        assert await chat.type("/stop all") == "Stopped: nothing"


async def test_the_command_that_the_agent_waits_for_moves_to_the_background():
    answers = [use("run_terminal_cmd", command="sleep 100"), say("It runs.")]
    async with open_chat(hilum_shell, answers=answers) as chat:
        assert await chat.type("/background") == "The agent is not waiting for a command."
        run = await chat.session.prompt("start")
        with chat.bench.guard():
            while not (said := await chat.type("/bg")).startswith("The command continues"):
                await trio.lowlevel.checkpoint()
        end = await run.wait()
        assert end.state == "completed"
        assert said.endswith("/ps lists them, /stop ends one of them.")
        assert "s1  command ·" in await chat.type("/ps")
        assert await chat.type("/stop s1") == "Stopped: s1"


async def test_background_agents_are_listed_and_stopped():
    answers = [pause(1_000), say("never")]
    async with open_chat(hilum_agents, hilum_agents_runs, hilum_files, answers=answers) as chat:
        await chat.session.plugin(hilum_agents_runs.Runs).start("explore", "find it")
        await trio.testing.wait_all_tasks_blocked()
        said = await chat.type("/ps")
        assert "agent explore" in said
        identity = said.split()[0]
        assert await chat.type(f"/stop {identity}") == f"Stopped: {identity}"
        with chat.bench.guard():
            while chat.view.agents.open():
                await trio.lowlevel.checkpoint()
        assert await chat.type("/ps") == "Nothing runs in the background."


async def test_a_waiting_prompt_is_taken_back_into_the_input():
    async with open_chat(answers=[pause(1_000), say("one")]) as chat:
        assert "No prompt is waiting" in await chat.type("/queue")
        await chat.session.prompt("first")
        await chat.session.prompt("second\nwith more")
        await chat.session.prompt("third")
        await trio.testing.wait_all_tasks_blocked()
        await chat.type("/queue", None)
        assert chat.labels() == ["second", "third"]
        await chat.type("/queue", "second")
        assert chat.draft == "second\nwith more"
        assert list(chat.view.lead_actor.queued.values()) == ["third"]


async def test_a_prompt_that_is_starting_cannot_be_taken_back():
    async with open_chat(answers=[pause(1_000), say("one")]) as chat:
        await chat.session.prompt("first")
        run = await chat.session.prompt("second")
        await trio.testing.wait_all_tasks_blocked()
        chat.session.agents["main"].starting = run.id
        assert "No prompt is waiting" in await chat.type("/queue")
        assert list(chat.view.lead_actor.queued.values()) == ["second"]


async def test_a_prompt_that_starts_while_the_list_is_open_is_not_stopped(monkeypatch):
    async with open_chat(answers=[pause(1_000), say("one")]) as chat:
        await chat.session.prompt("first")
        run = await chat.session.prompt("second")
        await trio.testing.wait_all_tasks_blocked()
        choose = chat.choose

        async def choose_late(*args, **kwargs):
            choice = await choose(*args, **kwargs)
            chat.session.agents["main"].starting = run.id
            return choice

        monkeypatch.setattr(chat, "choose", choose_late)
        assert "has just begun" in await chat.type("/queue", "second")
        assert list(chat.view.lead_actor.queued.values()) == ["second"]


# --- skills ---------------------------------------------------------------------------------------


async def test_a_skill_is_a_command_and_starts_a_run(tmp_path):
    skill = "---\nname: pdf\ndescription: Fills in PDF files.\n---\nUse the form.\n"
    home = {"home/.agents/skills/pdf/SKILL.md": skill}
    for name, text in home.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    async with open_chat(hilum_skills, answers=["Filled in."], folder=tmp_path) as chat:
        assert "Fills in PDF files" in await chat.type("/help pdf")
        await chat.type("/pdf fill in a.pdf")
        for run in list(chat.session.runs.values()):
            await run.wait()
        prompts = [entry.text for entry in chat.view.entries if isinstance(entry, Prompt)]
        assert prompts == ["Use the skill pdf.\n\nfill in a.pdf"]
