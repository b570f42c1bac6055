"""What to do about it: the decision tree, checks, evidence, price, and the report."""

from fedskew.advisor.advice import Advice as Advice
from fedskew.advisor.advice import advise as advise
from fedskew.advisor.demo import demo_partition as demo_partition
from fedskew.advisor.recommendation import Recommendation as Recommendation
from fedskew.advisor.recommendation import recommend as recommend
from fedskew.advisor.reporting import Report as Report
from fedskew.advisor.reporting import read_report as read_report
from fedskew.advisor.reporting import report as report
