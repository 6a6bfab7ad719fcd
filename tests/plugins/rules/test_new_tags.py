"""A rule about creating tags covers each way to create one, and no other use of `git tag`."""

from pathlib import Path

import pytest

from tests.support.judged_commands import judge_sentence

RULES = ("Don't create git tags.", "Don't create tags.")


@pytest.mark.parametrize("sentence", RULES)
@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("git tag 0.5.0", "deny"),
        ("git tag release-1", "deny"),
        ("git tag -f x", "deny"),
        ("git tag x HEAD~1", "deny"),
        ("git -C . tag -a x -m y", "deny"),
        ("git tag -sm y x", "deny"),
        ("git update-ref refs/tags/x HEAD", "deny"),
        ("python3 -c \"import subprocess; subprocess.run(['git', 'tag', '1.0'])\"", "deny"),
        ("git tag $X", "ask"),
        ("git tag", ""),
        ("git tag | tail -1", ""),
        ("git tag -l 'v*' | sort -V | tail -3", ""),
        ("git tag -l 'v0*' | tail -1", ""),
        ("git tag --list 'v*'", ""),
        ("git tag -n 'v*'", ""),
        ("git tag -n5", ""),
        ("git tag -l '*'", ""),
        ("git tag -l $X", ""),
        ("git tag --sort=-v:refname -l 'v*.*'", ""),
        ("git tag --contains HEAD", ""),
        ("git tag --points-at v1", ""),
        ("git tag -v v0.4.1", ""),
        ("git tag -d v1", ""),
        ("git update-ref -d refs/tags/v1", ""),
    ],
)
def test_only_new_tags_count(sentence: str, command: str, kind: str, tmp_path: Path) -> None:
    assert judge_sentence(sentence, command, tmp_path) == kind


def test_a_tag_waits_for_what_must_run_first(tmp_path: Path) -> None:
    sentence = "Run `make test` before tagging."
    assert judge_sentence(sentence, "git tag 1.0", tmp_path) == "deny"
    assert judge_sentence(sentence, "git tag -l 'v*'", tmp_path) == ""
