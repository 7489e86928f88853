#!/usr/bin/env python3
"""The router over TLS: clients of all kinds, certificates that change under streams, and strangers to TLS."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from cluster import BIN, Skip, Tally, eventually, hash_answer
from secure import Certificates, Secure


def https_answers_as_http_does(cluster):
    for n in (1, 50, 2000):
        assert cluster.complete(list(range(n)), 20) == hash_answer(range(n), 20)
    status, headers, _ = cluster.request("GET", "/health")
    assert status == 200 and headers.get("x-request-id"), headers
    big = [5] * 3000
    assert cluster.complete(big, 400) == hash_answer(big, 400)
    status, _, body = cluster.request("POST", "/tokenize", {"prompt": "word " * 25000})
    assert status == 200 and json.loads(body)["count"] >= 25000, (status, body[:200])
    return f"{len(body) >> 10} KiB of answer to 125 kB of question"


def both_versions_and_no_older(cluster):
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = cluster.certificates.context()
        context.minimum_version = context.maximum_version = version
        assert cluster.complete([1], 3, context) == hash_answer([1], 3)
    context = cluster.certificates.context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    try:
        cluster.shake(context)
    except ssl.SSLError as error:
        assert "PROTOCOL_VERSION" in str(error).upper() or "UNSUPPORTED" in str(error).upper(), error
    else:
        raise AssertionError("TLS 1.1 is spoken")


def openai_and_httpx(cluster):
    try:
        import openai
    except ImportError:
        raise Skip("the package openai is not installed") from None
    http_client = openai.DefaultHttpxClient(verify=cluster.context)
    client = openai.OpenAI(base_url=f"https://localhost:{cluster.port}/v1", api_key="none", http_client=http_client)
    model = client.models.list().data[0].id
    whole = client.completions.create(model=model, prompt="one two", max_tokens=12)
    pieces = [c.choices[0].text for c in client.completions.create(model=model, prompt="one two", max_tokens=12, stream=True)
              if c.choices]
    assert "".join(pieces) == whole.choices[0].text, (pieces, whole)
    answer = http_client.get(f"https://localhost:{cluster.port}/health")
    assert answer.status_code == 200, answer
    return f"openai {openai.__version__}"


def openai_and_httpx_over_http2(cluster):
    """ALPN chooses HTTP/2: whole answers, streams, errors, many at a time on one connection."""
    try:
        import h2  # noqa: F401
        import httpx
        import openai
    except ImportError as reason:
        raise Skip(f"a package is not installed: {reason}") from None
    with httpx.Client(http2=True, verify=cluster.certificates.context()) as http_client:
        answer = http_client.get(f"https://localhost:{cluster.port}/health")
        assert (answer.status_code, answer.http_version) == (200, "HTTP/2"), answer
        client = openai.OpenAI(base_url=f"https://localhost:{cluster.port}/v1", api_key="none", http_client=http_client)
        model = client.models.list().data[0].id
        chat = {"model": model, "messages": [{"role": "user", "content": "one two"}], "max_tokens": 12, "seed": 1}
        whole = client.chat.completions.create(**chat).choices[0].message.content
        streams = [client.chat.completions.create(**chat, stream=True) for _ in range(4)]  # all open at once
        for stream in streams:
            assert "".join(c.choices[0].delta.content or "" for c in stream if c.choices) == whole
        try:
            client.completions.create(model="other", prompt="x")
        except openai.NotFoundError as error:
            assert error.response.http_version == "HTTP/2", error
        else:
            raise AssertionError("another model is served")


def curl(cluster):
    url = f"https://localhost:{cluster.port}/health"
    for args, want in ((["-k"], 0), (["--cacert", cluster.certificates.path("ca.crt")], 0), ([], 60)):
        done = subprocess.run(["curl", "-sS", *args, url], capture_output=True, text=True, timeout=60)
        assert done.returncode == want, (args, done)
        assert want or "ok" in done.stdout, done
    for args, version in ((["--http2", "-k"], "2"), (["--http1.1", "-k"], "1.1")):
        done = subprocess.run(["curl", "-sS", *args, "-w", "%{http_version} %{http_code}", url], capture_output=True, text=True,
                              timeout=60)
        assert done.stdout.endswith(f"{version} 200"), (args, done)


def tools_speak_https(cluster):
    ca = cluster.certificates.path("ca.crt")
    local = f"https://localhost:{cluster.port}"
    chat = [BIN / "tandem", "chat", "--max-tokens", "4"]
    load = [BIN / "tandem-bench", "load", "--requests", "4", "--prompt-tokens", "8", "--max-tokens", "8"]
    rows = (
        ([*chat, "--server", local, "--ca", ca, "hello"], 0, ""),
        ([*chat, "--server", local, "--insecure", "hello"], 0, ""),
        ([*chat, "--server", local, "hello"], 1, "the certificate is refused: "),
        ([*chat, "--server", f"http://localhost:{cluster.port}", "hello"], 1, "This port speaks HTTPS"),
        ([*chat, "--server", local, "--ca", "/nonexistent", "hello"], 78, "/nonexistent: "),
        ([BIN / "tandem", "status", "--server", local, "--ca", ca], 0, ""),
        ([BIN / "tandem", "status", "--server", f"https://127.0.0.1:{cluster.port}", "--ca", ca], 0, ""),
        ([BIN / "tandem", "status", "--server", local], 1, "the certificate is refused: "),
        ([*load, "--target", local, "--ca", ca], 0, ""),
        ([*load, "--target", local], 1, "the certificate is refused: "),
    )
    for command, code, words in rows:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)
        assert done.returncode == code and words in done.stderr, (command[1:], done)


def certificates_change_under_streams(cluster):
    certificates = cluster.certificates
    answers, n = {}, 300

    def ask(i):
        answers[i] = cluster.complete([i, i + 1], n)
    assert cluster.common_name() == "first"
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    with cluster.shake() as kept:  # idle meanwhile
        for thread in threads:
            thread.start()
        certificates.install("second")
        os.kill(cluster.router_pid(), signal.SIGHUP)
        eventually(lambda: cluster.common_name() == "second", "the new certificate is shown")
        Path(certificates.path("server.key")).write_text("nothing\n")
        os.kill(cluster.router_pid(), signal.SIGHUP)
        eventually(lambda: "not reloaded" in cluster.log_text(), "the warning")
        told = [line for line in cluster.log_text().splitlines() if "not reloaded" in line]
        assert len(told) == 1 and "level=warn" in told[0] and "server.key" in told[0], told
        assert cluster.common_name() == "second"
        for thread in threads:
            thread.join()
        kept.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert kept.recv(4096).startswith(b"HTTP/1.1 200 ")
    for i in range(8):
        assert answers[i] == hash_answer([i, i + 1], n), i
    certificates.install("first")


def renewed_certificates_need_no_signal(certificates):
    """As a mounted Secret changes: ..data is renamed to a folder of the new pair. A pair that does not fit is told of once."""
    mount = Path(certificates.path("mount"))
    for name, cert, key in (("one", "first", "first"), ("two", "second", "second"), ("half", "first", "second")):
        (mount / name).mkdir(parents=True)
        for kind, source in (("crt", cert), ("key", key)):
            shutil.copy(certificates.path(f"{source}.{kind}"), mount / name / f"server.{kind}")
            os.chmod(mount / name / f"server.{kind}", 0o600)

    def swap(name):
        (mount / "..tmp").symlink_to(name)
        os.rename(mount / "..tmp", mount / "..data")

    def ends():
        figures = cluster.request("GET", "/metrics")[2].decode()
        return int(re.search(r"(?m)^tandem_tls_certificate_not_after_seconds(?:\{.*\})? (\d+)$", figures).group(1))

    def date(name):
        done = subprocess.run(["openssl", "x509", "-in", certificates.path(f"{name}.crt"), "-noout", "-enddate"],
                              capture_output=True, text=True)
        return ssl.cert_time_to_seconds(done.stdout.strip().removeprefix("notAfter="))

    swap("one")
    flags = ("--tls-cert", mount / "..data/server.crt", "--tls-key", mount / "..data/server.key", "--tls-check", "20ms")
    with Secure(certificates, *flags, "--mixed", 1) as cluster:
        assert cluster.common_name() == "first" and ends() == date("first")
        swap("two")
        eventually(lambda: cluster.common_name() == "second", "the new certificate is shown")
        assert ends() == date("second")
        swap("half")
        cluster.logged(r"not reloaded.* what=certificates .*not the key of")
        swap("one")
        eventually(lambda: cluster.common_name() == "first", "the pair that fits is shown")
        assert cluster.log_text().count("not reloaded") == 1, cluster.log_text()[-3000:]


def clients_show_certificates(certificates):
    with tempfile.TemporaryDirectory() as folder:
        other = Certificates(folder)
        other.sign("stranger")
        with Secure(certificates, "--mixed", 1, "--tls-client-ca", certificates.path("ca.crt")) as cluster:
            known = certificates.context("client")
            # `tandem up` has no certificate: it cannot ask whether the router has met its worker.
            eventually(lambda: cluster.request("GET", "/readyz", context=known)[0] == 200, "the router meets its worker")
            assert cluster.complete([3], 4, known) == hash_answer([3], 4)
            stranger = certificates.context()
            stranger.load_cert_chain(other.path("stranger.crt"), other.path("stranger.key"))
            for context in (None, stranger):
                try:
                    cluster.request("GET", "/health", context=context)
                except (ssl.SSLError, ConnectionError):
                    continue
                raise AssertionError("served without a certificate of its authority")
            metrics = cluster.request("GET", "/metrics", context=known)[2].decode()
            failed = re.search(r'tandem_tls_handshakes_total\{.*outcome="failed".*\} (\d+)', metrics)
            assert failed and int(failed.group(1)) >= 2, metrics[:300]


def bad_files_end_the_start(certificates):
    path = certificates.path
    shutil.copy(path("first.key"), path("open.key"))
    os.chmod(path("open.key"), 0o644)
    certificates.sign("late", days=-1)
    rows = (
        (["--tls-cert", path("first.crt")], "--tls-key: is needed with tls-cert"),
        (["--tls-key", path("first.key")], "--tls-cert: is needed with tls-key"),
        (["--tls-client-ca", path("ca.crt")], "--tls-client-ca: needs tls-cert and tls-key"),
        (["--tls-cert", path("none"), "--tls-key", path("first.key")], "none: cannot open it", 75),
        (["--tls-cert", path("first.crt"), "--tls-key", path("second.key")], "second.key: not the key of the certificate in"),
        (["--tls-cert", path("first.crt"), "--tls-key", path("open.key")], "open.key: others can read it (mode 644)"),
        (["--tls-cert", path("first.key"), "--tls-key", path("first.key")], "first.key: contains no PEM certificate"),
    )
    for flags, words, *code in rows:
        done = subprocess.run([str(BIN / "tandem-router"), "--model", "hash", "--listen", "127.0.0.1:0", "--announce",
                               f"ipc://{path('announce')}", *flags], capture_output=True, text=True, timeout=60)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert done.returncode == (code or [78])[0] and len(errors) == 1 and words in errors[0], (flags, done)


def expired_is_a_warning(certificates):
    certificates.install("late")
    with Secure(certificates, "--mixed", 1) as cluster:
        cluster.logged("clients may refuse the certificate")
        told = [line for line in cluster.log_text().splitlines() if "clients may refuse the certificate" in line]
        assert len(told) == 1 and "level=warn" in told[0] and "expired on" in told[0], told
    certificates.install("first")


# --- strangers --------------------------------------------------------------------------------


def rest_of(connection):
    """All bytes until the server ends the connection, and how it did."""
    connection.settimeout(60)
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        return received, "reset"
    return received, "closed"


def plain_http_is_told(cluster):
    for line in (b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n",
                 b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"):
        with cluster.raw() as connection:
            connection.sendall(line)
            answer, _ = rest_of(connection)
        assert answer.startswith(b"HTTP/1.1 400 ") and b"This port speaks HTTPS" in answer, answer


def garbage_is_closed(cluster):
    for junk in (b"\x00" * 64, b"SSH-2.0-OpenSSH_9.2\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                 b"\x16\x03\x01\xff\xff" + b"x" * 2000,
                 b"\x80\x2e\x01\x03\x01" + b"y" * 60, os.urandom(500)):
        with cluster.raw() as connection:
            connection.sendall(junk)
            connection.shutdown(socket.SHUT_WR)
            answer, _ = rest_of(connection)
        # At most an alert (type 21).
        assert answer == b"" or answer[0] == 21, (junk[:20], answer)


def hello():
    """The first bytes of a client."""
    sent, received = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(received, sent, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


def slow_handshakes_end(certificates):
    """On a router of their own: at the others nobody is late on purpose."""
    whole, head_s = hello(), 2
    connections = []
    with Secure(certificates, "--mixed", 1, "--head-timeout", f"{head_s}s") as cluster:
        began = time.monotonic()
        for n in (0, 1, 5, len(whole) // 2, len(whole) - 1, len(whole)):
            connection = cluster.raw()
            connection.sendall(whole[:n])
            connections.append(connection)
        for connection in connections:
            with connection:
                rest_of(connection)  # or it fails
        took = time.monotonic() - began
        assert took > head_s / 2, took
    return f"after {took:.1f} s"


def half_handshakes_hold_nobody(cluster):
    whole = hello()
    crowd = [cluster.raw() for _ in range(200)]
    for connection in crowd:
        connection.sendall(whole[:len(whole) // 2])
    cluster.serves()
    for connection in crowd:  # all of them want a signature now
        with contextlib.suppress(OSError):
            connection.sendall(whole[len(whole) // 2:])
    cluster.serves()
    for connection in crowd:
        connection.close()


def half_closed_client_is_gone(cluster):
    """close_notify behind a request: nobody waits for the answer, so it is not computed."""
    body = json.dumps({"prompt": [1], "max_tokens": 30000, "ignore_eos": True, "stream": True})
    connection = cluster.shake()
    connection.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
    with contextlib.suppress(OSError):
        connection.unwrap()
    cluster.quiet()
    connection.close()


def truncated_connection_is_gone(cluster):
    """The socket ends without close_notify, in mid-stream and in the middle of a record."""
    body = json.dumps({"prompt": [1], "max_tokens": 30000, "ignore_eos": True, "stream": True})
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    for torn in (False, True):
        sent, received = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = cluster.context.wrap_bio(received, sent, server_hostname="localhost")
        with cluster.raw() as connection:
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    connection.sendall(sent.read())
                    received.write(connection.recv(65536))
            client.write((head + body).encode())
            record = sent.read()
            connection.sendall(record[:-7] if torn else record)
            if not torn:
                assert connection.recv(100)
        cluster.quiet()


def forged_records_end_the_connection(cluster):
    with cluster.shake() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        os.write(connection.fileno(), b"\x17\x03\x03\x00\x20" + b"z" * 32)
        try:
            connection.recv(100)
        except ssl.SSLError as error:
            assert "BAD_RECORD_MAC" in str(error).upper(), error
        else:
            raise AssertionError("a forged record is taken")


def renegotiation_is_refused(cluster):
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{cluster.port}", "-tls1_2", "-CAfile",
                           cluster.certificates.path("ca.crt")], input="R\n", capture_output=True, text=True, timeout=60)
    assert "no renegotiation" in done.stderr and done.returncode != 0, done


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(folder)
        for name in ("first", "second", "client"):
            certificates.sign(name, name)
        certificates.install("first")
        tally.run("bad_files_end_the_start", bad_files_end_the_start, certificates)
        with Secure(certificates, "--mixed", 1, "--head-timeout", "60s") as cluster:
            for check in (https_answers_as_http_does, both_versions_and_no_older, openai_and_httpx, openai_and_httpx_over_http2, curl,
                          tools_speak_https, certificates_change_under_streams, plain_http_is_told, garbage_is_closed, half_handshakes_hold_nobody,
                          half_closed_client_is_gone, truncated_connection_is_gone, forged_records_end_the_connection,
                          renegotiation_is_refused):
                tally.run(check.__name__, check, cluster)
            tally.run("serves_after_all_that", cluster.serves)
        tally.run("renewed_certificates_need_no_signal", renewed_certificates_need_no_signal, certificates)
        tally.run("slow_handshakes_end", slow_handshakes_end, certificates)
        tally.run("clients_show_certificates", clients_show_certificates, certificates)
        tally.run("expired_is_a_warning", expired_is_a_warning, certificates)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
