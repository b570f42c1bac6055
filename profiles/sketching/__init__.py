"""Sketches: one silo's sums, from which a profile follows as from its rows.

``record`` is the sketch and its merging; ``making`` makes one from rows in memory, ``scanning`` from a file that need
not fit there; ``plan`` is what silos agree on before the second round; ``pool`` and ``pooled`` turn many into the sums
and the parts of a profile; ``file`` reads and writes them, strictly; ``privacy`` withholds and adds noise.
"""
