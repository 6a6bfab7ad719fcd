"""The file of memories: several processes, what is forgotten, what is not ours, what is old or too
much.
"""

import os
import sqlite3
import subprocess
import sys
import textwrap

import pytest
from hilum import StoreError, UsageError
from hilum_memory.longterm import database
from hilum_memory.longterm.memories import DAY, HISTORY_DAYS, MAX_HISTORY, Memories
from hilum_memory.longterm.memory import USER, Memory
from hilum_memory.longterm.tokenizer import subject_key, tokenize

HERE = "/work"


@pytest.fixture
def path(tmp_path):
    """A file that does not exist yet, in a folder that does not either."""
    return tmp_path / "data" / "memory.db"


@pytest.fixture
def memories(path):
    """Memories in it."""
    return Memories(path)


def add(memories: Memories, text: str, scope: str = HERE, **more) -> int:
    """Add a memory; gives its number."""
    return memories.add(Memory(scope=scope, text=text, **more)).memory.id


def texts(memories: Memories, *scopes: str) -> list[str]:
    """All that is held, oldest first."""
    return [memory.text for memory in reversed(memories.all(scopes or (HERE, USER)))]


def found(memories: Memories, text: str) -> list[str]:
    """What is found, best first."""
    return [memory.text for memory, _ in memories.search(text, [HERE, USER])]


# --- finding --------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["fts5", "no fts5"])
def either(request, monkeypatch, memories):
    """Memories with and without full-text search in SQLite."""
    if not request.param:
        monkeypatch.setattr(database, "has_fts5", lambda: False)
    return memories


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        ("The tests need a running redis.", "why does the test fail"),
        ("缓存目录不要提交到仓库", "缓存在哪里"),
        ("単体テストは pytest で実行する", "テストを実行"),
        ("테스트는 도커에서 실행한다", "도커 문제"),
        ("getUserName is deprecated", "where is the user name read"),
        ("Café orders are kept in SQLite", "CAFÉ"),
        ("See src/http_client.py for retries", "http_client"),
        ("ＡＰＩ version is 2", "api"),
    ],
)
def test_words_of_many_scripts_are_found(either, held, asked) -> None:
    """By a word or two of them."""
    add(either, "Something else about deployment altogether.")
    add(either, held)
    assert found(either, asked) == [held]


def test_what_fits_better_comes_first(either) -> None:
    """More of the rare words."""
    add(either, "The parser is written by hand.")
    add(either, "The grammar of the parser is in grammar.lark.")
    for number in range(20):
        add(either, f"The parser has a quirk of kind alpha{number}beta.")
    assert (
        found(either, "grammar of the parser")[0] == "The grammar of the parser is in grammar.lark."
    )


@pytest.mark.parametrize(
    "asked", ["", '"', "a OR", "NEAR(", "* ^ :", "words:", "'; DROP TABLE memories; --", "\0", "的"]
)
def test_no_text_is_a_query_by_accident(either, asked) -> None:
    """Words only, each quoted."""
    add(either, "A word or near words.")
    found(either, asked)
    assert texts(either) == ["A word or near words."]


def test_a_common_word_does_not_make_it_slow_or_empty(memories) -> None:
    """The rarest words are looked for first, and one always is."""
    for number in range(30):
        add(memories, f"common thing{number}x")
    assert len(found(memories, "common")) == 30


# --- one subject ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Use tabs.", "Do not use tabs."),
        ("Never push to main.", "Push to main."),
        ("Port 8080 is the dev server.", "The dev server is port 9090"),
        ("提交前要运行测试", "提交前不要运行测试"),
    ],
)
def test_the_newer_of_two_with_one_subject_holds(memories, old, new) -> None:
    """They differ in a negation, a number, or little words."""
    add(memories, old)
    written = memories.add(Memory(scope=HERE, text=new))
    assert (written.what, [one.text for one in written.replaced]) == ("replaces", [old])
    assert texts(memories) == [new]
    assert [one.text for one in memories.history(written.memory.id)] == [old]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Service alpha uses port 80.", "Service beta uses port 80."),
        ("Lint runs first.", "Tests run first."),
        ("不", "没"),
    ],
)
def test_two_subjects_stand_beside_each_other(memories, one, other) -> None:
    """Only one word may differ."""
    assert subject_key(one) != subject_key(other)
    add(memories, one)
    add(memories, other)
    assert texts(memories) == [one, other]


