"""One rollout in progress, on the host: it answers the guest's calls and enforces the ceilings.

The guest is the harness code in a sandbox. Promises: ceilings are enforced here and nowhere in the
guest. The recorded messages are those that the policy saw, but without the hint of a training. An
infrastructure failure never becomes a score. Values from the guest are parsed on arrival. A
malformed one raises a `SandboxError` of kind `protocol`, since only a guest that left its own code
can send it.

Does not cover: when calls are answered (`_lockstep.py`, `_free.py`). An attempt is used by one
thread at a time, because a rollout has one call outstanding at a time. So it needs no lock.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meta_agent.core.capabilities import WitnessEnvironment
from meta_agent.core.errors import BudgetError, InfrastructureError, IntegrityError, SandboxError
from meta_agent.core.protocols import (
    JSON,
    Call,
    Ceilings,
    Domain,
    Environment,
    ErrorKind,
    GenerateReply,
    GenerateRequest,
    Message,
    PlannedRollout,
    Rollout,
    RolloutFailure,
    StopReason,
    TokenRecord,
    ToolEvent,
    ToolResult,
    ViewChange,
)

MAX_MESSAGES = 4096
VIEW_MESSAGES, VIEW_CHARS = 256, 32_000
"""The most messages, and characters, that a record holds of what the policy no longer saw."""
MAX_DETAIL_CHARS = 2500
MAX_ARGUMENT_BYTES = 8 << 20
MIN_ROOM_BYTES = 256 << 10  # of a conversation, however few tokens its model takes
BYTES_PER_TOKEN = 16
"""An upper bound: no tokenizer packs more bytes of ordinary conversation into one token."""
# What must stop the whole run instead of becoming one row's failure.
HALTING = (BudgetError, IntegrityError)
_OWN_DOING = ("oom", "timeout", "protocol")
"""Kinds of sandbox failure that the policy's commands cause, and a failing machine hardly ever."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stamp:
    """The origin that every rollout of a runner stores: run, harness version and its commit."""

    run: str
    version: str
    harness_commit: str


@dataclass(frozen=True, slots=True)
class AttemptTerms:
    """The settings that all attempts of one batch share: domain, policy, limits and sampling."""

    domain: Domain
    stamp: Stamp
    policy: str
    ceilings: Ceilings
    temperature: float
    top_p: float


