"""How good is the advice? Mean regret in accuracy points, by policy and table.

    python bench/tree_regret.py

Regret: best mean of the row minus the choice's mean. "In sample": the tree was made from the first table. "Leave one
data set out": made without any row, of any source, on the data set that is judged.

Measured on the published rows of the evidence base (783); our own study: bench/regret.py:

    niid_bench, 35 skewed settings         mean   worst  <= 0.5   > 5
      tree, as walked here (in sample)      0.53     6.3      30     2
      second opinion                        1.44    22.1      23     3
      rule of the tree's shape              1.26    22.1      28     3
      best constant (FedProx)               0.73     6.3      25     2
      always FedAvg                         2.41    22.1      22     5
      always SCAFFOLD                      10.87    77.4      13    13
      always FedNova                       11.10    62.0      11    12

So no rule learnt from the table beats "always FedProx" on data sets it has not seen: hence validation.
"""

from statistics import fmean

from fedskew.advisor import regret
from fedskew.advisor.evidence import published

TABLES = ("niid_bench", "flower_niid_bench", "flbenchmark")


def main() -> None:
    """Print one block a table."""
    rows = published()
    for source in TABLES:
        table = regret.settings(rows, source)
        print(f"{source}, {len(table)} skewed settings".ljust(54) + "  mean   worst  <= 0.5   > 5")
        for name, policy in regret.policies(rows, table).items():
            points = [regret.regret(results, policy(results)) for results in table]
            near, far = sum(p <= 0.5 + 1e-9 for p in points), sum(p > 5 for p in points)
            print(f"  {name:<50}{fmean(points):8.2f}{max(points):8.1f}{near:8d}{far:6d}")
        print()


if __name__ == "__main__":
    main()
