"""Secrets never enter a cassette; paths of one machine do not either."""

import json

import pytest
from hilum.events import (
    CallDone,
    ModelAnswered,
    PromptFrozen,
    RoundEnded,
    RunStarted,
    SessionOpened,
)
from hilum.messages import (
    AssistantMessage,
    Layer,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from hilum_guard import Redactor
from hilum_replay import PathPlaceholders, Recorder

SECRET = 'va"lue\\of-the-environment'


def test_planted_secrets_are_in_no_part_of_a_cassette(tmp_path) -> None:
    """Prompts, context, results, answers, reasoning, arguments and vendor fields are cleaned, in
    file and memory.
    """
    text = f"the key is {SECRET}, and\nthe end"
    arguments = json.dumps({"content": text, "path": "x"})
    path = tmp_path / "c.toml"
    recorder = Recorder(redactor=Redactor({"ACME_API_KEY": SECRET}), path=path, title=text)
    call = ToolCall("c1", "write_file", arguments, {"extra": text})
    parts = (Thinking(text, {"signature": text}), Text(text, "model"), call)
    events = [
        SessionOpened(session="s", workspace="/srv/ws"),
        RunStarted(text=text, message=UserMessage((Text(text), Text(text, f"context:{SECRET}")))),
        PromptFrozen(layers=(Layer(0, "meta", text),), tools=()),
        ModelAnswered(message=AssistantMessage(parts, "m", "calls")),
        CallDone(result=ToolResult("c1", "write_file", (Text(text, "tool:write_file"),))),
        RoundEnded(notes=(text,)),
        ModelAnswered(message=AssistantMessage((Text("bye", "model"),), "m")),
    ]
    for event in events:
        recorder.feed(event)
    written = path.read_text() + repr(recorder.cassette)
    assert SECRET not in written
    assert json.dumps(SECRET)[1:-1] not in written
    assert "[REDACTED:ACME_API_KEY]" in written
    assert "the end" in written
    assert json.loads(recorder.cassette.exchanges[0].answer.calls[0].arguments)["path"] == "x"


@pytest.mark.parametrize(
    "text",
    [
        "in /srv/ws/a.py", "/srv/ws", "{/srv/ws}", "{workspace}", "{{workspace}}", "{literal:workspace}",
        "{literal:{workspace}}", "/srv/ws-2 and /srv/ws.old and /srv/ws2", "cd /srv/ws.",
        "/home/me/x {home}", "{literal:/srv/ws}", "no path",
    ],
)  # fmt: skip
def test_paths_become_placeholders_and_come_back(text: str) -> None:
    """Every text, placeholders in it included, comes back as it was."""
    places = PathPlaceholders("/srv/ws", "/home/me")
    assert places.resolve(places.insert(text)) == text
    inside = json.dumps({"a": text})
    assert places.resolve_in_json(places.insert_in_json(inside)) == inside


def test_paths_move_to_another_machine() -> None:
    """What was recorded in one workspace is played in another, also inside JSON with awkward
    names.
    """
    here, there = (
        PathPlaceholders("/srv/ws", "/home/me"),
        PathPlaceholders('/data/o"dd', "/home/ana"),
    )
    assert (
        there.resolve(here.insert("/srv/ws/a /home/me/b /srv/ws-2"))
        == '/data/o"dd/a /home/ana/b /srv/ws-2'
    )
    moved = there.resolve_in_json(here.insert_in_json(json.dumps({"path": "/srv/ws/a"})))
    assert json.loads(moved) == {"path": '/data/o"dd/a'}
    assert "/srv" not in here.insert("see file:///srv/ws/a, /srv/ws.")


def test_a_workspace_inside_the_home_folder_wins() -> None:
    """The longer path is replaced first."""
    places = PathPlaceholders("/home/me/ws", "/home/me")
    assert places.insert("/home/me/ws/a /home/me/b") == "{workspace}/a {home}/b"
