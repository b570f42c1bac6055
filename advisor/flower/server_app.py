"""The server: wait for all parties, then round after round send, collect, check, aggregate. Any doubt ends the run."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from torch import Tensor

from fedskew.advisor.flower import scaling, training
from fedskew.advisor.flower.choice import ALGORITHM, CLASSES
from fedskew.advisor.flower.journal import Journal
from fedskew.advisor.flower.records import all_finite, arrays_of, packed, tensors_of
from fedskew.advisor.flower.settings import Settings, read_settings
from fedskew.engine.algorithms.base import Update, mean_of
from fedskew.profiles.keyed import generator

app = ServerApp()
LOG = logging.getLogger("flwr")  # what `flwr log` shows


@dataclass(slots=True)
class Party:
    """A party that joined; ``trained`` is the last round in which it trained, -1 for none."""

    node: int
    name: str
    rows: int
    test_rows: int
    shape: tuple[int, ...]
    moments: scaling.Arrays
    trained: int = -1


@dataclass(slots=True)
class Federation:
    """All that the next round depends on; ``weights`` (D,), ``buffers`` (B,), ``state`` of the server by name."""

    grid: Grid
    settings: Settings
    parties: list[Party]
    network: training.Network
    scale: scaling.Arrays
    weights: Tensor
    buffers: Tensor
    state: dict[str, Tensor] = field(default_factory=dict)


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation; status.json says how it ended, and an error fails the run."""
    settings = read_settings(context.run_config)
    journal = Journal(settings.output)
    LOG.info("%s: status and weights go to %s", ALGORITHM.title, journal.folder)
    try:
        federation = _begin(grid, settings)
        journal.set(parties={party.name: party.rows for party in federation.parties})
        for round_ in range(settings.rounds):
            began = time.monotonic()
            cohort = advance(federation, round_)
            found = _evaluated(federation, round_)
            seconds = round(time.monotonic() - began, 3)
            names = [party.name for party in cohort]
            model = (federation.weights, federation.buffers)
            journal.add(federation.network, model, round=round_ + 1, trained=names, seconds=seconds, **found)
            LOG.info("round %d of %d done %s", round_ + 1, settings.rounds, found)
    except BaseException as error:
        journal.set(status="failed", reason=f"{type(error).__name__}: {error}")
        raise
    journal.set(status="completed")


def _begin(grid: Grid, settings: Settings) -> Federation:
    parties = _joined(grid, settings)
    network = training.build(parties[0].shape, settings)
    scale = scaling.merge([p.moments for p in parties if p.rows]) if settings.scale else scaling.unscaled()
    state = {name: rows.clone() for name, rows in ALGORITHM.init(network.weights, settings.hyper).server.items()}
    return Federation(grid, settings, parties, network, scale, network.weights, network.buffers, state)


def _joined(grid: Grid, settings: Settings) -> list[Party]:
    """Wait until all parties are there and ask each what it holds; in the order of their names.

    Raises
    ------
    RuntimeError
        Too few joined in time, or what they hold does not fit together.
    """
    deadline = time.monotonic() + settings.join_seconds
    while len(nodes := sorted(grid.get_node_ids())) < settings.parties:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(nodes)} of {settings.parties} parties joined in {settings.join_seconds} seconds")
        time.sleep(1)
    if len(nodes) > settings.parties:
        raise RuntimeError(f"{len(nodes)} parties joined, but the config says parties={settings.parties}")
    contents = {node: RecordDict() for node in nodes}
    replies = ask(grid, settings.join_seconds, "query", contents, {node: str(node) for node in nodes})
    parties = [_party(node, reply) for node, reply in replies.items()]
    names = [party.name for party in parties]
    if len(set(names)) < len(names):
        raise RuntimeError(f"party names must differ, but they are {', '.join(sorted(names))}")
    for party, reply in zip(parties, replies.values(), strict=True):
        if party.shape != parties[0].shape or list(reply["facts"]["classes"]) != list(CLASSES):
            raise RuntimeError(
                f"{party.name} has rows of shape {party.shape} and {parties[0].name} of {parties[0].shape}, or other "
                f"classes: all must run the same app on the same columns"
            )
    if not any(party.rows for party in parties):
        raise RuntimeError("no party holds any rows")
    return sorted(parties, key=_order(names))


def _party(node: int, reply: RecordDict) -> Party:
    facts = reply["facts"]
    shape = tuple(int(side) for side in facts["shape"])
    rows, tests = int(facts["rows"]), int(facts["test-rows"])
    return Party(node, str(facts["party"]), rows, tests, shape, arrays_of(reply["moments"]))


def _order(names: Sequence[str]) -> Any:
    """The order of names: as whole numbers where all are, else as text."""
    try:
        [int(name) for name in names]
    except ValueError:
        return lambda party: party.name
    return lambda party: (int(party.name), party.name)


