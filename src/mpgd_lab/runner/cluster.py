"""Batches on a Dask cluster: results come back and are written here."""

from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from typing import Any

from mpgd_lab.runner import ATTEMPTS, Batch, Context, TimedResult, Train, timed_results


def on_cluster(context: Context, batches: Sequence[Batch], train: Train) -> Iterator[Batch]:
    """Yield finished batches; the scheduler tries those of dead workers again."""
    with _client(context) as client:
        executor = client.get_executor(retries=ATTEMPTS - 1)
        tasks = {executor.submit(_remote, train, batch): batch for batch in batches}
        try:
            for future in as_completed(tasks):
                for result in future.result():
                    context.store.save(*result)
                yield tasks[future]
        finally:
            executor.shutdown(wait=False)  # which cancels what has not begun


def places(context: Context) -> int:
    """Return how many batches the cluster's workers can train at the same time."""
    with _client(context) as client:
        return max(1, int(sum(client.nthreads().values())))  # none may have come yet


def _client(context: Context) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise ImportError('a cluster needs distributed: pip install "mpgd[cluster]"') from None
    return Client(context.cluster)  # type: ignore[no-untyped-call]


def _remote(train: Train, batch: Batch) -> list[TimedResult]:
    return list(timed_results(train, batch))
