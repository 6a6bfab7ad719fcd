"""The corpus finds faults that are seeded in a copy of the kernel."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# What is wrong: the file, the code, and the wrong code.
FAULTS = {
    "notes are lost": (
        "state.py",
        "        if event.notes:\n            self.messages.append",
        "        if False:\n            self.messages.append",
    ),
    "the codes of failures are lost": (
        "calls.py",
        "return ToolResult(call.id, call.name, (part,), code)",
        "return ToolResult(call.id, call.name, (part,))",
    ),
    "answers at the output limit are not continued": (
        "state.py",
        'event.message.stop == "length"',
        'event.message.stop == "never"',
    ),
    "results come in another order": (
        "state.py",
        "whole = ToolMessage(tuple(results))",
        "whole = ToolMessage(tuple(results[::-1]))",
    ),
    "the result of a parallel call is lost": (
        "state.py",
        "whole = ToolMessage(tuple(results))",
        "whole = ToolMessage(tuple(results[:1]))",
    ),
    "steering during calls is lost": (
        "state.py",
        "        self._read_steering(event.steering)\n",
        "",
    ),
    "steering during the last answer is lost": (
        "loop.py",
        "if agent.conversation.steering and not run.cut:",
        "if False:",
    ),
    "runs end with another state": (
        "loop.py",
        "        state=state,\n        text=run.answer if is_final",
        '        state="stopped",\n        text=run.answer if is_final',
    ),
    "the final answer is a commentary": (
        "loop.py",
        'is_final = agent.conversation.phase == "check"',
        "is_final = False",
    ),
    "nothing is asked": (
        "verdicts.py",
        'if verdict.kind == "allow" and (approved is None or same):',
        "if True:",
    ),
    "the weakest verdict counts": (
        "verdicts.py",
        "strictest = max([allow(), *left]",
        "strictest = min([allow(), *left]",
    ),
    "a rejection counts as an approval": (
        "verdicts.py",
        "    if answer.accepted:\n        return\n",
        "    return\n",
    ),
    "read-only sessions write": (
        "verdicts.py",
        'if tool.risk != "read" and approve == "readonly":',
        "if False:",
    ),
    "a compaction loses the last message": (
        "compaction.py",
        "kept_indices(len(messages), plan.upto, request)",
        "kept_indices(len(messages) - 1, plan.upto, request)",
    ),
    "a compaction loses the summary": (
        "compaction.py",
        "[NoteMessage(plan.summary)] if plan.summary else []",
        "[]",
    ),
    "a change of the mode keeps the tools": (
        "loop.py",
        "if frozen.mode != agent.mode.name:",
        "if False:",
    ),
    "a call may fail without end": (
        "calls.py",
        "    refusal = agent.conversation.failures.refusal(state.call)\n",
        '    refusal = ""\n',
    ),
    "deferred tools are not called": (
        "calls.py",
        "    call = unwrap(call)\n    tool = _find(agent, call)",
        "    tool = _find(agent, call)",
    ),
    "empty answers are final": (
        "loop.py",
        "if objections and run.objections < MAX_OBJECTIONS and not run.cut:",
        "if False:",
    ),
    "failed requests are not sent again": (
        "routing.py",
        "if before < most and wait <= MAX_WAIT:",
        "if False:",
    ),
    "the error of a model is lost": (
        "loop.py",
        'give_up(agent, "failed", failed.code, error, failed.hint)',
        'give_up(agent, "failed", failed.code, error)',
    ),
    "arguments are not checked": (
        "calls.py",
        "        arguments = tool.check(call.arguments)\n",
        "        arguments = __import__('json').loads(call.arguments)\n",
    ),
}


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_corpus_finds_a_fault(tmp_path, fault):
    name, old, new = FAULTS[fault]
    copied = tmp_path / "kernel" / "hilum"
    shutil.copytree(ROOT / "kernel" / "hilum", copied, ignore=shutil.ignore_patterns("__pycache__"))
    text = (copied / name).read_text()
    assert text.count(old) == 1
    (copied / name).write_text(text.replace(old, new))
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTEST_DEBUG_TEMPROOT": str(tmp_path.parent),
        "PYTHONPATH": str(tmp_path / "kernel"),
    }
    options = "-q -x -p no:cacheprovider -p no:schemathesis --hilum-corpus standard".split()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "differs from the recording" in done.stdout
