"""What the transcript writes about prompts, shell lines and notices."""

from hilum.context import render
from hilum.events import PluginEvent, PromptQueued, RunStarted
from hilum.messages import Block, Text, UserMessage
from hilum.shell_lines import ShellLine
from hilum_terminal.prompt_images import shorten_references
from hilum_terminal.styles import PLAIN
from hilum_terminal.transcript import Transcript, shell_line_rows
from hilum_view import SessionView


def write(*events):
    rows = []
    view = SessionView()
    transcript = Transcript(view, lambda block: rows.extend(block.make(60, PLAIN)))
    for event in events:
        transcript.apply(event, view.apply(event), 0.0)
    return rows


def started(text="Go"):
    return RunStarted(agent="main", run="r1", text=text, message=UserMessage(()))


def test_a_notice_about_a_prompt_is_written_after_it():
    recalled = PluginEvent(name="memory.recalled", data={"say": "memory: recalled 1"})
    queued = PromptQueued(agent="main", run="r1", text="Go")
    assert write(queued, recalled, started()) == ["❯ Go", "· memory: recalled 1"]
    assert write(recalled) == ["· memory: recalled 1"]


def test_the_lines_of_a_notice_are_indented_below_its_mark():
    said = PluginEvent(name="x", data={"say": "two problems:\n  one\ntwo"})
    assert write(said) == ["· two problems:", "  one", "  two"]


def test_the_output_of_shell_lines_is_named():
    block = render(Block("stdin", ShellLine("ls", "a\nb\n", status=0).attached))
    message = UserMessage((Text("Go", "user"), Text(block, "piped")))
    begun = RunStarted(agent="main", run="r1", text="Go", message=message)
    assert write(begun) == ["❯ Go", "  + the output of your ! commands (4 lines)"]


def test_a_stopped_shell_line_has_not_failed():
    line = ShellLine("sleep 20", stopped=True)
    assert shell_line_rows(line, 1.6, 60, PLAIN) == ["– ! sleep 20  stopped  1.6 s"]


def test_every_row_of_a_refusal_is_indented():
    line = ShellLine("rm -rf /", error="It deletes everything below the root of the file system.")
    rows = shell_line_rows(line, 0.1, 40, PLAIN)
    assert len(rows) > 2
    assert all(row.startswith("    ") for row in rows[1:])


def test_a_reference_to_an_image_is_short():
    text = "Look:  [image #1: /home/me/a long/plan.png]  here"
    assert shorten_references(text) == "Look: [image #1 · plan.png] here"
