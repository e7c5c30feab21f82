"""An address of this host that a server of ours listens on, for clients on other hosts.

``listen: 10.0.0.5`` of a profile or ``--listen 10.0.0.5``: the port is one that is free;
``10.0.0.5:5433`` and ``[fd00::5]:5433`` name it, for a firewall that lets one through.
"""

from __future__ import annotations

import errno
import ipaddress
import re
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.tiers.linux.kernel import LIVE

_WITH_PORT = re.compile(r"(?:\[(?P<bracketed>[^\]]+)\]|(?P<plain>[^:]+)):(?P<port>\d{1,5})")
_FORM = "write an IP address of this host, or ADDRESS:PORT ([ADDRESS]:PORT of IPv6)"
_IPV4_TRIE, _IPV6_TABLE = Path("/proc/net/fib_trie"), Path("/proc/net/if_inet6")


@dataclass(frozen=True)
class Address:
    """``host``: an IP address in its short form; ``port``: None where any free one will do."""

    host: str
    port: int | None = None

    def __str__(self) -> str:
        """As it is written: ``10.0.0.5:5433``."""
        if self.port is None:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen(text: str) -> Address:
    """UsageError where it is no address of one interface."""
    problem = f"listen {text!r}"
    match = _WITH_PORT.fullmatch(text)
    host = (match["bracketed"] or match["plain"]) if match else text.strip("[]")
    port = int(match["port"]) if match else None
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise UsageError(problem, "not an IP address", _FORM) from None
    if address.is_unspecified:
        raise UsageError(
            problem,
            "it means every address of this host",
            f"name an address that the clients reach: {_own_addresses_text()}",
        )
    if port is not None and not 0 < port < 1 << 16:
        raise UsageError(problem, f"{port} is not a port number", "choose one from 1 to 65535")
    return Address(str(address), port)


def check_listen(address: Address) -> None:
    """UsageError where this host has no such address, its port is taken, or nothing encrypts."""
    problem = f"listen {address}"
    try:
        free_port(address)
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            context = f"not an address of this host, which has {_own_addresses_text()}"
            raise UsageError(problem, context, "name one of these") from error
        context = (error.strerror or str(error)).lower()
        raise UsageError(problem, context, "omit the port, or name a free one") from error
    if shutil.which("openssl") is None:
        raise UsageError(
            problem,
            "openssl, which makes the run's certificate, is not installed",
            "install openssl",
        )


def free_port(address: Address) -> int:
    """The address's port, or one that is free now; OSError where it cannot be had."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers set it
        probe.bind((address.host, address.port or 0))
        port: int = probe.getsockname()[1]
        return port


def own_addresses() -> list[str]:
    """Addresses of this host's interfaces, as the kernel lists them; loopback last."""
    result = dict.fromkeys([*_ipv4(), *_ipv6()])
    return sorted(result, key=lambda address: ipaddress.ip_address(address).is_loopback)


def _own_addresses_text() -> str:
    return ", ".join(own_addresses()) or "none that the kernel lists"


def _ipv4() -> list[str]:
    """Leaves of the local table: ``|-- 10.0.0.5`` with ``/32 host LOCAL`` below."""
    leaf, result = "", []
    for line in (LIVE.read(_IPV4_TRIE) or "").splitlines():
        words = line.split()
        if words[:1] == ["|--"]:
            leaf = words[1]
        elif words == ["/32", "host", "LOCAL"]:
            result.append(leaf)
    return result


def _ipv6() -> list[str]:
    """But those that mean something on one link alone."""
    table = LIVE.read(_IPV6_TABLE) or ""
    packed = [bytes.fromhex(line.split()[0]) for line in table.splitlines()]
    addresses = map(ipaddress.IPv6Address, packed)
    return [str(address) for address in addresses if not address.is_link_local]
