"""What commands have put into their ``/tmp`` is judged when a later call uses it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import hilum_files
import hilum_guard
import hilum_rules
import hilum_shell
import pytest
from hilum.events import CallDone
from hilum.testing import open_bench, use
from hilum_checks import compile_rule, judge
from hilum_guard import Guard, as_seen_by_commands

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
STYLE = "Use conventional commits."
PUSH = "Never push."
LOG = "No `console.log` in `src/`."
FOLDER = "hilum-rules-33"
CALLS_GIT = 'import subprocess\nsubprocess.run(["git", "push"])\n'


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, sentence: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = compile_rule(sentence, hard=False).check
        assert self.check is not None


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """The folder that commands see as `/tmp`."""
    folder = tmp_path.resolve() / "seen"
    files = {
        "good": "feat: a\n",
        "bad": "wip\n",
        "x.ts": "console.log(1)\n",
        "d/x.ts": "console.log(1)\n",
        "y.ts": "log(1)\n",
        "x.patch": "--- /dev/null\n+++ b/src/x.ts\n@@ -0,0 +1 @@\n+console.log(1)\n",
        "x.sh": "#!/bin/sh\ngit push\n",
        "y.sh": "#!/bin/sh\ngit status\n",
        "x.py": CALLS_GIT,
        "y.py": "print(1)\n",
        "m/pushes.py": CALLS_GIT,
        "x.mk": "a:\n\tgit push\n",
    }
    for name, text in files.items():
        (folder / FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / FOLDER / name).write_text(text)
    (folder / FOLDER / "link").symlink_to(f"/tmp/{FOLDER}/bad")
    (folder / FOLDER / "x.sh").chmod(0o755)
    return folder


def find_verdict(seen: Path, sentence: str, command: str) -> Any:
    root = seen.parent / "workspace"
    (root / "src").mkdir(parents=True)
    (root / "src/linked.py").symlink_to(f"/tmp/{FOLDER}/x.py")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    line = json.dumps({"command": command.replace("TMP", f"/tmp/{FOLDER}")})
    with as_seen_by_commands(str(seen), str(root)):
        return judge([Ruled(sentence)], line, SHELL, root)


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (STYLE, "git commit -F TMP/good"),
        (STYLE, "git add -A && git commit --file=TMP/good"),
        (LOG, "cp TMP/y.ts src/y.ts"),
        (PUSH, "bash TMP/y.sh"),
        (PUSH, "python3 TMP/y.py"),
    ],
)
def test_a_harmless_file_is_allowed(sentence: str, command: str, seen: Path) -> None:
    assert find_verdict(seen, sentence, command) is None


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (STYLE, "git commit -F TMP/bad"),
        (STYLE, "git commit -F TMP/link"),
        (STYLE, "git commit -F TMP/missing"),
        (STYLE, "echo wip > TMP/good; git commit -F TMP/good"),
        (LOG, "cp TMP/x.ts src/x.ts"),
        (LOG, "cat TMP/x.ts > src/x.ts"),
        (LOG, "cp -r TMP/d/. src/"),
        (LOG, "git apply TMP/x.patch"),
        (PUSH, "bash TMP/x.sh"),
        (PUSH, "TMP/x.sh"),
        (PUSH, ". TMP/x.sh"),
        (PUSH, "cd TMP && ./x.sh"),
        (PUSH, "python3 TMP/x.py"),
        (PUSH, "python3 src/linked.py"),
        (PUSH, "PYTHONPATH=TMP/m python3 -m pushes"),
        (PUSH, "cd TMP/m && python3 -c 'import pushes'"),
        (PUSH, "make -f TMP/x.mk"),
    ],
)
def test_a_file_that_breaks_a_rule_is_refused(sentence: str, command: str, seen: Path) -> None:
    assert find_verdict(seen, sentence, command) is not None


async def test_a_message_that_an_earlier_command_wrote_is_read() -> None:
    commit = "git -c user.name=a -c user.email=a@b.c commit --allow-empty -qF"
    commands = [
        "git init -q .",
        f"printf 'feat: a\\n' > /tmp/{FOLDER}-1; printf 'wip\\n' > /tmp/{FOLDER}-2",
        f"{commit} /tmp/{FOLDER}-1",
        f"{commit} /tmp/{FOLDER}-2",
    ]
    async with open_bench(
        hilum_guard,
        hilum_files,
        hilum_shell,
        hilum_rules,
        files={"AGENTS.md": f"- {STYLE}\n"},
        answers=[*(use("run_terminal_cmd", command=each) for each in commands), "Done."],
    ) as kit:
        guard = kit.session.plugin(Guard)
        if not guard.find_temporary_folder():
            pytest.skip("commands see the /tmp of this machine")
        await kit.run("Commit it.")
        good, bad = kit.of(CallDone)[-2:]
        assert not good.result.code
        assert bad.result.code == "E_DENIED"
        assert STYLE in bad.result.text
