"""The files of an exported Flower app: plain modules here, so that they are checked and tested like all others."""
