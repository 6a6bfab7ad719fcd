"""What the model is sent, byte for byte, for what a face says and for what is found."""

import os
import time

import msgspec
import pytest
import trio
from hilum_context import Cursor, OpenFile, WorkspaceState
from hilum_shell import Shell

LINES = "".join(f"line {number}\n" for number in range(1, 201))


async def test_all_six_come_best_first_with_their_tags(opened, put, ask) -> None:
    """Each under its tag and with its path, in the order of the requirement."""
    put({"a.py": LINES, "b.py": "b = 1\n", "c.py": "def parse_config():\n    pass\n"})
    async with opened() as bench:
        sent = await ask(
            bench,
            "What is wrong with parse_config?",
            open_files=[{"path": "b.py"}],
            cursor={"path": "a.py", "line": 100, "column": 3},
            diagnostics=[
                {
                    "path": "a.py",
                    "line": 7,
                    "column": 2,
                    "message": "no such name",
                    "code": "F821",
                    "source": "ruff",
                }
            ],
            terminal_output="$ make\nfailed\n",
            recent_edits=[{"path": "a.py"}],
        )
    around = "\n".join(f"line {number}" for number in range(70, 131))
    head = "\n".join(f"line {number}" for number in range(1, 51))
    assert sent.blocks == [
        ("open_file", "b.py", 0, "b = 1"),
        (
            "cursor_context",
            "a.py",
            100,
            f"{around}\n[Lines 70-130 of 200. The cursor is on line 100, column 3.]",
        ),
        ("linter_errors", "", 0, "a.py:7:2 error F821 no such name (ruff)"),
        ("terminal_output", "", 0, "$ make\nfailed\n"),
        ("recently_edited", "a.py", 0, head),
        ("search_result", "c.py", 0, "1: def parse_config():"),
    ]
    assert sent.text.startswith("What is wrong with parse_config?\n<open_file")
    assert [each["type"] for each in sent.event["blocks"]] == [
        "open_file", "cursor_nearby", "linter", "terminal", "recent_edit", "search_result",
    ]  # fmt: skip
    assert {each["source"] for each in sent.event["blocks"]} == {"disk", "editor", "search"}
    assert all(each["tokens"] > 0 for each in sent.event["blocks"])
    assert (
        sent.event["tokens"]
        == sum(each["tokens"] for each in sent.event["blocks"])
        <= sent.event["budget"]
    )
    assert set(sent.event["sources"]) == {each["type"] for each in sent.event["blocks"]}


async def test_a_typed_state_is_taken_as_it_is(opened, put) -> None:
    """A face makes the value and gives it to the prompt."""
    put({"a.py": "old\n"})
    state = WorkspaceState(
        open_files=(OpenFile(path="a.py", text="new\n"),), cursor=Cursor(line=1), active_file="a.py"
    )
    async with opened() as bench:
        await bench.run("Go on.", state=state)
        text = bench.requests[0].messages[-1].parts[1].text
    assert text == '<open_file path="a.py">\nnew\n</open_file>'
    assert msgspec.json.decode(msgspec.json.encode(state), type=WorkspaceState) == state


async def test_nothing_is_sent_for_a_prompt_that_names_nothing(opened, put, ask) -> None:
    """And no event tells of nothing."""
    put({"a.py": "x = 1\n"})
    async with opened() as bench:
        sent = await ask(bench, "Hello.")
    assert sent.blocks == []
    assert sent.event == {}


# --- open files and the cursor --------------------------------------------------------------------


async def test_three_files_the_active_one_first(opened, put, ask) -> None:
    """The others are told as left out."""
    put({f"{name}.py": f"{name} = 1\n" for name in "abcd"})
    async with opened() as bench:
        sent = await ask(
            bench, open_files=[{"path": f"{n}.py"} for n in "abcd"], active_file="c.py"
        )
    assert [path for path, _, _ in sent.of("open_file")] == ["c.py", "a.py", "b.py"]
    assert sent.left_out == {"d.py": "only 3 open files are sent"}


