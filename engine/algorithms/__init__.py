"""The federated algorithms, each a value in one small file."""
