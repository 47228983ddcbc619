"""The sandbox protocol: the worker inside a sandbox, and the host's link to it.

The host streams the worker (`inside/`, standard library only) to `python3` over a pipe, so no
image can hold an outdated worker. The host sends `{"id", "op", "args"}`. The worker answers
`{"id", "ok"}` or `{"id", "err": {"type", "message", "traceback"}}`. In between it may ask with
`{"id", "calls": [{"cid", "kind", ...}]}`, which the host answers with
`{"id", "answers": [{"cid", "ok" | "err"}]}`. The worker serves requests in the order sent.

A guest module is code that the host installs as source. It runs in a process of its own:

    def rollout(args, channel):                  # JSON in, JSON out
        channel.calls([{"kind": "model", ...}])  # returns the cids; does not wait
        for answer in channel.wait():            # answers, in any grouping
            ...

    OPERATIONS = {"rollout": rollout}

A breach of the protocol is blamed on the code inside the sandbox. Graders count it as a failure
and flag it `tamper:protocol`.
"""
