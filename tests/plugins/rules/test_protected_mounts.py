"""What the sandbox says where a rule's protected path is a mount."""

import hilum_guard
import hilum_rules
import hilum_shell
import pytest
import trio
from hilum import Confinement
from hilum.testing import use

FILES = {
    "AGENTS.md": "- `*.generated.swift` must not be edited.\n",
    "core/model.generated.swift": "a",
    "core/new.swift": "b",
    "app/main.swift": "c",
}


async def test_moving_a_file_beside_a_protected_one_is_explained_and_possible(bench) -> None:
    commands = [
        "git init -q . && git add -A",
        "git mv app/main.swift core/main.swift",
        "mv app/main.swift core/main.swift && git add -A && git ls-files core",
        "echo x > core/model.generated.swift",
    ]
    b = await bench(
        hilum_guard,
        hilum_rules,
        hilum_shell,
        answers=[*(use("run_terminal_cmd", command=command) for command in commands), "ok"],
        files=FILES,
    )
    if not b.session.plugin(Confinement).describe_confinement():
        pytest.skip("there is no sandbox on this system")
    await b.run("Hi")
    _, renamed, moved, written = b.results
    if "cross-device" in renamed.text:
        assert "the folder of core/model.generated.swift (AGENTS.md:1)" in renamed.text
        assert "Move it with `mv`, which copies it" in renamed.text
    assert "core/main.swift" in moved.text
    assert written.code == "E_DENIED"
    assert await trio.Path(b.workspace / "core/model.generated.swift").read_text() == "a"
