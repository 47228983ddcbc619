"""D: getting out. A real listener on the host is the target where one is needed."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from meta_agent.core.protocols import Sandbox
from tests.sandbox.attacks._check import Check
from tests.sandbox.attacks._programs import ends_with, program_check

CONNECT = 'socket.create_connection(("{host}", {port}), timeout=2)'
OWN_LISTENER = """
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname(), timeout=2)
"""
OWN_DATAGRAM = """
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 0))
server.settimeout(2)
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.sendto(b"x", server.getsockname())
server.recv(1)
"""
SEND_DATAGRAM = """
client = socket.socket({family}, socket.SOCK_DGRAM)
client.connect(({host!r}, {port}))
client.send(b"x")
"""
OWN_ABSTRACT = """
server = socket.socket(socket.AF_UNIX)
server.bind("\\0own")
server.listen()
socket.socket(socket.AF_UNIX).connect("\\0own")
"""


@contextmanager
def tcp_listener() -> Iterator[int]:
    """A host service on every address; yields its port."""
    with socket.create_server(("0.0.0.0", 0)) as server:
        yield server.getsockname()[1]


@contextmanager
def abstract_listener() -> Iterator[str]:
    """A host service in the abstract namespace, which no file permission guards."""
    name = f"ma-conformance-{uuid.uuid4().hex}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        yield name


def reach_host_tcp(sandbox: Sandbox) -> str:
    """Tries the host's service by loopback and by the host's own address."""
    with tcp_listener() as port:
        for host in ("127.0.0.1", own_address(), "172.17.0.1"):
            if problem := ends_with(43, CONNECT.format(host=host, port=port))(sandbox):
                return f"{host}: {problem}"
    return ""


def own_address() -> str:
    """The address of the host's default route; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def reach_host_abstract(sandbox: Sandbox) -> str:
    with abstract_listener() as name:
        body = f'socket.socket(socket.AF_UNIX).connect("\\0{name}")'
        return ends_with(43, body)(sandbox)


def own_listener(body: str) -> Callable[[Sandbox], str]:
    """The same means work inside."""
    return ends_with(0, body)


CHECKS = [
    Check("TCP to a service of the host", "network", own_listener(OWN_LISTENER), reach_host_tcp),
    Check(
        "an abstract socket of the host", "network", own_listener(OWN_ABSTRACT), reach_host_abstract
    ),
    program_check(
        "UDP to the world",
        "network",
        control=OWN_DATAGRAM,
        attack=SEND_DATAGRAM.format(family="socket.AF_INET", host="192.0.2.1", port=53),
    ),
    program_check(
        "IPv6 to the world",
        "network",
        control=OWN_DATAGRAM,
        attack=SEND_DATAGRAM.format(family="socket.AF_INET6", host="2001:db8::1", port=53),
    ),
    program_check(
        "the metadata service of a cloud",
        "network",
        control=OWN_LISTENER,
        attack=CONNECT.format(host="169.254.169.254", port=80),
    ),
    program_check(
        "looking up a name",
        "network",
        control='socket.getaddrinfo("127.0.0.1", 80)',
        attack='socket.getaddrinfo("example.com", 80)',
    ),
]
