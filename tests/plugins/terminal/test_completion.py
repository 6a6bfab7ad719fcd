"""Completion: what is being typed, which candidates fit best, the menu, and what it inserts."""

import random
import time

from hilum_terminal.completion import (
    MAX_ROWS,
    Accept,
    Candidate,
    Close,
    Completed,
    CompletionMenu,
    CompletionRequest,
    Moved,
    complete,
    parse_completion,
    rank,
    rank_candidates,
)
from hilum_terminal.keys import Key, Paste
from hilum_terminal.styles import PLAIN, Theme
from hilum_terminal.text_width import cells
from hilum_view.fuzzy_index import FuzzyIndex

# The cursor is at "|". The result: kind and query, or None.
PARSED = {
    "|": None,
    "hello|": None,
    "/|": ("command", ""),
    "/na|": ("command", "na"),
    "/n|ame": ("command", "n"),
    "/server:pro|": ("command", "server:pro"),
    "see /na|": None,
    "a/b|": None,
    "/usr/|": None,
    "/us|r/bin": None,
    " /na|": None,
    "one\n/na|": None,
    "/model op|": ("argument", "op"),
    "/model |": ("argument", ""),
    "/model a b|": ("argument", "b"),
    "/fix the\nbug|": None,
    "/fix @src|": ("mention", "src"),
    "@|": ("mention", ""),
    "@src/a|": ("mention", "src/a"),
    "see @src/a|b and": ("mention", "src/a"),
    "see (@src|": ("mention", "src"),
    "me@example|": None,
    "me.you@example.com|": None,
    "pkg@1.2|": None,
    "@src done|": None,
    '@"my pa|': ("mention", "my pa"),
    '@"my pa|th" x': ("mention", "my pa"),
    '@"my path" x|': None,
    "@a\n@b|": ("mention", "b"),
    "@a@b|": ("mention", "a@b"),
    "!|": None,
    "!l|": None,
    "!./ru|": ("path", "./ru"),
    "!bin/ru|": ("path", "bin/ru"),
    "!ls sr|": ("path", "sr"),
    "!ls |": ("path", ""),
    "!  l|": None,
    "!ls | gre|": None,
    "!ls | grep x fi|": ("path", "fi"),
    "!ls 'my fi|": ("path", "my fi"),
    '!ls "my fi|': ("path", "my fi"),
    "!ls my\\ fi|": ("path", "my fi"),
    "!cat @sr|": ("path", "@sr"),
    "!ls --dir=sr|": ("path", "sr"),
    "!ls > ou|": ("path", "ou"),
}


def parse(marked):
    cursor = marked.rindex("|")
    return parse_completion(marked[:cursor] + marked[cursor + 1 :], cursor)


def test_what_is_being_typed():
    wrong = []
    for marked, expected in PARSED.items():
        request = parse(marked)
        found = None if request is None else (request.kind, request.query)
        if found != expected:
            wrong.append((marked, found))
    assert wrong == []


def test_the_arguments_of_a_command():
    request = parse("/mcp  add so|me thing")
    assert request == CompletionRequest("argument", "so", 10, 14, "mcp", "add")


def test_any_text_can_be_parsed():
    chooser = random.Random(1)
    for _ in range(3000):
        text = "".join(chooser.choices("/@!\"' \\\nab中.|&=", k=chooser.randint(0, 12)))
        for cursor in range(len(text) + 1):
            request = parse_completion(text, cursor)
            if request is not None:
                assert 0 <= request.start <= cursor <= request.end <= len(text)


def test_what_is_inserted():
    table = {
        # typed, candidate: the text afterwards
        ("/na|", "name"): "/name |",
        ("/n|a", "name"): "/name |",
        ("/model op|", "openai/gpt"): "/model openai/gpt |",
        ("see @sr| and", "src/a.py"): "see @src/a.py |and",
        ("see @s|rc and", "src/a.py"): "see @src/a.py |and",
        ("@sr|", "src/"): "@src/|",
        ("@my|", "my file.py"): '@"my file.py" |',
        ("@my|", "my folder/"): '@"my folder/|',
        ('@"my folder/a|', "my folder/a b"): '@"my folder/a b" |',
        ('@"my |fi" x', "my file"): '@"my file" |x',
        ("@a|", 'a "b"/'): '@"a \\"b\\"/|',
        ('@"a \\"b\\"/|c" d', 'a "b"/c'): '@"a \\"b\\"/c" |d',
        ("!ls my|", "my file.py"): "!ls my\\ file.py |",
        ("!ls 'my fi|", "my file.py"): "!ls my\\ file.py |",
        ("!ls my|", "my folder/"): "!ls my\\ folder/|",
        ("!ls a|", "a;rm -rf $HOME"): "!ls a\\;rm\\ -rf\\ \\$HOME |",
        ("one\n@a|\ntwo", "a.py"): "one\n@a.py|\ntwo",
    }
    wrong = []
    for (marked, text), expected in table.items():
        cursor = marked.index("|")
        typed = marked[:cursor] + marked[cursor + 1 :]
        request = parse_completion(typed, cursor)
        result = complete(typed, request, Candidate(text))
        at = expected.index("|")
        if result != Completed(expected[:at] + expected[at + 1 :], at):
            wrong.append((marked, result))
    assert wrong == []


