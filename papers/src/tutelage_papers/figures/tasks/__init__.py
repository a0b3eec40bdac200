"""Figures of tasks over time: continual learning, replay, transfer, drift."""