def advance(federation: Federation, round_: int) -> list[Party]:
    """Run one round and return who trained.

    Raises
    ------
    RuntimeError
        A party failed, did not answer in time, or sent what is not finite; or the new weights are not.
    """
    cohort = _cohort(federation, round_)
    contents = {party.node: _job(federation, party, round_) for party in cohort}
    names = {party.node: party.name for party in cohort}
    replies = ask(federation.grid, federation.settings.round_seconds, "train", contents, names)
    models = {node: tensors_of(replies[node]["model"]) for node in names}
    for node, model in models.items():
        if not all_finite(model):
            raise RuntimeError(f"{names[node]} sent weights that are not finite in round {round_ + 1}")
    trained = torch.stack([models[party.node]["weights"].reshape(-1) for party in cohort])
    kept = torch.stack([models[party.node]["buffers"].reshape(-1) for party in cohort])
    _aggregate(federation, cohort, trained, kept)
    if not all_finite({"weights": federation.weights, **federation.state}):
        raise RuntimeError(f"the server's weights are not finite after round {round_ + 1}; try smaller rates")
    for party in cohort:
        party.trained = round_
    return cohort


def _cohort(federation: Federation, round_: int) -> list[Party]:
    """Who trains: all that hold rows, or a share of them drawn from (seed, round)."""
    settings, active = federation.settings, [party for party in federation.parties if party.rows]
    size = max(1, int(settings.participation * len(active) + 1e-9))
    if size >= len(active):
        return active
    chosen = generator("cohort", settings.seed, round_).choice(len(active), size, replace=False)
    return [active[i] for i in np.sort(chosen)]


def _job(federation: Federation, party: Party, round_: int) -> RecordDict:
    content = _model(federation)
    content["job"] = ConfigRecord({"round": round_, "trained-before": party.trained})
    if ALGORITHM.traffic > 1:  # the local steps need the server's state too (SCAFFOLD's c)
        content["server"] = packed(federation.state)
    return RecordDict(content)


def _model(federation: Federation) -> dict[str, Any]:
    model = {"weights": federation.weights, "buffers": federation.buffers}
    return {"model": packed(model), "scaling": packed(federation.scale)}


def _aggregate(federation: Federation, cohort: Sequence[Party], trained: Tensor, kept: Tensor) -> None:
    """The algorithm's server step, weights n_i / n in float64. The parties' own states never come here: zeros do."""
    settings, layout = federation.settings, federation.network.layout
    rows = torch.tensor([[party.rows] for party in cohort], dtype=torch.float64)
    share = rows / rows.sum()
    fresh = ALGORITHM.init(federation.network.weights, settings.hyper).own
    update = Update(
        start=federation.weights[None],
        trained=trained,
        share=share,
        steps=torch.ceil(rows / settings.batch_size) * settings.local_epochs,
        own={name: values.expand(len(cohort), -1) for name, values in fresh.items()},
        server=federation.state,
        parties=sum(1 for party in federation.parties if party.rows),
        lr=settings.lr,
        momentum=settings.momentum,
    )
    after = ALGORITHM.aggregate(update, settings.hyper)
    weights, buffers = after.weights, federation.buffers
    if len(buffers):  # statistics are averaged, counters take the largest
        buffers = torch.where(layout.integer_buffers(), kept.max(0).values, mean_of(kept, share))
    shared = layout.shared(ALGORITHM.shared)
    if shared is not None:
        weights = torch.where(shared[0], weights, federation.weights)
        buffers = torch.where(shared[1], buffers, federation.buffers)
    federation.weights, federation.buffers = weights, buffers
    federation.state.update(after.server)


def _evaluated(federation: Federation, round_: int) -> dict[str, Any]:
    """Loss and score on all parties' test rows, and the score of each; nothing where it is not this round's turn."""
    settings = federation.settings
    tested = [party for party in federation.parties if party.test_rows]
    every, last = settings.evaluate_every, round_ + 1 == settings.rounds
    if not every or not tested or ((round_ + 1) % every and not last):
        return {}
    contents = {party.node: RecordDict(_model(federation)) for party in tested}
    names = {party.node: party.name for party in tested}
    replies = ask(federation.grid, settings.round_seconds, "evaluate", contents, names)
    results = {party.name: replies[party.node]["result"] for party in tested}
    rows = sum(float(result["rows"]) for result in results.values())
    by_party = {name: float(result["score"]) / float(result["rows"]) for name, result in results.items()}
    sums = {key: sum(float(result[key]) for result in results.values()) / rows for key in ("loss", "score")}
    return {**sums, "by_party": by_party}


def ask(
    grid: Grid, seconds: float, what: str, contents: Mapping[int, RecordDict], names: Mapping[int, str]
) -> dict[int, RecordDict]:
    """Send each node its message and wait for all replies.

    Raises
    ------
    RuntimeError
        A party's code failed, or its reply did not come in time; both by name.
    """
    messages = [Message(content, dst_node_id=node, message_type=what) for node, content in contents.items()]
    replies = list(grid.send_and_receive(messages, timeout=seconds))
    failed = {reply.metadata.src_node_id: reply.error for reply in replies if reply.has_error()}
    if failed:
        raise RuntimeError("; ".join(f"{names[node]} failed to {what}: {e.reason}" for node, e in failed.items()))
    found = {reply.metadata.src_node_id: reply.content for reply in replies}
    late = [names[node] for node in _missing(contents, found)]
    if late:
        raise RuntimeError(f"no reply to {what} within {seconds} seconds from {', '.join(late)}")
    return {node: found[node] for node in contents}


def _missing(contents: Mapping[int, RecordDict], found: Mapping[int, RecordDict]) -> Iterator[int]:
    return (node for node in contents if node not in found)
