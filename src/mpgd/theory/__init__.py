"""The paper's theorems, made runnable: implicit regularisation, tails, dimension and bounds."""
