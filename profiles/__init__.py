"""What the data look like: reading, partitions, and the profile of their skew."""

from fedskew.profiles.errors import EnvironmentFaultError as EnvironmentFaultError
from fedskew.profiles.errors import FedskewError as FedskewError
from fedskew.profiles.index_file import load_index as load_index
from fedskew.profiles.label import label_skew as label_skew
from fedskew.profiles.measures import MEASURES as MEASURES
from fedskew.profiles.measures import Measure as Measure
from fedskew.profiles.partitioning import partition_source as partition_source
from fedskew.profiles.partitions import Column as Column
from fedskew.profiles.partitions import Finding as Finding
from fedskew.profiles.partitions import Holdout as Holdout
from fedskew.profiles.partitions import Partition as Partition
from fedskew.profiles.partitions import make_partition as make_partition
from fedskew.profiles.quantity import quantity_skew as quantity_skew
from fedskew.profiles.records import Profile as Profile
from fedskew.profiles.severity import THRESHOLDS as THRESHOLDS
from fedskew.profiles.simulate import party_rows as party_rows
from fedskew.profiles.simulate import simulate as simulate
from fedskew.profiles.steps import fednova_weight_sum as fednova_weight_sum
from fedskew.profiles.steps import step_counts as step_counts
from fedskew.profiles.steps import step_ratio as step_ratio
from fedskew.profiles.strategies import STRATEGIES as STRATEGIES
from fedskew.profiles.strategies import fcube as fcube
from fedskew.profiles.summary import profile as profile
from fedskew.profiles.table import read_table as read_table
