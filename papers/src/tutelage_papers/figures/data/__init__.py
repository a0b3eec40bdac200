"""Figures of a finite data set: the same samples again and again."""
