"""The part of the page about the data: how skewed, who holds what, and where the features differ."""

from fedskew.advisor.page import Cell, Column, Item, Picture, Section, Table
from fedskew.advisor.wording import prevailing_sentence, reading_of, standing_out
from fedskew.profiles import feature_plots, plots
from fedskew.profiles.records import Profile

READS = (
    "0 is what chance gives at these sizes, 1 is full dependence on the party. The three zones of a scale are drawn "
    "equally wide; the numbers below them say where each begins. A hollow dot is no more than chance."
)


def profile_sections(profile: Profile) -> tuple[Section, ...]:
    """How skewed, who holds what, where features differ."""
    pictures = [Picture(plots.party_class_map(profile), "parties")]
    if profile.parties > plots.MANY_PARTIES:
        pictures.append(Picture(plots.party_sizes(profile), "parties"))
    sections = [
        Section(
            "skew",
            "How skewed the silos are",
            text=(prevailing_sentence(profile), " ".join(standing_out(profile)), READS),
            pictures=(Picture(plots.skew_gauges(profile), "skews"),),
            tables=(skews(profile),),
        ),
        Section("holdings", "Who holds what", pictures=tuple(pictures), tables=_deviants(profile)),
    ]
    features = _feature_pictures(profile)
    if features:
        text = ("Measured within each class, so that unequal class shares alone do not show up here.",)
        sections.append(Section("features", "Where the features differ", text=text, pictures=features))
    return tuple(sections)


def _feature_pictures(profile: Profile) -> tuple[Picture, ...]:
    made = []
    if any(value is not None for value in profile.feature.by_party.values()):
        made.append(Picture(feature_plots.feature_by_party(profile), "parties"))
    if profile.feature.by_feature:
        made.append(Picture(feature_plots.feature_by_column(profile), "columns"))
    return tuple(made)


def skews(profile: Profile) -> Table:
    """The four skews with interval, p-value, severity and what they read as."""
    label, quantity, feature, concept = profile.label, profile.quantity, profile.feature, profile.concept
    rows: list[tuple[Cell, ...]] = []
    for name, skew, interval, reads in (
        ("label", label, label.interval, reading_of(label.beta)),
        ("quantity", quantity, quantity.interval, f"{quantity.effective_parties:.1f} effective parties"),
        ("feature", feature, feature.interval, ""),
        ("concept", concept, None, ""),
    ):
        low, high = interval or (None, None)
        reason = (skew.reason or "").replace("_", " ")
        rows.append(
            (name, skew.skew, low, high, skew.p_value, skew.severity, reads)
            if skew.skew is not None
            else (name, None, None, None, None, None, f"not measurable: {reason}")
        )
    columns = (
        Column("skew"),
        Column("beyond chance", "index"),
        Column("lower", "index"),
        Column("upper", "index"),
        Column("p", "p"),
        Column("severity"),
        Column("reads as"),
    )
    return Table("skews", "The four skews beyond chance, with 95 % intervals", columns, rows)


def _deviants(profile: Profile) -> tuple[Table, ...]:
    if not profile.label.most_deviant or profile.label.severity == "none":
        return ()
    columns = (Column("party"), Column("bits beyond chance", "index"), Column("rows", "count"))
    sizes = profile.quantity.sizes
    rows = [(found.party, found.divergence, sizes[found.party]) for found in profile.label.most_deviant[:10]]
    return (Table("deviants", "Farthest from the common label mix", columns, rows),)


def profile_tables(profile: Profile) -> tuple[Table, ...]:
    """Every number of the pictures: by party with its counts, and by column."""
    tables = [_party_table(profile)]
    if profile.feature.by_feature:
        tables.append(_column_table(profile))
    return tuple(tables)


def _party_table(profile: Profile) -> Table:
    label, shift = profile.label, profile.feature.by_party
    columns = (
        Column("party"),
        Column("rows", "count"),
        Column("entropy, bits", "index"),
        Column("effective classes", "index"),
        Column("missing classes", "count"),
        Column("divergence, bits", "index"),
        Column("feature shift", "index"),
        *(Column(f"rows of {name}", "count") for name in profile.class_names),
    )
    rows = [
        (
            name,
            profile.quantity.sizes.get(name),
            label.entropy_bits.by_party.get(name),
            label.effective_classes.get(name),
            label.missing_classes.get(name),
            label.divergence.get(name),
            shift.get(name),
            *counts,
        )
        for name, counts in zip(profile.party_names, profile.counts, strict=True)
    ]
    return Table("parties", "Every party: size, label mix, shift, rows by class", columns, rows)


def _column_table(profile: Profile) -> Table:
    columns = (
        Column("column"),
        Column("share of mean", "index"),
        Column("share of spread", "index"),
        Column("Wasserstein, sd", "index"),
        Column("by chance, sd", "index"),
    )
    rows = [
        (one.name, one.mean_share, one.spread_share, one.wasserstein, one.wasserstein_chance)
        for one in profile.feature.by_feature
    ]
    return Table("columns", "Every column: its shift between parties, given the class", columns, rows)


def hygiene_items(profile: Profile) -> tuple[Item, ...]:
    """What reading and profiling noticed, gravest first."""
    order = {"strong": 0, "mild": 1, "none": 2}
    found = sorted(profile.hygiene, key=lambda finding: order[finding.severity])
    return tuple(Item(one.text, one.severity, f"{one.code}, {one.count:,} concerned") for one in found)
