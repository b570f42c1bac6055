"""The file formats: one small file each, and its value in this tuple; folders of images have no ending."""

from fedskew.profiles.readers.base import Reader
from fedskew.profiles.readers.delimited import DELIMITED
from fedskew.profiles.readers.images import IMAGES
from fedskew.profiles.readers.npz import NPZ
from fedskew.profiles.readers.parquet import COLUMNAR

READERS: tuple[Reader, ...] = (DELIMITED, COLUMNAR, NPZ, IMAGES)
