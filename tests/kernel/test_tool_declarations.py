"""What a tool declares is checked where it is declared."""

import re

import pytest
from hilum import tool
from hilum.errors import PluginError


@pytest.mark.parametrize("options", [{"risk": "reed"}, {"effect": "pur"}])
def test_a_misspelt_category_is_an_error_of_the_plugin(options):
    with pytest.raises(PluginError, match="is one of"):

        @tool(**options)
        def f(path: str) -> str:
            """Do."""
            return path


@pytest.mark.parametrize("options", [{"writes": "pth"}, {"reads": ("path", "pth")}])
def test_paths_are_parameters(options):
    @tool(**options)
    def f(path: str) -> str:
        """Do."""
        return path

    with pytest.raises(PluginError, match="no parameter 'pth'"):
        assert f.spec


def test_every_mistake_of_a_declaration_is_reported_with_its_line():
    with pytest.raises(PluginError) as caught:

        @tool(risk="reed", efect="pure", effect="sometimes")
        def f(path: str) -> str:
            """Do."""
            return path

    first, *lines = caught.value.message.splitlines()
    assert first == "3 mistakes:"
    found = []
    for line in lines:
        place, _, text = line.partition(": ")
        assert re.fullmatch(r"  \S*test_tool_declarations.py, line \d+", place)
        found.append(text)
    assert found == [
        "The risk of a tool is one of read, write, execute, network, not 'reed'. Did you mean read?",
        "A tool has no option 'efect'. Did you mean effect?",
        "The effect of a tool is one of pure, idempotent, once, not 'sometimes'.",
    ]


def test_every_mistake_of_a_signature_is_reported_with_its_line():
    @tool(writes="pth")
    def f(path, other) -> str:
        """Do.

        Args:
            pat: The path.
        """

    with pytest.raises(PluginError) as caught:
        assert f.spec
    place, _, text = caught.value.message.partition(": ")
    assert re.fullmatch(r"\S*test_tool_declarations.py, line \d+", place)
    assert text == (
        "Tool f: parameter 'path' needs a type annotation and must not be *args or **kwargs;"
        " parameter 'other' needs a type annotation and must not be *args or **kwargs;"
        " the docstring describes pat, which the function does not take."
    )


def test_a_misspelt_path_of_a_method_has_a_suggestion():
    class Store:
        @tool(writes=("pth", "path"), reads="folders")
        def f(self, path: str, folder: str) -> str:
            """Do."""

    with pytest.raises(PluginError) as caught:
        assert Store().f.spec
    assert caught.value.message.endswith(
        "Tool f: There is no parameter 'pth' to read or write. Did you mean path?"
        " There is no parameter 'folders' to read or write. Did you mean folder?"
    )
