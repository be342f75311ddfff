"""Training: link prediction, classification of events, checkpoints, and scores along a stream."""
