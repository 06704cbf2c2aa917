"""Curvature of a loss: the Hessian's trace and top eigenvalue without forming the Hessian."""

from mpgd.curvature.hessian import TraceEstimate, hessian_top_eigenvalue, hessian_trace

__all__ = [
    "TraceEstimate",
    "hessian_top_eigenvalue",
    "hessian_trace",
]
