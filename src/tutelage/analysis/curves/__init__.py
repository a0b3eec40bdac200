"""What a recorded curve shows; nothing is solved.

curve (one recorded curve, results of all runs) -> plateaus, specialization, early_stopping -> phases
exponents: straight lines with error bars, exponents of power laws and of spectra
"""
