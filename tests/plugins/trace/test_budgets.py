"""Budgets: what they admit, refuse and let wait, and how a run that reaches one goes on."""

from hilum import tool
from hilum.messages import Price, Usage
from hilum.testing import ScriptedModel, plugin, say, use

DEAR = Price(input=10.0, output=50.0)
TURN = Usage(input=1_000, output=100)  # costs 1.5 cents


@tool(risk="read")
def look(n: int = 0) -> str:
    """Look."""
    return f"seen {n}"


def scripted(*answers, **options):
    """A model whose answers cost 1.5 cents each."""
    return ScriptedModel(answers, price=DEAR, max_output=200, **options)


def endless(usage=TURN):
    """Calls of a tool that never end."""
    return [say("", usage=usage) + use("look", n=n) for n in range(200)]


async def test_a_run_ends_at_the_budget_of_its_session_and_goes_on_when_it_is_raised(bench):
    """One request may exceed the budget; the error says how to continue, and continuing works."""
    kit = await bench(
        plugin("tools", look),
        "budgets",
        model=scripted(*endless()),
        settings={"budgets.session.dollars": 0.05, "turns": 100},
    )
    ended = await kit.run("x")
    assert (ended.state, ended.code) == ("partial_success", "E_BUDGET")
    assert 0.035 < ended.usage.cost <= 0.05 + 0.015
    assert "The budget of $0.0500 for this session" in ended.error
    assert "/budget session 0.1 dollars" in ended.hint
    assert "budgets.session.dollars" in ended.hint
    assert "Tools run: look ×" in ended.done

    sent = len(kit.requests)
    assert (await kit.run("go on")).code == "E_BUDGET"
    assert len(kit.requests) == sent

    run = await kit.start("/budget session 0.1 dollars")
    assert "of $0.10 spent" in (await run.wait()).text
    ended = await kit.run("go on")
    assert ended.code == "E_BUDGET"
    assert len(kit.requests) > sent
    assert kit.session.agents["main"].conversation.usage.cost <= 0.1 + 0.015


async def test_without_budgets_nothing_is_refused(bench):
    kit = await bench(plugin("tools", look), "budgets", model=scripted(*endless()[:3], "done"))
    assert (await kit.run("x")).text == "done"
    run = await kit.start("/budget")
    assert "No budget is set." in (await run.wait()).text
