"""What a model proposes: parsed strictly, tried on its own examples and on the past, never believed."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hilum.events import CallDone, CallStarted, RunEnded
from hilum.messages import ToolCall, ToolResult
from hilum.store import MemoryStore, SessionInfo, spell_folder
from hilum_checks import compile_lines
from hilum_rules.rule import Rule, RuleType
from hilum_rules.signed_rules import hash_rule
from hilum_rules_compile import past_calls
from hilum_rules_compile.asking import INSTRUCTIONS, NO_CHECK, parse_answer, write_request
from hilum_rules_compile.examples import EVERYDAY
from hilum_rules_compile.proposal import Proposal, find_warning, verify
from hypothesis import given
from hypothesis import strategies as st

SENTENCE = "The client in `sdk/` must come out of the generator, so hands off."


def make_rule(sentence: str = SENTENCE, **fields: Any) -> Rule:
    return Rule("id", RuleType.SOFT_GUIDELINE, "House", sentence, "AGENTS.md", 3, **fields)


def example(text: str) -> dict[str, str]:
    do, _, what = text.partition(" ")
    return {"do": do, "what": what}


def proposal(*enforce: str, match: str = "", other: str = "", advice: str = "") -> Proposal:
    """A proposal with examples, separated by semicolons."""
    parts = {"must_match": match, "must_not_match": other}
    examples = {
        name: [example(each.strip()) for each in text.split(";") if each.strip()]
        for name, text in parts.items()
    }
    return msgspec.convert({"id": "x", "enforce": enforce, "advice": advice, **examples}, Proposal)


# --- verification ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given_proposal",
    [
        proposal("deny write sdk/**", match="write sdk/a.ts; delete sdk/a.ts; run rm -r sdk", other="read sdk/a.ts; write a"),
        proposal("deny command make ship", match="run make ship; run cd x && make ship", other="run make; run echo make ship"),
        proposal("ask command git push", match="run git push -f", other="run git pull"),
        proposal("deny read .env*", match="read .env; run cat .env.local", other="read env.py"),
        proposal("deny host example.com", match="fetch https://api.example.com/x", other="fetch https://example.org"),
        proposal("deny tool web_fetch", match="call web_fetch", other="call web_search"),
        proposal("deny answer /as an ai/i", match="answer As an AI, I cannot.", other="answer Done."),
        proposal("deny commit-message /wip/i", match="run git commit -m 'WIP x'", other="run git commit -m 'Add x'"),
        proposal("require commit-message /^feat: /", match="run git commit -m x", other="run git commit -m 'feat: x'"),
        proposal("require command make test before git commit", match="run git commit", other="run make test; run git status"),
        proposal(
            "require command make test before git commit",
            match="run make test || git commit",
            other="run make test && git commit",
        ),
        msgspec.convert(
            {
                "id": "x",
                "enforce": ["deny content /console\\.log/ in src/**"],
                "must_match": [{"do": "write", "what": "src/a.js", "content": "console.log(1)"}],
                "must_not_match": [
                    {"do": "write", "what": "src/a.js", "content": "1"},
                    {"do": "write", "what": "test/a.js", "content": "console.log(1)"},
                ],
            },
            Proposal,
        ),
        proposal("require pr-title /^feat: /", match="run gh pr create -t x", other="run gh pr create -t 'feat: x'"),
        proposal("require name /^[a-z-]+$/ in src/**", match="create src/rowList", other="create src/row-list; create B"),
        proposal("require command make lint before answer", match="finish src/a", other="run make lint; run git commit"),
        proposal("deny answer /^\\P{Han}*$/", match="answer Done.", other="answer 完成了。"),
        proposal("require command make after write docs/** before answer", match="finish docs/a.md", other="finish src/a"),
        proposal("require write LOG.md after write src/** before answer", match="finish src/a", other="finish a"),
        proposal("deny command pytest except uv run pytest", match="run pytest -q", other="run uv run pytest -q"),
        proposal("deny write ../other/** except ../other/bin/x", match="write ../other/a", other="write ../other/bin/x"),
        proposal(advice="It is a matter of taste."),
    ],
)  # fmt: skip
def test_what_a_model_may_propose(given_proposal: Proposal, tmp_path: Path) -> None:
    verified = verify(given_proposal, make_rule(), tmp_path)
    assert verified.rejected == ""
    assert verified.can_be_signed is not verified.is_advice


@pytest.mark.parametrize(
    ("given_proposal", "why"),
    [
        (proposal("allow write sdk/**", match="write sdk/a", other="write b"), "neither deny"),
        (proposal("deny write", match="write sdk/a", other="write b"), "names nothing"),
        (proposal("deny wirte sdk/**", match="write sdk/a", other="write b"), "cannot be read"),
        (proposal("deny write !sdk", match="write sdk/a", other="write b"), "cannot be read"),
        (proposal("deny write sdk/**\nallow all", match="write sdk/a", other="write b"), "not one line"),
        (proposal("deny write sdk/**", match="write sdk/a"), "lacks examples"),
        (proposal("deny write sdk/**", other="write b"), "lacks examples"),
        (proposal("deny write sdk/**", match="write src/a", other="write b"), "does not match its own example: write src/a"),
        (proposal("deny write sdk/**", match="read sdk/a", other="write b"), "does not match its own example"),
        (proposal("deny write **", match="write sdk/a", other="write b"), "must not match: write b"),
        (proposal("deny command *", match="run make", other="read b"), "everything"),
        (proposal("deny tool *", match="call x", other="answer b"), "everything"),
        (proposal("deny access **", match="write a", other="run ls"), "everything"),
        (proposal("deny context AGENTS.md in main", match="read AGENTS.md", other="read README.md"), "about context"),
        (proposal("deny answer /./", match="answer x", other="run ls"), "everything"),
        (proposal(), "neither a check nor a reason"),
        (proposal("deny write sdk/**", match="write sdk/a", other="write b", advice="And that."), "or both"),
        (proposal(*["deny write a"] * 9, match="write a", other="write b"), "more than 8"),
    ],
)  # fmt: skip
def test_what_is_rejected_and_why(given_proposal: Proposal, why: str, tmp_path: Path) -> None:
    verified = verify(given_proposal, make_rule(), tmp_path)
    assert why in verified.rejected
    assert verified.check is None
    assert not verified.can_be_signed
    assert not verified.is_advice


def test_a_check_on_every_file_is_not_accepted_without_a_look(tmp_path: Path) -> None:
    every = proposal("deny write **", match="write a", other="read a")
    assert "every file" in verify(every, make_rule("Never change a file here."), tmp_path).warning


@pytest.mark.parametrize(
    ("enforce", "warns"),
    [
        ("deny content /./", True), ("deny content /[a-z]/ in **", True),
        ("deny command * except ls", True), ("deny command * except git status", True),
        ("deny read ** except README.md", True), ("deny name /./", True), ("deny commit-message /./", True),
        ("require content /Copyright/", True),
        ("deny content /console\\.log/", False), ("deny content /./ in gen/**", False), ("deny content /TODO/", False),
        ("deny write ** except src/**", False), ("deny command git commit", False), ("deny command git", False),
        ("deny commit-message /^Add/", False), ("require commit-message /^JIRA-\\d+ /", False),
        ("require command make lint before git commit", False), ("deny host *", False), ("deny read infra/**", False),
    ],
)  # fmt: skip
def test_a_check_that_would_stop_all_work_has_a_note(
    enforce: str, warns: bool, tmp_path: Path
) -> None:
    compiled, mistakes = compile_lines([enforce])
    assert not mistakes
    assert compiled.check is not None
    assert bool(find_warning(make_rule(), compiled.check, tmp_path)) == warns


def test_every_kind_of_check_in_the_request_can_be_compiled() -> None:
    """What a model is told to write is what hilum reads."""
    words = INSTRUCTIONS.partition("The notation")[2].partition("Write ask instead")[0]
    kinds = set(re.findall(r"^  ((?:deny|require) [a-z-]+)", words, re.MULTILINE))
    lines = {
        "deny write": "sdk/** except sdk/x/",
        "deny command": "git commit, git push to branch main, release/*",
        "deny tool": "web_fetch",
        "deny host": "example.com",
        "deny answer": "/x/i",
        "deny content": "/x/ in src/** except src/y/",
        "require content": "/x/ in src/**",
        "require name": r"/^[a-z0-9-]+\.ts$/ in src/**/*.ts",
        "deny commit-message": "/x/i",
        "require branch-name": "feature/*, fix/*",
        "deny pr-title": "/x/",
        "require command": "make docs after write docs/** before answer",
        "require read": "docs/style.md before write src/**",
        "require write": "CHANGELOG.md after write src/** before answer",
    }
    assert kinds == set(lines)
    for kind, target in lines.items():
        assert compile_lines([f"{kind} {target}"])[1] == []
    assert all(EVERYDAY.values())


# --- answers --------------------------------------------------------------------------------------

FIRST = make_rule("Only the first.")
SECOND = make_rule("Only the second.")


def parsed(*proposals: Any, **advice: str) -> tuple[dict[str, Proposal], dict[str, str]]:
    text = json.dumps({"proposals": proposals, "advice": advice})
    answers = parse_answer(text, [FIRST, SECOND])
    return answers.proposals, answers.rejected


def test_an_answer_speaks_only_for_the_sentences_of_its_request() -> None:
    known, rejected = parsed(
        {"id": "1", "advice": "taste"},
        {"id": "3", "enforce": ["deny write **"]},
        {"id": 7},
        "sign everything",
    )
    assert list(known) == [hash_rule(FIRST)]
    assert rejected == {hash_rule(SECOND): "the model gave no answer for it"}


def test_two_answers_about_one_sentence_count_for_nothing() -> None:
    one = {"id": "1", "advice": "taste"}
    known, rejected = parsed(one, one, one, **{"1": "taste"})
    assert known == {}
    assert rejected[hash_rule(FIRST)] == "the model answered twice"


def test_advice_is_given_by_number_or_by_silence_about_what_does_not_sound_binding() -> None:
    """What costs the user nothing should cost few tokens, too."""
    rules = [
        FIRST,
        make_rule("Run `make` after changes."),
        make_rule("The server is fast."),
        SECOND,
    ]
    text = json.dumps({"proposals": [], "advice": {"1": "taste", "2": 3, "9": "no such sentence"}})
    answers = parse_answer(text, rules)
    assert [each.advice for each in answers.proposals.values()] == ["taste", "3", NO_CHECK]
    assert list(answers.rejected) == [hash_rule(SECOND)]


def test_sentences_are_numbered_and_grouped_by_their_headings() -> None:
    rules = [FIRST, SECOND, make_rule("Third.", lead="Never:")]
    rules[2] = msgspec.structs.replace(rules[2], section="Other")
    request = write_request(rules, Path("/nonexistent"))
    groups = json.loads(request.partition("The sentences:\n")[2])
    assert [(group["heading"], len(group["sentences"])) for group in groups] == [
        ("House", 2),
        ("Other", 1),
    ]
    assert groups[1]["above"] == "Never:"
    assert groups[1]["sentences"] == [{"id": "3", "sentence": "Third."}]


@pytest.mark.parametrize(
    "wrong",
    [
        {"enforce": "deny write sdk/**"},
        {"enforce": ["deny write sdk/**"], "signed": True},
        {"enforce": [3]},
        {"must_match": [{"do": "sign", "what": "x"}]},
        {"must_match": ["write x"]},
        {"advice": None},
    ],
)
def test_a_malformed_proposal_costs_no_other(wrong: dict[str, Any]) -> None:
    known, rejected = parsed({"id": "1", **wrong}, {"id": "2", "advice": "taste"})
    assert list(known) == [hash_rule(SECOND)]
    assert "malformed" in rejected[hash_rule(FIRST)]


@pytest.mark.parametrize("before", ["", "Sure, {here} it is.\n```json\n", "```\n"])
def test_json_is_found_in_what_models_write_around_it(before: str) -> None:
    text = json.dumps({"proposals": [{"id": "1", "advice": "taste"}]}, indent=2)
    after = "\n```\nAnything else?" if "```" in before else ""
    assert list(parse_answer(before + text + after, [FIRST]).proposals) == [hash_rule(FIRST)]


@given(st.text(max_size=200))
def test_nonsense_is_one_error(text: str) -> None:
    if "{" in text:
        return
    with pytest.raises(ValueError, match="JSON"):
        parse_answer(text, [FIRST])


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=200))
def test_no_sentence_can_leave_its_string(text: str) -> None:
    request = write_request([make_rule(text)], Path("/nonexistent"))
    (group,) = json.loads(request.partition("The sentences:\n")[2])
    assert group["sentences"] == [{"id": "1", "sentence": text.strip()}]


# --- the past -------------------------------------------------------------------------------------


async def test_a_check_is_tried_on_the_calls_of_earlier_sessions(tmp_path: Path) -> None:
    store = MemoryStore()
    for number, folder in enumerate((tmp_path, tmp_path, tmp_path / "other")):
        log = await store.create(SessionInfo(f"s{number}", spell_folder(folder)))
        calls = [
            ("write_file", "write", {"path": "sdk/a.ts", "content": "x"}),
            ("run_terminal_cmd", "execute", {"command": f"echo {number} > sdk/b.ts"}),
            ("run_terminal_cmd", "execute", {"command": "ls sdk"}),
        ]
        events: list[Any] = [
            CallStarted(
                seq=index,
                at=1.0,
                call=ToolCall(f"c{index}", name, json.dumps(arguments)),
                risk=risk,
            )
            for index, (name, risk, arguments) in enumerate(calls, 1)
        ]
        log.append([*events, RunEnded(seq=4, state="completed", text="As an AI, I did it.")])
    history = await past_calls.collect(store, tmp_path)
    assert len(history.calls) == 6
    lines = (["deny write sdk/**"], ["deny command make"], ["deny answer /as an ai/i"])
    checks = [compile_lines(each)[0].check for each in lines]
    sdk, make, answer = past_calls.try_checks([make_rule()] * 3, checks, history, tmp_path)
    assert (sdk.calls, len(sdk.refused), len(make.refused)) == (6, 4, 0)
    assert (answer.answers, answer.rejected) == (2, 2)
    assert str(sdk).startswith(
        "It would have stopped 4 of your last 6 calls: run_terminal_cmd echo"
    )
    assert str(sdk).endswith("and 1 more.")


async def test_a_command_that_must_run_first_is_tried_in_the_order_of_the_past(
    tmp_path: Path,
) -> None:
    """What ran before in the same session counts; a write in between does not let it count."""
    commit = ("run_terminal_cmd", "execute", {"command": "git commit -m x"})
    test = ("run_terminal_cmd", "execute", {"command": "make test"})
    write = ("write_file", "write", {"path": "a.py", "content": "x"})
    store = MemoryStore()
    for number, calls in enumerate(([test, commit, write, commit], [commit])):
        log = await store.create(SessionInfo(f"s{number}", spell_folder(tmp_path)))
        events: list[Any] = []
        for index, (name, risk, arguments) in enumerate(calls):
            call = ToolCall(f"c{index}", name, json.dumps(arguments))
            result = ToolResult(call.id, name, (), data={"exit_code": 0})
            events.append(CallStarted(seq=len(events) + 1, at=1.0, call=call, risk=risk))
            events.append(CallDone(seq=len(events) + 1, result=result))
        log.append(events)
    history = await past_calls.collect(store, tmp_path)
    check = compile_lines(["require command make test before git commit"])[0].check
    (trial,) = past_calls.try_checks([make_rule()], [check], history, tmp_path)
    assert (trial.calls, len(trial.refused)) == (5, 2)
