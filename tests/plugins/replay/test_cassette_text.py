"""A cassette as text: everything comes back, a killed recording stays readable, mistakes are
named.
"""

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hilum.errors import UsageError
from hilum.events import ModelAnswered, ModelStarted
from hilum.messages import AssistantMessage, Text, Thinking, ToolCall, Usage
from hilum_replay import Cassette, Exchange, Recorder, Sent, dumps, load, loads, save

NASTY = [
    "", "plain", "two\nlines", "ends with newline\n", "\n", "\n\nstarts empty",
    "tab\tinside\t", "trailing blank \nnext\t\n ",
    "quote \" and 'single'", 'ends with quote"', "ends with single'", '"""', "'''", "'''\n\\\n\"\"\"", "a\\b",
    "\\", "line\\\nnext\\",
    "C:\\path\\new", "carriage\r\nreturn\r", "\x00\x01\x1b[31mred\x1b[0m\x7f", "\u2028 and \u2029 and \x85", "ünïcödé 🌱 漢字",
    "[[exchange]]", "text\n[[exchange]]\nmore", "back\\slash\n[[exchange.answer]]\n", "# no comment",
    "{workspace}", 'a""\n""b""', "x\n'",
]  # fmt: skip

ARGUMENTS = [
    "{}", "", "not json", "[1,2]", '{"a": 1}', '{"a":1}', '{"path":"a.py","content":"x = 1\\n\\tif y:\\n"}', '{"a":null}',
    '{"a":{"b":[1,2.5,true,"x"],"c":{}}}', '{"n":123456789012345678901234567890}', '{"a":1,"a":2}', '{"odd key":1,"":2,"é":3}',
    '{ "spaced" :1}', '{"u":"\\u00e9"}', '{"f":1e400}', '{"f":1.0,"e":1e+16}', '{"a":[]}', '{"nested":[{"x":"two\\nlines"}]}',
]  # fmt: skip


def exchange(
    *parts: Text | Thinking | ToolCall, sent: tuple[Sent, ...] = (), **fields: object
) -> Exchange:
    stop = "calls" if any(isinstance(part, ToolCall) for part in parts) else "end"
    return Exchange(sent, AssistantMessage(parts, "test/model", stop), **fields)


@pytest.mark.parametrize("text", NASTY)
def test_every_text_comes_back_as_it_was(text: str) -> None:
    """Whatever a text holds, writing and reading gives the same text in every place it can
    stand.
    """
    sent = (
        Sent("user", text, source="context:x"),
        Sent("note", text),
        Sent("result", text, "id", "tool", "E_X"),
    )
    one = exchange(
        Text(text, "model"),
        Thinking(text, {"signature": text}),
        ToolCall("c1", "t", text),
        sent=sent,
    )
    cassette = Cassette((one, one), "test/model", "0.1", title=text)
    assert loads(dumps(cassette)) == cassette


def test_random_texts_come_back_as_they_were(trials: Callable[[int, int], int]) -> None:
    """Texts made of the characters that TOML treats specially survive."""
    rng = random.Random(7)
    letters = [
        "\\",
        '"',
        "'",
        "\n",
        " ",
        "\t",
        "\r",
        "[",
        "[[exchange",
        "a",
        "u0041",
        "#",
        "=",
        "\x00",
        "é",
    ]
    for _ in range(trials(300, 2000)):
        text = "".join(rng.choices(letters, k=rng.randint(1, 12)))
        cassette = Cassette((exchange(Text(text, "model")),), "test/model", "0.1")
        assert loads(dumps(cassette)) == cassette, repr(text)


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_arguments_come_back_letter_by_letter(arguments: str) -> None:
    """Arguments are stored as keys only where that gives the very same JSON text."""
    cassette = Cassette((exchange(ToolCall("c1", "write_file", arguments)),), "test/model", "0.1")
    assert loads(dumps(cassette)) == cassette


def test_a_written_file_reads_as_a_file() -> None:
    """The content of a file stands line by line, so that a diff of a cassette can be reviewed."""
    call = ToolCall("c1", "write_file", '{"path":"a.py","content":"def f():\\n    return 1\\n"}')
    text = dumps(Cassette((exchange(call),)))
    assert '\narguments.path = "a.py"\n' in text
    assert "\ndef f():\n    return 1\n" in text


def test_all_fields_come_back() -> None:
    """Usage, times, agent, layers and tools survive."""
    usage = Usage(10, 2, 3, 4, 5, 0.25)
    one = exchange(
        Text("hi", "model"),
        usage=usage,
        first=0.5,
        seconds=1.25,
        agent="sub",
        layers=("meta 1",),
        tools=(),
    )
    cassette = Cassette((one,), "test/model", "0.1")
    assert loads(dumps(cassette)) == cassette