async def test_unsaved_text_is_sent_in_place_of_the_file(opened, put, ask) -> None:
    """Of the cursor's lines, too."""
    put({"a.py": "saved\n"})
    async with opened() as bench:
        unsaved = "".join(f"row {number}\n" for number in range(20_000))
        sent = await ask(
            bench,
            open_files=[{"path": "a.py", "text": unsaved}],
            active_file="a.py",
            cursor={"line": 19_000},
        )
    assert sent.of("open_file")[0][2].startswith("row 0\nrow 1\n")
    assert "saved" not in sent.text
    assert "\nrow 18999\n" in sent.of("cursor_context")[0][2]
    assert sent.event["blocks"][0]["source"] == "editor"


async def test_the_cursors_lines_are_not_sent_twice(opened, put, ask) -> None:
    """Where the open file has them, only the place is told, with what is selected."""
    put({"a.py": LINES})
    async with opened() as bench:
        sent = await ask(
            bench,
            open_files=[{"path": "a.py"}],
            cursor={"path": "a.py", "line": 100},
            selection={"start_line": 98, "end_line": 100, "end_column": 5},
        )
    assert sent.text.count("line 100\n") == 1
    assert sent.of("cursor_context") == [
        (
            "a.py",
            100,
            "[The cursor is on line 100, column 1. The selection is line 98, column 1 to line 100, column 5."
            " The lines around it are in the open file above.]",
        )
    ]


async def test_recent_edits_of_open_files_are_not_sent_twice(opened, put, ask) -> None:
    """Also under another name of the same file."""
    put({"a.py": LINES, "b.py": "b = 1\n"})
    async with opened() as bench:
        sent = await ask(
            bench,
            open_files=[{"path": "a.py"}],
            recent_edits=[{"path": "./a.py"}, {"path": "b.py"}],
        )
    assert [path for path, _, _ in sent.of("recently_edited")] == ["b.py"]
    assert sent.text.count("line 7\n") == 1


async def test_what_did_not_fit_is_not_taken_for_sent(opened, put, ask) -> None:
    """A search still finds lines of a file whose head had no room.

    Where the head was sent, it adds none of them.
    """
    wide = "".join(f"value_{number} = {'x' * 120}\n" for number in range(49)) + "some_name = 1\n"
    put({"a.py": wide, "b.py": "b = 1\n"})
    for tokens, tags in (
        (1_500, ["recently_edited", "search_result"]),
        (9_000, ["recently_edited", "recently_edited"]),
    ):
        async with opened(settings={"context.tokens": tokens}) as bench:
            sent = await ask(
                bench, "Where is some_name?", recent_edits=[{"path": "a.py"}, {"path": "b.py"}]
            )
        assert [tag for tag, *_ in sent.blocks] == tags
        assert sent.text.count("some_name = 1") == 1
        assert sent.left_out == ({"a.py": "no tokens are left for it"} if tokens == 1_500 else {})


async def test_an_open_file_is_not_sent_again_because_its_cursor_had_no_room(
    opened, put, ask
) -> None:
    """What was sent of it stands."""
    wide = "".join(f"{number} {'x ' * 100}\n" for number in range(1, 400))
    put({"a.txt": wide})
    async with opened(settings={"context.tokens": 4_000}) as bench:
        sent = await ask(
            bench,
            open_files=[{"path": "a.txt"}],
            cursor={"path": "a.txt", "line": 300},
            recent_edits=[{"path": "a.txt"}],
        )
    assert [tag for tag, *_ in sent.blocks] == ["open_file"]
    assert sent.left_out == {"a.txt": "no tokens are left for it"}


