"""What the data look like: reading, partitions, and the profile of their skew."""

from fedskew.profiles.errors import EnvironmentFaultError as EnvironmentFaultError
from fedskew.profiles.errors import FedskewError as FedskewError
from fedskew.profiles.partitions import Column as Column
from fedskew.profiles.partitions import Finding as Finding
from fedskew.profiles.partitions import Holdout as Holdout
from fedskew.profiles.partitions import Partition as Partition
from fedskew.profiles.partitions import make_partition as make_partition
from fedskew.profiles.records import Profile as Profile
