"""A kit for testing plugins: a bench with a kernel, models without a network, and pytest fixtures.

PYTEST_DONT_REWRITE

To enable the fixtures, which need pytest-trio, write ``pytest_plugins = ["hilum.testing"]`` in the
root ``conftest.py``, or ``addopts = ["-p", "hilum.testing"]`` in pytest's configuration. A test is
then, for example::

    from hilum.testing import use

    async def test_words_are_counted(bench):
        answers = [use("count_words", path="a.txt"), "Three."]
        b = await bench(hilum_words, answers=answers, files={"a.txt": "a b c"})
        ended = await b.run("How many words?")
        assert ended.text == "Three."
        assert b.assert_tool_called("count_words", path="a.txt").text == "3 words"

``open_bench`` provides the same bench as an async context manager. With ``autojump_clock``, hours
pass instantly. Do not use it for tools that work in threads or processes, because the clock jumps
while trio waits for these.

To play recorded responses from a real model, record a cassette and load the plugin ``hilum-replay``
in addition to yours: ``await bench(hilum_words, hilum_replay, settings={"model":
"cassette/tests/words.cassette"})``.
"""

from hilum.testing.bench import Bench as Bench
from hilum.testing.bench import Observed as Observed
from hilum.testing.bench import open_bench as open_bench
from hilum.testing.inline import plugin as plugin
from hilum.testing.models import ChaosModel as ChaosModel
from hilum.testing.models import EchoModel as EchoModel
from hilum.testing.models import JsonWire as JsonWire
from hilum.testing.models import ModelProvider as ModelProvider
from hilum.testing.models import ScriptedModel as ScriptedModel
from hilum.testing.script import Answer as Answer
from hilum.testing.script import Pause as Pause
from hilum.testing.script import Scripted as Scripted
from hilum.testing.script import cut as cut
from hilum.testing.script import pause as pause
from hilum.testing.script import say as say
from hilum.testing.script import use as use

# pytest reads this when it loads the package as a pytest plugin.
pytest_plugins: tuple[str, ...] = ("hilum.testing.fixtures",)
