"""Residual networks for small images: ResNet-18, -20 and -50 with a 3x3 stem, GroupNorm or BatchNorm.

He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", CVPR 2016 (arXiv 1512.03385), in the form that both
sources use for 32 x 32 pixels: stride 1 and no pooling in the stem, widths 64 to 512. ResNet-20 is that of section 4.2,
widths 16 to 64, for machines without a GPU: a step takes a tenth of ResNet-18's time.
"""

from collections.abc import Callable

from torch import Tensor, nn

from fedskew.engine.networks.convolutional import image_shape, laid_out

GROUPS = 2  # the second source's
Norm = Callable[[int], nn.Module]


def _group_norm(channels: int) -> nn.Module:
    return nn.GroupNorm(GROUPS, channels)


class Block(nn.Module):
    """Convolutions with norms, the ReLU between them, plus a shortcut: 1x1 where stride or width changes."""

    def __init__(self, convolutions: list[nn.Conv2d], norm: Norm) -> None:
        super().__init__()
        inputs, outputs = convolutions[0].in_channels, convolutions[-1].out_channels
        stride = max(layer.stride[0] for layer in convolutions)
        layers: list[nn.Module] = []
        for layer in convolutions:
            layers += [layer, norm(layer.out_channels), nn.ReLU()]
        self.body = nn.Sequential(*layers[:-1])
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, C', H', W')."""
        y: Tensor = self.body(x) + self.shortcut(x)
        return y.relu_()


def _basic(inputs: int, width: int, stride: int) -> list[nn.Conv2d]:
    return [
        nn.Conv2d(inputs, width, 3, stride, 1, bias=False),
        nn.Conv2d(width, width, 3, 1, 1, bias=False),
    ]


def _bottleneck(inputs: int, width: int, stride: int) -> list[nn.Conv2d]:
    return [
        nn.Conv2d(inputs, width, 1, bias=False),
        nn.Conv2d(width, width, 3, stride, 1, bias=False),
        nn.Conv2d(width, 4 * width, 1, bias=False),
    ]


def _residual(
    shape: tuple[int, int, int],
    outputs: int,
    blocks: tuple[int, ...],
    convolutions: Callable[[int, int, int], list[nn.Conv2d]],
    norm: Norm,
    width: int = 64,
) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(shape[0], width, 3, 1, 1, bias=False), norm(width), nn.ReLU()]
    inputs = width
    for stage, count in enumerate(blocks):
        for i in range(count):
            stride = 2 if stage and not i else 1
            layers.append(Block(convolutions(inputs, width * 2**stage, stride), norm))
            inputs = convolutions(inputs, width * 2**stage, 1)[-1].out_channels
    return laid_out(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, outputs)))


def resnet18(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """ResNet-18 with GroupNorm of 2 groups, also at the shortcuts: 11,173,962 parameters at 3x32x32, ten classes."""
    return _residual(image_shape("resnet18", shape, 8), outputs, (2, 2, 2, 2), _basic, _group_norm)


def resnet18_bn(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """ResNet-18 with BatchNorm: as many parameters, and 9,620 numbers of running statistics."""
    return _residual(image_shape("resnet18_bn", shape, 8), outputs, (2, 2, 2, 2), _basic, nn.BatchNorm2d)


def resnet20(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """ResNet-20 with GroupNorm of 2 groups and convolutions at the shortcuts: 272,474 parameters at 3x32x32."""
    return _residual(image_shape("resnet20", shape, 8), outputs, (3, 3, 3), _basic, _group_norm, 16)


def resnet20_bn(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """ResNet-20 with BatchNorm: as many parameters."""
    return _residual(image_shape("resnet20_bn", shape, 8), outputs, (3, 3, 3), _basic, nn.BatchNorm2d, 16)


def resnet50(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """ResNet-50 with GroupNorm of 2 groups: 23,520,842 parameters at 3x32x32 with ten classes."""
    return _residual(image_shape("resnet50", shape, 8), outputs, (3, 4, 6, 3), _bottleneck, _group_norm)


def resnet50_bn(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """NIID-Bench's ResNet-50, with BatchNorm: as many parameters, and 53,173 numbers of running statistics."""
    return _residual(image_shape("resnet50_bn", shape, 8), outputs, (3, 4, 6, 3), _bottleneck, nn.BatchNorm2d)