class Attempt:
    """One rollout on the host's side, which answers and records the calls of the harness's code."""

    __slots__ = (
        "_arguments",
        "_completion_tokens",
        "_context",
        "_finish_reason",
        "_known_usd",
        "_model_sec",
        "_prompt_tokens",
        "_sizes",
        "_started",
        "_tool_sec",
        "_usd",
        "away",
        "done",
        "ending",
        "env",
        "excused_sec",
        "index",
        "key",
        "over",
        "plan",
        "row",
        "terms",
        "turn",
    )

    def __init__(self, terms: AttemptTerms, plan: PlannedRollout, index: int, key: str) -> None:
        self.terms = terms
        self.plan = plan
        self.index = index
        self.key = key
        self.env: Environment | None = None
        self.turn = 0
        self.done = False  # the environment accepts no further calls
        self.over = False  # the record has its ending
        self.away = False  # a command works on it in a sandbox of its own (`away`)
        self.ending: StopReason | None = None  # why that command has to end, once it has to
        self.excused_sec = 0.0  # time that does not count against its wall-clock limit
        self.row = _blank_row(terms, plan)
        self._context: list[Message] = []
        self._sizes: list[int] = []  # of the messages in it
        self._arguments = 0  # bytes of all tool calls
        self._finish_reason = ""
        self._started = time.monotonic()
        self._model_sec = 0.0
        self._tool_sec = 0.0
        self._prompt_tokens = 0
        self._completion_tokens = 0
        self._usd = 0.0
        self._known_usd = True

    # --- beginning ---

    def open(self) -> bool:
        """Opens the task's environment. If that fails, ends the rollout and returns False."""
        self._started = time.monotonic()
        try:
            self.env = self.terms.domain.open(self.plan.task)
        except HALTING:
            raise
        except Exception as error:
            self.fail("infra", f"open: {_describe(error)}")
            return False
        return True

    def item(self) -> dict[str, JSON]:
        """Returns the task as the harness gets it: `key`, `view` (visible fields), tool names."""
        task = self.plan.task
        tools = list(self.env.tools) if self.env else []
        return {"key": task.key, "view": dict(task.view), "tools": tools}

    # --- model calls ---

    def ask(self, call: Call) -> GenerateRequest | None:
        """Returns the request to the policy for a model call; None if the rollout ends here.

        Raises SandboxError if the call is malformed.
        """
        if self.done:
            self._stop("submitted")
        elif self.turn >= self.terms.ceilings.max_turns:
            self._stop("turn_limit")
        elif self._late():
            self._stop("wall_limit")
        if self.over or self.ending:
            return None
        self._merge(call)
        room = self.terms.ceilings.max_context_tokens * BYTES_PER_TOKEN
        if sum(self._sizes) > max(MIN_ROOM_BYTES, room):
            self._stop("token_limit")
            return None
        return self._build(self._limit(call), _schemas(call.get("tools")))

    def _build(
        self, max_tokens: int, tools: Sequence[Mapping[str, JSON]] | None
    ) -> GenerateRequest:
        plan, terms = self.plan, self.terms
        return GenerateRequest(
            key=self.key,
            task_key=plan.task.key,
            sample_idx=plan.sample_idx,
            seed=plan.seed,
            turn=self.turn,
            messages=list(self._context),
            max_tokens=max_tokens,
            temperature=terms.temperature,
            top_p=terms.top_p,
            tools=tools,
            max_context_tokens=terms.ceilings.max_context_tokens,
        )

    def _merge(self, call: Call) -> None:
        base, new = call.get("base"), call.get("new")
        context = self._context
        if type(base) is not int or not 0 <= base <= len(context) or type(new) is not list:
            raise malformed(
                f"a model call continues at message {base!r:.40}, but there are {len(context)}"
            )
        if base + len(new) > MAX_MESSAGES:
            raise malformed(f"a call has {base + len(new)} messages; the limit is {MAX_MESSAGES}")
        if removed := context[base:]:
            self._note_view(base, removed)
        del context[base:], self._sizes[base:]
        context += map(_message, new)
        self._sizes += map(_size, new)

    def _note_view(self, unchanged: int, removed: list[Message]) -> None:
        """Records messages that the guest removed since the last call, up to a row's limit."""
        recorded = [message for view in self.row.views for message in view.removed]
        full = (
            len(recorded) + len(removed) > VIEW_MESSAGES
            or _chars(recorded) + _chars(removed) > VIEW_CHARS
        )
        self.row.views.append(
            ViewChange(self.turn, unchanged, len(removed), [] if full else removed)
        )

    def _limit(self, call: Call) -> int:
        ceiling = self.terms.ceilings.max_tokens_per_turn
        max_tokens = call.get("max")
        if max_tokens is None:
            return ceiling
        if type(max_tokens) is not int or max_tokens < 1:
            raise malformed(f"max_tokens is {max_tokens!r:.40}, not a positive integer")
        return min(max_tokens, ceiling)

    def take(self, reply: GenerateReply, seconds: float) -> JSON:
        """Records the policy's reply and its cost, and returns the answer for the harness's code.

        Returns None if the rollout ends here. `seconds` is the time that the call took.
        """
        self._model_sec += seconds
        self._book(reply)
        if reply.failure is not None:
            self.fail(reply.failure.kind, reply.failure.detail)
            return None
        self._finish_reason = reply.finish_reason
        if reply.finish_reason == "context":
            self._stop("token_limit")
            return None
        self.turn += 1
        self.row.cut_replies += reply.finish_reason == "length"
        self._see(reply)
        if self._late():
            self._stop("wall_limit")
            return None
        used = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
        return [reply.content, reply.finish_reason, list(reply.tool_calls), used]

    def _book(self, reply: GenerateReply) -> None:
        self._prompt_tokens += reply.prompt_tokens
        self._completion_tokens += reply.completion_tokens
        if reply.usd is None:
            self._known_usd = False
        else:
            self._usd += reply.usd

    def _see(self, reply: GenerateReply) -> None:
        """Records what the policy saw in this call, and its reply."""
        message: Message = {"role": "assistant", "content": reply.content}
        if reply.tool_calls:
            message["tool_calls"] = list(reply.tool_calls)
        self._context.append(message)
        self._sizes.append(_size(message))
        self.row.messages = self._context.copy()

    # --- tool calls ---

    def use_tool(self, call: Call) -> JSON:
        """Runs a call of a task's tool and returns [text, succeeded, task is over] for the harness.

        Returns None if the rollout ends here. Raises SandboxError if the call is malformed.
        """
        tool, arguments = call.get("tool"), call.get("args")
        if type(tool) is not str or type(arguments) is not dict:
            raise malformed(f"a tool call has no valid name or arguments: {tool!r:.80}")
        self._arguments += _size(arguments)
        if self._arguments > MAX_ARGUMENT_BYTES:
            self.fail("policy", f"the tool arguments exceed {MAX_ARGUMENT_BYTES} bytes")
            return None
        if self.done:
            self._stop("submitted")
            return None
        if self._late():
            self._stop("wall_limit")
            return None
        began = time.monotonic()
        result = self._call_environment(tool, arguments)
        self._tool_sec += time.monotonic() - began
        return None if result is None else self._log_tool(tool, arguments, result)

    def _call_environment(self, tool: str, arguments: dict[str, JSON]) -> ToolResult | None:
        env = self.env
        assert env is not None, "a guest receives only attempts that have an environment"
        if tool not in env.tools:
            return ToolResult(f"no tool {tool!r}; tools: {', '.join(env.tools)}", ok=False)
        try:
            return env.call(tool, arguments)
        except HALTING:
            raise
        except Exception as error:
            is_policy_fault = isinstance(error, SandboxError) and error.kind in _OWN_DOING
            self.fail("policy" if is_policy_fault else "infra", f"tool {tool}: {_describe(error)}")
            return None

    def _log_tool(self, tool: str, arguments: dict[str, JSON], result: ToolResult) -> JSON:
        event = ToolEvent(max(0, self.turn - 1), tool, arguments, result.text, result.ok)
        self.row.tool_events.append(event)
        if result.flags:
            self.row.flags += [flag for flag in result.flags if flag not in self.row.flags]
        self.done = result.done
        return [result.text, result.ok, result.done]

    # --- ending ---

    def end(self, call: Call) -> None:
        """Ends and grades the rollout once the agent has returned; ungraded if `call` has an `err`.

        Raises SandboxError if the call is malformed.
        """
        err = call.get("err")
        if err is None:
            self._stop(self._own_reason())
            return
        if not isinstance(err, Mapping):
            raise malformed(f"an attempt ended with the error {err!r:.80}, which is not an object")
        text = f"{err.get('type')}: {err.get('message')}\n{err.get('traceback') or ''}"
        self.fail("policy", text.strip())

    def _own_reason(self) -> StopReason:
        if self.ending:
            return self.ending
        if self.done:
            return "submitted"
        return "length" if self._finish_reason == "length" else "returned"

    def fail(self, kind: ErrorKind, detail: str) -> None:
        """Ends the rollout ungraded, unless over. The outcome is False for `policy`, else None."""
        if self.over:
            return
        self.row.error = RolloutFailure(kind, detail[:MAX_DETAIL_CHARS])
        self.row.outcome = False if kind == "policy" else None
        self.row.stop_reason = "error"
        self._keep_inputs()
        self._close()

    def _stop(self, reason: StopReason) -> None:
        if self.away:
            self.ending = self.ending or reason
            return
        self.row.stop_reason = reason
        began = time.monotonic()
        self._grade()
        self.row.timings["grade"] = time.monotonic() - began
        self._close()

    def _grade(self) -> None:
        assert self.env is not None, "only an attempt that was opened can stop"
        try:
            if isinstance(self.env, WitnessEnvironment):
                self.env.saw(self.row.messages)
            outcome = self.env.grade()
            self.row.verifier_inputs = self.env.verifier_inputs()
        except HALTING:
            raise
        except Exception as error:
            kind: ErrorKind = "infra" if isinstance(error, InfrastructureError) else "verifier"
            self.row.error = RolloutFailure(kind, f"grade: {_describe(error)}"[:MAX_DETAIL_CHARS])
            self.row.stop_reason = "error"
            return
        self.row.outcome = outcome.success
        self.row.outcome_detail = dict(outcome.detail)
        self.row.flags += [flag for flag in outcome.flags if flag not in self.row.flags]

    def _keep_inputs(self) -> None:
        if self.env is None:
            return
        try:
            self.row.verifier_inputs = self.env.verifier_inputs()
        except Exception as error:  # the row already says what went wrong
            _log.debug("no verifier inputs for %s: %s", self.key, error)

    def _close(self) -> None:
        self.over = True
        self.row.turns = self.turn
        self.row.timings |= {
            "wall": time.monotonic() - self._started,
            "model": self._model_sec,
            "tools": self._tool_sec,
        }
        self.row.cost = self._cost()
        self.release()

    def _cost(self) -> dict[str, float]:
        cost: dict[str, float] = {
            "tokens": self._prompt_tokens + self._completion_tokens,
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": self._completion_tokens,
        }
        if self._known_usd:  # an unknown price is absent, never 0
            cost["usd"] = self._usd
        return cost

    def release(self) -> None:
        """Closes the task's environment. A second call does nothing."""
        env, self.env = self.env, None
        if env is None:
            return
        try:
            env.close()
        except Exception as error:  # the attempt is over; a reaper owns what is left
            _log.warning("closing the environment of %s failed: %s", self.key, error)

    def finish(self, tokens: TokenRecord | None) -> Rollout:
        """Attaches `tokens`, if there are any, to the rollout's record, and returns the record."""
        self.row.tokens = tokens
        return self.row

    def _late(self) -> bool:
        took = time.monotonic() - self._started - self.excused_sec
        return took > self.terms.ceilings.wall_sec


