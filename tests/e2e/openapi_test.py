#!/usr/bin/env python3
"""/openapi.json against the router that sends it: valid by openapi-spec-validator, seen by whom /v1/models is seen, and
schemathesis finds nothing: no 5xx, answers as the document says, and what it does not allow is refused, by name.

usage: openapi_test.py [--only TEXT] [--examples N]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import frameworks
from cluster import Cluster, Tally, request

frameworks.enter("schemathesis-venv", "schemathesis")

CLIENT, ADMIN = "client-key", "admin-key"
# A stream without end, and a path that is a 501 whatever comes.
LEFT_OUT = ("/admin/events", "/v1/embeddings")
CONFIG = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 413, 415, 501]
"""
# What two members say together the document does not tell: such a request may be refused, but says why.
HOOKS = '''
import json
import os

import schemathesis


@schemathesis.auth()
class Keys:
    """Each path's own: schemathesis asks without it, too."""

    def get(self, case, ctx):
        return os.environ["ADMIN_KEY" if case.operation.path.startswith("/admin/") else "CLIENT_KEY"]

    def set(self, case, data, ctx):
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {data}"}


@schemathesis.check
def refusals_are_by_name(ctx, response, case):
    """A body that is no JSON for the router (a name with NUL) has no member that could be named."""
    if response.status_code != 400 or not isinstance(case.body, dict) or b"invalid JSON" in response.content:
        return
    error = json.loads(response.content)["error"]
    named = error.get("param") or "`" in error["message"] or "the prompt is too long" in error["message"]
    assert error["message"] and named, f"a refusal that names nothing: {error}"
'''


def tiny(folder):
    """A token a byte, random weights; what no request bounds ends with a short context."""
    import tools_test
    return str(tools_test.model(Path(folder) / "tiny", True, edit=lambda config, _: config.update(max_position_embeddings=256)))


def serving(folder):
    for name, key in (("client", CLIENT), ("admin", ADMIN)):
        (Path(folder) / name).write_text(key + "\n")
        (Path(folder) / name).chmod(0o600)
    return Cluster("--mixed", 1, "--tool-format", "hermes", "--default-max-tokens", 8, "--api-keys", f"{folder}/client", "--admin-keys",
                   f"{folder}/admin", model=tiny(folder))


def document(cluster):
    status, headers, body = request(cluster.port, "GET", "/openapi.json", None, {"x-api-key": CLIENT})
    assert status == 200, (status, body)
    return headers, json.loads(body)


def is_valid(cluster):
    import openapi_spec_validator
    openapi_spec_validator.validate(document(cluster)[1])


def is_seen_as_the_models_are(cluster):
    headers, _ = document(cluster)
    for key, wanted in ((None, 401), (ADMIN, 401), (CLIENT, 304)):
        sent = {"If-None-Match": headers["ETag"], **({"x-api-key": key} if key else {})}
        assert request(cluster.port, "GET", "/openapi.json", None, sent)[0] == wanted, key
        if wanted == 401:
            assert request(cluster.port, "GET", "/v1/models", None, sent)[0] == wanted, key


def schemathesis_finds_nothing(cluster, folder, phase, examples):
    (Path(folder) / "schemathesis.toml").write_text(CONFIG)
    (Path(folder) / "asked_by_name.py").write_text(HOOKS)
    (Path(folder) / "openapi.json").write_text(json.dumps(document(cluster)[1]))
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "asked_by_name", "PYTHONPATH": folder, "CLIENT_KEY": CLIENT, "ADMIN_KEY": ADMIN}
    command = [Path(sys.executable).with_name("schemathesis"), "--config-file", f"{folder}/schemathesis.toml", "run",
               f"{folder}/openapi.json", "--url", f"http://127.0.0.1:{cluster.port}", "--phases", phase, "--exclude-checks", "positive_data_acceptance",
               "--continue-on-failure", "--max-examples", str(examples), "--seed", "1", "--no-shrink", "--suppress-health-check", "all", "--request-timeout", "120",
               "--output-truncate", "true", *(word for path in LEFT_OUT for word in ("--exclude-path", path))]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1800)
    lines = [line[:600] for line in ran.stdout.splitlines() if not line.lstrip().startswith("curl ")]
    assert ran.returncode == 0, "\n".join(lines)[-8000:] + ran.stderr[-2000:]
    return next(line.strip() for line in lines if line.endswith("skipped") or line.endswith("passed"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="tests whose name has this")
    parser.add_argument("--examples", type=int, default=100, help="for each path, beside those of the document's own bounds")
    args = parser.parse_args()
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder, serving(folder) as cluster:
        tests = {
            "the document is valid": lambda: is_valid(cluster),
            "it is seen as the models are": lambda: is_seen_as_the_models_are(cluster),
            "schemathesis: each bound": lambda: schemathesis_finds_nothing(cluster, folder, "coverage", 1),
            "schemathesis: drawn requests": lambda: schemathesis_finds_nothing(cluster, folder, "fuzzing", args.examples),
        }
        for name, test in tests.items():
            if args.only in name:
                tally.run(name, test)
    sys.exit(tally.end())


if __name__ == "__main__":
    main()
