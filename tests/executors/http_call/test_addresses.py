"""Which addresses may be reached: checked after resolution, at every request, redirect and poll."""

import asyncio
import ipaddress
from pathlib import Path
from typing import Any

import pytest

from tests.executors.http_call.service import calling, said, serving
from weft.executors.http_call.addresses import AddressRules, is_public
from weft.executors.protocol import Outcome

PRIVATE = [
    "127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "0.0.0.0", "224.0.0.1", "239.1.1.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1",
    "::", "::1", "fe80::1", "fc00::1", "fd12::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "64:ff9b::a00:1", "2002:7f00:1::", "2001:db8::1",
]  # fmt: skip


@pytest.mark.parametrize("text", PRIVATE)
def test_not_public(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))
    assert AddressRules().refusal("x", ipaddress.ip_address(text)) is not None
    assert AddressRules(("public",)).refusal("x", ipaddress.ip_address(text)) is not None
    assert AddressRules(private=True).refusal("x", ipaddress.ip_address(text)) is None


@pytest.mark.parametrize("text", ["8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))
    assert AddressRules().refusal("x", ipaddress.ip_address(text)) is None


@pytest.mark.parametrize(
    ("allow", "host", "address", "allowed"),
    [
        ("10.1.0.0/16", "a.example", "10.1.2.3", True),
        ("10.1.0.0/16", "a.example", "10.2.2.3", False),
        ("10.1.0.0/16", "a.example", "8.8.8.8", False),
        ("10.1.0.0/16", "a.example", "::ffff:10.1.2.3", True),
        ("a.example", "A.example.", "10.2.2.3", True),
        ("a.example", "b.a.example", "10.2.2.3", False),
        ("*.example", "b.a.example", "10.2.2.3", True),
        ("*.example", "example", "10.2.2.3", False),
        ("*.example", "badexample", "10.2.2.3", False),
        ("a.example", "a.example", "169.254.169.254", False),  # a name does not stand for the cloud's metadata
        ("169.254.169.254", "a.example", "169.254.169.254", True),
        ("::1", "localhost", "::1", True),
    ],
)
def test_the_setting(allow: str, host: str, address: str, allowed: bool) -> None:
    assert (AddressRules((allow,)).refusal(host, ipaddress.ip_address(address)) is None) == allowed


def test_nothing_but_the_setting_even_for_own_runs() -> None:
    rules = AddressRules(("a.example",), private=True)
    assert rules.refusal("b.example", ipaddress.ip_address("127.0.0.1")) is not None
    assert rules.refusal("b.example", ipaddress.ip_address("8.8.8.8")) is not None


def called(directory: Path, rules: AddressRules, url: str, find: Any = None, **spec: Any) -> Outcome:
    async def main() -> Outcome:
        more = {} if find is None else {"find": find}
        async with serving([said(200, "reached")]) as service, calling(directory, rules, **more) as caller:
            outcome = await caller.call({"url": url.format(port=service.port), **spec})
            assert bool(service.asked) == outcome.ok
            return outcome

    return asyncio.run(main())


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://2130706433:{port}/", "http://0x7f.1:{port}/",
     "http://127.1:{port}/", "http://[::ffff:127.0.0.1]:{port}/", "http://0:{port}/"],
)  # fmt: skip
def test_loopback_under_all_its_names_is_refused(tmp_path: Path, url: str) -> None:
    outcome = called(tmp_path, AddressRules(), url)
    assert (outcome.ok, outcome.retryable) == (False, False)
    assert "not public, so refused unless the node's setting http_allow names it" in (outcome.error or "")
    assert called(tmp_path, AddressRules(private=True), url).ok


def test_the_message_names_host_address_and_setting(tmp_path: Path) -> None:
    async def find(host: str, port: int) -> list[str]:
        return ["10.0.0.7", "fd00::7"]

    outcome = called(tmp_path, AddressRules(), "http://db.internal/", find)
    assert outcome.error == (
        "db.internal is 10.0.0.7: not public, so refused unless the node's setting http_allow names it; "
        "db.internal is fd00::7: not public, so refused unless the node's setting http_allow names it"
    )


def test_a_name_that_changes_its_meaning_is_looked_up_once(tmp_path: Path) -> None:
    """The connection goes to the address that was checked: a second lookup would give another one."""
    looked_up = []

    async def find(host: str, port: int) -> list[str]:
        looked_up.append(host)
        return ["127.0.0.1" if len(looked_up) == 1 else "127.0.0.2"]

    outcome = called(tmp_path, AddressRules(("127.0.0.1",)), "http://rebind.example:{port}/", find)
    assert (outcome.ok, looked_up) == (True, ["rebind.example"])


def test_each_poll_is_checked_again(tmp_path: Path) -> None:
    async def main() -> None:
        async def find(host: str, port: int) -> list[str]:
            return ["127.0.0.1"] if len(service.asked) < 2 else ["127.0.0.2"]

        rules = AddressRules(("127.0.0.1",))
        async with serving([said(202, Location="/p")]) as service, calling(tmp_path, rules, find) as caller:
            url = f"http://rebind.example:{service.port}/"
            outcome = await caller.call({"url": url, "poll": {"every": "100ms", "max_every": "100ms"}})
            assert "rebind.example is 127.0.0.2, which is not in the node's setting" in (outcome.error or "")
            assert (outcome.retryable, len(service.asked)) == (False, 2)

    asyncio.run(main())


@pytest.mark.parametrize(("status", "spec"), [(302, {"redirects": True}), (202, {"poll": {"every": "100ms"}})])
def test_the_service_cannot_send_us_elsewhere(tmp_path: Path, status: int, spec: dict[str, Any]) -> None:
    async def main() -> None:
        async with serving([said(200)]) as inside:
            there = [said(status, Location=f"http://127.0.0.2:{inside.port}/latest/meta-data")]
            rules = AddressRules(("127.0.0.1",))
            async with serving(there) as service, calling(tmp_path, rules) as caller:
                outcome = await caller.call({"url": service.url, **spec})
                assert "127.0.0.2, which is not in the node's setting http_allow" in (outcome.error or "")
            assert inside.asked == []

    asyncio.run(main())


def test_of_several_addresses_the_allowed_ones_are_tried_in_turn(tmp_path: Path) -> None:
    async def find(host: str, port: int) -> list[str]:
        return ["10.0.0.7", "127.0.0.9", "127.0.0.1"]  # refused; allowed, but nobody listens; the service

    assert called(tmp_path, AddressRules(("127.0.0.0/8",)), "http://many.example:{port}/", find).ok


def test_a_name_without_an_address(tmp_path: Path) -> None:
    async def find(host: str, port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    outcome = called(tmp_path, AddressRules(), "http://nowhere.example/", find)
    assert (outcome.ok, outcome.retryable) == (False, True)
    assert "Name or service not known" in (outcome.error or "")
