"""From a table to a verdict in Python: how skewed, what to use, and is that true here."""

import numpy as np

import fedskew

rng = np.random.default_rng(0)
site = np.repeat(["north", "south", "east"], 120)
label = np.where(rng.random(360) < np.repeat([0.8, 0.5, 0.2], 120), "ill", "well")  # the sites see other patients
readings = rng.normal(size=(360, 4)) + (label == "ill")[:, None]

silos = fedskew.make_partition(readings, label, site)
profile = fedskew.profile(silos)
print(f"label skew {profile.label.skew:.2f} ({profile.label.severity}), prevailing: {profile.prevailing.kind}")

advice = fedskew.recommend(profile)
print("recommended:", advice.algorithm)

result = fedskew.validate(
    silos, ["fedavg", "fedprox"], recommended=advice.algorithm, seeds=3, rounds=5, jobs=1, tuning=False
)
print(result.verdict.kind, "-", result.verdict.text)
