"""Rules about hosts: ``web_fetch(domain:example.com)``, by whole labels, and what a lasting yes is
for.
"""

import hilum_guard
import pytest
from hilum import tool
from hilum.testing import plugin
from hilum_guard.rules.matching import CallFacts, fit, parse

HOSTS = [
    ("example.com", "example.com", "yes", "yes"),
    ("example.com", "docs.example.com", "", "yes"),
    ("*.example.com", "docs.example.com", "yes", "yes"),
    ("*.example.com", "example.com", "", ""),
    ("example.com", "example.com.evil.net", "", ""),
    ("example.com", "badexample.com", "", ""),
    ("Example.COM.", "example.com", "yes", "yes"),
    ("example.com", "", "", "maybe"),
]


@pytest.mark.parametrize(("pattern", "host", "allows", "denies"), HOSTS)
def test_whole_labels_are_compared(pattern, host, allows, denies):
    """Who allows a host allows that one.

    Who denies it denies what is below it, and doubt is asked about.
    """
    case = CallFacts("web_fetch", {"url": "x"}, host=host)
    assert fit(parse(f"web_fetch(domain:{pattern})", "allow"), case) == allows
    assert fit(parse(f"web_fetch(domain:{pattern})", "deny"), case) == denies


@tool(risk="network", effect="pure")
def visit(url: str) -> str:
    """Visit."""
    return f"been at {url}"


@pytest.mark.parametrize(
    ("url", "scope"),
    [
        ("https://Docs.example.com:8443/a?b#c", "visit(domain:docs.example.com)"),
        ("http://[2001:db8::1]/", "visit(domain:2001:db8::1)"),
        ("https://good.example@evil.example/", "visit(url=https://good.example@evil.example/)"),
        ("https://b\u00fccher.example/", "visit(domain:xn--bcher-kva.example)"),
        ("https://\u0435vil.example/", "visit(domain:xn--vil-qdd.example)"),
        ("nonsense", "visit(url=nonsense)"),
    ],
)
async def test_a_lasting_yes_is_for_one_host(bench, asked, url, scope):
    """Names in Unicode are kept in Punycode.

    An address that readers differ about gets no host, and never all of them.
    """
    kit = await bench(hilum_guard, plugin("web", visit), approve="ask_first")
    assert (await asked(kit, "visit", url=url)).scope == scope
