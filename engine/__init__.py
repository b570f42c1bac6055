"""What training does: algorithms, models, the stacked loop, scores and the verdict."""
