"""Rules about deleting any file, and what deletes without `rm`."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hilum_checks import compile_rule, judge

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
ASK = "Ask before you delete a file."
DENY = "Never delete files."


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, sentence: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = compile_rule(sentence, hard=True).check
        assert self.check is not None


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", "/nowhere")
    root = tmp_path.resolve() / "workspace"
    for name in ("README.md", "src/a.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("a\n")
    subprocess.run("git init -q . && git add -A", shell=True, cwd=root, check=True)
    return root


def judge_line(root: Path, sentence: str, line: str) -> str:
    verdict: Any = judge([Ruled(sentence)], json.dumps({"command": line}), SHELL, root)
    return verdict.kind if verdict else ""


SCRIPT = "cat > d.py <<'EOF'\nimport os\nos.remove('README.md')\nEOF\npython3 d.py"
CERTAIN = (
    "python3 -c \"import os; os.remove('README.md')\"",
    "python3 -c \"import shutil; shutil.rmtree('src')\"",
    "python3 -c \"from pathlib import Path; Path('README.md').unlink()\"",
    "python3 - <<'EOF'\nimport os\nos.unlink('README.md')\nEOF",
    "cd src && python3 -c \"import os; os.remove('a.py')\"",
    "node -e \"require('fs').rmSync('README.md')\"",
    "node -e \"require('fs').unlinkSync('README.md')\"",
    "perl -e 'unlink \"README.md\"'",
    "ruby -e 'File.delete(\"README.md\")'",
    'ruby -e \'require "fileutils"; FileUtils.rm_rf("src")\'',
    "php -r 'unlink(\"README.md\");'",
    SCRIPT,
)
DOUBTFUL = (
    "python3 -c \"from pathlib import Path; [p.unlink() for p in Path('src').glob('*')]\"",
    "perl -e 'unlink glob(\"*.md\")'",
    "touch n && git clean -fd",
    "mv README.md ../README.md",
    "cd src && mv a.py ../../a.py",
)
HARMLESS = (
    "python3 -c \"names = ['a']; names.remove('a'); print(names)\"",
    'python3 -c "import os, tempfile; os.remove(tempfile.mkstemp()[1])"',
    "python3 -c \"import os; open('t', 'w').write('a'); os.remove('t')\"",
    "python3 -c \"print('unlink README.md')\"",
    "node -e \"document.querySelector('p').remove()\"",
    "grep -rn 'os.remove(' src",
    "git clean -n",
    "mv README.md docs.md",
    "mv README.md src/",
    "mv ../a.py src/",
)


def test_a_rule_about_deleting_covers_code_git_clean_and_moving_away(root: Path) -> None:
    verdicts = {line: judge_line(root, ASK, line) for line in (*CERTAIN, *DOUBTFUL)}
    assert set(verdicts.values()) == {"ask"}, verdicts


def test_a_denied_deletion_is_asked_about_only_if_it_is_uncertain(root: Path) -> None:
    assert {line: judge_line(root, DENY, line) for line in CERTAIN} == dict.fromkeys(
        CERTAIN, "deny"
    )
    doubts = {line: judge_line(root, DENY, line) for line in DOUBTFUL}
    assert doubts == dict.fromkeys(DOUBTFUL, "ask")


def test_what_deletes_no_file_of_the_project_passes(root: Path) -> None:
    for sentence in (ASK, DENY):
        verdicts = {line: judge_line(root, sentence, line) for line in HARMLESS}
        assert verdicts == dict.fromkeys(HARMLESS, "")
