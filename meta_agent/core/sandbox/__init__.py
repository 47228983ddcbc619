"""The sandbox protocol: the worker inside a sandbox, and the host's link to it.

The worker (`inside/`, standard library only) is streamed to `python3` over a pipe, so no image can
hold a stale one. The host sends `{"id", "op", "args"}`. The worker answers `{"id", "ok"}`,
`{"id", "err": {"type", "message", "traceback"}}`, or asks in between with
`{"id", "calls": [{"cid", "kind", ...}]}`, which the host answers with
`{"id", "answers": [{"cid", "ok" | "err"}]}`. Requests are taken in the order they were sent.

A guest module is installed as source and runs in a process of its own:

    def rollout(args, channel):                  # JSON in, JSON out
        channel.calls([{"kind": "model", ...}])  # returns the cids; does not wait
        for answer in channel.wait():            # answers, in any grouping
            ...
    OPERATIONS = {"rollout": rollout}

A breach of the protocol is the doing of the code inside. Graders count it as a failure and flag it
`tamper:protocol`.
"""