@pytest.mark.parametrize("lines", [5_000, 1_000_000])
async def test_a_long_file_is_cut_and_its_cursor_is_found(opened, put, ask, lines: int) -> None:
    """The head within its budget, with how to read on; the cursor's lines from where they are."""
    put({"big.py": "".join(f"x_{number} = {number}\n" for number in range(1, lines + 1))})
    async with opened() as bench:
        sent = await ask(
            bench, open_files=[{"path": "big.py"}], cursor={"path": "big.py", "line": lines - 50}
        )
        budget = sent.event["budget"]
    head = sent.of("open_file")[0][2]
    shown = head.count("\n")
    assert head.endswith(
        f"x_{shown} = {shown}\n[Cut: lines 1-{shown} of {lines:,}; read_file shows the rest.]"
    )
    assert sent.event["blocks"][0]["tokens"] <= min(0.3 * budget, 8_000)
    assert sent.event["blocks"][0]["tokens"] > 0.9 * min(0.3 * budget, 8_000)
    _, line, window = sent.of("cursor_context")[0]
    assert line == lines - 50
    assert window.startswith(f"x_{lines - 80} = {lines - 80}\n")
    assert f"\nx_{lines - 20} = {lines - 20}\n[" in window


async def test_a_cursor_beyond_the_end_stands_at_the_end(opened, put, ask) -> None:
    """That is told, and no failure."""
    put({"a.py": "one\ntwo\n"})
    async with opened() as bench:
        sent = await ask(bench, cursor={"path": "a.py", "line": 900})
    assert sent.of("cursor_context") == [
        ("a.py", 2, "one\ntwo\n[Lines 1-2 of 2. The cursor is on line 2, column 1.]")
    ]
    assert sent.left_out == {"a.py": "the cursor is on line 900 of 2; the last lines are sent"}


async def test_each_open_file_takes_thirty_percent_of_what_is_left(opened, put, ask) -> None:
    """And the least important source is dropped first when the budget is small."""
    put({f"{name}.py": f"{name}{name} = 1\n" * 3_000 for name in "abc"} | {"d.py": "d = 1\n" * 40})
    async with opened(settings={"context.tokens": 2_000}) as bench:
        sent = await ask(
            bench,
            "Where is some_name?",
            open_files=[{"path": f"{name}.py"} for name in "abc"],
            terminal_output="t" * 2_000,
            recent_edits=[{"path": "d.py"}],
        )
    tokens = [each["tokens"] for each in sent.event["blocks"]]
    assert sent.event["budget"] == 2_000
    assert 0.25 * 2_000 < tokens[0] <= 0.3 * 2_000
    assert tokens[1] <= 0.3 * (2_000 - tokens[0])
    assert tokens[2] <= 0.3 * (2_000 - tokens[0] - tokens[1])
    assert [each["type"] for each in sent.event["blocks"]] == [
        *["open_file"] * 3,
        "terminal",
        "recent_edit",
    ]
    assert sum(tokens) <= 2_000


async def test_search_results_come_only_if_more_than_a_thousand_tokens_are_left(
    opened, put, ask
) -> None:
    """Otherwise that is told."""
    put({"a.py": "def some_name(): ...\n"})
    for tokens, expected in ((1_000, 0), (1_001, 1)):
        async with opened(settings={"context.tokens": tokens}) as bench:
            sent = await ask(bench, "Where is some_name?")
            assert len(sent.of("search_result")) == expected


async def test_a_repeated_block_is_not_sent_again(opened, put, ask) -> None:
    """While the conversation has it; after a change it is."""
    put({"a.py": LINES})
    async with opened() as bench:
        texts = []
        for change in ("", "", "new\n"):
            put({"a.py": LINES + change})
            texts.append((await ask(bench, open_files=[{"path": "a.py"}])).of("open_file")[0][2])
        sent = bench.requests[-1]
    assert texts[0] == LINES.rstrip()
    assert (
        texts[1] == "[Unchanged since an earlier message. Read the file if you no longer see it.]"
    )
    assert texts[2] == f"{LINES}new"
    assert sum(LINES in part.text for message in sent.messages for part in message.parts) == 2


# --- lints, terminal, recent edits, search --------------------------------------------------------


