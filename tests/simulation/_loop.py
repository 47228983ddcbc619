"""A run in the simulated world, and what must hold at every end of it.

The ledger, the purse, the model client with its retries and transcripts, `Run.once` and `promote`
are the product's. The search between them is small: two generations of two ideas, each asked of a
model in two turns, judged by a rule, and merged by `promote`.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast

from meta_agent.core.chat import ChatRequest
from meta_agent.core.errors import (
    BudgetError,
    CandidateError,
    InfrastructureError,
    Interrupted,
    MetaAgentError,
    ProviderError,
)
from meta_agent.core.ledger import Ledger
from meta_agent.core.ledger.kinds import StepKind
from meta_agent.core.loop.records import Judged, SearchResult, Version
from meta_agent.core.loop.run import Run
from meta_agent.core.loop.verbs.promote import promote
from meta_agent.core.protocols import Candidate, Hypothesis, Verdict, VerdictKind
from meta_agent.llm_clients.asking._asking import LiveModels
from meta_agent.llm_clients.asking._meter import Meter
from meta_agent.llm_clients.asking._retry import Breaker, Retrying, RetryPolicy
from meta_agent.llm_clients.asking._roles import Route
from meta_agent.llm_clients.asking.client import Client
from meta_agent.llm_clients.asking.transcripts import Transcripts
from meta_agent.llm_clients.scrubber import Scrubber
from tests.simulation._world import BASE, PRICE, Ills, Killed, ViolationError, World

T = TypeVar("T")
CLAIMED: Final = "c" * 40
_MEMORY: Final = Path("/dev/shm")
_PLACE: Final = _MEMORY if _MEMORY.is_dir() else None
_LIVES: Final = 60  # after as many, nothing goes wrong any more
_ALLOWED: Final = (Interrupted, InfrastructureError, ProviderError, BudgetError)
_QUIET: Final = Ills(kill=0, tear=0, full=0, io_error=0, jump=0, stop=0, ill=0)


class WatchedRun(Run):
    """A run whose steps an observer outside sees begin and end."""

    world: World

    def once(
        self, name: str, kind: StepKind, intent: Mapping[str, object], work: Callable[[], T]
    ) -> T:
        key = name if name.startswith(f"{self.id}/") else f"{self.id}/{name}"

        def watched() -> T:
            if key in self.world.returned:
                raise ViolationError(f"the work of {key} runs again, though it was done")
            self.world.point()
            return work()

        outcome = Run.once(self, name, kind, intent, watched)
        if self.world.returned.setdefault(key, outcome) != outcome:
            raise ViolationError(
                f"{key} returned {outcome}, and earlier {self.world.returned[key]}"
            )
        self.world.point()
        return outcome


class _NoLab:
    """Measures nothing: attributing a gain then records that it failed."""

    def unsampled(self, *_: Any, **__: Any) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        raise CandidateError(f"nothing is measured here ({name})", reason="simulated")


def _live(world: World) -> None:
    """One process: opens the ledger, goes through the run, and closes it."""
    with Ledger.open(world.root / "ledger.sqlite") as ledger:
        _require_sound(world, ledger)
        ledger.start_run("r", {}, config_hash="h")
        ledger.set_cap("r", max_usd=world.cap_usd)
        scrubber = Scrubber.of([], {}, [])
        transcripts = Transcripts(world.root / "transcripts" / "r")
        breaker = Breaker(clock=world.monotonic)
        retrying = Retrying(RetryPolicy(), breaker, clock=world.monotonic, sleep=world.sleep)
        route = Route("sim/m", "m", PRICE, world.ask, retrying)
        routes = cast("Any", {"proposer": route})
        source = LiveModels(routes, Meter(ledger, "r"), transcripts, scrubber, world.time)
        client = Client(source, transcripts, scrubber, lambda _: "sim/m")
        run = _run_of(world, ledger, client)
        _search(run, world)
        ledger.finish_run("r", "done")


def _run_of(world: World, ledger: Ledger, client: Client) -> Run:
    quiet = SimpleNamespace(phase=lambda *_: None, note=lambda *_: None)
    repo = SimpleNamespace(advance=world.advance, tree=lambda commit: commit)
    plan = SimpleNamespace(trains=False, search=4)
    extensions = SimpleNamespace(proposer=SimpleNamespace(author="rules"))

    def stopping() -> bool:
        return world.happens(world.rates.stop)

    parts: list[Any] = ["r", None, plan, ledger, repo, _NoLab(), None, quiet, 1_800_000_000]
    run = cast("Any", WatchedRun)(*parts, stopping, extensions, client)
    run.world = world
    return cast("Run", run)


def _search(run: Run, world: World) -> None:
    run.once("start", "start", {}, lambda: {"commit": BASE})
    members: list[Candidate] = []
    for generation in range(2):
        for index in range(2):
            if _is_better(run, world, generation, index):
                members.append(_candidate(generation, index))
    result = SearchResult(Version("v1", CLAIMED), tuple(members), {})
    verdict = Verdict(VerdictKind.PROMOTE, ("simulated",))
    weights = cast("Any", SimpleNamespace(policy="p"))
    promote(run, Version("v0", BASE), result, Judged(verdict), (weights, weights))


def _is_better(run: Run, world: World, generation: int, index: int) -> bool:
    name = f"g{generation}/c{index}"

    def proposed() -> dict[str, Any]:
        texts = [_asked(run, world, f"proposer/{name}", turn) for turn in range(2)]
        return {"texts": texts}

    proposal = run.once(f"{name}/proposal", "proposal", {"index": index}, proposed)
    digest = hashlib.sha256(str(proposal).encode()).hexdigest()
    run.once(f"{name}/eval", "eval", {"of": digest[:8]}, lambda: {"solved": int(digest[:2], 16)})
    verdict = {"candidate": f"r/{name}", "kind": "PROMOTE" if index == 0 else "REJECT"}
    return run.once(f"{name}/verdict", "verdict", {}, lambda: verdict)["kind"] == "PROMOTE"


def _asked(run: Run, world: World, conversation: str, turn: int) -> str:
    assert run.models is not None
    message = {"role": "user", "content": f"idea {turn}"}
    request = ChatRequest("proposer", "", [message], max_tokens=50)
    reply = run.models.chat(request, conversation=conversation, turn=turn)
    world.answered.add((conversation, turn))
    return reply.content


def _candidate(generation: int, index: int) -> Candidate:
    name = f"r/g{generation}/c{index}"
    says = Hypothesis("scaffold", "if so then better", "clean_success", "up", 0.1)
    parts = (name, "r", generation, index, f"refs/{name}", BASE, "d" * 40, "t", "scaffold", says)
    return Candidate(*parts, ())  # type: ignore[arg-type]


# --- what must hold ------------------------------------------------------------------------------


def _require_sound(world: World, ledger: Ledger) -> None:
    """Raises ViolationError if the ledger or `main` is not as an observer must find them."""
    if key := ledger.broken():
        raise ViolationError(f"the chain of the journal is broken at {key}")
    for key, outcome in world.returned.items():
        step = ledger.step(key)
        if step is None or not step.is_done or step.outcome != outcome:
            raise ViolationError(f"{key} was done, and the ledger has lost or changed it")
    for step in ledger.steps("r"):
        if step.is_done and ledger.head(step.key) is None:
            raise ViolationError(f"{step.key} is done and not in the chain")
    merges = ledger.steps("r", "merge")
    if len(world.moves) > 1:
        raise ViolationError(f"main moved {len(world.moves)} times: {world.moves}")
    if world.main not in (BASE, CLAIMED) or (
        any(step.is_done for step in merges) and world.main != CLAIMED
    ):
        raise ViolationError(f"main is at {world.main}, with {len(merges)} merges recorded")
    spent = ledger.spend("r") if ledger.run("r") else {}
    recorded = sum(role.usd + role.open_usd for role in spent.values())
    if world.billed_usd > world.cap_usd + 1e-9 or world.billed_usd > recorded + 1e-6:
        raise ViolationError(
            f"${world.billed_usd} billed; recorded {recorded}, cap {world.cap_usd}"
        )


def ends_of(world: World) -> dict[str, Any]:
    """Lives until the run is done; returns its facts. Raises ViolationError if a promise breaks."""
    while True:
        world.begin_life()
        if world.lives >= _LIVES:
            world.rates = _QUIET
        try:
            with world.in_place():
                _live(world)
            break
        except Killed:
            continue
        except MetaAgentError as error:
            if not isinstance(error, _ALLOWED) or (len(str(error)) < 3 and str(error)):
                raise ViolationError(f"the run ended by {type(error).__name__}: {error}") from error
            if isinstance(error, BudgetError):
                world.cap_usd *= 2
        except BaseException as error:
            if isinstance(error, ViolationError):
                raise
            if world.dead:  # raised while the dead process unwound
                continue
            raise ViolationError(f"no sentence: {type(error).__name__}: {error}") from error
        world.lives += 0 if world.dead else 1
        if not world.dead:
            _same_folder(world)
    with Ledger.open(world.root / "ledger.sqlite", owner_lock=False) as ledger:
        _require_sound(world, ledger)
    return {"main": world.main, "steps": dict(world.returned)}


def _same_folder(world: World) -> None:
    """The process ended by itself: the next one finds its folder as it was left."""
    after = world.folder / f"life-{world.lives}"
    world.root.rename(after)
    world.root = after


def undisturbed() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return ends_of(World(0, Path(folder), _QUIET))


def simulate(seed: int, expected: Mapping[str, Any]) -> World:
    """Goes through a seed's run. Raises ViolationError, also if it ends unlike `expected`."""
    with tempfile.TemporaryDirectory(dir=_PLACE) as folder:
        world = World(seed, Path(folder))
        world.cap_usd = world.chance.choice((0.0006, 0.002, 1.0))
        facts = ends_of(world)
    if facts != expected:
        raise ViolationError(f"the run ends with {facts}, undisturbed with {expected}")
    return world
