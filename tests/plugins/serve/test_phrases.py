"""hilum's own sentences: all of them are recognized, with their values, and translated."""

import ast
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import hilum
import hilum_checks
import hilum_guard
import hilum_models
import hilum_serve
import hilum_view
import msgspec
from hilum.messages import Text, ToolCall, ToolResult
from hilum_guard.watching import executed_files
from hilum_serve.phrase_table import PHRASES
from hilum_serve.phrases import MAX_RECOGNIZED, Phrase, find_parts
from hilum_serve.view_items import describe_entry
from hilum_trace.bill.budgets.amounts import Exceeded
from hilum_trace.bill.budgets.budget_texts import refusal, unpriced_error, warning
from hilum_view import BudgetView, Card

PLACEHOLDER = re.compile(r"\{(\w+)[?!]?\}")
PAGE = Path(str(files(hilum_serve) / "page"))
SOURCES = {
    hilum: ["approval_facts.py", "verdicts.py", "loop.py", "models.py", "refusals.py"],
    hilum_guard: ["gate.py", "call_judge.py", "commands/*.py", "dangers/*.py"],
    hilum_models: [
        "answer_builder.py",
        "connection_errors.py",
        "error_responses.py",
        "failures.py",
        "gemini.py",
        "json_values.py",
        "sse.py",
        "transport.py",
    ],
    hilum_checks: ["next_steps.py", "verdicts.py"],
    hilum_serve: [
        "api/*.py",
        "app.py",
        "door.py",
        "forwarding.py",
        "hub.py",
        "seen.py",
        "shown_files.py",
    ],
    hilum_view: ["notices.py", "agents.py"],
}
"""The modules that write what the page shows."""
FOR_MODELS = (
    "The call was not run.",
    "One turn is left.",
    "Your answer was",
    "Continue exactly where it stopped",
)
"""Sentences that only models read."""
IN_PARTS = (
    "v v.",
    "v v: v.",
    "v The call was not run.",
    "v without a reason.",
    "The plugin v, v: v.",
    "The plugin v, v: it rewrote the call wrongly.",
)
"""Sentences with other ones in them; the table has what comes out."""
OWN_TEXTS = (
    "Which calls need approval, in this session.",
    "Whether the agent has the tools",
    "Whether images may be generated",
    "How the model calls tools",
)
"""Descriptions of settings, for which the page has its own texts."""
FOR_PROGRAMS = (
    "A request cannot be passed on",
    "The address of process",
    "v does not have a session that the database",
    "The body must be",
    "The headers are larger",
    "The address is longer",
    "The address contains control",
    "The Host header",
    "For a tunnel or a proxy",
    "Content-Length and",
    "The proxy named",
    "There is no WebSocket",
    "This address takes only",
    "This operation takes no body",
    "Another web site sent you",
    "The token in the address",
    "There is nothing at this address",
    "See /openapi",
    "A name occurs twice",
    "The header Hilum-Seen",
    "Send the last sequence number",
    "Hilum-Seen",
    "There is no page",
    "Choose a header that only your proxy sets",
    "v is not the name of a header",
    "The header v cannot name the user",
    "<!doctype",
)
"""Errors of requests that the page does not make, that a browser shows instead of the page, or that
whoever runs the server sees.
"""


EXCEPTIONS = (*FOR_MODELS, *FOR_PROGRAMS, *OWN_TEXTS)


