"""Rules about content hold for a text that commands write in pieces, or in a folder moved first."""

from pathlib import Path

import pytest

from tests.support.judged_commands import judge_command

LOG = r"deny content /console\.log/ except *.md, *.txt, tmp*"
_FILES = {
    "docs/n.md": "console.log(1)\n",
    "p.ts": "console",
    "ok.ts": "console.log(2)\n",
    "tmp1": "conso",
    "tmp2": "le.log(1)\n",
    "tail.txt": ".log(1)\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "workspace"
    for name, text in _FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    "command",
    [
        '{ printf console; echo ".log(1)"; } > q.ts',
        'printf console > q.ts; echo ".log(1)" >> q.ts',
        'exec 3>q.ts; printf console >&3; printf ".log(1)" >&3',
        "echo -n console > q.ts; cat >> q.ts <<E\n.log(1)\nE",
        'printf con > q.ts && printf "sole.log" | tee -a q.ts',
        "cat tmp1 tmp2 > q.ts",
        "printf console | cat - tail.txt > q.ts",
        "{ echo -n console; cat tail.txt; } > q.ts",
        "cp p.ts q.ts; cat tail.txt >> q.ts",
        'echo ".log(1)" >> p.ts',
        "cat tail.txt >> p.ts",
        "mv docs d && mv d/n.md d/n.ts",
        "cp -r docs d && mv d/n.md d/n.ts",
        "mv docs d && mv d e && mv e/n.md e/n.ts",
    ],
)
def test_pieces_are_judged_as_one_text(command: str, root: Path) -> None:
    assert judge_command(LOG, command, root) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "echo x >> p.ts",
        "echo a > q.ts; echo b >> q.ts",
        "cat tmp1 p.ts > q.txt",
        "cat ok.ts; echo x > q.ts",
        "mv docs d",
        "echo x >> ok.ts",
        "echo console > q.ts; echo .log >> q.ts",
        'printf "%s\\n" console .log > q.ts',
    ],
)
def test_pieces_that_form_no_such_text_are_free(command: str, root: Path) -> None:
    assert judge_command(LOG, command, root) == ""
