"""A check of one's own: a function from the case to one finding, or to None where it does not apply.

To ship it, add the function to CHECKS in advisor/checks.py; every recommendation then carries what it finds.
"""

import numpy as np

import fedskew
from fedskew.advisor.case import Case, Check


def many_parties(case: Case) -> Check | None:
    """Ask for partial participation where a round with everybody would take long."""
    if case.situation.participation < 1 or len(case.sizes) < 500:
        return None
    text = f"All {len(case.sizes)} parties take part in every round; a tenth of them is common at such numbers."
    return Check(code="many_parties", severity="mild", text=text, evidence="cross-device practice")


if __name__ == "__main__":
    from fedskew.advisor import checks

    checks.CHECKS = (*checks.CHECKS, many_parties)
    crowd = fedskew.make_partition(np.zeros((1200, 1)), ["x", "y"] * 600, np.repeat(np.arange(600), 2))
    advice = fedskew.recommend(fedskew.profile(crowd))
    print(next(check.text for check in advice.checks if check.code == "many_parties"))