def read_template(node: ast.AST) -> str | None:
    """Return a text or an f-string of a source; values are written as ``v``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        values = [each.value if isinstance(each, ast.Constant) else "v" for each in node.values]
        return "".join(map(str, values))
    return None


def find_sentences(source: str) -> Iterator[str]:
    """Yield the sentences in a module, except in docstrings and parts of f-strings."""
    tree = ast.parse(source)
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)
        if isinstance(node, ast.JoinedStr):
            skipped.update(each for each in ast.walk(node) if each is not node)
        if isinstance(node, ast.Call) and "ValueError" in ast.dump(node.func):
            skipped.update(ast.walk(node))
    for node in ast.walk(tree):
        text = None if node in skipped else read_template(node)
        if text and re.fullmatch(r"\s?[A-Z`v].* .*[.]|[a-z]\w+ [^\\]*\(\{\}\)", text, re.DOTALL):
            yield text.strip().replace("{}", "v").replace("{scope}", "v")


def list_sentences() -> list[tuple[str, str]]:
    """Return all sentences of the sources, with the name of the file."""
    found = []
    for package, patterns in SOURCES.items():
        root = Path(str(package.__file__)).parent
        for pattern in patterns:
            for path in sorted(root.glob(pattern)):
                source = path.read_text(encoding="utf-8")
                found += [(path.name, each) for each in find_sentences(source)]
    return found


def read_rows(name: str) -> dict[str, str]:
    """Return the codes and texts of a module of the page."""
    source = (PAGE / name).read_text(encoding="utf-8")
    rows = re.findall(r"^  \['(\w+)', '((?:[^'\\]|\\.)*)'\],$", source, re.MULTILINE)
    return dict(rows)


def fill(sentence: str) -> str:
    return PLACEHOLDER.sub(lambda place: f"<{place[1]}>", sentence)


def test_every_sentence_of_the_sources_is_recognized():
    sentences = list_sentences()
    assert len(sentences) > 200
    missing = {
        (file, each)
        for file, each in sentences
        if not each.startswith(EXCEPTIONS)
        and each not in IN_PARTS
        and not all(isinstance(part, Phrase) or part.isspace() for part in find_parts(each) or "-")
    }
    assert sorted(missing) == []


def test_every_sentence_has_a_translation_with_its_values():
    translated = read_rows("phrases.js")
    assert translated.keys() == {code for code, _ in PHRASES}
    assert len({code for code, _ in PHRASES}) == len(PHRASES)
    for code, sentence in PHRASES:
        names = set(re.findall(r"\{(\w+)\}", translated[code]))
        assert names == {place[1] for place in PLACEHOLDER.finditer(sentence)}, code


def test_each_sentence_is_recognized_with_its_values():
    # Those with another sentence as a value are in the next test.
    plain = [(code, sentence) for code, sentence in PHRASES if "!}" not in sentence]
    for code, sentence in plain:
        (part,) = find_parts(fill(sentence))
        values = {name: f"<{name}>" for name in PLACEHOLDER.findall(sentence)}
        assert part == Phrase(code, values)
    assert len(plain) > len(PHRASES) * 0.9


def codes(parts):
    return [part if isinstance(part, str) else part.code for part in parts]


def test_sentences_in_sentences_and_in_a_row():
    (part,) = find_parts("It deletes the system folder /usr. (rm -rf /usr)")
    assert part.values["command"] == "rm -rf /usr"
    (inner,) = part.values["why"]
    assert inner.code == "it_deletes"
    (folder,) = inner.values["what"]
    assert folder == Phrase("the_system_folder", {"path": "/usr"})
    row = find_parts("Nobody answered in time. The model refused to answer.")
    assert codes(row) == ["nobody_answered_in_time", " ", "the_model_refused_to_answer"]
    row = find_parts("The provider says no. The model refused to answer.")
    assert codes(row) == ["The provider says no. ", "the_model_refused_to_answer"]


def test_when_a_file_is_executed_is_a_phrase():
    whens = {each.when for each in executed_files.TABLE} | {
        each.when.partition(",")[0] for each in executed_files.TABLE
    }
    assert [when for when in whens if not isinstance((find_parts(when) or [""])[0], Phrase)] == []


def test_reasons_of_refused_calls_are_translated():
    call = ToolCall("c", "bash", "{}")
    text = "E_REJECTED: The user rejected the call: Use tox. Change your plan."
    result = ToolResult("c", "bash", (Text(text),), code="E_REJECTED")
    plain = describe_entry(Card(id=0, call=call, result=result, state="failed"))
    (part,) = plain["parts"]["result"]
    assert part["values"] == {"reason": "Use tox."}
    output = ToolResult("c", "bash", (Text("E_FAILED: It erases a device."),), code="E_FAILED")
    plain = describe_entry(Card(id=0, call=call, result=output, state="failed", began=1.0))
    assert "parts" not in plain


def test_the_page_gets_a_sentence_for_people_about_a_call_that_was_stopped():
    call = ToolCall("c", "bash", "{}")
    text = "E_STOPPED: `bash x` was not run, because the run was stopped."
    result = ToolResult("c", "bash", (Text(text),), code="E_STOPPED")
    plain = describe_entry(Card(id=0, call=call, result=result, state="failed"))
    assert plain["user_text"] == "This was not run, because the run was stopped."
    (part,) = plain["parts"]["result"]
    assert part["code"] == "call_was_not_run_because"
    (why,) = part["values"]["why"]
    assert why["code"] == "because_the_run_was_stopped"


def test_other_texts_are_left_alone():
    assert find_parts("") == []
    assert find_parts("Something that hilum never wrote.") == []
    assert find_parts("It erases a device." + " " * MAX_RECOGNIZED) == []


def test_parts_are_data():
    parts = find_parts("a.env: files there contain keys and passwords.")
    plain = msgspec.to_builtins(parts)
    assert plain[0]["values"]["path"] == "a.env"
    assert plain[0]["values"]["why"][0]["code"] == "files_there_contain_keys_and_passwords"


def test_the_texts_about_budgets_are_recognized():
    """Whatever budget it is: the error, how to continue, and the warning."""
    for name, code in (
        ("session", "budget_of_session"),
        ("day", "budget_of_day"),
        ("agent task-1", "budget_of_agent"),
        ("plugin memory", "budget_of_plugin"),
    ):
        refused = [
            refusal(name, Exceeded("dollars", 5.0, 5.5, 0.1)),
            refusal(name, Exceeded("tokens", 5_000, 4_000, 1_500)),
            unpriced_error(name, 5.0, "a/b"),
        ]
        texts = [text for error in refused for text in (error.message, error.hint)]
        texts.append(warning(BudgetView(name, "minutes", 9.0, 10.0)))
        for text in texts:
            (phrase,) = find_parts(text)
            assert isinstance(phrase, Phrase), text
            assert "what" not in phrase.values or phrase.values["what"][0].code == code