def test_scopes_do_not_touch_each_other(memories) -> None:
    """The same sentence may hold here and everywhere, and nothing of another scope is replaced."""
    first = add(memories, "Use tabs.", USER)
    memories.add(Memory(scope=HERE, text="Use no tabs."), [first])
    assert texts(memories) == ["Use tabs.", "Use no tabs."]


# --- bounds and age -------------------------------------------------------------------------------


def test_the_number_is_bounded_and_what_the_user_asked_for_stays_longest(path) -> None:
    """The least used goes first."""
    now = [1_000_000.0]
    memories = Memories(path, most=3, clock=lambda: now[0])
    asked = add(memories, "Asked by the user alpha.")
    for name in ("beta", "gamma", "delta"):
        now[0] += 10
        add(memories, f"Found out {name}.", origin="run")
    assert texts(memories) == ["Asked by the user alpha.", "Found out gamma.", "Found out delta."]
    now[0] += 10
    memories.used([asked + 2])
    add(memories, "Found out epsilon.", origin="run")
    assert "Found out gamma." in texts(memories)
    assert "Found out delta." not in texts(memories)


def test_what_nobody_asked_for_or_used_ages_away(path) -> None:
    """What was recalled, confirmed or asked for does not."""
    now = [1_000_000_000.0]
    memories = Memories(path, keep_days=100, clock=lambda: now[0])
    used = add(memories, "Used alpha.", origin="run")
    add(memories, "Unused beta.", origin="run")
    add(memories, "Asked gamma.", origin="user")
    now[0] += 60 * DAY
    memories.used([used])
    now[0] += 60 * DAY
    add(memories, "New delta.", origin="run")
    assert texts(memories) == ["Used alpha.", "Asked gamma.", "New delta."]


def test_what_was_replaced_is_kept_for_a_while(path) -> None:
    """Counted from when it was replaced, however old it was."""
    now = [1_000_000_000.0]
    memories = Memories(path, clock=lambda: now[0])
    add(memories, "The version is 1.")
    now[0] += 300 * DAY
    id = add(memories, "The version is 2.")
    now[0] += (HISTORY_DAYS - 1) * DAY
    add(memories, "Something else.")
    assert len(memories.history(id)) == 1
    now[0] += 2 * DAY
    add(memories, "Something new again.")
    assert memories.history(id) == []


def test_the_past_of_a_memory_is_bounded(memories) -> None:
    """The oldest go."""
    for number in range(MAX_HISTORY + 4):
        last = add(memories, f"The version is {number}.")
    assert [one.text for one in memories.history(last)] == [
        f"The version is {MAX_HISTORY + 2 - n}." for n in range(MAX_HISTORY)
    ]


# --- forgetting -----------------------------------------------------------------------------------


def everything(path) -> bytes:
    """All bytes of the file and of what lies beside it."""
    return b"".join(each.read_bytes() for each in path.parent.iterdir())


def test_what_is_forgotten_is_in_no_file_any_more(memories, path) -> None:
    """Neither its text, nor its words in the index, nor what it replaced."""
    for number in range(60):
        add(memories, f"Filler{number}x about the weather in town{number}y.")
    add(memories, "Xylophone 1 belongs to Quetzalcoatl")
    id = add(memories, "Xylophone 2 belongs to Quetzalcoatl")
    add(memories, "Zyzzyva is a weevil")
    assert b"uetzalcoatl" in everything(path)
    assert [one.text for one in memories.forget([id])] == ["Xylophone 2 belongs to Quetzalcoatl"]
    left = everything(path).lower()
    assert b"quetzalcoatl" not in left
    assert b"ylophone" not in left
    assert b"zyzzyva" in left
    assert found(memories, "xylophone") == []
    assert add(memories, "Another") > id


