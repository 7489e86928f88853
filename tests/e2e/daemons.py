"""What tests share that start daemons by hand."""
import socket

from cluster import request


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def handshakes_failed(port):
    """What the router at this port counts of them."""
    lines = request(port, "GET", "/metrics")[2].decode().splitlines()
    return float(next(line for line in lines if line.startswith("tandem_handshakes_failed_total ")).split()[1])
