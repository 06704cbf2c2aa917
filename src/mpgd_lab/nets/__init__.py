"""Many small nets of one shape as one matrix: their layout, losses and gradients."""
