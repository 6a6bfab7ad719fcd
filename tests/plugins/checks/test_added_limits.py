"""A limit that is added to any example of an enforced sentence makes it advice, or is a part of the check.

The examples are all sentences in the tests and documents of rules that become checks. A condition,
an exception, a soft word or a scope is added before, inside and after each of them.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hilum_checks import compile_rule
from hilum_checks.model import Check

ROOT = Path(__file__).parents[3]
TESTS = ("checks", "rules", "rules_compile")
DOCS = ("enforced-rules.md", "rules.md", "rules-compile.md")
CONDITIONS = ("unless I ask", "if the build is broken", "except on Fridays", "when possible")
SCOPES = ("in reviews", "for the web package")
CHINESE_LIMITS = (
    "如果构建失败",
    "除非是周五",
    "除周五外",
    "在评审中",
    "对于网页包",
    "尽可能",
    "最好",
    "必要时",
)
SOFT_BEGINNINGS = ("Preferably: ", "Preferably, ", "Ideally, ", "Prefer: ", "If possible, ")
# What an example that says more than its rule begins with, such as a reason or what to do instead:
# a condition or a scope at its end belongs to that.
REMARK = re.compile(
    r"[.!?;](?:\*\*)?(?:\s|$)|\s[-–—]|[—:(→，]|, (?=use|instead|it|they|this|which|because|including)"
    r"| because | as it | since | and (?=note|write|preserve)"
    r"| to (?=bypass|keep|validate|format)"
)
QUOTED = re.compile(r"``.+?``|`[^`]+`|\"[^\"]*\"|“[^”]*”|「[^」]*」|\[[^\]]*\]\([^)]*\)|\([^()]*\)")
LIST_MARK = re.compile(r"(?:[-*+•>]|\d+[.)]|❌|⚠️|🚫)\s+")
ENDING = re.compile(r"[.!。]*(?:\*\*)?$")


def read_texts() -> Iterator[str]:
    """Yield all lines in the strings of the tests, and the examples of the documents."""
    for folder in TESTS:
        for path in sorted((ROOT / "tests" / "plugins" / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield from node.value.splitlines()
    for name in DOCS:
        for line in (ROOT / "docs" / name).read_text(encoding="utf-8").splitlines():
            for cell in line.strip("| ").split(" | ") if line.startswith("|") else ():
                yield from (re.sub(r" \([a-z][^()`]*\)$", "", each) for each in cell.split(" · "))
            yield from re.findall(r'["“]([^"”]{8,120})["”]', line)


def compile_any(sentence: str) -> Check | None:
    return compile_rule(sentence, hard=False).check or compile_rule(sentence, hard=True).check


@cache
def examples() -> tuple[str, ...]:
    """Return the sentences that become checks."""
    lines = dict.fromkeys(line.strip() for line in read_texts())
    sentences = [line for line in lines if 6 < len(line) < 250 and "; Rule: " not in line]
    summaries = re.compile(r"(?:refuses|asks|deny|ask|require|denies) ")
    return tuple(each for each in sentences if not summaries.match(each) and compile_any(each))


def add_around(sentence: str, limit: str) -> Iterator[str]:
    """Yield a sentence with a limit before and after it."""
    mark = LIST_MARK.match(sentence)
    head = mark[0] if mark else ""
    rest = sentence[len(head) :]
    ending = ENDING.search(rest)
    assert ending is not None
    body = rest[: ending.start()]
    capital = limit[0].upper() + limit[1:]
    yield f"{head}{capital}, {rest}"
    yield f"{head}{capital}: {rest}"
    # "if" in a reason belongs to the reason; an exception would not.
    if limit in ("unless I ask", "except on Fridays") or first_clause(body) == body:
        yield f"{head}{body} {limit}{ending[0]}"
        yield f"{head}{body}, {limit}{ending[0]}"
        yield f"{head}{body} ({limit}){ending[0]}"
        yield f"{head}{body} - {limit}{ending[0]}"
        yield f"{head}{body}{ending[0] or '.'} {capital}."


def add_inside(sentence: str, limit: str) -> Iterator[str]:
    """Yield a sentence with a limit between any two words of its first clause."""
    mark = LIST_MARK.match(sentence)
    start = mark.end() if mark else 0
    clause = first_clause(sentence[start:])
    if not compile_any(sentence[: start + len(clause)]):
        return
    for gap in re.finditer(r"(?<=\S) (?=\S)", mask(clause)):
        at = start + gap.start()
        yield f"{sentence[:at]} {limit}{sentence[at:]}"
        yield f"{sentence[:at]} ({limit}){sentence[at:]}"


def mask(text: str) -> str:
    """Return a text with its names made unreadable."""
    return QUOTED.sub(lambda found: "x" * len(found[0]), text)


def first_clause(text: str) -> str:
    found = REMARK.search(mask(text))
    return text[: found.start()] if found else text


def is_carried(check: Check, limit: str) -> bool:
    """Return whether a check asks, which is what "unless I ask" means."""
    return limit == "unless I ask" and all(effect == "ask" for effect, _ in check.parts)


# What is said of these files, and no limit of the rule: "`state/` is local state for the web package".
DESCRIBING = (
    "`state/` is local build state written by",
    "The previous site lives at",
    "Keep secrets in",
    "Types are in",
)
# What is added belongs to the other clause or to the purpose, or tears a phrase apart.
OTHER_CLAUSE = (
    "as the final step",
    " to create new files",
    "Create a branch, ",
    "make sure",
    "Only amend if the user explicitly says so",
    "Do not commit.",
)


def is_exempt(sentence: str, limit: str) -> bool:
    if any(part in sentence for part in OTHER_CLAUSE):
        return True
    is_description = sentence.startswith(DESCRIBING)
    return is_description and limit in SCOPES


def find_unlimited(sentences: list[str], limit: str) -> list[str]:
    """Return what is enforced although the limit was added."""
    found = []
    for sentence in sentences:
        if is_exempt(sentence, limit):
            continue
        variants = (*add_around(sentence, limit), *add_inside(sentence, limit))
        for variant in variants:
            check = compile_any(variant)
            if check is not None and not is_carried(check, limit):
                found.append(f"{variant} => {check.summary[:80]}")
    return found


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("limit", [*CONDITIONS, *SCOPES])
def test_an_added_limit_is_never_lost(limit: str, trials) -> None:
    every = trials(30, 1)
    assert find_unlimited([*examples()][::every], limit) == []


def test_an_added_soft_word_is_never_lost(trials) -> None:
    enforced = []
    for sentence in [*examples()][:: trials(6, 1)]:
        mark = LIST_MARK.match(sentence)
        start = mark.end() if mark else 0
        variants = [sentence[:start] + each + sentence[start:] for each in SOFT_BEGINNINGS]
        if not is_exempt(sentence, "preferably"):
            variants += add_inside(sentence, "preferably")
        enforced += [each for each in variants if compile_any(each) is not None]
    assert enforced == []


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("limit", CHINESE_LIMITS)
def test_a_limit_that_is_added_in_chinese_is_never_lost(limit: str) -> None:
    enforced = []
    for sentence in examples():
        if not re.search("[\u4e00-\u9fff]", sentence):
            continue
        body = sentence.rstrip("。.")
        variants = [f"{limit}，{sentence}", f"{body}（{limit}）", f"{body}。{limit}。"]
        if first_clause(body) == body:
            variants.append(f"{body}，{limit}。")
        checks = {variant: compile_any(variant) for variant in variants}
        for variant, check in checks.items():
            is_asking = limit == "除非是周五" and check and is_carried(check, "unless I ask")
            if check is not None and not is_asking:
                enforced.append(variant)
    assert enforced == []


# A sentence in each language that is translated, and limits that no table knows.
TRANSLATED = {
    "Nunca editar `gen/`": ("salvo si lo pido", "en las revisiones", "si es posible"),
    "Niemals `gen/` bearbeiten": ("außer freitags", "es sei denn, ich frage", "nach Möglichkeit"),
    "Ne jamais modifier `gen/`": ("sauf si je le demande", "pendant les revues"),
    "Никогда не редактируй `gen/`": ("если я не попрошу", "по возможности"),
    "`gen/`를 수정하지 마세요": ("리뷰 중", "금요일 제외", "가능하면"),
    "`gen/`を編集しないこと": ("レビュー中", "金曜日を除く", "可能なら"),
}


@pytest.mark.parametrize("sentence", TRANSLATED)
def test_a_remark_in_another_language_makes_a_rule_advice(sentence: str) -> None:
    assert compile_any(sentence) is not None
    for limit in TRANSLATED[sentence]:
        for variant in (
            f"{sentence} {limit}",
            f"{sentence}, {limit}",
            f"{sentence} ({limit})",
            f"{sentence} - {limit}",
            f"{sentence}. {limit}.",
            f"{limit}, {sentence}",
        ):
            assert compile_any(variant) is None, variant


def test_the_examples_are_those_of_the_tests_and_documents() -> None:
    assert len(examples()) > 500
    assert {"Never edit files in `migrations/`.", "Only pnpm is supported."} <= {*examples()}