def test_a_folder_is_completed_further():
    text = '@"my folder/'
    assert parse_completion(text, len(text)).query == "my folder/"
    text = "!ls my\\ folder/"
    assert parse_completion(text, len(text)).query == "my folder/"


# Ranking

PATHS = (
    "docs/session.md",
    "kernel/hilum/session.py",
    "kernel/hilum/sessions/readme.md",
    "plugins/view/hilum_view/session.py",
    "plugins/view/hilum_view/waiting.py",
    "plugins/terminal/hilum_terminal/approvals.py",
    "plugins/cli/hilum_cli/approvals.py",
    "src/components/FileTree.tsx",
    "tests/test_session_view.py",
    "README.md",
)


def best(query, texts=PATHS):
    return [texts[index] for index in rank(query, texts)]


def test_the_best_path_comes_first():
    table = {
        "session": "docs/session.md",
        "sessions": "kernel/hilum/sessions/readme.md",
        "readme": "README.md",
        "README": "README.md",
        "waiting": "plugins/view/hilum_view/waiting.py",
        "tapp": "plugins/terminal/hilum_terminal/approvals.py",
        "cli/app": "plugins/cli/hilum_cli/approvals.py",
        "ft": "src/components/FileTree.tsx",
        "tsv": "tests/test_session_view.py",
        "sess view": "tests/test_session_view.py",
        "view sess": "tests/test_session_view.py",
    }
    wrong = [(query, best(query)[:2]) for query in table if best(query)[0] != table[query]]
    assert wrong == []


def test_the_name_of_a_file_counts_more_than_its_folder():
    assert best("view", ("view/a.py", "a/view.py")) == ["a/view.py", "view/a.py"]
    assert best("view", ("review.py", "view.py", "my_view.py"))[:2] == ["view.py", "my_view.py"]


def test_letters_together_count_more_than_scattered_ones():
    assert best("abc", ("axbxc.py", "x_abc.py"))[0] == "x_abc.py"


def test_case_matters_only_if_a_capital_is_typed():
    texts = ("readme.md", "README.md")
    assert len(best("readme", texts)) == 2
    assert best("README", texts) == ["README.md"]


def test_only_texts_with_all_letters_fit():
    chooser = random.Random(2)
    texts = ["".join(chooser.choices("abc/_.İß中", k=chooser.randint(0, 9))) for _ in range(300)]
    for _ in range(200):
        query = "".join(chooser.choices("abc/中", k=chooser.randint(1, 4)))
        index = FuzzyIndex(texts)
        for length in range(1, len(query) + 1):
            found = set(index.rank(query[:length], max_rows=1000))
            expected = set()
            for number, text in enumerate(texts):
                rest = iter(text)
                if all(char in rest for char in query[:length]):
                    expected.add(number)
            assert found == expected


def test_an_index_forgets_what_was_typed_before():
    index = FuzzyIndex(PATHS)
    index.rank("waiting")
    index.rank("waitingx")
    assert PATHS[index.rank("readme")[0]] == "README.md"
    assert index.rank("") == list(range(len(PATHS)))


def test_a_query_in_another_thread_changes_no_results():
    class SharedIndex(FuzzyIndex):
        """An index that another thread uses just after each change of it."""

        other = ""

        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            query = self.other
            self.__dict__["other"] = ""
            if query:
                self.rank(query)

    texts = ["ab", "abc", "ca", "cab"]
    index = SharedIndex(texts)
    index.rank("a")
    index.__dict__["other"] = "c"
    for query in ("ab", "ca", "abc", "a"):
        assert index.rank(query) == rank(query, texts)


def test_twenty_thousand_paths_are_fast():
    chooser = random.Random(3)
    words = "src core model view session approval terminal plugin event config parse cache".split()
    paths = []
    for number in range(20_000):
        folders = "/".join(chooser.choices(words, k=chooser.randint(1, 6)))
        paths.append(f"{folders}/{chooser.choice(words)}_{number}.py")
    index = FuzzyIndex(paths)
    slowest = 0.0
    for query in ("sessionview", "e", "tcp", "core/app", "eeeee", "a b c"):
        for length in range(1, len(query) + 1):
            before = time.process_time()
            index.rank(query[:length])
            slowest = max(slowest, time.process_time() - before)
    # About 25 ms; the limit only notices another order of growth.
    assert slowest < 0.25


COMMANDS = (
    Candidate("agents", "Show the agents"),
    Candidate("compact", "Summarize the conversation"),
    Candidate("context", "Show what fills the window"),
    Candidate("cost", "Show tokens and money"),
    Candidate("undo", "Take back the changes of the last call"),
)


def test_commands():
    table = {
        "": ["agents", "compact", "context", "cost", "undo"],
        "co": ["cost", "compact", "context"],
        "ctx": ["context"],
        "money": ["cost"],
        "und": ["undo"],
        "zzz": [],
    }
    wrong = []
    for query, expected in table.items():
        found = [each.text for each in rank_candidates(query, COMMANDS)]
        if found != expected:
            wrong.append((query, found))
    assert wrong == []


