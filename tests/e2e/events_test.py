#!/usr/bin/env python3
"""/admin/events: pictures of the cluster each second and at each change, for a bounded number of watchers, over HTTP/1.1 and HTTP/2."""
import contextlib
import http.client
import json
import os
import re
import signal
import sys
import time

from cluster import Cluster, Tally, eventually, get_json, request
from http2_test import Client, h2

WATCHERS_MAX = 64  # EVENTS_WATCHERS_MAX of router/serve/events.h


class Watcher:
    """An open stream of pictures."""

    def __init__(self, port):
        self.wire = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.wire.request("GET", "/admin/events")
        self.answer = self.wire.getresponse()
        self.status = self.answer.status

    def next(self):
        """The next picture; None: the stream has ended as it should."""
        line = self.answer.readline()
        if not line:
            return None
        assert line.startswith(b"data: {") and self.answer.readline() == b"\n", line
        return json.loads(line[6:])

    def until(self, told):
        """The pictures up to the first of which told() is true."""
        seen = [self.next()]
        while not told(seen[-1]):
            assert len(seen) < 60, seen[-1]
            seen.append(self.next())
        return seen

    def close(self):
        self.answer.close()
        self.wire.close()


def watching(port):
    return contextlib.closing(Watcher(port))


def shape(value):
    """The names of a JSON object's members, all the way down."""
    if isinstance(value, dict):
        return {name: shape(member) for name, member in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else None


def states(picture):
    return {w["name"]: w["state"] for w in picture["workers"]}


def a_picture_comes_each_second(cluster):
    with watching(cluster.port) as watcher:
        assert watcher.answer.getheader("Content-Type").startswith("text/event-stream")
        assert watcher.answer.getheader("Cache-Control") == "no-cache"
        first, second, third = watcher.next(), watcher.next(), watcher.next()
        assert third["time_ms"] - second["time_ms"] >= 900, (second["time_ms"], third["time_ms"])
        assert abs(first["time_ms"] - 1000 * time.time()) < 60000
        assert shape(third) == shape(get_json(cluster.port, "/admin/status"))
    status, headers, body = request(cluster.port, "HEAD", "/admin/events")
    assert (status, body) == (200, b"") and headers["Content-Type"].startswith("text/event-stream"), (status, headers)


def a_change_is_told_at_once(cluster):
    """A state that changes right after a picture is in one that does not wait for its second, unless the router stood still."""
    def gap(worker, order, state):
        before = watcher.next()
        assert request(cluster.port, "POST", f"/admin/{order}", {"worker": worker})[0] == 200
        told = watcher.until(lambda p: states(p)[worker] == state)[-1]
        return told["time_ms"] - before["time_ms"]
    with watching(cluster.port) as watcher:
        gaps = []

        def at_once():
            gaps.extend(gap("mixed1", order, state) for order, state in (("drain", "draining"), ("resume", "ready")))
            return min(gaps) < 800
        eventually(at_once, "a change that does not wait for its second")
        old = watcher.next()
        os.kill(next(w["pid"] for w in old["workers"] if w["name"] == "mixed1"), signal.SIGKILL)
        names = {w["incarnation"] for w in old["workers"]}  # it may be back before anybody looked
        watcher.until(lambda p: states(p) == {"mixed0": "ready", "mixed1": "ready"} and {w["incarnation"] for w in p["workers"]} != names)
    return f"{sorted(gaps)} ms"


def watchers_are_bounded(cluster):
    watchers = [Watcher(cluster.port) for _ in range(WATCHERS_MAX)]
    assert {w.status for w in watchers} == {200}
    with watching(cluster.port) as late:
        assert late.status == 429 and late.answer.getheader("Retry-After"), late.status
        assert "watch already" in json.loads(late.answer.read())["error"]["message"]
    assert all(watcher.next() for watcher in watchers)
    watchers.pop().close()

    def again():
        with watching(cluster.port) as watcher:
            return watcher.status == 200 and watcher.next()
    eventually(again, "a place that was given back")
    for watcher in watchers:
        watcher.close()


def pages_of_other_origins_hold_no_place(cluster):
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        for path in ("/admin/events", "/admin/status"):
            status, _, body = request(cluster.port, "GET", path, headers=headers)
            assert status == 403 and json.loads(body)["error"]["code"] == "forbidden", (headers, status, body)
    with watching(cluster.port) as watcher:
        assert watcher.status == 200


def what_is_not_read_is_not_kept(cluster):
    """Streams of HTTP/2 whose windows stay shut: of each, what waits in the router is one picture, however long it lasts."""
    def output_bytes():
        return int(re.search(rb"^tandem_http_output_bytes (\d+)", request(cluster.port, "GET", "/metrics")[2], re.M)[1])
    client, n = Client(cluster.port), 10
    client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 100})
    client.push()
    streams = [client.ask("GET", "/admin/events") for _ in range(n)]
    while any(len(client.replies[s]["body"]) < 100 for s in streams):
        client.take()

    def one_each():
        one = len(json.dumps(get_json(cluster.port, "/admin/status"), separators=(",", ":"))) + 50
        return n * one / 2 < output_bytes() < n * (one + 100)
    with watching(cluster.port) as watcher:
        for _ in range(3):
            watcher.next()
        eventually(one_each, "no more than one picture each")
    for stream in streams:  # and who reads on gets whole pictures
        client.h2.increment_flow_control_window(1 << 20, stream)
    client.push()
    while any(client.replies[s]["body"].count(b"\n\n") < 2 for s in streams):
        client.take()
    for stream in streams:
        pictures = [json.loads(text[6:]) for text in client.replies[stream]["body"].split(b"\n\n")[:2]]
        assert pictures[1]["time_ms"] - pictures[0]["time_ms"] > 2000, [p["time_ms"] for p in pictures]
    client.socket.close()


def a_drain_ends_the_streams(cluster):
    client, watcher = Client(cluster.port), Watcher(cluster.port)
    stream = client.ask("GET", "/admin/events")
    while not client.replies[stream]["body"]:
        client.take()
    os.kill(cluster.router_pid(), signal.SIGTERM)
    last = watcher.until(lambda p: p["routers"][0]["draining"])[-1]
    assert last["routers"][0]["ready"] is False and watcher.next() is None
    reply = client.wait(stream)[0]
    assert json.loads(reply["body"].split(b"\n\n")[-2][6:])["routers"][0]["draining"] is True, reply["body"][-300:]
    client.socket.close()
    # Its clients are gone, so the router need not wait for its longest time.
    eventually(lambda: 'msg="router ends"' in cluster.log_text(), "the router has ended")


def main():
    tally = Tally()
    with Cluster("--mixed", 2) as cluster:
        tally.run("a picture comes each second", a_picture_comes_each_second, cluster)
        tally.run("a change is told at once", a_change_is_told_at_once, cluster)
        tally.run("watchers are bounded", watchers_are_bounded, cluster)
        tally.run("pages of other origins hold no place", pages_of_other_origins_hold_no_place, cluster)
        tally.run("what is not read is not kept", what_is_not_read_is_not_kept, cluster)
        tally.run("a drain ends the streams", a_drain_ends_the_streams, cluster)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
