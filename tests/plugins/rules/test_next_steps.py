"""What a denial says to do next, and which rule the sandbox names for a path."""

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import hilum_guard
import hilum_rules
import hilum_shell
import pytest
from hilum import Confinement, Tool
from hilum.testing import open_bench
from hilum_checks import compile_rule, find_protected_paths, judge, name_protecting_rules


class Ruled:
    path = "AGENTS.md"
    line = 3

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        self.check = compile_rule(sentence, hard=True).check
        assert self.check is not None, sentence


TOOLS = MappingProxyType({"run_terminal_cmd": "execute", "write_file": "write"})


def deny(sentence: str, root: Path, call: str, text: str = "x\n") -> str:
    """Return why a rule denies a call: a command after ``$``, or a path that is written."""
    arguments: dict[str, Any] = {"path": call, "content": text}
    name = "write_file"
    if call.startswith("$ "):
        name, arguments = "run_terminal_cmd", {"command": call[2:]}
    writes = ("path",) if name == "write_file" else ()
    tool = Tool(name, "", lambda: "", risk=TOOLS[name], writes=writes)  # type: ignore[arg-type]
    found = judge([Ruled(sentence)], json.dumps(arguments), tool, root)
    assert found is not None, call
    assert found.kind == "deny", call
    return found.reason


@pytest.mark.parametrize(
    ("sentence", "call", "step"),
    [
        ("Always pass `--workspace` to `cargo test`.", "$ cargo test", "Run the command with `--workspace`."),
        ("Always open pull requests as drafts.", "$ gh pr create --fill", "Run the command with `--draft`."),
        ("Use `poetry add`, not `pip install`.", "$ pip install x", "Use what the rule names instead."),
        ("Never use `npm`; use `pnpm` instead.", "$ npm test", "Use what the rule names instead."),
        ("Never skip hooks.", "$ git commit -n -m x", "Run the command without the option that skips the hooks."),
        ("Never use `--no-verify`.", "$ git commit --no-verify", "Run the command without the option that skips the hooks."),
        ("Branch names must start with `feature/`.", "$ git switch -c x", "Give the branch a name as the rule says."),
        ("Never run `make deploy`.", "$ make deploy", "Do without this command; if it is needed, ask the user to run it."),
        ("Never change the Git configuration.", "$ git config user.name x", "Use a form that the rule allows;"),
        ("Never read `deploy/secrets.yaml`.", "$ cat deploy/secrets.yaml", "Do without what those files contain;"),
        ("Never edit `deploy/`.", "$ touch deploy/a", "Leave those files unchanged, or tell the user"),
        ("Do not create new files in `src/legacy/`.", "src/legacy/a.py", "Do without the new file;"),
    ],
)  # fmt: skip
def test_the_next_step_fits_the_rule(sentence: str, call: str, step: str, tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/secrets.yaml").write_text("a: 1\n")
    assert f". {step}" in deny(sentence, tmp_path, call)


def test_a_file_that_is_too_long_is_to_be_split(tmp_path: Path) -> None:
    sentence = "Files must not be longer than 300 lines."
    reason = deny(sentence, tmp_path, "a.py", "x = 1\n" * 400)
    assert "it adds too many lines to a.py. Split the file into shorter ones." in reason


def test_a_forbidden_text_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = eval('1')\n")
    reason = deny("Never use `eval()`.", tmp_path, "a.py", "x = eval('1')\ny =  eval(code)\n")
    assert "it adds “eval(” to a.py. Write the file without this text." in reason


def test_a_key_is_not_repeated(tmp_path: Path) -> None:
    key = "AKIA" + "Z2J4K6M8P0Q2R4S6"
    reason = deny("Never hard-code secrets.", tmp_path, "a.py", f"k = '{key}'\n")
    assert "it adds such text to a.py" in reason
    assert key not in reason


def test_a_protected_path_has_the_rule_that_protects_it(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "envs").mkdir()
    (root / "envs/a.tfstate").write_text("{}\n")
    (root / "b.txt").write_text("x\n")
    rules = [Ruled("Never edit `b.txt`."), Ruled("Don't read or modify `*.tfstate` files.")]
    rules[1].line = 9
    protected, hidden = find_protected_paths(rules, root)
    named = name_protecting_rules(rules, root, (*protected, *hidden))
    assert named == {
        str(root / "b.txt"): "AGENTS.md:3",
        str(root / "envs/a.tfstate"): "AGENTS.md:9",
    }


async def test_a_hidden_file_is_explained_by_its_rule() -> None:
    files = {
        "AGENTS.md": "# Rules\n\n- Don't read or modify `*.tfstate` files.\n",
        "envs/a.tfstate": "cidr\n",
    }
    async with open_bench(hilum_guard, hilum_shell, hilum_rules, files=files, answers=["x"]) as kit:
        service = kit.session.plugin(Confinement)
        assert service is not None
        if not service.describe_confinement():
            pytest.skip("there is no sandbox on this system")
        await kit.run("Go.")
        await kit.session.processes.run(["true"])
        text = service.explain_refusal("grep: ./envs/a.tfstate: Permission denied\n")
        assert "because of a rule: envs/a.tfstate (AGENTS.md:3)" in text
        assert "Git, editors" not in text