def _blank_row(terms: AttemptTerms, plan: PlannedRollout) -> Rollout:
    return Rollout(
        run=terms.stamp.run,
        version=terms.stamp.version,
        domain=terms.domain.name,
        split=plan.task.split,
        task_key=plan.task.key,
        task_hash=plan.task.content_hash,
        group_id=plan.group_id,
        sample_idx=plan.sample_idx,
        seed=plan.seed,
        harness_commit=terms.stamp.harness_commit,
        policy=terms.policy,
        evaluator_hash=terms.domain.evaluator_hash,
    )


def _chars(messages: Sequence[Message]) -> int:
    return sum(len(str(message.get("content") or "")) for message in messages)


def _message(value: JSON) -> Message:
    if type(value) is not dict or type(value.get("role")) is not str:
        raise malformed(f"the message {value!r:.80} is not an object with a role")
    calls = value.get("tool_calls") or []
    fits = type(calls) is list and all(
        type(c) is dict and type(c.get("function")) is dict and _is_id(c.get("id")) for c in calls
    )
    if not fits or not _is_id(value.get("tool_call_id")):
        raise malformed(f"the message {value!r:.80} has malformed tool calls")
    return value


def _is_id(value: JSON) -> bool:
    return value is None or type(value) is str


def _size(value: JSON) -> int:
    """Returns about how many bytes a value has. A text message is not encoded for this."""
    if type(value) is dict and type(content := value.get("content")) is str and len(value) == 2:
        return len(content)
    return len(json.dumps(value))


def _schemas(value: JSON) -> list[dict[str, JSON]] | None:
    if value is None or (type(value) is list and all(type(v) is dict for v in value)):
        return value
    raise malformed(f"the tools {value!r:.80} are not a list of objects")


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def malformed(detail: str) -> SandboxError:
    """Returns the SandboxError for a call that breaks the protocol between worker and host."""
    hint = "the harness's code wrote to the worker's channel: look at what changed in it last"
    return SandboxError(f"the worker sent a malformed call: {detail}", kind="protocol", hint=hint)
