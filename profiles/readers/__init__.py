"""The file formats: one small file each, and its value in this tuple; folders of images have no ending."""

from fedskew.profiles.readers.base import Reader
from fedskew.profiles.readers.cifar import CIFAR
from fedskew.profiles.readers.delimited import DELIMITED
from fedskew.profiles.readers.idx import IDX
from fedskew.profiles.readers.images import IMAGES
from fedskew.profiles.readers.leaf import LEAF
from fedskew.profiles.readers.mat import MAT
from fedskew.profiles.readers.npz import NPZ
from fedskew.profiles.readers.parquet import COLUMNAR
from fedskew.profiles.readers.svmlight import SVMLIGHT

READERS: tuple[Reader, ...] = (DELIMITED, COLUMNAR, NPZ, IMAGES, SVMLIGHT, IDX, CIFAR, MAT, LEAF)
