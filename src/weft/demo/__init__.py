"""The pitch in twenty seconds: a run that survives the death of its node."""
