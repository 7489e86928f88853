"""What tests share that start daemons by hand."""
import contextlib
import random
import socket
from pathlib import Path

from cluster import request


def free_ports(n):
    """Ports that nobody listens on, beside those that the kernel gives to connections: so nobody gets one by chance before it is used."""
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = set()
    while len(ports) < n:
        port = random.SystemRandom().choice([*range(10000, low), *range(high + 1, 65536)] or range(10000, 65536))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports.add(port)
    return list(ports)


def handshakes_failed(port):
    """What the router at this port counts of them."""
    lines = request(port, "GET", "/metrics")[2].decode().splitlines()
    return float(next(line for line in lines if line.startswith("tandem_handshakes_failed_total ")).split()[1])
