"""What to do about it: the decision tree, checks, evidence, price, and the report."""
