"""Records made by hand for the report and its pictures, with a name of choice in every slot; and hostile names."""

import numpy as np

from fedskew.advisor import recommend
from fedskew.advisor.reporting import Report, report
from fedskew.engine.records import Candidate, PartyScore, Reference, References, Score, Validation, Verdict
from fedskew.profiles.partitions import Finding
from fedskew.profiles.records import (
    ClassesPerParty,
    ConceptSkew,
    Deviant,
    EntropyBits,
    Estimate,
    FeatureShift,
    FeatureSkew,
    LabelSkew,
    Prevailing,
    Profile,
    QuantitySkew,
)

PAYLOADS = [
    "<script>document.title='PWNED'</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "</text><script>alert(1)</script>",
    "</svg><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</details></section></main><h1>Mine</h1>",
    "</table><table><tr><td>",
    "<!--",
    "--><script>alert(1)</script><!--",
    "<![CDATA[<script>alert(1)</script>]]>",
    "]]><script>alert(1)</script>",
    "<iframe src=https://example.org></iframe>",
    "<object data=https://example.org></object>",
    "<link rel=stylesheet href=https://example.org/x.css>",
    "<meta http-equiv=refresh content='0;url=https://example.org'>",
    "<base href=https://example.org>",
    "<form action=https://example.org><input name=a autofocus onfocus=alert(1)>",
    "<a href=javascript:alert(1)>x</a>",
    "<style>@import url(https://example.org)</style>",
    "x' onmouseover='alert(1)",
    'x" onmouseover="alert(1)',
    "x` onmouseover=`alert(1)",
    "{{ 7 * 7 }}",
    "{% for x in range(9) %}x{% endfor %}",
    "{{ ''.__class__.__mro__ }}",
    "$$",
    "$x^2$",
    r"$\frac{1}{0}$",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;",
    "url(#p0-0)",
    "\x00<script>alert(1)</script>",
    "\x1b]52;c;AAAA\x07",
    "\u202e<tpircs>",
    "\ud800<script>",
    "_nothing",
    "東京<b>大学</b>",
]


def hostile_or_plain(name: str = "", parties: int = 4, classes: int = 3, columns: int = 2) -> Profile:
    """A profile whose every name slot holds ``name`` with a number behind it."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 30, (parties, classes))
    names = tuple(f"{name}p{i:05d}" for i in range(parties))
    sizes = dict(zip(names, counts.sum(axis=1).tolist(), strict=True))
    each = dict.fromkeys(names, 0.5)
    return Profile(
        parties=parties,
        rows=int(counts.sum()),
        classes=classes,
        features=columns,
        party_names=names,
        class_names=tuple(f"{name}c{i}" for i in range(classes)),
        modality="tabular",
        task="classification",
        label=LabelSkew(
            skew=0.3,
            p_value=0.0001,
            severity="strong",
            interval=(0.28, 0.32),
            entropy_bits=EntropyBits(pooled=1.5, by_party=dict(each)),
            beta=Estimate(estimate=0.5, lower=0.3, upper=None, reading="counts"),
            alpha=Estimate(reason="needs_rows"),
            classes_per_party=ClassesPerParty(),
            capped=False,
            missing_classes=dict.fromkeys(names, 1),
            effective_classes=dict(each),
            divergence=dict(each),
            most_deviant=tuple(Deviant(party=party, divergence=0.5) for party in names[:5]),
        ),
        quantity=QuantitySkew(
            skew=0.1,
            gini=0.2,
            severity="mild",
            p_value=0.3,
            effective_parties=3.5,
            max_min_ratio=2.0,
            beta=Estimate(),
            largest_share=0.3,
            sizes=sizes,
            interval=(0.08, 0.12),
        ),
        feature=FeatureSkew(
            skew=0.02,
            p_value=0.001,
            severity="mild",
            by_feature=tuple(
                FeatureShift(name=f"{name}x{i}", mean_share=0.1 / (i + 1), spread_share=-0.01, wasserstein=None)
                for i in range(columns)
            ),
            by_party={party: 0.01 * i for i, party in enumerate(names)},
        ),
        concept=ConceptSkew(skew=None, p_value=None, severity="none", reason="no_overlap"),
        prevailing=Prevailing(
            kind="mixed", components=("label_dirichlet", "feature"), confidence=0.9, runner_up="label_dirichlet"
        ),
        hygiene=(Finding(code="missing_values", severity="mild", text=f"{name} is odd", parties=(names[0],), count=3),),
        counts=tuple(tuple(row) for row in counts.tolist()),
    )


def score(mean: float, seeds: int = 3, rounds: int = 4) -> Score:
    by_seed = tuple(mean + 0.01 * (i - 1) for i in range(seeds))
    curve = tuple(tuple(value - 0.1 + 0.1 * r / rounds for r in range(1, rounds + 1)) for value in by_seed)
    return Score(mean=mean, lower=mean - 0.02, upper=mean + 0.02, by_seed=by_seed, curve=curve)


def hand_made_validation(profile: Profile, name: str = "") -> Validation:
    """Five candidates, one of them diverged and one failed, with hostile texts where texts may stand."""
    parties: dict[str, float | None] = {party: 0.5 + 0.4 * (i % 7) / 7 for i, party in enumerate(profile.party_names)}
    means = {"fedavg": 0.80, "scaffold": 0.85, "fednova": 0.2, "fedadam": None, f"{name}mine": 0.79}
    candidates = tuple(
        Candidate(
            algorithm=algorithm,
            status="diverged" if mean is None else "failed" if mean < 0.3 else "ok",
            hyperparameters={f"{name}lr": 0.1, "form": name},
            accuracy=Score(mean=None, lower=None, upper=None) if mean is None else score(mean),
            balanced_accuracy=Score(mean=mean, lower=None, upper=None),
            macro_f1=mean,
            lift=None if mean is None else mean - 0.3,
            worst_party=None if mean is None else PartyScore(party=profile.party_names[0], accuracy=0.5),
            spread=None if mean is None else 0.1,
            by_party=dict.fromkeys(parties) if mean is None else parties,
            loss=1.0,
            seconds=1.5,
            bytes_per_party=1_000_000 * (1 + (algorithm == "scaffold")),
            best_round=3,
            trend="rising",
            diverged_at=2 if mean is None else None,
        )
        for algorithm, mean in means.items()
    )
    line = Reference(accuracy=score(0.3), balanced_accuracy=score(0.3), by_party=parties)
    return Validation(
        candidates=candidates,
        references=References(majority=line, centralised=line),
        recommended="fedavg",
        comparisons=(),
        verdict=Verdict(
            kind="cannot_tell", winner=None, difference=0.05, lower=-0.01, upper=0.1, text=f"Cannot tell. {name}"
        ),
        settings={"seeds": 3, "rounds": 4, "local_epochs": 2, f"{name}model": name or "mlp", "train_rows": 100},
    )


def full_report(name: str = "", **shape: int) -> Report:
    found = hostile_or_plain(name, **shape)
    return report(recommend(found), hand_made_validation(found, name))