# The menu


def menu(query="", candidates=COMMANDS, kind="command"):
    return CompletionMenu(CompletionRequest(kind, query, 0, len(query) + 1), candidates)


def test_the_keys_of_the_menu():
    table = {
        ("tab",): Accept(COMMANDS[0]),
        ("enter",): Accept(COMMANDS[0]),
        ("down", "enter"): Accept(COMMANDS[1]),
        ("up", "tab"): Accept(COMMANDS[4]),
        ("page-down", "tab"): Accept(COMMANDS[4]),
        ("page-down", "page-up", "tab"): Accept(COMMANDS[0]),
        ("down",): Moved(),
        ("esc",): Close(),
        ("left",): None,
        ("text",): None,
    }
    wrong = []
    for keys, expected in table.items():
        opened = menu()
        for key in keys:
            result = opened.handle(Key(key, "x" if key == "text" else ""))
        if result != expected:
            wrong.append((keys, result))
    assert wrong == []
    assert menu().handle(Paste("\n")) is None


def test_enter_sends_what_is_complete():
    assert menu("undo", COMMANDS[4:]).handle(Key("enter")) is None
    assert menu("undo", COMMANDS[4:]).handle(Key("tab")) == Accept(COMMANDS[4])


def test_enter_completes_only_what_is_incomplete():
    words = (Candidate("list", ""), Candidate("list-all", ""))
    table = {
        # kind, query, other keys: whether Enter completes
        ("command", "li"): True,
        ("command", "list"): False,
        ("command", "list", "down"): True,
        ("argument", "li"): True,
        ("argument", ""): False,
        ("argument", "/mcp "): False,
        ("argument", "", "down"): True,
        ("mention", ""): True,
        ("path", "li"): False,
        ("path", "li", "down"): True,
    }
    wrong = []
    for (kind, query, *keys), completes in table.items():
        opened = menu(query, words, kind)
        for key in keys:
            opened.handle(Key(key))
        if isinstance(opened.handle(Key("enter")), Accept) != completes:
            wrong.append((kind, query, keys))
    assert wrong == []


def test_a_menu_without_candidates_takes_no_key():
    closed = menu(candidates=())
    assert not closed.is_open()
    assert closed.handle(Key("esc")) is None
    assert closed.handle(Key("enter")) is None
    assert closed.rows(80, 8, PLAIN) == []


def test_the_best_candidate_is_selected_after_more_letters():
    opened = menu()
    opened.handle(Key("down"))
    opened.update(opened.request, COMMANDS)
    assert opened.selected == 1
    opened.update(CompletionRequest("command", "co", 0, 3), COMMANDS[1:])
    assert opened.selected == 0


def test_the_rows_of_the_menu():
    assert menu().rows(60, 8, PLAIN) == [
        "▸ /agents   Show the agents",
        "  /compact  Summarize the conversation",
        "  /context  Show what fills the window",
        "  /cost     Show tokens and money",
        "  /undo     Take back the changes of the last call",
    ]
    many = [Candidate(f"c{number}") for number in range(30)]
    opened = menu(candidates=many)
    for _ in range(9):
        opened.handle(Key("down"))
    rows = opened.rows(60, 20, PLAIN)
    assert len(rows) == MAX_ROWS
    assert "▸ /c9" in rows
    assert rows[-1] == "  10 of 30"


def test_the_menu_shows_keys():
    """The key stays visible where the description has no room."""
    candidates = [
        Candidate("mode", "Choose what the agent may do", "mode [MODE]", "Alt-M"),
        Candidate("cost", "Show tokens"),
    ]
    opened = menu(candidates=candidates)
    assert opened.rows(60, 8, PLAIN) == [
        "▸ /mode [MODE]  Choose what the agent may do  Alt-M",
        "  /cost         Show tokens",
    ]
    assert opened.rows(40, 8, PLAIN)[0] == "▸ /mode [MODE]  Choose what the …  Alt-M"
    assert opened.rows(20, 8, PLAIN)[0].startswith("▸ /mode")


def test_a_long_path_keeps_its_end():
    path = "packages/" * 10 + "deep/file.py"
    (row,) = menu(candidates=[Candidate(path)], kind="mention").rows(30, 8, PLAIN)
    assert row.endswith("deep/file.py")


def test_rows_fit_every_window():
    candidates = [
        Candidate("中文" * 40, "描述" * 40),
        Candidate("evil\x1b[2J\n\r\u202e", "evil\x1b]0;x\x07"),
        *[Candidate(f"path/{number}" * 9) for number in range(20)],
    ]
    wrong = []
    for width in (1, 2, 5, 20, 60, 300):
        for max_rows in range(10):
            opened = menu(candidates=candidates)
            for _ in range(4):
                rows = opened.rows(width, max_rows, Theme())
                too_wide = any(cells(row) > width for row in rows)
                if len(rows) > max_rows or too_wide or any("\x1b[2J" in row for row in rows):
                    wrong.append((width, max_rows, rows))
                opened.handle(Key("up"))
    assert wrong == []
