"""The script that activates a virtual environment, created by the same line, is no unknown code."""

import json
from pathlib import Path

import pytest
from hilum_checks.call_facts import CallFacts
from hilum_guard import UNKNOWN
from hilum_rules_compile.examples import make_tool

KNOWN = """\
python3 -m venv env && source env/bin/activate
python -m venv env && . env/bin/activate && pip install pytest
virtualenv env; source env/bin/activate
uv venv && source .venv/bin/activate
uv venv env && source ./env/bin/activate
uv venv -q --python 3.12 env && source env/bin/activate
python3 -m venv --without-pip env && source env/bin/activate
""".splitlines()
UNSURE = """\
touch x && source env/bin/activate
python3 -m venv env && cp x env/bin/activate && source env/bin/activate
python3 -m venv env && sed -i 1a$X env/bin/activate && source env/bin/activate
python3 -m venv env && source other/bin/activate
python3 -m venv env && source env/bin/deactivate
python3 -m venv --prompt x env && source env/bin/activate
uv venv --python ./x env && source env/bin/activate
uv venv --python /tmp/x/python env && source env/bin/activate
python3 -m venv there && source there/bin/activate
./python3 -m venv env && source env/bin/activate
PATH=evil:$PATH; python3 -m venv env && source env/bin/activate
PATH=evil python3 -m venv env && source env/bin/activate
PYTHONPATH=evil uv venv env && source env/bin/activate
export PATH=evil && uv venv env && source env/bin/activate
uv() { cp x env/bin/activate; }; uv venv env && source env/bin/activate
make env && source env/bin/activate
""".splitlines()


def has_unknown(root: Path, line: str) -> bool:
    tool = make_tool("run_terminal_cmd", "execute")
    facts = CallFacts.parse(tool, json.dumps({"command": line}), root)
    # What a script is known to contain is read.
    return any(
        UNKNOWN in command.source or command.source == "git push" for command in facts.commands
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "there").mkdir()
    (tmp_path / "x").write_text("git push\n")
    return tmp_path


@pytest.mark.parametrize("line", KNOWN)
def test_known(root: Path, line: str) -> None:
    assert not has_unknown(root, line)


@pytest.mark.parametrize("line", UNSURE)
def test_unsure(root: Path, line: str) -> None:
    assert has_unknown(root, line)


@pytest.mark.parametrize("module", ["venv.py", "venv/__init__.py"])
def test_a_module_of_the_project_may_write_anything(root: Path, module: str) -> None:
    (root / module).parent.mkdir(exist_ok=True)
    (root / module).write_text("")
    assert has_unknown(root, KNOWN[0])
