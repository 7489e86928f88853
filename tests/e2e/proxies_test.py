#!/usr/bin/env python3
"""Behind Debian's nginx and HAProxy, with the files of deploy/proxy: streams arrive as they are made, over TLS, HTTP/1.1 and HTTP/2;
gRPC goes through, and /admin/ does not."""
import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from cluster import ROOT, Cluster, Skip, Tally, eventually, hash_answer
from daemons import free_ports
from secure import Certificates

PROXIES = ROOT / "deploy/proxy"
N_EVENTS, READS_MIN = 50, 40
PROMPT = [1, 2, 3]


def program(name):
    path = shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if not path:
        raise Skip(f"no {name} here (Debian's package {name})")
    return path


def changed(text, *pairs):
    """The guide's file with this test's places; each of them has to be in it."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


@contextlib.contextmanager
def proxy(command, port, log):
    with open(log, "wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

    def listens():
        assert process.poll() is None, Path(log).read_text()[-1000:]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    try:
        eventually(listens, command[0])
        yield
    finally:
        process.terminate()
        process.wait(20)


@contextlib.contextmanager
def nginx(folder, certificates, router):
    port = free_ports(1)[0]
    text = changed((PROXIES / "nginx.conf").read_text(), ("127.0.0.1:8000", f"127.0.0.1:{router}"), ("listen 443", f"listen 127.0.0.1:{port}"),
                   ("/etc/ssl/llm.example.crt", certificates.path("server.crt")), ("/etc/ssl/llm.example.key", certificates.path("server.key")))
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    path = Path(folder) / "nginx.conf"
    path.write_text(f"daemon off; pid {folder}/nginx.pid; error_log stderr; events {{}}\nhttp {{ access_log off; {temporary}\n{text}}}\n")
    with proxy([program("nginx"), "-e", "stderr", "-p", folder, "-c", str(path)], port, Path(folder) / "nginx.log"):
        yield port


@contextlib.contextmanager
def haproxy(folder, certificates, router):
    port = free_ports(1)[0]
    pem = Path(folder) / "both.pem"
    pem.write_text(Path(certificates.path("server.crt")).read_text() + Path(certificates.path("server.key")).read_text())
    text = changed((PROXIES / "haproxy.cfg").read_text(), ("127.0.0.1:8000", f"127.0.0.1:{router}"), ("bind :443", f"bind 127.0.0.1:{port}"),
                   ("/etc/ssl/llm.example.pem", str(pem)))
    path = Path(folder) / "haproxy.cfg"
    path.write_text(text)
    with proxy([program("haproxy"), "-db", "-f", str(path)], port, Path(folder) / "haproxy.log"):
        yield port


def body(n=N_EVENTS):
    return {"prompt": PROMPT, "max_tokens": n, "stream": True, "ignore_eos": True, "return_token_ids": True}


def ids_of(text):
    datas = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ") and line != "data: [DONE]"]
    return [i for data in datas for choice in data["choices"] for i in choice.get("token_ids") or []]


def streams_arrive_as_they_are_made(port, context):
    """By plain reads of the socket under TLS: what one read brings, the proxy sent at once."""
    def once():
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=30), server_hostname="localhost") as connection:
            text = json.dumps(body())
            connection.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: llm.example\r\nContent-Type: application/json\r\nContent-Length: {len(text)}"
                               f"\r\nConnection: close\r\n\r\n{text}".encode())
            pieces = []
            while piece := connection.recv(65536):
                pieces.append(piece)
        whole = b"".join(pieces).decode()
        assert whole.startswith("HTTP/1.1 200 "), whole[:300]
        events = [p for p in pieces if b"data: {" in p]
        data = re.sub(r"\r\n[0-9a-f]+\r\n", "", whole.split("\r\n\r\n", 1)[1])
        assert ids_of(data) == hash_answer(PROMPT, N_EVENTS), data[-500:]
        return len(events)
    n_reads = max(once() for _ in range(3))  # a late machine joins pieces; a proxy that holds back does so each time
    assert n_reads >= READS_MIN, n_reads
    return f"{N_EVENTS} events in {n_reads} reads"


def http2_and_http1(port, context):
    for http2 in (True, False):
        with httpx.Client(base_url=f"https://localhost:{port}", verify=context, http1=not http2, http2=http2, timeout=60) as client:
            answer = client.post("/v1/completions", json={**body(20), "stream": False})
            assert answer.status_code == 200 and answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1"), answer
            assert answer.json()["choices"][0]["token_ids"] == hash_answer(PROMPT, 20)
            with client.stream("POST", "/v1/completions", json=body()) as stream:
                began, times, text = time.monotonic(), [], ""
                for piece in stream.iter_text():
                    times.append(time.monotonic() - began)
                    text += piece
            assert ids_of(text) == hash_answer(PROMPT, N_EVENTS)
            assert times[0] < times[-1] / 2, times  # the first came long before the last
            assert client.get("/").status_code == 200 and client.get("/health").json()["status"] == "ok"
            for path in ("/admin/status", "/admin/drain"):
                assert client.get(path).status_code == 403, path
            assert client.post("/v1/completions", content=b"x" * 3000, headers={"Content-Type": "application/json"}).status_code == 400


def grpc_goes_through(port, certificates):
    import grpc
    from grpc_client import Inference, ProtoReflectionDescriptorDatabase, ask, health_pb2, health_pb2_grpc, pb
    credentials = grpc.ssl_channel_credentials(Path(certificates.path("ca.crt")).read_bytes())
    with grpc.secure_channel(f"localhost:{port}", credentials) as channel:
        assert "tandem.v1.Inference" in ProtoReflectionDescriptorDatabase(channel).get_services()
        assert health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.SERVING
        inference = Inference(channel)
        assert [m.id for m in inference.ListModels(pb.ListModelsRequest()).models] == ["hash"]
        steps = list(inference.Generate(ask("ids", PROMPT, {"max_tokens": N_EVENTS, "ignore_eos": True}), timeout=60))
        assert [i for step in steps for i in step.token_ids] == hash_answer(PROMPT, N_EVENTS), steps[:3]
        assert len(steps) >= READS_MIN, len(steps)


def behind(tally, name, start, folder, certificates, cluster):
    place = Path(folder) / name
    place.mkdir()
    try:
        with start(str(place), certificates, cluster.port) as port:
            context = certificates.context()
            tally.run(f"{name}: streams arrive as they are made", streams_arrive_as_they_are_made, port, context)
            tally.run(f"{name}: HTTP/2 and HTTP/1.1", http2_and_http1, port, context)
            tally.run(f"{name}: gRPC", grpc_goes_through, port, certificates)
    except Skip as reason:
        tally.skip(name, str(reason))


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="tandem-proxy-") as folder:
        certificates = Certificates(folder)
        certificates.sign("server")
        with Cluster("--mixed", 1, "--step-us", 5000, "--allow-host", "llm.example") as cluster:
            for name, start in (("nginx", nginx), ("haproxy", haproxy)):
                behind(tally, name, start, folder, certificates, cluster)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