async def test_twenty_diagnostics_errors_first(opened, put, ask) -> None:
    """Of those that a face gives: errors and warnings."""
    put({"a.py": LINES})
    said = [
        {
            "path": "a.py",
            "line": n,
            "message": f"m{n}",
            "severity": ("hint", "warning", "error")[n % 3],
        }
        for n in range(1, 61)
    ]
    async with opened() as bench:
        sent = await ask(bench, diagnostics=said)
    lines = sent.of("linter_errors")[0][2].split("\n")
    assert lines[0] == "a.py:2 error m2 (editor)"
    assert lines[20] == "[20 more are not shown: 20 warnings in 1 file; read_lints shows them.]"
    assert len(lines) == 21
    assert "hint" not in sent.text


async def test_lints_are_found_where_the_face_says_none_and_sent_once(opened, put, ask) -> None:
    """Of files that the prompt names and of open ones.

    By hilum-lint, which does not send them a second time.
    """
    put({"a.py": "x = (\n", "b.py": "y = )\n"})
    async with opened() as bench:
        sent = await ask(bench, "What is wrong with a.py?", open_files=[{"path": "b.py"}])
    lines = sent.of("linter_errors")[0][2].split("\n")
    assert [line.split(":")[0] for line in lines] == ["a.py", "b.py"]
    assert "<lint>" not in sent.text


async def test_what_a_face_says_of_a_file_is_not_looked_for(opened, put, ask) -> None:
    """Its editor knows the text that is not saved; files it does not speak of are looked at."""
    put({"a.py": "x = (\n", "b.py": "y = )\n"})
    async with opened() as bench:
        sent = await ask(
            bench,
            "Compare a.py and b.py.",
            open_files=[{"path": "a.py", "text": "x = 1\n"}],
            diagnostics=[],
        )
    assert [line.split(":")[0] for line in sent.of("linter_errors")[0][2].split("\n")] == ["b.py"]


async def test_the_last_two_thousand_characters_of_the_terminal(opened, ask) -> None:
    """Without escapes."""
    async with opened() as bench:
        sent = await ask(bench, terminal_output="x" * 5_000 + "\x1b[31mred\x1b[0m")
    assert sent.of("terminal_output")[0][2] == "x" * 1_997 + "red"


async def test_output_of_services_is_sent_until_it_is_read(opened, ask) -> None:
    """What is already in the conversation is not; nor is a command's own result."""
    async with opened() as bench:
        await bench.call("run_terminal_cmd", command="echo from the foreground")
        await bench.call(
            "run_terminal_cmd",
            command="echo first; sleep 0.7; echo later; sleep 60",
            background=True,
        )
        with trio.fail_after(20):
            service = bench.session.plugin(Shell).all()[0]
            while b"later" not in service.spool.read(0):
                await service.wait_for_output()
        sent = await ask(bench)
        text = sent.of("terminal_output")[0][2]
        await bench.call("read_service", service="s1")
        again = await ask(bench)
    assert text.endswith("[running]\nlater")
    assert "foreground" not in sent.of("terminal_output")[0][2]
    assert again.of("terminal_output") == []


async def test_recent_edits_are_found_in_the_journal_and_by_git(
    opened, put, root, ask, git
) -> None:
    """Newest first, the heads of five; what is committed, deleted or ignored is not."""
    names = [f"f{number}.py" for number in range(8)]
    put(
        dict.fromkeys(names, "old\n")
        | {".gitignore": "ignored.py\n", "gone.py": "x\n", "same.py": "same\n"}
    )
    for command in ("init -q", "add .", "commit -qm x"):
        git(command)
    now = time.time()
    for age, name in enumerate(names):
        put({name: "".join(f"{name} {number}\n" for number in range(60))})
        os.utime(root / name, (now - 100 - age, now - 100 - age))
    put({"new/deep.py": "deep\n", "ignored.py": "no\n"})
    (root / "gone.py").unlink()
    async with opened() as bench:
        first = await ask(bench)
        await bench.call("write_file", path="own.py", content="own = 1\n")
        sent = await ask(bench)
    assert ("f0.py", 0, "\n".join(f"f0.py {number}" for number in range(50))) in first.of(
        "recently_edited"
    )
    found = sent.of("recently_edited")
    assert {path for path, _, _ in found[:2]} == {"own.py", "new/deep.py"}
    assert [path for path, _, _ in found[2:]] == ["f0.py", "f1.py", "f2.py"]
    assert all("Unchanged" in text for _, _, text in found[2:])
    assert {each["source"] for each in sent.event["blocks"]} == {"journal", "git"}