def test_an_edited_text_is_gone_as_well(memories, path) -> None:
    """It was wrong."""
    id = add(memories, "Quetzalcoatl is the boss")
    memories.edit(id, "Nobody is the boss")
    assert b"uetzalcoatl" not in everything(path).lower()
    assert found(memories, "boss") == ["Nobody is the boss"]


def test_all_of_a_scope_is_forgotten(memories, path) -> None:
    """The other stays."""
    add(memories, "Quetzalcoatl one", HERE)
    add(memories, "Quetzalcoatl 2", HERE)
    add(memories, "The weevil", USER)
    assert memories.forget_all([HERE]) == 2
    assert b"uetzalcoatl" not in everything(path).lower()
    assert texts(memories) == ["The weevil"]


def test_none_is_forgotten_where_one_is_unknown(memories) -> None:
    """All or nothing."""
    id = add(memories, "Stay.")
    with pytest.raises(UsageError, match=r"There is no memory 99\."):
        memories.forget([id, 99])
    assert texts(memories) == ["Stay."]


def is_sound(path) -> bool:
    """Whether the index says what the memories say; SQLite complains if not."""
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO found (found, rank) VALUES ('integrity-check', 1)")
    return True


def test_a_memory_is_forgotten_together_with_what_it_replaced_by_its_own_number(
    memories, path
) -> None:
    """It goes once: the index would be damaged by a second time, and the file with it."""
    old, new = add(memories, "Python 3.11 is used"), add(memories, "Python 3.12 is used")
    add(memories, "Python is a snake")
    assert [one.id for one in memories.history(new)] == [old]
    assert [one.id for one in memories.forget([new, old, new])] == [new, old]
    assert found(memories, "python") == ["Python is a snake"]
    assert is_sound(path)


def test_the_index_is_sound_after_what_is_old_and_what_it_replaced_went_at_once(path) -> None:
    """Both for reasons of their own."""
    now = [0.0]
    memories = Memories(path, keep_days=200.0, clock=lambda: now[0])
    for number in range(3):
        add(memories, f"The version is {number}.", origin="run")
    now[0] = 201 * DAY
    add(memories, "Another version of the story")
    assert [one.text for one in memories.all([HERE], replaced=True)] == [
        "Another version of the story"
    ]
    assert found(memories, "version") == ["Another version of the story"]
    assert is_sound(path)


def test_without_full_text_search_forgetting_is_as_thorough(memories, path, monkeypatch) -> None:
    """The index of another Python is emptied, and made anew when that one writes again."""
    id = add(memories, "Quetzalcoatl is the boss")
    add(memories, "Zyzzyva is a weevil")
    with monkeypatch.context() as patch:
        patch.setattr(database, "has_fts5", lambda: False)
        memories.forget([id])
        add(memories, "Written without an index")
        assert found(memories, "weevils") == ["Zyzzyva is a weevil"]
    assert b"uetzalcoatl" not in everything(path).lower()
    assert found(memories, "indexes written") == ["Written without an index"]
    add(memories, "Back again")
    assert found(memories, "index") == ["Written without an index"]
    assert found(memories, "weevil") == ["Zyzzyva is a weevil"]


# --- the file -------------------------------------------------------------------------------------


def test_nothing_is_made_by_looking(memories, path) -> None:
    """Neither file nor folder."""
    assert memories.all([HERE]) == []
    assert memories.search("x", [HERE]) == []
    assert not memories.is_off(HERE)
    assert not path.parent.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no such modes")
def test_only_the_user_can_read_it(memories, path) -> None:
    """File and folder."""
    add(memories, "Mine.")
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert oct(path.parent.stat().st_mode & 0o777) == "0o700"


def foreign_text(path) -> None:
    path.write_text("dear diary")


