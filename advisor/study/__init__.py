"""Studies: a grid of settings from a TOML file, each trained and judged like a validation, resumable.

``grid`` is the record of a study and ``reading`` reads one; ``session`` and ``workers`` run its settings in processes,
``run`` trains one; ``spelling`` names what tells settings apart; ``rows`` makes evidence of the results; ``tables``,
``board``, ``effects`` and ``plots`` show them; ``command`` is the command line's.
"""
