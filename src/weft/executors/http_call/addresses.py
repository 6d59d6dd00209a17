"""Which addresses tasks may reach. Checked after a name is resolved, and the connection then goes to the very address
that was checked: a name that means something else a moment later changes nothing."""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable

import msgspec

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
#: The addresses of a host: (name, port).
Resolve = Callable[[str, int], Awaitable[list[str]]]
PUBLIC = "public"
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class AddressRefused(Exception):
    """The node's settings do not let tasks reach it."""


class AddressRules(msgspec.Struct, frozen=True):
    """`allow`: the setting http_allow. Without it all public addresses may be reached and, if `private`, all
    others."""

    allow: tuple[str, ...] = ()
    private: bool = False

    def refusal(self, host: str, address: IpAddress) -> str | None:
        """Why tasks may not reach this address of this host."""
        public = is_public(address)
        if not self.allow:
            if public or self.private:
                return None
            return f"{_shown(host, address)}: not public, so refused unless the node's setting http_allow names it"
        for word in self.allow:
            if (word == PUBLIC and public) or _is_within(address, word) or _is_named(host, address, word):
                return None
        return f"{_shown(host, address)}, which is not in the node's setting http_allow"


def is_public(address: IpAddress) -> bool:
    """Of what an address of version 6 may carry, the address of version 4 counts."""
    inner = _carried(address)
    return inner.is_global and not inner.is_multicast and not inner.is_reserved


def _carried(address: IpAddress) -> IpAddress:
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour or (address.teredo[1] if address.teredo else address)


def _is_within(address: IpAddress, word: str) -> bool:
    try:
        network = ipaddress.ip_network(word)
    except ValueError:
        return False
    return address in network or _carried(address) in network


def _is_named(host: str, address: IpAddress, word: str) -> bool:
    """A name does not stand for addresses that no service has of its own: those of the link, such as a cloud's
    metadata at 169.254.169.254, and of groups."""
    inner = _carried(address)
    if inner.is_link_local or inner.is_multicast or inner.is_unspecified:
        return False
    host, word = host.rstrip(".").lower(), word.lower()
    return host.endswith(word[1:]) if word.startswith("*.") else host == word


def _shown(host: str, address: IpAddress) -> str:
    return f"{host} is {address}" if host != str(address) else str(address)


async def resolve(host: str, port: int) -> list[str]:
    """In the order in which they should be tried. Names are looked up in the loop's few shared threads."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def allowed_addresses(rules: AddressRules, find: Resolve, host: str, port: int) -> list[str]:
    """Those that may be reached. Raises AddressRefused if none may, and OSError if the name has none."""
    try:
        found = [str(ipaddress.ip_address(host))]
    except ValueError:
        found = await find(host, port)
    refusals = {text: rules.refusal(host, ipaddress.ip_address(text)) for text in found}
    allowed = [text for text, why in refusals.items() if why is None]
    if not allowed:
        raise AddressRefused("; ".join(why for why in refusals.values() if why) or f"{host} has no address")
    return allowed