def foreign_database(path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE memories (id INTEGER)")
    connection.close()


def newer(path) -> None:
    Memories(path).add(Memory(text="From the future."))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def torn(path) -> None:
    memories = Memories(path)
    for number in range(200):
        memories.add(Memory(text=f"Memory alpha{number}x of a file that is cut in half."))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbled(path) -> None:
    memories = Memories(path)
    for number in range(200):
        memories.add(Memory(text=f"Memory alpha{number}x of a file that is garbled."))
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    path.write_bytes(bytes(data))


def folder(path) -> None:
    path.mkdir()


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (foreign_text, "is not a memory file: it is not an SQLite file"),
        (foreign_database, "is not a memory file: another program created it"),
        (newer, "was made by a newer hilum"),
        (torn, "is damaged"),
        (garbled, "is damaged"),
        (folder, "cannot be used"),
        (os.mkfifo, "is not a memory file: it is a pipe"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_and_not_touched(path, make, said) -> None:
    """Reading and writing say so, with what to do."""
    path.parent.mkdir(parents=True)
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    memories = Memories(path)
    for work in (
        lambda: memories.all([HERE, USER]),
        lambda: add(memories, "New."),
        lambda: memories.forget_all([USER]),
    ):
        with pytest.raises(StoreError) as caught:
            work()
        assert said in caught.value.message
        assert caught.value.hint
    assert (path.read_bytes() if path.is_file() else b"") == before
    assert sorted(each.name for each in path.parent.iterdir()) == ["memory.db"]


def test_a_locked_file_is_told(memories, path, monkeypatch) -> None:
    """Another program may hold it for long."""
    monkeypatch.setattr(database, "LOCK_TIMEOUT", 0.05)
    add(memories, "First.")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError) as caught:
        add(memories, "Second.")
    assert caught.value.code == "E_BUSY"
    holder.close()
    add(memories, "Second.")


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits")
def test_a_full_disk_is_told_and_nothing_is_half_written(memories, path) -> None:
    """A limit on the size of files stands for it."""
    add(memories, "First.")
    code = """
        import resource, signal, sys
        from pathlib import Path
        from hilum import StoreError
        from hilum_memory.longterm.memories import Memories
        from hilum_memory.longterm.memory import Memory
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        path = Path(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, path.stat().st_size))
        memories = Memories(path)
        try:
            for number in range(500):
                memories.add(Memory(scope="/work", text=f"Memory alpha{number}x is written until it is full. " * 5))
        except StoreError as error:
            print(error.message)
    """
    done = run(code, path)
    assert "could not be written" in done
    assert texts(memories)[0] == "First."
    add(memories, "There is room again.")
    assert found(memories, "room") == ["There is room again."]


def test_many_processes_write_at_once(memories, path) -> None:
    """From the first instant on, when there is no file: nothing is lost, and nothing is there
    twice.
    """
    code = """
        import sys
        from pathlib import Path
        from hilum_memory.longterm.memories import Memories
        from hilum_memory.longterm.memory import Memory
        memories = Memories(Path(sys.argv[1]))
        sys.stdin.read(1)
        for number in range(8):
            memories.add(Memory(scope="/work", text=f"Process alpha{sys.argv[2]}x wrote beta{number}y."))
            memories.add(Memory(scope="/work", text="All write this one."))
        memories.forget([memories.search(f"alpha{sys.argv[2]}x", ["/work"])[0][0].id])
    """
    children = [start(code, path, str(number)) for number in range(3)]
    for child in children:
        child.stdin.write("x")
        child.stdin.flush()
    for child in children:
        _, errors = child.communicate(timeout=60)
        assert child.returncode == 0, errors
    held = texts(memories)
    assert held.count("All write this one.") == 1
    assert len(held) == 3 * 7 + 1
    assert all(sum(f"alpha{number}x" in text for text in held) == 7 for number in range(3))
    assert len(memories.search("process", [HERE], limit=100)) == 3 * 7


def start(code: str, *arguments: object) -> "subprocess.Popen[str]":
    """Start Python on some code."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(code: str, *arguments: object) -> str:
    """Run it; gives what it prints."""
    out, errors = start(code, *arguments).communicate(timeout=60)
    assert not errors, errors
    return out


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tests testing tested", ["test", "test", "test"]),
        ("parseHTTPResponse", ["parsehttpresponse", "parse", "http", "response"]),
        ("snake_case_name", ["snake", "case", "name"]),
        ("用uv安装", ["用", "uv", "安", "装", "安装"]),
        ("", []),
    ],
)
def test_words(text, expected) -> None:
    """Stems, parts of names, characters and pairs."""
    assert tokenize(text) == expected
