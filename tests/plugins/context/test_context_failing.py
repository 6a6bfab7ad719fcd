"""A source that fails fails alone.

A state that is wrong is told, with file, key and what is expected.
"""

from itertools import product
from pathlib import Path

import msgspec
import pytest
import trio
from hilum import UsageError
from hilum.events import ErrorRaised, RunEnded
from hilum_context import WorkspaceState, load_state, read_state
from hilum_context.sources import SOURCES
from hilum_context.sources.recent import RecentEdits

STATE = {
    "open_files": [{"path": "a.py"}],
    "cursor": {"path": "b.py", "line": 1},
    "diagnostics": [{"path": "a.py", "message": "m"}],
    "terminal_output": "t",
    "recent_edits": [{"path": "c.py"}],
}


async def _hang(self, look):
    await trio.sleep_forever()


async def _raise(self, look):
    raise RuntimeError("broken")


def _break(self, look, found):
    raise RuntimeError("broken")


@pytest.mark.slow(cases=6)
@pytest.mark.parametrize(
    ("kind", "how"), [*product(SOURCES, ["find", "make_pieces"]), (RecentEdits, "hang")]
)
async def test_a_source_fails_alone(opened, put, ask, monkeypatch, kind, how) -> None:
    """One that hangs, and one that raises in either step.

    That is an event, and the rest is sent.
    """
    put({"a.py": "a\n", "b.py": "b\n", "c.py": "c\n", "d.py": "def some_name(): ...\n"})
    monkeypatch.setattr(
        kind,
        "make_pieces" if how == "make_pieces" else "find",
        {"hang": _hang, "find": _raise, "make_pieces": _break}[how],
    )
    seconds = 3 if how == "hang" else 20
    async with opened(settings={"context.timeout": seconds, "context.environment": True}) as bench:
        sent = await ask(bench, "some_name", **STATE)
        assert {each["type"] for each in sent.event["blocks"]} == {
            source.type for source in SOURCES
        } - {kind.type}
        expected = "it took longer than 3 s" if how == "hang" else "RuntimeError: broken"
        assert sent.event["sources"][kind.type]["error"] == expected
        # That a machine is slow is only logged.
        assert (expected in sent.event.get("say", "")) == (how != "hang")
        assert bench.of(RunEnded)[0].state == "completed"
        assert bench.faults == []


async def test_a_wrong_state_is_told_and_costs_nobody_the_run(opened, put, ask) -> None:
    """What can be found is sent all the same."""
    put({"a.py": "def some_name(): ...\n"})
    async with opened() as bench:
        sent = await ask(
            bench, "Where is some_name?", cursor={"line": "7"}, open_files=[{"path": "a.py"}]
        )
        assert [tag for tag, *_ in sent.blocks] == ["search_result"]
        error = bench.of(ErrorRaised)[0]
        assert (error.code, error.message) == (
            "E_BAD_ARGS",
            "The state: cursor.line: Expected `int`, got `str`.",
        )
        sent = await ask(bench, "Where is some_name?", terminal_output="half a pair: \ud800")
        assert bench.of(ErrorRaised)[1].message == "The state: '\\ud800' is not a valid character."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "s.json is not JSON: Input data was truncated."),
        ('{"cursor": }', "s.json is not JSON: invalid character at line 1, column 12."),
        ('{\n"cursor": {,}}', "s.json is not JSON: object keys must be strings at line 2, column 12."),
        ("[]", "s.json: the whole: Expected `object`, got `array`."),
        ('{"cursor": {"line": "7"}}', "s.json: cursor.line: Expected `int`, got `str`."),
        ('{"cursor": {"line": 0}}', "s.json: cursor.line: Expected `int` >= 1."),
        ('{"cursor": {}}', "s.json: cursor.line: This key is required."),
        ('{"curser": {"line": 1}}', "s.json: curser: there is no such key."),
        ('{"open_files": [{"path": "a"}, {"file": "b"}]}', "s.json: open_files[1].file: there is no such key."),
        ('{"open_files": ["a.py"]}', "s.json: open_files[0]: Expected `object`, got `str`."),
        ('{"open_files": [{"path": ""}]}', "s.json: open_files[0].path: Expected `str` of length >= 1."),
        ('{"diagnostics": [{"path": "a", "message": "m", "severity": "bad"}]}',
         "s.json: diagnostics[0].severity: Invalid enum value 'bad'."),
        ('{"terminal_output": 3}', "s.json: terminal_output: Expected `str | null`, got `int`."),
    ],
)  # fmt: skip
def test_mistakes_in_a_state_are_named(text: str, said: str) -> None:
    """The file, the key and what is expected there."""
    with pytest.raises(UsageError) as caught:
        read_state(text.encode(), "s.json")
    assert caught.value.message == said
    assert caught.value.hint


@pytest.mark.parametrize(
    "data", [b"\xff\xfe{}", b'{"terminal_output": "\xff"}', b"[" * 100_000, b"", b'"\\ud800"']
)
def test_what_is_no_json_is_a_usage_error(data: bytes) -> None:
    """Whatever it is."""
    with pytest.raises(UsageError):
        read_state(data, "s.json")


def test_states_that_cannot_be_read(tmp_path) -> None:
    """Missing, a folder, standard input, a name that is none."""
    for path in (str(tmp_path / "none.json"), str(tmp_path), "-", "a\0b"):
        with pytest.raises(UsageError):
            load_state(path)


def test_a_byte_order_mark_and_an_empty_state_are_fine(tmp_path) -> None:
    """Editors write such things."""
    (tmp_path / "s.json").write_bytes(b"\xef\xbb\xbf{}")
    assert dict(load_state(str(tmp_path / "s.json"))) == {}
    said = read_state(
        b'{"diagnostics": [], "terminal_output": "", "cursor": {"line": 3}}', "s.json"
    )
    assert dict(said) == {"diagnostics": [], "terminal_output": "", "cursor": {"line": 3}}
    assert (
        msgspec.json.encode(said) == b'{"cursor":{"line":3},"diagnostics":[],"terminal_output":""}'
    )


def test_the_example_in_the_documentation_is_a_state() -> None:
    """And has all keys."""
    path = Path(__file__).parents[3] / "docs" / "examples" / "context" / "state.json"
    assert set(dict(load_state(str(path)))) == set(WorkspaceState.__struct_fields__)
