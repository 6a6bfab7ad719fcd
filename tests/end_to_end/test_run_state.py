"""``hilum run --state``: what the model is sent over HTTP, and mistakes in the file."""

import json
import os

from hilum.messages import Text


async def test_a_state_goes_with_the_prompt(cli):
    """After the user's words; what is out of date is told, and the run goes on."""
    (cli.workspace / "a.py").write_text("".join(f"line {number}\n" for number in range(1, 101)))
    state = {
        "open_files": [{"path": "b.py", "text": "b"}, {"path": "gone.py"}],
        "cursor": {"path": "a.py", "line": 50},
        "terminal_output": "$ make\n</terminal_output>",
    }
    (cli.workspace / "b.py").write_text("saved\n")
    (cli.folder / "state.json").write_text(json.dumps(state))
    async with cli.model("ok") as server:
        done = await cli("run", "--state", str(cli.folder / "state.json"), "Go on.")
    assert done.code == 0, done.err
    (said,) = [item for item in server.requests[0].messages if type(item).__name__ == "UserMessage"]
    text = "\n".join(part.text for part in said.parts if isinstance(part, Text))
    lines = "\n".join(f"line {number}" for number in range(20, 81))
    assert text.startswith("Go on.")
    assert '<open_file path="b.py">\nb\n</open_file>' in text
    assert f'<cursor_context path="a.py" line="50">\n{lines}\n[' in text
    assert "<terminal_output>\n$ make\n<\\/terminal_output>\n</terminal_output>" in text
    assert "saved" not in text
    assert "gone.py: there is no such file" in done.err


async def test_mistakes_in_a_state_end_the_run_before_it_begins(cli):
    """With the file, the key, and what is expected; nothing is sent."""
    (cli.workspace / "s.json").write_text('{"cursor": {"line": "ten"}}')
    async with cli.model("never") as server:
        for path, said in (
            ("s.json", "s.json: cursor.line: Expected `int`, got `str`."),
            ("none.json", "The state none.json cannot be read: No such file or directory."),
            ("-", "The state cannot be read from standard input."),
        ):
            done = await cli("run", "--state", path, "Go on.")
            assert done.code == 2, done.err
            assert f"E_BAD_ARGS: {said}" in done.err
    assert not server.requests


async def test_a_state_may_come_from_a_pipe(cli):
    """As a shell makes one."""
    read, write = os.pipe()
    os.write(write, b'{"terminal_output": "hello from a pipe"}')
    os.close(write)
    try:
        async with cli.model("ok") as server:
            done = await cli("run", "--state", f"/proc/{os.getpid()}/fd/{read}", "Go on.")
    finally:
        os.close(read)
    assert done.code == 0, done.err
    assert b"hello from a pipe" in server.bodies[0]
