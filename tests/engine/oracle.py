"""The plain way to run federated learning: one torch module and one torch.optim.SGD a party, no stacking.

The oracle of the engine's tests, and the yardstick of the benchmarks. It shares the batches and initial weights with the
engine and nothing else.
"""

import copy

import numpy as np
import torch
from torch import nn

from fedskew.engine.models import seeded
from fedskew.profiles.keyed import generator


def batches(seed, round_, name, epoch, rows, batch):
    order = generator("batches", seed, round_, name, epoch).permutation(rows)
    return [order[i : i + batch] for i in range(0, rows, batch)]


class PlainRun:
    """FedAvg, FedProx, SCAFFOLD and FedNova by the book, on state dicts of parameters."""

    def __init__(self, algorithm, federation, settings, model, seed, **hyper):
        self.algorithm, self.federation, self.settings, self.seed, self.hyper = (
            algorithm,
            federation,
            settings,
            seed,
            hyper,
        )
        self.module = seeded(model, seed).to(getattr(torch, settings.dtype))
        self.weights = [p.detach().clone() for p in self.module.parameters()]
        self.c = [torch.zeros_like(w) for w in self.weights]
        self.ci = [[torch.zeros_like(w) for w in self.weights] for _ in federation.names]

    def local(self, party, round_):
        fed, how = self.federation, self.settings
        module = copy.deepcopy(self.module)
        for p, w in zip(module.parameters(), self.weights, strict=True):
            p.data.copy_(w)
        optimizer = torch.optim.SGD(
            module.parameters(), lr=how.lr, momentum=how.momentum, weight_decay=how.weight_decay
        )
        first, last = int(fed.bounds[party]), int(fed.bounds[party + 1])
        x, y = fed.data.x[first:last].to(self.weights[0].dtype), fed.data.y[first:last]
        steps = 0
        for epoch in range(how.local_epochs):
            for index in batches(self.seed, round_, fed.names[party], epoch, last - first, how.batch_size):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(module(x[index]), y[index])
                if self.algorithm == "fedprox":
                    pull = sum(((p - w) ** 2).sum() for p, w in zip(module.parameters(), self.weights, strict=True))
                    loss = loss + self.hyper["mu"] / 2 * pull
                loss.backward()
                optimizer.step()
                if self.algorithm == "scaffold":
                    for p, c, ci in zip(module.parameters(), self.c, self.ci[party], strict=True):
                        p.data -= how.lr * (c - ci)
                steps += 1
        return [p.detach() for p in module.parameters()], steps

    def round(self, round_, parties=None):
        fed, how = self.federation, self.settings
        parties = [int(p) for p in (fed.active if parties is None else parties)]
        sizes = np.diff(fed.bounds)[parties]
        share = sizes / sizes.sum()
        results = [self.local(p, round_) for p in parties]
        if self.algorithm == "scaffold":
            self._controls(parties, results)
        if self.algorithm == "fednova":
            rho = how.momentum
            a = [sum(sum(rho**j for j in range(k)) for k in range(1, steps + 1)) for _, steps in results]
            tau = sum(p * ai for p, ai in zip(share, a, strict=True))
            self.weights = [
                w - tau * sum(p * (w - r[0][i]) / ai for p, r, ai in zip(share, results, a, strict=True))
                for i, w in enumerate(self.weights)
            ]
        else:
            self.weights = [
                sum(p * r[0][i] for p, r in zip(share, results, strict=True)) for i in range(len(self.weights))
            ]

    def _controls(self, parties, results):
        change = [torch.zeros_like(w) for w in self.weights]
        for party, (trained, steps) in zip(parties, results, strict=True):
            for i, (w, t) in enumerate(zip(self.weights, trained, strict=True)):
                new = self.ci[party][i] - self.c[i] + (w - t) / (steps * self.settings.lr)
                change[i] += new - self.ci[party][i]
                self.ci[party][i] = new
        self.c = [c + d / len(self.federation.names) for c, d in zip(self.c, change, strict=True)]

    def flat(self):
        return torch.cat([w.reshape(-1) for w in self.weights])
