"""Weft runs graphs of tasks, durably and in parallel."""

__version__ = "0.1.0"
