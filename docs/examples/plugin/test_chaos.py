import hilum_lookup
from hilum.testing import ChaosModel, ScriptedModel, use


async def test_the_run_survives_a_bad_connection(bench, autojump_clock):
    script = ScriptedModel([use("look_up", key="capital/Japan"), "Tokyo.", "Tokyo.", "Tokyo."])
    chaos = ChaosModel(script, seed=4, error=0.3, cut=0.3, bad_json=0.0)
    b = await bench(hilum_lookup, model=chaos)
    ended = await b.run("What is the capital of Japan?")
    assert ended.text == "Tokyo."
    assert any(chaos.log)
