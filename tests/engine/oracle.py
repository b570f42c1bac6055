"""The plain way to run federated learning: one torch module and one torch.optim.SGD a party, no stacking.

The oracle of the engine's tests, and the yardstick of the benchmarks. The plain run shares the batches and initial
weights with the engine and nothing else. Each algorithm is written from its paper; where torch has the server's
optimizer, torch runs it.
"""

import copy
from typing import Any

import numpy as np
import torch
from torch import nn

from fedskew.engine.blocks import Data
from fedskew.engine.law_cases import NETWORKS, settings
from fedskew.engine.models import seeded
from fedskew.engine.plans import ModelSpec
from fedskew.engine.settings import Settings
from fedskew.engine.training import Federation, begin, personal
from fedskew.profiles.keyed import generator

DEFAULTS: dict[str, dict[str, Any]] = {
    "fedprox": {"mu": 0.01},
    "fedavgm": {"server_lr": 1.0, "server_momentum": 0.9},
    "fedadam": {
        "server_lr": 0.1,
        "beta1": 0.9,
        "beta2": 0.99,
        "tau": 1e-3,
        "form": "reddi",
        "server_weight_decay": 0.0,
    },
    "fedyogi": {"server_lr": 0.1, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3},
    "fedadagrad": {"server_lr": 0.1, "tau": 1e-3},
    "feddyn": {"alpha": 0.01},
    "moon": {"mu": 0.1, "temperature": 0.5},
}


def batches(seed, round_, name, epoch, rows, batch):
    order = generator("batches", seed, round_, name, epoch).permutation(rows)
    return [order[i : i + batch] for i in range(0, rows, batch)]


def zeros(weights):
    return [torch.zeros_like(w) for w in weights]


def reweighted(logits, y, counts):
    """-[z_y + log a_y - log sum_c a_c exp(z_c)] over the classes the party holds, mean over the batch."""
    held = counts > 0
    share = (counts / counts.sum())[held]
    total = torch.logsumexp(logits[:, held] + share.log(), 1)
    own = logits.gather(1, y.unsqueeze(1)).squeeze(1) + (counts / counts.sum())[y].log()
    return (total - own).mean()


