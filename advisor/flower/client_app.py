"""What runs at a party: tell what it holds, train, test. Rows and the algorithm's own state never leave it."""

from collections.abc import Mapping

import numpy as np
import torch
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from fedskew.advisor.flower import scaling, training
from fedskew.advisor.flower.choice import ALGORITHM, CLASSES
from fedskew.advisor.flower.data import Silo, load_silo
from fedskew.advisor.flower.memory import Memory
from fedskew.advisor.flower.records import all_finite, arrays_of, packed, tensors_of
from fedskew.advisor.flower.settings import Settings, read_settings
from fedskew.engine.algorithms.base import State, Update

app = ClientApp()


@app.query()
def describe(message: Message, context: Context) -> Message:
    """Tell name, number of rows, shape of a row, and the moments that the common scale is made of."""
    silo = load_silo(context.node_config, context.run_config)
    facts = {
        "party": silo.party,
        "rows": len(silo.y),
        "test-rows": len(silo.test_y),
        "shape": [int(side) for side in silo.x.shape[1:]],
        "classes": list(CLASSES),
    }
    content = {"facts": ConfigRecord(facts), "moments": packed(scaling.moments(silo.x))}
    return Message(RecordDict(content), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train for one round from the server's weights; what the algorithm keeps stays in the state of this party."""
    settings, content = read_settings(context.run_config), message.content
    silo = load_silo(context.node_config, context.run_config)
    round_, before = int(content["job"]["round"]), int(content["job"]["trained-before"])
    network = training.build(silo.x.shape[1:], settings)
    memory = Memory(context.state, network, settings)
    own = memory.recall(before, silo.party)
    start = memory.personal(tensors_of(content["model"]))
    server = {**memory.fresh.server, **(tensors_of(content["server"]) if "server" in content else {})}
    server = {name: rows.reshape(1, -1) for name, rows in server.items()}
    rows = _rows(silo, arrays_of(content["scaling"]), settings, test=False)
    weights, buffers = training.train(network, start, (own, server), rows, settings, round_)
    if not all_finite({"weights": weights, "buffers": buffers}):
        raise FloatingPointError(f"{silo.party}: weights are not finite after round {round_ + 1}; try a smaller lr")
    memory.keep(round_, weights, buffers, _own_state(start[0], weights, (own, server), rows, settings))
    sent = memory.without_personal({"weights": weights, "buffers": buffers}, tensors_of(content["model"]))
    return Message(RecordDict({"model": packed(sent)}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Test the server's weights, with this party's own layers where it has some, on its test rows."""
    settings, content = read_settings(context.run_config), message.content
    silo = load_silo(context.node_config, context.run_config)
    network = training.build(silo.x.shape[1:], settings)
    memory = Memory(context.state, network, settings)
    weights, buffers = memory.personal(tensors_of(content["model"]))
    rows = _rows(silo, arrays_of(content["scaling"]), settings, test=True)
    found = training.test(network, weights, buffers, rows) if len(rows.y) else {"loss": 0.0, "score": 0.0, "rows": 0.0}
    return Message(RecordDict({"result": MetricRecord(dict(found))}), reply_to=message)


def _rows(silo: Silo, how: scaling.Arrays, settings: Settings, *, test: bool) -> training.Rows:
    x, y = (silo.test_x, silo.test_y) if test else (silo.x, silo.y)
    return training.rows_of(silo.party, scaling.apply(x, how), np.asarray(y), settings.dtype)


def _own_state(
    start: Tensor, trained: Tensor, states: tuple[State, State], rows: training.Rows, settings: Settings
) -> Mapping[str, Tensor]:
    """The party's state after the round.

    The algorithm's server step computes it from what each party knows by itself, so the party runs that step on
    itself alone and takes only its own part of the result.
    """
    own, server = states
    if not own:
        return {}
    steps = settings.local_epochs * -(-len(rows.y) // settings.batch_size)
    alone = Update(
        start=start,
        trained=trained,
        share=torch.ones(1, 1, dtype=torch.float64),
        steps=torch.full((1, 1), steps, dtype=torch.float64),
        own=own,
        server={name: values[0] for name, values in server.items()},
        parties=1,
        lr=settings.lr,
        momentum=settings.momentum,
    )
    return ALGORITHM.aggregate(alone, settings.hyper).own
