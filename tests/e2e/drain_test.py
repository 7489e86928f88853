#!/usr/bin/env python3
"""`tandem up` lets answers end for as long as --drain says, longer than it gives children that ask for no time (40 s)."""
import signal
import sys

from cluster import Cluster, Tally, stream_events


def answers_get_the_time_of_the_option():
    with Cluster("--mixed", 1, "--step-us", 50000, "--drain", "600s") as cluster:
        events = stream_events(cluster.port, "/v1/completions", {"prompt": [1], "max_tokens": 900, "ignore_eos": True})
        next(events)
        cluster.process.send_signal(signal.SIGTERM)
        *_, end = events
        assert end == "[DONE]", end
        assert cluster.process.wait(60) == 0


if __name__ == "__main__":
    tally = Tally()
    tally.run("answers get the time of the option", answers_get_the_time_of_the_option)
    sys.exit(tally.end())
