"""Curvature of a loss: the Hessian's trace and top eigenvalue without forming the Hessian."""

from mpgd.curvature.hessian import TraceEstimate, hessian_top_eigenvalue, hessian_trace
from mpgd.curvature.tracker import CurvatureRecord, CurvatureTracker

__all__ = [
    "CurvatureRecord",
    "CurvatureTracker",
    "TraceEstimate",
    "hessian_top_eigenvalue",
    "hessian_trace",
]
