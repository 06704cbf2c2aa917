"""Record the Hessian's trace and top eigenvalue every n steps of a training run.

The same data and, from the same seed, the same probes serve every record, so that the differences
between records are those of the model and not of the draw.
"""

from dataclasses import dataclass

from torch import nn

from mpgd.curvature import hessian
from mpgd.curvature.hessian import Data, LossFn, TraceEstimate, as_batches


@dataclass(frozen=True)
class CurvatureRecord:
    """What was measured at one step; None where it was not asked for.

    Examples:
        >>> CurvatureRecord(step=10, trace=TraceEstimate(3.0, 0.1), top_eigenvalue=None).step
        10
    """

    step: int
    trace: TraceEstimate | None
    top_eigenvalue: float | None


class CurvatureTracker:
    """Call ``tracker(step)`` after every training step; it records when ``every`` divides it.

    Examples:
        >>> import torch
        >>> model = nn.Linear(2, 1, bias=False)
        >>> data = (torch.eye(2), torch.zeros(2, 1))
        >>> tracker = CurvatureTracker(model, nn.functional.mse_loss, data, every=5)
        >>> for step in range(10):
        ...     record = tracker(step)
        >>> [record.step for record in tracker.records]
        [0, 5]
        >>> tracker.records[0].trace.value
        2.0
    """

    def __init__(
        self,
        model: nn.Module,
        loss_fn: LossFn,
        data: Data,
        *,
        every: int = 1,
        trace: bool = True,
        top_eigenvalue: bool = True,
        probes: int = 100,
        seed: int = 0,
    ) -> None:
        """Read the data once; the arguments are those of ``hessian_trace``.

        Args:
            model: The model in training.
            loss_fn: Called as ``loss_fn(outputs, targets)``.
            data: ``(inputs, targets)`` or an iterable of such batches.
            every: Record at the steps this number divides.
            trace: Record the trace.
            top_eigenvalue: Record the largest eigenvalue.
            probes: Probes of the trace.
            seed: Seed of probes and of Lanczos's start.
        """
        if not every >= 1:
            raise ValueError(f"every must be at least 1, got {every!r}")
        if not (trace or top_eigenvalue):
            raise ValueError("trace or top_eigenvalue must be True, got False for both")
        self.every = every
        self.records: list[CurvatureRecord] = []
        self._about = (model, loss_fn, as_batches(data))
        self._trace, self._top_eigenvalue = trace, top_eigenvalue
        self._probes, self._seed = probes, seed

    def __call__(self, step: int) -> CurvatureRecord | None:
        """Return the new record, or None at a step that is not recorded."""
        if step % self.every:
            return None
        trace, top = None, None
        if self._trace:
            trace = hessian.hessian_trace(*self._about, probes=self._probes, seed=self._seed)
        if self._top_eigenvalue:
            top = hessian.hessian_top_eigenvalue(*self._about, seed=self._seed)
        self.records.append(CurvatureRecord(step, trace, top))
        return self.records[-1]
