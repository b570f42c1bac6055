"""fedskew: how skewed are your silos, which federated algorithm suits that skew, and is that true on your data?

Names are loaded when first used (PEP 562), so ``import fedskew`` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedskew.advisor import Recommendation as Recommendation
    from fedskew.advisor import Report as Report
    from fedskew.advisor import advise as advise
    from fedskew.advisor import read_report as read_report
    from fedskew.advisor import recommend as recommend
    from fedskew.advisor import report as report
    from fedskew.engine import Validation as Validation
    from fedskew.engine import validate as validate
    from fedskew.profiles import FedskewError as FedskewError
    from fedskew.profiles import Partition as Partition
    from fedskew.profiles import Profile as Profile
    from fedskew.profiles import make_partition as make_partition
    from fedskew.profiles import profile as profile
    from fedskew.profiles import read_table as read_table
    from fedskew.profiles import simulate as simulate

__version__ = "0.1.0"

_HOMES = {
    "FedskewError": "profiles",
    "Partition": "profiles",
    "Profile": "profiles",
    "Recommendation": "advisor",
    "Report": "advisor",
    "Validation": "engine",
    "advise": "advisor",
    "make_partition": "profiles",
    "profile": "profiles",
    "read_report": "advisor",
    "read_table": "profiles",
    "recommend": "advisor",
    "report": "advisor",
    "simulate": "profiles",
    "validate": "engine",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604  (the names are texts)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'fedskew' has no attribute {name!r}")
    return getattr(import_module(f"fedskew.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