class PlainRun:
    """Every algorithm by the book, on lists of parameters and of buffers."""

    def __init__(self, algorithm, federation, settings, model, seed, **hyper):
        self.algorithm, _, modifier = algorithm.partition("+")
        self.wsm = modifier == "wsm"
        self.federation, self.settings, self.seed = federation, settings, seed
        self.hyper = {**DEFAULTS.get(self.algorithm, {}), **hyper}
        self.module = seeded(model, seed).to(getattr(torch, settings.dtype))
        self.weights = [p.detach().clone() for p in self.module.parameters()]
        self.buffers = [b.detach().clone() for b in self.module.buffers()]
        self.c, self.m, self.v = zeros(self.weights), zeros(self.weights), None
        self.parties = [p for p in range(len(federation.names)) if federation.bounds[p + 1] > federation.bounds[p]]
        self.ci = {p: zeros(self.weights) for p in self.parties}
        self.previous, self.optimizer = {}, None
        self.mine = [[w.clone() for w in self.weights] for _ in federation.names]
        self.mine_buffers = [[b.clone() for b in self.buffers] for _ in federation.names]
        self.norms = [
            isinstance(part, nn.modules.batchnorm._BatchNorm)
            for part in self.module.modules()
            for _ in part.parameters(recurse=False)
        ]

    def load(self, weights, buffers):
        module = copy.deepcopy(self.module)
        for p, w in zip([*module.parameters(), *module.buffers()], [*weights, *buffers], strict=True):
            p.data.copy_(w)
        return module

    def starting(self, party):
        if self.algorithm == "fedbn":
            pairs = zip(self.mine[party], self.weights, self.norms, strict=True)
            return [m if norm else w for m, w, norm in pairs], self.mine_buffers[party]
        return self.weights, self.buffers

    def local(self, party, round_):
        fed, how = self.federation, self.settings
        start = self.starting(party)
        module = self.load(*start)
        optimizer = torch.optim.SGD(
            module.parameters(), lr=how.lr, momentum=how.momentum, weight_decay=how.weight_decay
        )
        first, last = int(fed.bounds[party]), int(fed.bounds[party + 1])
        x, y = fed.data.x[first:last].to(self.weights[0].dtype), fed.data.y[first:last]
        counts = torch.bincount(y, minlength=int(fed.data.y.max()) + 1).to(x.dtype)
        fixed = [self.load(*start), self.previous.get(party)] if self.algorithm == "moon" else []
        steps = 0
        for epoch in range(how.local_epochs):
            for index in batches(self.seed, round_, fed.names[party], epoch, last - first, how.batch_size):
                optimizer.zero_grad()
                logits, hidden = see(module, x[index])
                loss = (
                    reweighted(logits, y[index], counts) if self.wsm else nn.functional.cross_entropy(logits, y[index])
                )
                (loss + self.extra(module, party, x[index], hidden, fixed)).backward()
                optimizer.step()
                if self.algorithm == "scaffold":
                    for p, c, ci in zip(module.parameters(), self.c, self.ci[party], strict=True):
                        p.data -= how.lr * (c - ci) * p.requires_grad
                steps += 1
        if self.algorithm == "moon":
            self.previous[party] = module
        return [p.detach() for p in module.parameters()], steps, list(module.buffers())

    def extra(self, module, party, x, hidden, fixed):
        """What the algorithm adds to the loss."""
        pairs = list(zip(module.parameters(), self.weights, strict=True))
        pull = sum(((p - w) ** 2).sum() for p, w in pairs)
        if self.algorithm == "fedprox":
            return self.hyper["mu"] / 2 * pull
        if self.algorithm == "feddyn":
            dot = sum((g * p).sum() for g, p in zip(self.ci[party], module.parameters(), strict=True))
            return self.hyper["alpha"] / 2 * pull - dot
        if self.algorithm == "moon" and fixed[1] is not None:
            with torch.no_grad():
                anchors = [see(other, x)[1] for other in fixed]
            cosines = [nn.functional.cosine_similarity(hidden, z, dim=1) for z in anchors]
            logits = torch.stack(cosines, 1) / self.hyper["temperature"]
            return self.hyper["mu"] * nn.functional.cross_entropy(logits, torch.zeros(len(x), dtype=torch.int64))
        return 0.0

    def round(self, round_, parties=None):
        parties = [int(p) for p in (self.parties if parties is None else parties)]
        sizes = np.diff(self.federation.bounds)[parties]
        share = sizes / sizes.sum()
        results = [self.local(p, round_) for p in parties]
        for party, (trained, _, buffers) in zip(parties, results, strict=True):
            self.mine[party], self.mine_buffers[party] = trained, [b.clone() for b in buffers]
        self.buffers = [self.mean_buffer([r[2][i] for r in results], share) for i in range(len(self.buffers))]
        mean = [sum(p * r[0][i] for p, r in zip(share, results, strict=True)) for i in range(len(self.weights))]
        server = getattr(self, "server_" + self.algorithm, None)
        self.weights = mean if server is None else server(parties, results, share, mean)

    @staticmethod
    def mean_buffer(rows, share):
        if not rows[0].is_floating_point():
            return max(rows, key=lambda row: row.max())
        return sum(p * row for p, row in zip(share, rows, strict=True))

    def server_fednova(self, parties, results, share, mean):
        rho = self.settings.momentum if self.hyper.get("form") != "tau" else 0.0
        steps = [r[1] for r in results]
        if self.hyper.get("lineage") == "code-2021":
            share = np.asarray(steps) / sum(steps)
        a = [sum(sum(rho**j for j in range(k)) for k in range(1, count + 1)) for count in steps]
        tau = sum(p * ai for p, ai in zip(share, a, strict=True))
        return [
            w - tau * sum(p * (w - r[0][i]) / ai for p, r, ai in zip(share, results, a, strict=True))
            for i, w in enumerate(self.weights)
        ]

    def server_scaffold(self, parties, results, share, mean):
        change = zeros(self.weights)
        for party, (trained, steps, _) in zip(parties, results, strict=True):
            for i, (w, t) in enumerate(zip(self.weights, trained, strict=True)):
                new = self.ci[party][i] - self.c[i] + (w - t) / (steps * self.settings.lr)
                change[i] += new - self.ci[party][i]
                self.ci[party][i] = new
        self.c = [c + d / len(self.parties) for c, d in zip(self.c, change, strict=True)]
        return mean

    def server_feddyn(self, parties, results, share, mean):
        alpha, total = self.hyper["alpha"], zeros(self.weights)
        for party, (trained, _, _) in zip(parties, results, strict=True):
            for i, (w, t) in enumerate(zip(self.weights, trained, strict=True)):
                self.ci[party][i] = self.ci[party][i] - alpha * (t - w)
                total[i] += t - w
        self.c = [h - alpha / len(self.parties) * d for h, d in zip(self.c, total, strict=True)]
        plain = [sum(r[0][i] for r in results) / len(results) for i in range(len(self.weights))]
        return [w - h / alpha for w, h in zip(plain, self.c, strict=True)]

    def torch_server(self, kind, mean, **options):
        """A torch optimizer that lives for the whole run, fed w^t minus the mean as the gradient."""
        if self.optimizer is None:
            self.kept = [nn.Parameter(w.clone()) for w in self.weights]
            self.optimizer = kind(self.kept, lr=self.hyper["server_lr"], **options)
        for p, w, m in zip(self.kept, self.weights, mean, strict=True):
            p.grad = w - m
        self.optimizer.step()
        return [p.detach().clone() for p in self.kept]

    def server_fedavgm(self, parties, results, share, mean):
        return self.torch_server(torch.optim.SGD, mean, momentum=self.hyper["server_momentum"])

    def server_fedadagrad(self, parties, results, share, mean):
        tau = self.hyper["tau"]
        return self.torch_server(torch.optim.Adagrad, mean, initial_accumulator_value=tau**2, eps=tau)

    def server_fedadam(self, parties, results, share, mean):
        how = self.hyper
        if how["form"] == "torch":
            options = {
                "betas": (how["beta1"], how["beta2"]),
                "eps": how["tau"],
                "weight_decay": how["server_weight_decay"],
            }
            return self.torch_server(torch.optim.Adam, mean, **options)
        return self.reddi(mean, lambda v, d: how["beta2"] * v + (1 - how["beta2"]) * d * d)

    def server_fedyogi(self, parties, results, share, mean):
        rest = 1 - self.hyper["beta2"]
        return self.reddi(mean, lambda v, d: v - rest * d * d * torch.sign(v - d * d))

    def reddi(self, mean, second):
        """Algorithm 2 of Reddi et al. in its own sign: Delta is mean minus w^t, and the server adds."""
        how = self.hyper
        if self.v is None:
            self.v = [torch.full_like(w, how["tau"] ** 2) for w in self.weights]
        delta = [m - w for m, w in zip(mean, self.weights, strict=True)]
        self.m = [how["beta1"] * m + (1 - how["beta1"]) * d for m, d in zip(self.m, delta, strict=True)]
        self.v = [second(v, d) for v, d in zip(self.v, delta, strict=True)]
        moved = zip(self.weights, self.m, self.v, strict=True)
        return [w + how["server_lr"] * m / (v.sqrt() + how["tau"]) for w, m, v in moved]

    def flat(self, weights=None):
        """Trainable weights in one vector."""
        pairs = zip(self.weights if weights is None else weights, self.module.parameters(), strict=True)
        return torch.cat([w.reshape(-1) for w, p in pairs if p.requires_grad])


