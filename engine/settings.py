"""How long and how finely to train: the paper's defaults, and the presets of validation. No torch here."""

import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from fedskew.profiles.errors import FedskewError, choices

FINITE = sys.float_info.max  # infinity has no place in JSON


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Training settings; the defaults are NIID-Bench's.

    ``participation``: share of parties a round, above 0 to 1. ``momentum``: of the local SGD, reset every round.
    ``transforms``: what happens to a batch of images, in order (see ``engine/transforms.py``). ``device``: ``cpu`` or
    ``cuda``.
    """

    rounds: Annotated[int, msgspec.Meta(ge=0)] = 50
    local_epochs: Annotated[int, msgspec.Meta(ge=1)] = 10
    batch_size: Annotated[int, msgspec.Meta(ge=1)] = 64
    lr: Annotated[float, msgspec.Meta(gt=0, le=FINITE)] = 0.01
    momentum: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.9
    weight_decay: Annotated[float, msgspec.Meta(ge=0, le=FINITE)] = 1e-5
    participation: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    dtype: Literal["float32", "float64"] = "float32"
    transforms: tuple[str, ...] = ()
    device: str = "cpu"


def changed_settings(base: Settings, changes: Mapping[str, Any]) -> Settings:
    """Settings with some fields changed; transforms may be one text, such as ``crop,flip,normalise``.

    Raises
    ------
    FedskewError
        There is no such setting, or its value is out of range.

    Examples
    --------
    >>> changed_settings(Settings(), {"rounds": 4000.0, "transforms": "crop,noise:0.1"}).transforms
    ('crop', 'noise:0.1')
    """
    made = dict(changes)
    if isinstance(made.get("transforms"), str):  # a comma before a digit belongs to an argument
        made["transforms"] = [text for text in re.split(r"\s*,\s*(?=[A-Za-z])", made["transforms"].strip()) if text]
    for name, value in made.items():
        if name not in Settings.__struct_fields__:
            raise FedskewError(f"there is no setting {name!r}: {choices(name, Settings.__struct_fields__)}")
        if isinstance(value, float) and value.is_integer() and isinstance(getattr(base, name), int):
            made[name] = int(value)  # the command line reads every number as a float
    try:
        return msgspec.convert({**msgspec.to_builtins(base), **made}, Settings)
    except msgspec.ValidationError as error:
        raise FedskewError(f"setting out of range: {error}") from error


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """A named budget.

    ``seeds``: how many; ``max_rows``: train on at most so many rows (None: all); ``visits``: rows visited a round, from
    which the local epochs follow (None: those of the settings), so that small tables train as long as large ones.
    ``convolutional``: the budget for networks of images, a step of which costs a hundred of the MLP's (None: the same).
    """

    settings: Settings
    seeds: int
    max_rows: int | None
    visits: int | None
    convolutional: "Preset | None" = None

    def fitting(self, model: str) -> "Preset":
        """The budget for a network by its name.

        Examples
        --------
        >>> [PRESETS["quick"].fitting(model).settings.rounds for model in ("mlp", "Simple-CNN", "module:cnn")]
        [30, 12, 30]
        """
        fits = ":" not in model and any(word in model.lower() for word in CONVOLUTIONAL)
        return self.convolutional if self.convolutional and fits else self

    def epochs(self, rows: int) -> int:
        """Local epochs for a number of training rows: 2 to the paper's 10.

        Examples
        --------
        >>> PRESETS["quick"].epochs(8000), PRESETS["quick"].epochs(1300), PRESETS["paper"].epochs(8000)
        (2, 6, 10)
        """
        if self.visits is None:
            return self.settings.local_epochs
        return max(2, min(self.settings.local_epochs, round(self.visits / max(1, rows))))


CONVOLUTIONAL = ("cnn", "vgg", "resnet")
PRESETS: dict[str, Preset] = {
    "quick": Preset(
        settings=Settings(rounds=30),
        seeds=5,
        max_rows=8_000,
        visits=8_000,
        convolutional=Preset(settings=Settings(rounds=12), seeds=3, max_rows=1_000, visits=6_000),
    ),
    "standard": Preset(
        settings=Settings(),
        seeds=10,
        max_rows=20_000,
        visits=100_000,
        convolutional=Preset(settings=Settings(rounds=30), seeds=5, max_rows=4_000, visits=20_000),
    ),
    "paper": Preset(settings=Settings(), seeds=3, max_rows=None, visits=None),
}


def find_preset(name: str) -> Preset:
    """Find a preset by name.

    Raises
    ------
    FedskewError
        There is no such preset.

    Examples
    --------
    >>> find_preset("paper").settings.local_epochs
    10
    """
    if name not in PRESETS:
        raise FedskewError(f"unknown preset {name!r}: {choices(name, PRESETS)}")
    return PRESETS[name]
