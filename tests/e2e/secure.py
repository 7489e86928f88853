"""A cluster behind TLS, and the certificates that it and its clients show."""
import contextlib
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

from cluster import Cluster, hash_answer


class Certificates:
    """A root, and what it signs, in a folder of its own."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self._openssl("req", "-x509", "-subj", "/CN=Test root", "-days", "2", *self._fresh("ca"), "-out", self.path("ca.crt"))

    def path(self, name):
        return str(self.folder / name)

    def _openssl(self, *args):
        subprocess.run(["openssl", *args], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def _fresh(self, name):
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.path(name + ".key"))

    def sign(self, name, common_name="localhost", days=2):
        """NAME.crt and NAME.key: signed by the root, for localhost and 127.0.0.1."""
        names = self.path(name + ".ext")
        Path(names).write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        self._openssl("req", "-subj", f"/CN={common_name}", *self._fresh(name), "-out", self.path(name + ".csr"))
        self._openssl("x509", "-req", "-in", self.path(name + ".csr"), "-CA", self.path("ca.crt"), "-CAkey", self.path("ca.key"),
                      "-CAcreateserial", "-days", str(days), "-extfile", names, "-out", self.path(name + ".crt"))
        os.chmod(self.path(name + ".key"), 0o600)

    def install(self, name):
        """Puts a pair where the server reads it, as a tool that renews certificates does."""
        for kind in ("crt", "key"):
            shutil.copy(self.path(f"{name}.{kind}"), self.path(f"new.{kind}"))
            os.chmod(self.path(f"new.{kind}"), 0o600)
            os.rename(self.path(f"new.{kind}"), self.path(f"server.{kind}"))

    def flags(self):
        return ("--tls-cert", self.path("server.crt"), "--tls-key", self.path("server.key"))

    def context(self, client=None):
        context = ssl.create_default_context(cafile=self.path("ca.crt"))
        if client:
            context.load_cert_chain(self.path(client + ".crt"), self.path(client + ".key"))
        return context


class Secure(Cluster):
    """A cluster behind https."""

    def __init__(self, certificates, *args, **kwargs):
        super().__init__(*certificates.flags(), *args, **kwargs)
        self.certificates = certificates
        self.context = certificates.context()

    def request(self, method, path, body=None, context=None, timeout=60):
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=timeout, context=context or self.context)
        connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        with contextlib.closing(connection):
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def complete(self, prompt, n, context=None):
        status, _, body = self.request("POST", "/v1/completions", {"prompt": prompt, "max_tokens": n, "return_token_ids": True},
                                       context)
        assert status == 200, (status, body[:300])
        return json.loads(body)["choices"][0]["token_ids"]

    def status(self):
        return json.loads(self.request("GET", "/admin/status")[2])

    def raw(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def shake(self, context=None):
        return (context or self.context).wrap_socket(self.raw(), server_hostname="localhost")

    def common_name(self):
        with self.shake() as connection:
            subject = dict(pair[0] for pair in connection.getpeercert()["subject"])
            return subject["commonName"]

    def serves(self):
        assert self.complete([7, 8, 9], 5) == hash_answer([7, 8, 9], 5)
