"""For your own tests: hypothesis strategies for partitions, and the laws that every algorithm keeps.

>>> from fedskew.testing import check_algorithm, partitions
"""

from fedskew.engine.conformance import LAWS, Law, LawResult, check_algorithm
from fedskew.profiles.testing import AWKWARD, NAMES, count_tables, partitions

__all__ = ["AWKWARD", "LAWS", "NAMES", "Law", "LawResult", "check_algorithm", "count_tables", "partitions"]
