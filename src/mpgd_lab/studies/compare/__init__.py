"""Where does noise help? Tuned methods on test functions, small data, a plateau and pruning.

Every method is tuned among as many configurations, with the same seeds, on validation rows; the
best one is run with 20 fresh seeds and measured on test rows. The protocol and the hypotheses were
written before the first run: `docs/compare-protocol.md`.
"""

from functools import partial

from mpgd_lab.data.sources import AIRFOIL, ECG5000, obtain
from mpgd_lab.experiment import Experiment, SectionSpec
from mpgd_lab.runner import Context, draw, print_items
from mpgd_lab.schema import Needs
from mpgd_lab.studies.compare.runs import FULL, Size, run_stages, tasks
from mpgd_lab.studies.compare.section import blocks, printout
from mpgd_lab.studies.compare.tasks import BY_NAME
from mpgd_lab.studies.compare.training import MAX_BATCH, train

SOURCES = {"airfoil": AIRFOIL, "ecg": ECG5000, "plateau": ECG5000}


def run(context: Context, size: Size = FULL) -> None:
    """Tune, report on fresh seeds, print the tables and draw the figure."""
    obtain({SOURCES[name] for name in size.tasks if name in SOURCES}, context.data)
    records = run_stages(context, partial(train, data=context.data), MAX_BATCH, size)
    print_items(context, printout(records))
    draw(context, EXPERIMENT, records)


EXPERIMENT = Experiment(
    name="compare",
    runs=tasks,
    train=train,
    printout=printout,
    needs=lambda run: Needs(("score", "diverged"), choices={"data": BY_NAME}),
    section=SectionSpec("Where does noise help?", blocks, place=13),
    data=(AIRFOIL, ECG5000),
    on_request=True,
    seeded=False,
    max_batch=lambda run: MAX_BATCH,
    figures=blocks,
    run=run,
    seconds=3.5,
)
