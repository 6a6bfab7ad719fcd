"""Carries out the known steps of a case without an agent, and runs its verifier."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import attrs
from hilum_eval.case import Case, Edit, Read, Run, Say, Search, Together, Write

FIXED_TIME = 1_700_000_000.0


@attrs.define
class Oracle:
    """A workspace in which steps are carried out, with the record that the runner would write."""

    case: Case
    workspace: Path
    home: Path
    calls: list = attrs.field(factory=list)
    approvals: list = attrs.field(factory=list)
    answers: list = attrs.field(factory=list)
    compactions: int = 0
    turn: int = 0

    def solve(self) -> None:
        """Carry out all known steps of the case."""
        for turn in self.case.turns:
            for step in turn.steps:
                self.carry_out(step)

    def copy(self, folder: Path) -> "Oracle":
        """Return a copy in another folder."""
        shutil.copytree(self.home.parent, folder, symlinks=True)
        return attrs.evolve(
            self,
            workspace=folder / self.workspace.name,
            home=folder / self.home.name,
            calls=list(self.calls),
            approvals=list(self.approvals),
            answers=list(self.answers),
        )

    def carry_out(self, step) -> None:
        self.turn += 1
        if isinstance(step, Say):
            self.answers.append(step.text)
        elif isinstance(step, Together):
            start = FIXED_TIME + self.turn
            for each in step.steps:
                self._call(each, start, start + 0.5)
        else:
            self._call(step, FIXED_TIME + self.turn, FIXED_TIME + self.turn + 0.5)

    def _call(self, step, start: float, end: float) -> None:
        code = ""
        arguments = {
            name: value
            for name, value in attrs.asdict(step).items()
            if name not in ("slip", "fails") and value not in (0, "")
        }
        tool = type(step).__name__.lower()
        if isinstance(step, Read | Edit | Write) and self._leads_out(step.path):
            code = "E_DENIED"
        elif isinstance(step, Run) and step.fails and self.case.gate:
            # An attack, which must not run outside the sandbox.
            code = "E_BLOCKED"
        elif self._needs_approval(step) and not self._approve(tool, arguments):
            code = "E_REJECTED"
        else:
            code = self._do(step)
        self.calls.append(
            {"tool": tool, "arguments": arguments, "code": code, "turn": self.turn,
             "started": start, "ended": end}
        )  # fmt: skip

    def _leads_out(self, path: str) -> bool:
        target = (self.workspace / path).resolve()
        return not target.is_relative_to(self.workspace.resolve()) or "%" in path

    def _needs_approval(self, step) -> bool:
        return self.case.approve == "ask_first" and isinstance(step, Edit | Write | Run)

    def _approve(self, tool: str, arguments: dict) -> bool:
        question = f"{tool} {json.dumps(arguments)}"
        accepted, reason = True, ""
        for decision in self.case.decisions:
            if re.search(decision.when, question):
                accepted, reason = decision.answer != "reject", decision.reason
                break
        self.approvals.append(
            {"tool": tool, "arguments": arguments, "accepted": accepted, "reason": reason,
             "by": "user"}
        )  # fmt: skip
        return accepted

    def _do(self, step) -> str:
        if isinstance(step, Run):
            done = run_command(step.command, self.workspace, self.home)
            failed = done.returncode != 0
            assert failed == step.fails, f"{step.command}: {done.stdout}"
            return "E_EXIT" if failed else ""
        path = self.workspace / step.path
        if isinstance(step, Write):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.content, "utf-8", newline="")
        elif isinstance(step, Edit):
            with path.open(encoding="utf-8", newline="") as file:
                text = file.read()
            count = text.count(step.old)
            assert count == 1, f"{step.path} contains {step.old!r} {count} times"
            path.write_text(text.replace(step.old, step.new), "utf-8", newline="")
        elif isinstance(step, Read):
            assert path.is_file(), f"{step.path} does not exist"
        elif isinstance(step, Search):
            re.compile(step.pattern)
            assert path.exists(), f"{step.path} does not exist"
        return ""

    def record(self, **replaced) -> dict:
        """Return the record of the attempt as the verifier reads it."""
        record = {
            "answer": self.answers[-1] if self.answers else "",
            "answers": self.answers,
            "calls": self.calls,
            "approvals": self.approvals,
            "compactions": self.compactions,
            "notes": [],
        }
        return {**record, **replaced}

    def verify(self, **replaced) -> dict:
        """Run the verifier and return its judgement."""
        path = self.home / "attempt.json"
        path.write_text(json.dumps(self.record(**replaced)), "utf-8")
        environ = {**os.environ, "HOME": str(self.home), "HILUM_EVAL_ATTEMPT": str(path)}
        done = subprocess.run(
            [sys.executable, str(self.case.folder / "verify.py")],
            cwd=self.workspace,
            env=environ,
            capture_output=True,
            text=True,
            timeout=self.case.verify_timeout,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


def prepare(case: Case, folder: Path) -> Oracle:
    """Create the workspace of a case, in a folder that is empty or absent."""
    workspace = folder / "workspace"
    home = folder / "home"
    home.mkdir(parents=True)
    shutil.copytree(case.folder / "files", workspace, symlinks=True)
    if case.rules:
        (workspace / "AGENTS.md").write_text(case.rules, "utf-8")
    for command in case.setup:
        done = run_command(command, workspace, home)
        assert done.returncode == 0, done.stdout
    return Oracle(case, workspace, home)


def run_command(command: str, workspace: Path, home: Path) -> subprocess.CompletedProcess:
    environ = {**os.environ, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=workspace,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
