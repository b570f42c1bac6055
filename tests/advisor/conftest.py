"""A builder of profiles by hand: only what the advisor reads, the rest neutral."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedskew.profiles.partitions import Finding, Modality, Severity
from fedskew.profiles.records import (
    ClassesPerParty,
    ConceptSkew,
    EntropyBits,
    Estimate,
    FeatureSkew,
    LabelSkew,
    Prevailing,
    Profile,
    QuantitySkew,
)

TYPICAL = {"label_count": 0.76, "label_dirichlet": 0.32, "feature": 0.02, "quantity": 0.6, "concept": 0.1}


def build_profile(
    *components: str,
    counts: Any = None,
    k: int | None = None,
    modality: Modality = "tabular",
    hygiene: tuple[Finding, ...] = (),
    task: str = "classification",
    classes: int = 10,
    parties: int = 10,
    features: int = 20,
    confidence: float = 1.0,
    runner_up: str | None = None,
    concept: Severity = "strong",
) -> Profile:
    """A profile whose skews are exactly ``components``; counts default to 100 rows of each class at each party."""
    table = np.full((parties, classes), 100) if counts is None else np.asarray(counts)
    sizes = table.sum(axis=1)
    names = tuple(str(i) for i in range(len(table)))
    label = next((kind for kind in components if kind.startswith("label")), None)
    index = {kind: TYPICAL[kind] for kind in components}
    kind = components[0] if len(components) == 1 else "mixed" if components else "none"
    return Profile(
        parties=len(table),
        rows=int(sizes.sum()),
        classes=table.shape[1],
        features=784 if modality == "image" else features,
        party_names=names,
        class_names=tuple(str(i) for i in range(table.shape[1])),
        modality=modality,
        task=task,
        image_shape=(1, 28, 28) if modality == "image" else None,
        label=LabelSkew(
            skew=index[label] if label else 0.0,
            p_value=0.0001 if label else 0.5,
            severity="strong" if label else "none",
            interval=None,
            entropy_bits=EntropyBits(pooled=1.0, by_party={}),
            beta=Estimate(),
            alpha=Estimate(),
            classes_per_party=ClassesPerParty(k=k, share=1.0 if k else None),
            capped=None,
        ),
        quantity=QuantitySkew(
            skew=index.get("quantity", 0.0),
            gini=0.0,
            severity="strong" if "quantity" in components else "none",
            p_value=None,
            effective_parties=float(len(table)),
            max_min_ratio=1.0,
            beta=Estimate(),
            largest_share=0.1,
            sizes=dict(zip(names, sizes.tolist(), strict=True)),
        ),
        feature=FeatureSkew(
            skew=index.get("feature", 0.0), p_value=0.5, severity="mild" if "feature" in components else "none"
        ),
        concept=ConceptSkew(
            skew=index.get("concept", 0.0), p_value=0.5, severity=concept if "concept" in components else "none"
        ),
        prevailing=Prevailing(kind=kind, components=components, confidence=confidence, runner_up=runner_up),
        hygiene=hygiene,
        counts=tuple(tuple(row) for row in table.tolist()),
    )


@pytest.fixture
def profile_of() -> Callable[..., Profile]:
    """The builder, see :func:`build_profile`."""
    return build_profile


@pytest.fixture
def paper_file(data_folder: Path) -> Callable[[str], Path]:
    """A function from the name of a published table to its path; the test skips with a reason where it is absent."""

    def find(name: str) -> Path:
        path = data_folder.parent / "paper" / name
        if not path.is_file():
            pytest.skip(f"{name} is not in {path.parent}; the shipped evidence base is tested without it")
        return path

    return find
