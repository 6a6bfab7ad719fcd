"""Services that plugins provide to each other without importing each other."""

import sys
from pathlib import Path
from types import SimpleNamespace

import hilum_guard
import pytest
from hilum import (
    AddressRefused,
    ContentPolicy,
    NeedsUser,
    PluginError,
    find_address_policy,
    find_content_policy,
    find_file_saver,
    find_proxy,
    make_redactor,
)
from hilum.hooks import Lifespans
from hilum.testing import open_bench
from pluggy import HookimplMarker

KEY = "sk-" + "a1B2" * 8


@pytest.fixture
def no_plugins(monkeypatch):
    """An environment without any installed plugin."""
    monkeypatch.setattr(sys, "path", [])


def test_the_installed_guard_provides_the_content_policy():
    """Code without a session gets the policy through the entry point."""
    policy = find_content_policy()
    assert isinstance(policy, ContentPolicy)
    assert policy.redact(f"key {KEY}") == "key [REDACTED:OPENAI_KEY]"
    assert policy.explain_withheld_file(Path("/srv/.env"), ".env")
    assert policy.explain_withheld_file(Path("/srv/app.py"), "app.py") == ""


async def test_a_session_has_the_policy_of_its_guard():
    """The session's guard knows more secrets than the installed policy: those in settings."""
    async with open_bench(hilum_guard) as kit:
        policy = find_content_policy(kit.session)
        assert policy is kit.session.plugin(hilum_guard.Guard)
        assert policy.make_redactor({}, {"name": "hunter2-and-more"})("hunter2-and-more") == (
            "[REDACTED:name]"
        )


async def test_a_session_without_the_guard_has_the_installed_policy():
    """Secrets are replaced although the session does without approvals and the sandbox."""
    async with open_bench() as kit:
        policy = find_content_policy(kit.session)
        assert policy is not None
        assert KEY not in policy.redact(KEY)


def test_without_a_policy_no_redactor_can_be_created(no_plugins):
    """A caller must not mistake a text that nobody searched for a clean one."""
    assert find_content_policy() is None
    with pytest.raises(PluginError, match="can remove secrets") as caught:
        make_redactor()
    assert caught.value.hint == "pip install hilum-guard"


async def test_the_installed_address_policy_refuses_private_addresses():
    """It needs no session, and every plugin gets the same check."""
    policy = find_address_policy()
    assert policy.parse_url("HTTP://Example.org:80/a#b").url == "http://example.org/a"
    assert policy.is_listed("wiki", 80, ["wiki:80"])
    assert not policy.is_listed("wiki", 81, ["wiki:80"])
    target, addresses = await policy.resolve_url("http://10.0.0.7:81/", hosts={"10.0.0.7:81"})
    assert (target.host, target.port, addresses) == ("10.0.0.7", 81, ("10.0.0.7",))
    _, addresses = await policy.resolve_url("http://localhost/", loopback=True)
    assert "127.0.0.1" in addresses
    for url in ("http://10.0.0.7/", "http://localhost/"):
        with pytest.raises(AddressRefused) as caught:
            await policy.resolve_url(url)
        assert (caught.value.code, caught.value.listable) == ("E_ADDRESS", True)
    async with policy.open_client() as client:
        with pytest.raises(AddressRefused):
            await client.get("http://169.254.169.254/")


def test_without_a_plugin_nothing_is_checked_or_saved(no_plugins):
    """There is no default: an unchecked address is not contacted."""
    with pytest.raises(NeedsUser, match="can check network addresses") as caught:
        find_address_policy()
    assert caught.value.hint == "pip install 'hilum[web]'"
    with pytest.raises(NeedsUser, match="can save files"):
        find_file_saver()


def test_the_proxy_of_the_environment(monkeypatch):
    """By scheme, else for all; none for this machine and for hosts in NO_PROXY."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    assert find_proxy("https://a.example/") == ""
    monkeypatch.setenv("https_proxy", "proxy:3128")
    monkeypatch.setenv("no_proxy", "b.example,fd00::/8")
    assert find_proxy("https://a.example/") == "http://proxy:3128"
    assert find_proxy("http://a.example/") == find_proxy("https://x.b.example/") == ""
    assert (
        find_proxy("https://127.0.0.1/") == find_proxy("nonsense") == find_proxy("http://[") == ""
    )
    monkeypatch.setenv("all_proxy", "socks5://s:1")
    assert find_proxy("http://a.example/") == "socks5://s:1"


def install(folder, group, source):
    """Install a distribution with a service whose name comes first in the alphabet."""
    info = folder / "aaa_evil-1.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text(f"[{group}]\naaa = aaa_evil_service:service\n")
    (folder / "aaa_evil_service.py").write_text(source)


def test_the_standard_service_precedes_one_of_another_distribution(tmp_path, monkeypatch):
    """A distribution must not switch off the replacing of secrets by being installed."""
    install(tmp_path, "hilum.content_policy", "raise RuntimeError('loaded')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert KEY not in find_content_policy().redact(KEY)


def test_an_object_without_the_methods_of_its_service_is_refused(tmp_path, monkeypatch):
    """The error names its distribution and what is missing."""
    install(tmp_path, "hilum.file_saver", "service = object()\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "aaa_evil_service", raising=False)
    with pytest.raises(PluginError, match=r"aaa-evil is not a service: .*save_file") as caught:
        find_file_saver()
    assert caught.value.code == "E_PLUGIN"


async def test_an_instance_whose_attributes_raise_is_no_service():
    """It neither ends the lookup nor hides the instances after it."""

    class Odd:
        def __getattr__(self, name):
            raise RuntimeError(name)

    lifespans = Lifespans("live", object(), lambda *_: None, "tea")
    impl = HookimplMarker("tea")
    policy = find_content_policy()
    await lifespans.open("odd", SimpleNamespace(live=impl(lambda: Odd())))
    await lifespans.open("late", SimpleNamespace(live=impl(lambda: policy)))
    assert lifespans.plugin(ContentPolicy) is policy


async def test_a_preferred_instance_precedes_others_with_its_methods():
    """Those of hilum's own plugins are preferred, wherever they are opened."""
    lifespans = Lifespans("live", object(), lambda *_: None, "tea")
    impl = HookimplMarker("tea")
    policy = find_content_policy()
    other = SimpleNamespace(**{name: print for name in vars(ContentPolicy) if name[0] != "_"})
    await lifespans.open("other", SimpleNamespace(live=impl(lambda: other)))
    assert lifespans.plugin(ContentPolicy) is other
    await lifespans.open("own", SimpleNamespace(live=impl(lambda: policy)), preferred=True)
    assert lifespans.plugin(ContentPolicy) is policy
