"""What a tool declares is checked where it is declared."""

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
