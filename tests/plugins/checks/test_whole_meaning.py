"""Sentences whose check says as much as the sentence, or says what it leaves out."""

import pytest
from hilum_checks import compile_rule
from hilum_checks.limiting import names_product


def compile_summary(sentence: str) -> str:
    compiled = compile_rule(sentence, hard=False)
    return compiled.check.summary if compiled.check else ""


@pytest.mark.parametrize(
    ("sentence", "summary"),
    [
        # New files are allowed.
        ("Bestehende Dateien in `db/old/` niemals ändern.", "denies changing and deleting db/old"),
        ("Nunca editar archivos existentes en `a/b/`.", "denies changing and deleting a/b"),
        ("`a/b.exs` is off limits (don't read it, don't edit it).", "denies reading and writing a/b.exs"),
        ("`a/b.exs` is off-limits: do not read or edit it.", "denies reading and writing a/b.exs"),
        ("`a/b.exs` is off limits.", "denies writing a/b.exs"),
        ("Branches are named `<type>/<ticket>-<slug>`, e.g. `feature/B-1-x`.", "denies creating a branch, except `*/*-*`"),
        ("Branch naming: `feature/<name>`, `fix/<name>`", "denies creating a branch, except `feature/*` or `fix/*`"),
    ],
)  # fmt: skip
def test_a_check_says_what_the_sentence_says(sentence: str, summary: str) -> None:
    assert compile_summary(sentence) == summary


@pytest.mark.parametrize(
    ("sentence", "parts"),
    [
        ("`.env` and `a/s.env` must never be read or committed.", ("reading .env, a/s.env", "git add * .env")),
        ("`.env` must never be committed or read.", ("reading .env", "git add * .env")),
        ("`a.py` must never be edited or committed.", ("writing a.py", "git add * a.py")),
        ("Never leave `console.log` in the code.", (r"console\.log",)),
    ],
)  # fmt: skip
def test_each_part_of_a_sentence_is_enforced(sentence: str, parts: tuple[str, ...]) -> None:
    summary = compile_summary(sentence)
    assert summary.startswith("denies ")
    assert all(part in summary for part in parts)


@pytest.mark.parametrize(
    "sentence",
    [
        # Words of the subject that hilum does not know limit it.
        "Alte Dateien in `a/b/` niemals ändern.",
        "Große Dateien in `a/b/` nicht ändern.",
        "旧的 `a/b/` 文件不得修改",
        # No file of this name is meant.
        "Never leave `binding.pry` in the code.",
        "Never edit migrations that were applied or committed in reviews.",
    ],
)
def test_a_sentence_whose_words_would_be_dropped_is_advice(sentence: str) -> None:
    assert compile_summary(sentence) == ""


def test_a_prohibition_in_a_remark_that_is_not_enforced_is_named() -> None:
    compiled = compile_rule("`a/b.py` is off limits (do not commit it).", hard=False)
    assert compiled.is_partial
    assert compiled.why.endswith("not understood, so not enforced: do not commit it")
    assert not compile_rule("Never edit `a/` (do not rename it).", hard=False).is_partial


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Walklog for Android", True), ("Walklog (Android)", True), ("Android app", True), ("The backend", True),
        ("Walklog for iOS and Android", True), ("Walklog", False), ("Android", False), ("Production", False),
        ("Rules for Android", False), ("Android rules", False), ("Code for Android", False), ("In production", False),
        ("When building for Android", False), ("Examples for Android", False), ("Reviewer agent", False),
    ],
)  # fmt: skip
def test_a_title_that_names_the_project_is_known(title: str, expected: bool) -> None:
    assert names_product(title) is expected


@pytest.mark.parametrize(
    ("sentence", "part"),
    [
        ("Never run `docker compose down -v`, it wipes the database.", "docker compose down -v"),
        ("Never run `docker compose down -v`: that deletes all volumes.", "docker compose down -v"),
        ("Use `./gradlew`, never `gradle`.", "denies the command `gradle`"),
        ("禁止使用 `npm` 和 `yarn`，一律使用 `pnpm`。", "denies the command `npm` or `yarn`"),
        ("代码中禁止使用 `console.log`。", r"console\.log"),
        ("不要直接推送到 `main` 或 `release/*`。", "to the branch main or release/*"),
        ("Vor dem Commit `composer test` ausführen.", "before the command `composer test`"),
        ("Vor jedem Push `make test` ausführen.", "denies the command `git push`"),
        ("Führe vor jedem Commit `make test` aus.", "denies the command `git commit`"),
        ("Niemals `.env` lesen.", "denies reading .env"),
        ("Niemals Pakete installieren, ohne zu fragen.", "asks before the command `pip install`"),
        ("Pushe niemals auf `main`.", "to the branch main"),
        ("Niemals nach `main` pushen.", "to the branch main"),
        ("Committe nie direkt auf `main`.", "denies the command `git commit`"),
        ("Force-Push ist verboten.", "denies the command `git push --force`"),
    ],
)
def test_usual_sentences_are_enforced(sentence: str, part: str) -> None:
    assert part in compile_summary(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Never run `docker compose down -v`, it is only for CI.",
        "Never run `docker compose down -v`, it wipes data unless you have a backup.",
        "Never run `docker compose down -v`, it deletes the data in production only.",
        "Vor dem Push `make test` ausführen, außer bei Dokumentation.",
        "Vor jedem Commit im Backend `make test` ausführen.",
        "Pushe niemals auf `main` in der Produktion.",
        "Pushe niemals auf `main`, wenn die Tests fehlschlagen.",
        "Niemals Pakete installieren, ohne zu fragen, außer im Frontend.",
        "Never push to `acme/*`.",
        "Use `./gradlew` for releases, never `gradle`.",
    ],
)
def test_usual_sentences_with_a_limit_are_advice(sentence: str) -> None:
    assert compile_summary(sentence) == ""
