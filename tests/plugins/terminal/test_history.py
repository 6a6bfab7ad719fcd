"""The history of prompts: its file, browsing and searching."""

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import hilum_terminal.history as history_module
import pytest
from hilum.settings import use_environment
from hilum_terminal.history import History, history_file
from hilum_terminal.history_search import HistorySearch
from hilum_terminal.keys import FocusChange, Key, Paste
from hilum_terminal.styles import PLAIN, Theme
from hilum_terminal.text_width import cells
from hypothesis import example, given
from hypothesis import strategies as st

PROJECT = "/home/me/app"


class Clock:
    """A clock that moves by one second at each look."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


CLOCK = Clock()


def open_history(
    file: Path, project: str = PROJECT, redact: Callable[[str], str] | None = None
) -> History:
    history = History(file, project, redact=redact, clock=CLOCK)
    history.load()
    return history


def add(history: History, *texts: str) -> None:
    for text in texts:
        history.add(text)
    history.save()


def stored(file: Path) -> list[str]:
    return [json.loads(line)["text"] for line in file.read_text().splitlines()]


def texts(history: History) -> list[str]:
    return [entry.text for entry in history.entries()]


def line(text: str, project: str = PROJECT, time: float = 1.0) -> str:
    return json.dumps({"text": text, "project": project, "time": time}) + "\n"


# The file


def test_entries_survive_the_session(tmp_path: Path) -> None:
    file = tmp_path / "data" / "prompts.jsonl"
    history = open_history(file)
    add(history, "first", "two\nlines\t中文 😀")
    assert texts(open_history(file)) == ["two\nlines\t中文 😀", "first"]
    entry = json.loads(file.read_text().splitlines()[0])
    assert entry == {"text": "first", "project": PROJECT, "time": pytest.approx(CLOCK.now - 1)}


def test_the_file_is_private(tmp_path: Path) -> None:
    file = tmp_path / "data" / "prompts.jsonl"
    add(open_history(file), "first")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    file.chmod(0o644)
    add(open_history(file), "second")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_file_is_in_the_data_folder(tmp_path: Path) -> None:
    with use_environment({"HILUM_DATA": str(tmp_path)}):
        assert history_file().parent.parent == tmp_path


def test_what_is_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    history = open_history(file)
    add(history, " secret", "", "\n", "kept", "kept")
    assert texts(history) == ["kept"]
    assert stored(file) == ["kept"]


def test_entries_wait_until_it_is_known_whether_they_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text("damaged\n")
    for is_kept, expected in ((True, ["early", "late"]), (False, [])):
        history = History(file, PROJECT)
        history.is_kept = None
        history.add("early")
        # A damaged file is repaired at once, but no entry is written.
        history.load()
        history.save()
        assert stored(file) == []
        history.is_kept = is_kept
        history.add("late")
        history.save()
        assert stored(file) == expected
        assert texts(history) == ["late", "early"]
        # What was not to be kept is not written later, either.
        history.is_kept = True
        history.save()
        assert stored(file) == expected
        file.write_text("damaged\n")


def test_a_pasted_mark_stays_without_meaning(tmp_path: Path) -> None:
    history = open_history(tmp_path / "history.jsonl")
    for text in ("!rm -rf x", "/quit", "#a", "plain", "\n!x"):
        history.add(text, is_typed=False)
    history.add(" !secret")
    history.save()
    expected = [" \n!x", "plain", " #a", " /quit", " !rm -rf x"]
    assert texts(history) == expected
    again = open_history(tmp_path / "history.jsonl")
    again.load()
    assert texts(again) == expected
    assert not again.problem


def test_very_long_texts_are_kept_for_this_session_only(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    history = open_history(file)
    add(history, "short", "x" * 200_000)
    assert texts(history) == ["x" * 200_000, "short"]
    assert stored(file) == ["short"]


def test_secrets_are_redacted_in_the_file_only(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    history = open_history(file, redact=lambda text: text.replace("hunter2", "[REDACTED]"))
    add(history, "password hunter2")
    assert stored(file) == ["password [REDACTED]"]
    history.load()
    assert texts(history) == ["password hunter2"]
    assert texts(open_history(file)) == ["password [REDACTED]"]


def test_without_redaction_nothing_is_written(tmp_path: Path) -> None:
    def fail(text: str) -> str:
        raise RuntimeError("broken")

    file = tmp_path / "prompts.jsonl"
    history = open_history(file, redact=fail)
    add(history, "password")
    assert not file.exists()
    assert "secrets could not be removed (broken)" in history.problem
    assert history.previous("") == "password"


def test_an_entry_that_redaction_empties_is_not_written(tmp_path: Path) -> None:
    """Without the guard, nothing is written, and the next start must not find damaged lines."""
    file = tmp_path / "prompts.jsonl"
    history = open_history(file, redact=lambda text: "" if "password" in text else text)
    add(history, "password")
    add(history, "hello")
    assert [json.loads(line)["text"] for line in file.read_text().splitlines()] == ["hello"]
    assert history.previous("") == "hello"
    assert history.previous("hello") == "password"


def test_damaged_lines_are_skipped_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    damaged = [
        b"{",
        b"[1]",
        b'{"text": 5}',
        b'{"project": "x"}',
        b'{"text": " hidden"}',
        b'{"text": "\xff"}',
        b"\x00\x00",
        b"[" * 5000,
    ]
    content = line("one").encode() + b"\n".join(damaged) + b"\n" + line("two").encode()
    file.write_bytes(content)
    history = open_history(file)
    assert texts(history) == ["two", "one"]
    assert stored(file) == ["one", "two"]
    assert history.problem == ""
    assert os.listdir(tmp_path) == ["prompts.jsonl"]


def test_a_line_that_was_cut_off_does_not_damage_the_next_one(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    history = open_history(file)
    file.write_text(line("one") + '{"text": "tw')
    add(history, "three")
    assert texts(open_history(file)) == ["three", "one"]


def test_only_the_newest_entries_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "MAX_ENTRIES", 20)
    monkeypatch.setattr(history_module, "_SLACK", 5)
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(line(f"old {number}") for number in range(30)))
    history = open_history(file)
    assert len(stored(file)) == 20
    assert texts(history)[-1] == "old 10"
    for number in range(100):
        add(history, f"new {number}")
        assert len(stored(file)) <= 25
    assert texts(open_history(file)) == [f"new {number}" for number in range(99, 79, -1)]


def test_of_a_huge_file_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "_MAX_FILE_SIZE", 1000)
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(line(f"entry {number}") for number in range(100)))
    newest = texts(open_history(file))
    assert newest[0] == "entry 99"
    assert 5 < len(newest) < 20


def test_terminals_do_not_lose_entries_of_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "MAX_ENTRIES", 400)
    monkeypatch.setattr(history_module, "_SLACK", 0)
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(line(f"old {number}") for number in range(400)))

    def work(name: str) -> None:
        history = History(file, PROJECT)
        history.load()
        for number in range(50):
            add(history, f"{name} {number}")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {f"{name} {number}" for name in "abcd" for number in range(50)}
    assert expected <= set(stored(file))
    assert len(stored(file)) == 400


def test_processes_do_not_lose_entries_of_each_other(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    code = (
        "import sys; from pathlib import Path; from hilum_terminal.history import History\n"
        "history = History(Path(sys.argv[1]), 'p')\n"
        "for number in range(100):\n"
        "    history.add(f'{sys.argv[2]} {number}'); history.save()\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(file), name]) for name in ("a", "b")
    ]
    assert [child.wait(timeout=60) for child in children] == [0, 0]
    assert sorted(stored(file)) == sorted(f"{n} {i}" for n in "ab" for i in range(100))


def test_an_unusable_disk_is_reported_and_the_session_continues(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    for name in ("file/prompts.jsonl", "folder.jsonl", "pipe.jsonl"):
        history = open_history(tmp_path / name)
        add(history, "kept")
        assert history.problem.startswith(f"The history in {tmp_path / name} cannot be "), name
        assert history.problem.endswith("Prompts are kept for this session."), name
        assert history.previous("") == "kept"


def test_entries_are_written_when_the_disk_is_usable_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prompts.jsonl"
    history = open_history(file)
    append = history_module._append

    def fail(file: Path, lines: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(history_module, "_append", fail)
    add(history, "one")
    assert "No space left on device" in history.problem
    monkeypatch.setattr(history_module, "_append", append)
    add(history, "two")
    assert history.problem == ""
    assert stored(file) == ["one", "two"]


def test_a_failed_replacement_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prompts.jsonl"
    content = line("one") + "damaged\n"
    file.write_text(content)

    def fail(*paths: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(history_module.os, "replace", fail)
    history = open_history(file)
    assert "Input/output error" in history.problem
    assert file.read_text() == content
    assert os.listdir(tmp_path) == ["prompts.jsonl"]
    assert texts(history) == ["one"]


def test_entries_are_written_once_if_the_file_cannot_be_shortened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prompts.jsonl"
    history = open_history(file)
    add(history, "one", "two")
    monkeypatch.setattr(history_module, "MAX_ENTRIES", 2)
    monkeypatch.setattr(history_module, "_SLACK", 0)

    def fail(file: Path) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(history_module, "_shorten", fail)
    add(history, "three")
    assert "Input/output error" in history.problem
    monkeypatch.setattr(history_module, "MAX_ENTRIES", 10)
    add(history, "four")
    assert history.problem == ""
    assert stored(file) == ["one", "two", "three", "four"]


# Browsing


@pytest.fixture
def history(tmp_path: Path) -> History:
    file = tmp_path / "prompts.jsonl"
    lines = [
        line("fix the parser", time=1),
        line("deploy", "/home/me/other", time=2),
        line("write tests", time=3),
        line("fix the parser", "/home/me/other", time=4),
        line("Fix everything", "/home/me/other", time=5),
        line("fix\nboth lines", time=6),
    ]
    file.write_text("".join(lines))
    return open_history(file)


def browse(history: History, steps: str, draft: str) -> list[str | None]:
    """Return the texts after ``u`` (Up) and ``d`` (Down) as an editor would show them."""
    shown: list[str | None] = []
    text = draft
    for step in steps:
        result = history.previous(text) if step == "u" else history.next(text)
        shown.append(result)
        text = text if result is None else result
    return shown


def test_own_project_first_and_each_text_once(history: History) -> None:
    assert browse(history, "uuuuuu", "") == [
        "fix\nboth lines",
        "write tests",
        "fix the parser",
        "Fix everything",
        "deploy",
        None,
    ]


def test_what_was_typed_selects_the_beginning(history: History, tmp_path: Path) -> None:
    cases = [
        ("fix", "uuuudddd", ["fix\nboth lines", "fix the parser", "Fix everything", None]),
        ("Fix", "uu", ["Fix everything", None]),
        ("FIX", "u", [None]),
        ("deploy", "u", [None]),
    ]
    wrong = []
    for draft, steps, expected in cases:
        history = open_history(tmp_path / "prompts.jsonl")
        shown = browse(history, steps, draft)
        if "d" in steps:
            expected = [*expected, "fix the parser", "fix\nboth lines", draft, None]
        if shown != expected:
            wrong.append(f"{draft}: {shown}")
    assert not wrong, "\n".join(wrong)


def test_down_without_up_does_nothing(history: History) -> None:
    assert history.next() is None
    assert history.next("draft") is None
    assert history.previous("") == "fix\nboth lines"


def test_an_edited_text_and_the_draft_are_both_kept(history: History) -> None:
    assert history.previous("fix") == "fix\nboth lines"
    assert history.previous("fix\nboth lines") == "fix the parser"
    assert history.previous("write t") == "write tests"
    assert history.next("write tests") == "write t"
    assert history.next("write t") == "fix"
    assert history.next("fix") is None
    assert history.previous("fix") == "write t"


def test_sending_ends_browsing(history: History) -> None:
    history.previous("fix")
    history.add("sent")
    assert history.next() is None
    assert browse(history, "ud", "") == ["sent", ""]


@given(st.data())
def test_no_draft_is_lost(data: st.DataObject) -> None:
    history = History(Path("unused"), PROJECT, clock=Clock())
    words = ["a", "ab", "abc", "b", "bc"]
    for text in data.draw(st.lists(st.sampled_from(words), max_size=6)):
        history.add(text)
    text = data.draw(st.sampled_from(["", "a", "draft"]))
    # Every text that the user typed must be found by Down and Up.
    typed = [text]
    edited = False
    for step in data.draw(st.lists(st.sampled_from("uuude"), max_size=12)):
        if step == "e":
            if history._browser.position >= 0 and not edited:
                text = f"{text[:1]}{len(typed)}"
                typed.append(text)
                edited = True
            continue
        edited = False
        result = history.previous(text) if step == "u" else history.next(text)
        text = text if result is None else result
    seen = {text}
    for move in (history.next, history.previous):
        while True:
            result = move(text)
            if result is None:
                break
            text = result
            seen.add(text)
    assert set(typed) <= seen


# Searching


def test_search(history: History) -> None:
    history.add("sent now")
    cases = [
        ("", 6),
        ("fix", 3),
        ("FIX", 0),
        ("Fix", 1),
        ("parser fix", 1),
        ("lines", 1),
        ("deploy", 1),
        ("nothing", 0),
        ("now", 1),
    ]
    wrong = []
    for query, count in cases:
        found = history.search(query)
        if len(found) != count:
            wrong.append(f"{query}: {found}")
    assert not wrong, "\n".join(wrong)
    assert [entry.text for entry in history.search("fix")] == [
        "fix\nboth lines",
        "Fix everything",
        "fix the parser",
    ]


def type_keys(search: HistorySearch, text: str) -> None:
    for character in text:
        assert search.handle(Key("text", character)) == "open"


def test_enter_takes_the_selected_text(history: History) -> None:
    search = HistorySearch(history, "draft")
    type_keys(search, "fix")
    assert search.text == "draft"
    assert search.handle(Key("ctrl-r")) == "open"
    assert search.handle(Key("up")) == "open"
    assert search.handle(Key("up")) == "open"
    assert search.handle(Key("down")) == "open"
    assert search.handle(FocusChange(False)) == "open"
    assert search.handle(Key("f1")) == "open"
    assert search.handle(Key("enter")) == "taken"
    assert search.text == "Fix everything"


def test_esc_restores_the_draft(history: History) -> None:
    for name in ("esc", "ctrl-g", "ctrl-c"):
        search = HistorySearch(history, "draft")
        type_keys(search, "fix")
        assert search.handle(Key(name)) == "canceled"
        assert search.text == "draft"


def test_enter_without_a_match_restores_the_draft(history: History) -> None:
    search = HistorySearch(history, "draft")
    type_keys(search, "nothing like this")
    assert search.selected is None
    assert search.handle(Key("enter")) == "canceled"
    assert search.text == "draft"


def test_editing_the_query(history: History) -> None:
    search = HistorySearch(history)
    search.handle(Paste("fix the\r\nparser"))
    assert search.query == "fix the"
    search.handle(Key("backspace"))
    assert search.query == "fix th"
    search.handle(Key("ctrl-w"))
    assert search.query == "fix"
    search.handle(Key("up"))
    search.handle(Key("ctrl-u"))
    assert search.query == ""
    assert search.selected is not None
    assert search.selected.text == "fix\nboth lines"


def test_rows_of_the_search(history: History) -> None:
    search = HistorySearch(history)
    type_keys(search, "fix")
    assert search.rows(60, 6, PLAIN) == [
        "  fix the parser                                       other",
        "  Fix everything                                       other",
        "❯ fix …",
        "search: fix   1 of 3",
        "Enter: edit · Esc: back · Ctrl-R: older",
    ]
    search.handle(Key("up"))
    search.handle(Key("up"))
    assert search.rows(30, 3, PLAIN) == [
        "❯ fix the parser",
        "  Fix everything",
        "search: fix   3 of 3",
    ]
    assert search.rows(30, 1, PLAIN) == ["search: fix   3 of 3"]
    type_keys(search, "zzz")
    assert search.rows(40, 5, PLAIN)[0] == "search: fixzzz   no match"


@given(st.lists(st.text(max_size=60), max_size=8), st.text(max_size=30), st.integers(10, 60))
@example(["a\tb\rc\x1b[2J"], "a\r\t\u202e", 10)
def test_rows_of_the_search_fit(added: list[str], query: str, width: int) -> None:
    history = History(Path("unused"), PROJECT, clock=Clock())
    for text in added:
        history.add(text)
    search = HistorySearch(history)
    for theme in (PLAIN, Theme()):
        for max_rows in (1, 3, 5):
            rows = search.rows(width, max_rows, theme)
            assert len(rows) <= max_rows
            assert max(cells(row) for row in rows) <= width
            plain = "".join(rows).replace("\x1b[", "")
            assert not [c for c in plain if c < " " or "\x7f" <= c < "\xa0"]
        search.handle(Key("text", query))
        search.handle(Key("up"))
