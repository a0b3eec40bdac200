"""The linear network, exactly solvable: one unit on any spectrum, at any learning rate.

Also at finite N. rank_one (eigensystem) -> relaxation (mean-square dynamics, in the limit
or step by step) -> linear_network
"""
