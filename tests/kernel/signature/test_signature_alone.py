"""The library without hilum: what the schema holds is tested through the kernel's tools."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hilum.signature import SignatureError, read, split_docstring

PAGE = Path(__file__).resolve().parents[3] / "docs" / "kernel-packages.md"
SECTION = PAGE.read_text().partition("## `hilum.signature`")[2]


def test_the_example_in_the_page_runs(tmp_path):
    script = tmp_path / "example.py"
    script.write_text(SECTION.split("```python\n")[1].split("```")[0])
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert (
        done.stdout
        == "{'description': 'Minimum number of letters in a word.', 'type': 'integer', 'default': 1}\n1\n"
    )


def test_what_does_not_fit_is_told_of_the_arguments_as_they_came():
    def sums(numbers: list[int], scale: float = 1.0) -> float: ...

    signature = read(sums)
    assert signature.takes == "numbers, scale (optional)"
    with pytest.raises(
        msgspec.ValidationError, match=r"Expected `array`, got `str` - at `\$.numbers`"
    ):
        signature.convert({"numbers": '{"a": 1}'})
    assert signature.convert({"numbers": "[1, 2]"}) == {"numbers": [1, 2], "scale": 1.0}


def test_a_type_may_be_filled_in_by_the_caller():
    def look(where: Path, word: str) -> None: ...

    signature = read(look, injected={Path: "here"})
    assert signature.injected == {"where": "here"}
    assert list(signature.schema["properties"]) == ["word"]


def test_what_cannot_be_told_to_a_caller_is_refused():
    def bare(word): ...

    def described(word: str):
        """Look.

        Args:
            wrod: What for.
        """

    with pytest.raises(SignatureError, match="look: parameter 'word' needs a type annotation"):
        read(bare, name="look")
    with pytest.raises(KeyError, match="describes wrod, which the function does not take"):
        read(described, error=KeyError)
    assert split_docstring("One.\n\nTwo.\n\nArgs:\n    a (int): First\n        and last.\n") == (
        "One.\n\nTwo.",
        {"a": "First and last."},
    )
