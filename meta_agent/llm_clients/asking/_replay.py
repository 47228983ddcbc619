"""A recorded run instead of a provider: the same questions get the same answers, at no cost.

Promises: no server is asked. A question that differs from the recorded one is an error, which says
where the two part. With `position` it gets the reply recorded for that turn, and the drift is
counted. A call that failed in the recorded run fails again in the same way.

Does not cover: making the rest of the run repeat itself. Run id, clock and settings come from the
recording (`Recording.effective`). Any other difference between machines shows up as a miss.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from meta_agent.core.chat import ChatReply, ChatRequest
from meta_agent.core.config import BROUGHT, RunConfig
from meta_agent.core.errors import ConfigError, IntegrityError, ProviderError
from meta_agent.core.protocols import JSON, Role
from meta_agent.llm_clients.asking._digest import ModelQuestion, first_difference
from meta_agent.llm_clients.asking._exchange import Exchange, FailedRequest
from meta_agent.llm_clients.asking.transcripts import MANIFEST, Transcripts

PREFIX: Final = "replay:"

# The meta-agent of the replaying run is the recording itself.
_NOT_COMPARED: Final = frozenset({"meta_model", "tasks_sha256"})


@dataclass(frozen=True, slots=True)
class Recording:
    """The transcripts, settings and models of an earlier run, from which it can be replayed."""

    transcripts: Transcripts
    run_id: str
    clock: int
    """Seconds since the epoch at the recorded run's start: its commits are dated from it."""
    settings: Mapping[str, JSON]
    """`RunConfig.hashed` of the recorded run."""
    models: Mapping[Role, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    """Facts for people: which kind of model it was, and how it was reached."""

    def model_of(self, role: Role) -> str:
        """Returns a role's recorded model. Raises IntegrityError if the role asked none."""
        if role not in self.models:
            raise IntegrityError(
                f"the recorded run {self.run_id} asked no model in the role {role}",
                hint=f"leave --model {role}=... out, or replay another run",
            )
        return self.models[role]

    def effective(self, config: RunConfig) -> RunConfig:
        """Returns the user's settings for a replay, with the recorded ones in place of defaults.

        Raises ConfigError if a setting that the user made differs from the recorded one.
        """
        current = config.hashed
        recorded_values: dict[str, JSON] = {}
        differing: list[str] = []
        for name, recorded in self.settings.items():
            if name in _NOT_COMPARED or current.get(name) == recorded:
                continue
            source = config.origin.get(name, "default")
            if name == "harness" and recorded == BROUGHT:
                differing.append("harness (the recorded run had an agent that somebody brought)")
            elif source.startswith(("default", "profile")):
                recorded_values[name] = recorded
            else:
                differing.append(
                    f"{name} = {current.get(name)!r} (from {source}; recorded: {recorded!r})"
                )
        if current["tasks_sha256"] != self.settings.get("tasks_sha256"):
            differing.append("tasks (the file's content is not the recorded one)")
        if differing:
            raise ConfigError(
                f"the recorded run {self.run_id} was made with other settings: "
                + "; ".join(sorted(differing)),
                hint="leave these settings out: a replay takes them from the recording, all but "
                "the files behind --tasks and --harness",
            )
        origin = {**config.origin, **dict.fromkeys(recorded_values, f"recording {self.run_id}")}
        return RunConfig.from_json({**config.to_json(), **recorded_values, "origin": origin})


def recording_of(model: str, workspace: Path) -> Recording:
    """Opens the recording that `replay:RUN` names; RUN is a folder or a run of the workspace.

    Raises ConfigError if there is none, and IntegrityError if its manifest is damaged.
    """
    name = model.removeprefix(PREFIX)
    runs = workspace / "transcripts"
    folders = (Path(name).expanduser(), runs / name)
    folder = next((folder for folder in folders if (folder / MANIFEST).is_file()), None)
    if folder is None:
        recorded = sorted(path.parent.name for path in runs.glob(f"*/{MANIFEST}"))
        raise ConfigError(
            f"there is no recorded run {name!r}",
            hint=f"use --meta-model replay:RUN, where RUN is a folder with a {MANIFEST}"
            + (f" or one of: {', '.join(recorded)}" if recorded else ""),
        )
    return _open(Transcripts(folder.absolute()))


def _open(transcripts: Transcripts) -> Recording:
    manifest = transcripts.manifest() or {}
    try:
        return Recording(
            transcripts,
            str(manifest["run_id"]),
            int(manifest["clock"]),
            dict(manifest["settings"]),
            dict(manifest["models"]),
            dict(manifest["labels"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise IntegrityError(
            f"{transcripts.root / MANIFEST} is damaged: {type(error).__name__} {error}",
            hint="restore it from a copy, or replay another run",
        ) from error


class Replay:
    """Answers the model calls of a run from the recording of an earlier run, at no cost.

    It copies each request and reply into the transcripts of the present run.
    """

    def __init__(self, recording: Recording, transcripts: Transcripts, *, exact: bool) -> None:
        self.drifted = 0
        self._drift_lock = threading.Lock()  # guards `drifted`
        self._recording = recording
        self._copy = transcripts if transcripts.root != recording.transcripts.root else None
        self._exact = exact

    def reuse(self, recorded: Exchange) -> None:
        """Does nothing, because a replayed reply costs nothing."""

    def answer(
        self, request: ChatRequest, question: ModelQuestion, conversation: str, turn: int
    ) -> ChatReply:
        """Returns the reply recorded for a turn, or raises the ProviderError recorded for it.

        Raises IntegrityError if no reply is recorded, or the request differs and `exact` was set.
        """
        try:
            recorded = self._find(conversation, turn, question)
        except ProviderError as error:
            if self._copy is not None:
                at = float(self._recording.clock)
                self._copy.append_failure(
                    FailedRequest(conversation, turn, question.digest, error.kind, str(error), at)
                )
            raise
        if self._copy is not None:
            self._copy.append(replace(recorded, question=question, reservation=None))
        return replace(recorded.reply, replayed=True)

    def close(self) -> None:
        """Does nothing, since a replay holds no connection."""

    def _find(self, conversation: str, turn: int, question: ModelQuestion) -> Exchange:
        transcripts = self._recording.transcripts
        recorded = transcripts.recorded(conversation, turn)
        if recorded is not None and recorded.question.digest == question.digest:
            return recorded
        failure = transcripts.failure(conversation, turn, question.digest if self._exact else None)
        if failure is not None and (self._exact or recorded is None):
            raise failure.error()
        if recorded is None:
            raise self._missing(conversation, turn)
        if self._exact:
            where = first_difference(recorded.question, question)
            raise IntegrityError(
                f"turn {turn} of {conversation} is not the recorded question: {where}",
                hint="to use the recorded replies all the same: --replay-match position",
            )
        with self._drift_lock:
            self.drifted += 1
        return recorded

    def _missing(self, conversation: str, turn: int) -> IntegrityError:
        transcripts = self._recording.transcripts
        turns = len(transcripts.read(conversation))
        names = [] if turns else transcripts.conversations()
        near = difflib.get_close_matches(conversation, names, n=1)
        what = f"it has {turns} of them" if turns else "it has no such conversation"
        return IntegrityError(
            f"the recorded run {self._recording.run_id} has no turn {turn} of {conversation}: "
            f"{what}" + (f" (there is {near[0]})" if near else ""),
            hint=f"the recorded run took another way before this turn; see {transcripts.root}",
        )
