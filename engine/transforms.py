"""What happens to a batch of images before the network sees it: crop, flip, normalise, noise drawn anew.

A transform is named by a text, ``crop`` or ``noise:0.1``, and the texts are applied in the order given. All draws are
keyed by (seed, round, party, step): every candidate sees the same pictures, in either backend and in any block.

    crop              pad by 4 with zeros, cut a window of the old size at a random place (``crop:reflect`` mirrors)
    flip              mirror left and right with probability 1/2
    normalise         subtract a mean and divide by a deviation for each channel: CIFAR-10's with three channels,
                      MNIST's with one, or ``normalise:0.5,0.5,0.5/0.25,0.25,0.25``; in evaluation too
    noise:S           add Gaussian noise of standard deviation S
    party-noise:S     the same with variance S^2 i/N for the i-th of N parties, i = 1 ... N
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedskew.profiles.errors import FedskewError, choices
from fedskew.profiles.keyed import seed_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from fedskew.engine.schedule import Lane

PAD = 4
CHANNELS = {
    3: ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    1: ((0.1307,), (0.3081,)),
}
"""Mean and standard deviation of CIFAR-10's and of MNIST's training images, 0 to 1."""
NOISES = ("noise", "party-noise")
NAMES = ("crop", "flip", "normalise", *NOISES)


@dataclass(frozen=True, slots=True)
class Transforms:
    """Transforms in order, each a name with its argument, for ``parties`` N."""

    steps: tuple[tuple[str, str], ...]
    parties: int

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.steps)

    def train(self, x: "Tensor", lane: "Lane", round_: int, step: int) -> "Tensor":
        """Transform a lane's batch (B, C, H, W), padding included, at one local step."""
        import torch

        rng = torch.Generator().manual_seed(seed_of("transforms", lane.seed, round_, lane.name, step) >> 1)
        for name, argument in self.steps:
            if name == "crop":
                x = crop(x, rng, argument)
            elif name == "flip":
                x = flip(x, rng)
            elif name == "normalise":
                x = normalise(x, argument)
            else:
                share = 1.0 if name == "noise" else (lane.party + 1) / self.parties
                x = noise(x, rng, float(argument) * share**0.5)
        return x

    def test(self, x: "Tensor") -> "Tensor":
        """Transform images that are to be judged: only what is no accident."""
        for name, argument in self.steps:
            if name == "normalise":
                x = normalise(x, argument)
        return x


def read_transforms(texts: Sequence[str], shape: tuple[int, ...], parties: int) -> Transforms:
    """Check texts against the shape of a row.

    Raises
    ------
    FedskewError
        An unknown transform, a wrong argument, or rows that it cannot take.

    Examples
    --------
    >>> read_transforms(("crop", "noise:0.1"), (3, 32, 32), 10).steps
    (('crop', ''), ('noise', '0.1'))
    """
    steps = []
    for text in texts:
        name, _, argument = text.strip().lower().partition(":")
        if name not in NAMES:
            raise FedskewError(f"unknown transform {text!r}: {choices(name, NAMES)}")
        fault = _fault(name, argument, shape)
        if fault:
            raise FedskewError(f"transform {text!r}: {fault}")
        steps.append((name, argument))
    return Transforms(tuple(steps), parties)


def crop(x: "Tensor", rng: "torch.Generator", padding: str = "") -> "Tensor":
    """Windows of (B, C, H, W) at random places of the picture padded by 4 with zeros, or with its mirror image."""
    import torch

    rows, _, height, width = x.shape
    # two draws a row, whatever the type of the numbers and the device
    corner = torch.randint(0, 2 * PAD + 1, (2, rows, 1), generator=rng).to(x.device)
    padded = torch.nn.functional.pad(x, (PAD,) * 4, mode="reflect" if padding == "reflect" else "constant")
    down = (corner[0] + torch.arange(height, device=x.device)).unsqueeze(2)
    right = (corner[1] + torch.arange(width, device=x.device)).unsqueeze(1)
    row = torch.arange(rows, device=x.device).view(-1, 1, 1)
    return padded[row, :, down, right].permute(0, 3, 1, 2)


def flip(x: "Tensor", rng: "torch.Generator") -> "Tensor":
    """Mirror each of (B, C, H, W) left and right with probability 1/2."""
    import torch

    turned = torch.rand(len(x), 1, 1, 1, generator=rng).to(x.device) < 0.5
    return torch.where(turned, x.flip(3), x)


def normalise(x: "Tensor", numbers: str = "") -> "Tensor":
    """Subtract the mean and divide by the standard deviation of each channel of (B, C, H, W)."""
    mean, deviation = _numbers(numbers) if numbers else CHANNELS[x.shape[1]]
    return (x - x.new_tensor(mean).view(1, -1, 1, 1)) / x.new_tensor(deviation).view(1, -1, 1, 1)


def noise(x: "Tensor", rng: "torch.Generator", deviation: float) -> "Tensor":
    """Add Gaussian noise to rows (B, ...) of any shape."""
    import torch

    drawn = torch.randn(tuple(x.shape), generator=rng, dtype=torch.float32)
    return x + drawn.to(x) * deviation


def _numbers(text: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    mean, _, deviation = text.partition("/")
    return tuple(map(float, mean.split(","))), tuple(map(float, deviation.split(",")))


def _fault(name: str, argument: str, shape: tuple[int, ...]) -> str:
    """What is wrong with a transform, in words; nothing if it can be done."""
    if name not in NOISES and len(shape) != 3:
        return f"it needs images, and a row here has shape {shape}; leave it out"
    if name == "crop" and argument not in ("", "zero", "reflect"):
        return "it pads with 'zero' or 'reflect'"
    if name == "crop" and argument == "reflect" and min(shape[1:]) <= PAD:
        return f"a mirror of {PAD} pixels needs larger images than {shape[1]} x {shape[2]}"
    if name == "flip" and argument:
        return "it takes no argument"
    try:
        if name == "normalise":
            return _normalise_fault(argument, shape[0])
        if name in NOISES:
            return "" if 0 <= float(argument) < float("inf") else "the standard deviation must be 0 or more"
    except ValueError:
        return "noise takes its standard deviation, as in 'noise:0.1'; normalise takes 'means/deviations' or nothing"
    return ""


def _normalise_fault(argument: str, channels: int) -> str:
    if not argument:
        return "" if channels in CHANNELS else f"give 'normalise:means/deviations' for images of {channels} channels"
    mean, deviation = _numbers(argument)
    if {len(mean), len(deviation)} - {1, channels}:
        return f"give one number or {channels}, one a channel"
    return "" if min(deviation) > 0 else "deviations must be above 0"
