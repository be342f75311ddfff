"""Training and evaluation: link prediction, node classification, metrics, protocols."""
