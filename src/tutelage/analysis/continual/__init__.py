"""Continual learning: what a student forgets, transfers, relearns and shares when tasks follow each other."""
