"""A double of the few names of Flower that an exported app uses, so that its numbers are tested without Flower.

Messages are handed over in one process, each node with a context of its own. Real Flower runs in test_simulation.py.
"""
