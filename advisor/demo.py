"""The data set shipped in the package: real digits in six silos with a visible label skew."""

from importlib.resources import as_file, files

from fedskew.profiles import Partition, read_table


def demo_partition() -> Partition:
    """Read the shipped demo data: 1,797 images of digits, 6 parties (source and licence: demo.md beside it).

    Examples
    --------
    >>> demo = demo_partition()
    >>> demo.rows, demo.parties, demo.classes
    (1797, 6, 10)
    """
    with as_file(files("fedskew.advisor") / "demo.npz") as path:
        return read_table(path)
