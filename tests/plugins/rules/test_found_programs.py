"""Programs that `find` runs, and files that lists with an ending name."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from hilum_checks import compile_rule, judge

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
FILES = {
    "legacy/a.py": "a\n",
    "docs/archive/a.md": "a\n",
    "src/a.py": "a\n",
    "build/x_test": "#!/bin/sh\necho hi\n",
    "build/push_test": "#!/bin/sh\ngit push --force\n",
    "build/sub/remove_check": "#!/bin/sh\nrm -rf legacy\n",
}
LEGACY = "Never edit `legacy/`."
FORCE = "Never run `git push --force`."
ARCHIVE = "Do not modify existing files in `docs/archive/`."
LOOP = 'while read -r f; do sed -i s/a/b/ "$f"; done'


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, sentence: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = compile_rule(sentence, hard=False).check
        assert self.check is not None


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("found").resolve() / "workspace"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        os.utime(root / name, (1e9, 1e9))
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    return root


def is_refused(root: Path, sentence: str, command: str) -> bool:
    return judge([Ruled(sentence)], json.dumps({"command": command}), SHELL, root) is not None


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (LEGACY, "find build -name '*_test' -exec {} \\;"),
        (LEGACY, "find ./build/ -type f -perm -111 -name '*_test' -exec {} --brief=1 \\;"),
        (LEGACY, "make && find build -name '*_test' -execdir {} \\;"),
        (FORCE, "find build -name 'x_*' -exec {} \\;"),
        (ARCHIVE, f"git ls-files '*.py' | {LOOP}"),
        (ARCHIVE, f"git ls-files -- '*.py' '*.pyi' | {LOOP}"),
        (ARCHIVE, f"git ls-files '*.py' | grep -v x | {LOOP}"),
        (ARCHIVE, f"git ls-files | grep '\\.py$' | {LOOP}"),
        (ARCHIVE, f"git ls-files | grep -E '\\.(py|pyi)$' | {LOOP}"),
        (ARCHIVE, f"find . -name '*.py' | {LOOP}"),
        (ARCHIVE, "for f in $(git ls-files '*.py'); do sed -i s/a/b/ $f; done"),
        (ARCHIVE, "for f in $(git ls-files '*.py'); do sed -i s/a/b/ $f && echo $f; done"),
    ],
)
def test_what_keeps_a_rule_is_allowed(sentence: str, command: str, root: Path) -> None:
    assert not is_refused(root, sentence, command)


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (LEGACY, "find ../x -name '*_test' -exec {} \\;"),
        (LEGACY, "find $D -name '*_test' -exec {} \\;"),
        (LEGACY, "find build -name '*_check' -exec {} \\;"),
        (LEGACY, "find build -type f -exec {} \\;"),
        (FORCE, "find build -name 'push*' -exec {} \\;"),
        (FORCE, "find /usr/bin -name 'gi*' -exec {} push --force \\;"),
        (FORCE, "find build -name '*_test' -exec {} push --force \\;"),
        (ARCHIVE, f"git ls-files | {LOOP}"),
        (ARCHIVE, f"git ls-files '*.md' | {LOOP}"),
        (ARCHIVE, f"git ls-files '*.py' '*.md' | {LOOP}"),
        (ARCHIVE, f"git ls-files '*.py' docs | {LOOP}"),
        (ARCHIVE, f"git ls-files | grep '\\.md$' | {LOOP}"),
        (ARCHIVE, f"git ls-files | grep -E '\\.(py|md)$' | {LOOP}"),
        (ARCHIVE, f"git ls-files | grep -v '\\.py$' | {LOOP}"),
        (ARCHIVE, f"find . -name '*.md' -o -name x | grep '\\.py$' | {LOOP}"),
        (ARCHIVE, 'sed -i s/a/b/ "$f.md"'),
    ],
)
def test_what_may_break_a_rule_is_refused(sentence: str, command: str, root: Path) -> None:
    assert is_refused(root, sentence, command)