def see(module, x):
    """Outputs, and the input of the last linear layer."""
    seen = []
    last = [part for part in module.modules() if isinstance(part, nn.Linear)][-1]
    handle = last.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        return module(x), seen[0]
    finally:
        handle.remove()


def one_weight(shape, outputs):
    """A network of a single weight, zero at first."""
    weight = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(weight.weight)
    return nn.Sequential(nn.Flatten(), weight)


def quadratic(algorithm, hyper=None, *, rounds=2, batch=4, momentum=0.0):
    """The weight after each round on two quadratics: one row at (w - 4)^2, three rows at (w - 8)^2.

    lr 0.25 and two local epochs; without momentum a local step halves the way to 4 or 8. Batch 4 gives each party two
    steps, batch 1 gives them two and six.
    """
    data = Data(torch.ones(4, 1, dtype=torch.float64), torch.tensor([4.0, 8.0, 8.0, 8.0], dtype=torch.float64))
    silos = Federation(data, np.asarray([0, 1, 4]), ("A", "B"), np.ones((2, 1)))
    how = Settings(
        rounds=rounds,
        local_epochs=2,
        batch_size=batch,
        lr=0.25,
        momentum=momentum,
        weight_decay=0.0,
        dtype="float64",
    )
    model = ModelSpec(f"{__name__}:one_weight", (1,), 1)
    run = begin(algorithm, hyper or {}, how, [0], federation=silos, model=model)
    return [float(state.weights[0, 0]) for state in run.rounds()], run.state


def statistics(algorithm):
    """Running means of the inputs after one round, at the server and at two parties with batches of mean 1 and 5.

    Each party takes one batch of its two rows, and a running mean moves a tenth of the way.
    """
    x = torch.tensor([0.0, 2.0, 4.0, 6.0], dtype=torch.float64).unsqueeze(1).expand(4, 5).contiguous()
    silos = Federation(Data(x, torch.tensor([0, 1, 0, 1])), np.asarray([0, 2, 4]), ("A", "B"), np.full((2, 3), 1 / 3))
    how = settings(rounds=1, batch_size=4)
    run = begin(algorithm, {}, how, [0], federation=silos, model=NETWORKS["batch_norm"])
    server = next(run.rounds()).buffers[0, :5].tolist()
    return server, *(personal(run, party)[1][0, :5].tolist() for party in range(2))