def test_a_recording_cut_at_any_byte_is_a_cassette_up_to_its_last_whole_exchange() -> None:
    """Wherever the writing process dies, what was complete can be played."""
    call = ToolCall("c1", "write_file", '{"path":"a","content":"x\\n[[exchange]]\\ny"}')
    parts = (
        exchange(Text("one\ntwo", "model"), sent=(Sent("user", "go"),)),
        exchange(call, Text("é", "model"), first=0.5),
    )
    whole = Cassette((*parts, parts[0]), "test/model", "0.1")
    data = dumps(whole).encode()
    stops = [match.end() for match in re.finditer(rb'(?m)^stop = "\w+"$', data)]
    assert len(stops) == 3
    header = data.index(b"\n[[exchange]]") + 1
    for cut in range(header, len(data)):
        read = loads(data[:cut].decode(errors="ignore"))
        complete = sum(stop <= cut for stop in stops)
        assert read.exchanges == whole.exchanges[:complete]
        rest = data[([header, *stops])[complete] : cut]
        assert read.torn == bool(rest.strip())


def test_a_recording_killed_before_the_first_answer_is_an_empty_cassette(tmp_path) -> None:
    """The header is written when the first request goes out."""
    Recorder(path=tmp_path / "c.toml").feed(ModelStarted(model="test/model", agent="main"))
    read = load(tmp_path / "c.toml")
    assert (read.model, read.exchanges, read.torn) == ("test/model", (), False)
    assert (tmp_path / "c.toml").read_text().startswith("format = 1\n")


def test_a_recording_without_an_answer_keeps_the_earlier_one(tmp_path) -> None:
    """The first answer replaces an earlier recording; a request that fails does not."""
    path = tmp_path / "c.cassette"
    save(Cassette((exchange(Text("a")),), "test/model", "0.1"), path)
    before = path.read_bytes()
    recorder = Recorder(path=path)
    recorder.feed(ModelStarted(model="test/other", agent="main"))
    assert path.read_bytes() == before
    answer = AssistantMessage((Text("b"),), "test/other")
    recorder.feed(ModelAnswered(message=answer, agent="main"))
    read = load(path)
    assert (read.model, len(read.exchanges)) == ("test/other", 1)
    assert read.exchanges[0].answer.parts == (Text("b"),)


def test_the_example_in_the_readme_is_a_cassette() -> None:
    """What the documentation shows works."""
    readme = Path(__file__).parents[3] / "plugins" / "replay" / "README.md"
    blocks = re.findall(r"```toml\n(.*?)```", readme.read_text(), re.DOTALL)
    first, second = loads(blocks[0]).exchanges
    assert first.answer.calls[0].arguments == '{"path":"hello.txt","content":"hello\\n"}'
    assert second.sent[0].call == first.answer.calls[0].id


def test_a_cassette_can_be_written_by_hand() -> None:
    """The least that a person has to write is enough."""
    text = """
    format = 1
    [[exchange]]
    sent = [{user = "hello"}]
    answer = [{text = "hi"}, {call = "c1", tool = "read_file", arguments = {path = "a"}}]
    [[exchange]]
    sent = [{result = "c1", tool = "read_file", text = "A"}]
    answer = [{text = "done"}]
    """
    first, second = loads(text).exchanges
    assert first.sent == (Sent("user", "hello"),)
    assert first.answer.calls == (ToolCall("c1", "read_file", '{"path":"a"}'),)
    assert (first.answer.stop, second.answer.stop) == ("calls", "end")
    assert second.sent == (Sent("result", "A", "c1", "read_file", ""),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("format = 1\n[[exchange]]\nsent = [{usr = 'x'}]\n", "$.exchange[0].sent[0]"),
        ("format = 1\n[[exchange]]\nsent = [{tool = 'x'}]\n", "has no content"),
        ("format = 9\n", "format 9"),
        ("format = 1\n[[exchange]]\nanswer = = 3\n\n", "line 3"),
        ("hello", "not valid TOML"),
        (f"format = {'9' * 5000}\n", "a number is too long"),
        (f"format = 1\nx = {'9' * 5000}", "a number is too long"),
        ("", "is empty"),
        ("title = 'x'", "missing required field `format`"),
        ("format = 1\n[[exchange]]\nanswer = [{call = 'c', vendor = '{'}]\n", "cannot be read"),
    ],
)
def test_mistakes_are_named_with_their_place(text: str, words: str) -> None:
    """A cassette with a mistake gives an error that says where, and what to do."""
    with pytest.raises(UsageError) as caught:
        loads(text)
    assert words in str(caught.value)
    assert caught.value.hint


def test_files(tmp_path) -> None:
    """Saving and loading is symmetric; a file that is missing or no text is named."""
    cassette = Cassette((exchange(Text("a\r\nb", "model")),), "test/model", "0.1")
    save(cassette, tmp_path / "c.toml")
    assert load(tmp_path / "c.toml") == cassette
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    for name in ("none.toml", "bad.toml"):
        with pytest.raises(UsageError, match=name):
            load(tmp_path / name)