async def test_recordings_of_hilum_are_not_recent_edits(opened, put, ask, git) -> None:
    """A recording that described its own file could not be played back."""
    git("init -q")
    put({"words.cassette": "format = 1\n", "new.py": "new\n"})
    async with opened() as bench:
        sent = await ask(bench)
    assert [path for path, _, _ in sent.of("recently_edited")] == ["new.py"]


async def test_a_name_that_is_not_unicode_is_left_out(opened, put, ask, git) -> None:
    """It cannot be told to a model, and harms nothing."""
    git("init -q")
    put({"a.py": "a\n", "\udcff.py": "b\n"})
    async with opened() as bench:
        sent = await ask(bench)
    assert sent.of("recently_edited") == [("a.py", 0, "a")]
    assert sent.left_out == {"\\udcff.py": "its name is not Unicode"}


async def test_recent_edits_are_found_by_time_where_there_is_no_git(opened, put, root, ask) -> None:
    """Not in a tree that was just put there."""
    put({f"old{number}.py": "old\n" for number in range(5)} | {"new.py": "new\n"})
    async with opened() as bench:
        assert (await ask(bench)).blocks == []
        for number in range(5):
            os.utime(root / f"old{number}.py", (1e9, 1e9))
        assert (await ask(bench)).of("recently_edited") == [("new.py", 0, "new")]


@pytest.mark.parametrize("padding", ["", "#" * 120_000 + "\n"])
async def test_a_repository_that_names_programs_is_not_asked(
    opened, put, root, git, ask, tmp_path, padding
) -> None:
    """Looking at it would run them, also if they follow a lot of text."""
    put({"a.py": "a\n", "b.py": "b\n", "c.py": "c\n"})
    git("init -q")
    config = root / ".git" / "config"
    config.write_text(config.read_text() + padding)
    git(f"config filter.x.clean 'touch {tmp_path}/ran; cat'")
    put({".gitattributes": "*.py filter=x\n"})
    git("-c filter.x.clean=cat add .")
    put({"a.py": "b\n"})
    async with opened() as bench:
        await ask(bench)
    assert not (tmp_path / "ran").exists()


async def test_what_the_prompt_names_is_searched(opened, put, ask) -> None:
    """Identifiers in lines, best first.

    A file by a part of its path, by its beginning; not what was sent already.
    """
    put({
        "src/config.py": "import os\n\n\ndef parse_config(path):\n    return path\n",
        "src/main.py": "from config import parse_config\n" + "pass\n" * 50,
        "deep/in/there/settings_file.toml": "a = 1\n",
        "open.py": "parse_config\n",
    })  # fmt: skip
    async with opened() as bench:
        sent = await ask(
            bench,
            "Does parse_config read settings_file.toml? See `os`.",
            open_files=[{"path": "open.py"}],
        )
    assert sent.of("search_result") == [
        ("deep/in/there/settings_file.toml", 0, "a = 1"),
        ("src/config.py", 0, "4: def parse_config(path):"),
        ("src/main.py", 0, "1: from config import parse_config"),
    ]


async def test_each_source_can_be_switched_off(opened, put, ask) -> None:
    """By its setting."""
    put({"a.py": "x = (\n", "b.py": "some_name\n"})
    said = {
        "open_files": [{"path": "a.py"}], "cursor": {"path": "b.py", "line": 1}, "terminal_output": "t",
        "recent_edits": [{"path": "b.py"}],
    }  # fmt: skip
    for name in ("open_files", "cursor", "linter_errors", "terminal", "recent_edits", "search"):
        async with opened(settings={f"context.{name}": False}) as bench:
            sent = await ask(bench, "some_name in a.py", **said)
            assert len(sent.event["sources"]) == 5
            assert {each["type"] for each in sent.event["blocks"]} <= set(sent.event["sources"])
