"""The double of Flower is for apps that run without it: collected, it would stand in Flower's place here."""

collect_ignore = ["double"]
