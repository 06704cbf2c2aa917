"""Force and decay: what the paper's settings are in these units, what they do, and a recipe.

    F = sigma c0 eta^(gamma-1),     M = mu c0 eta^(gamma-1)

A laminar phase is descent on a loss tilted by F and bent by M (`phases.laminar`). Three sweeps
put that to the test: ECG5000 with one hidden layer and airfoil against M, the valley's trace
against F. Then candidates of a recipe are tried on four studies, and the one that is kept is
checked with fresh seeds. The rule of the check was written before the runs:
`docs/compare-protocol.md`.
"""

from mpgd_lab.data.sources import AIRFOIL, ECG5000
from mpgd_lab.experiment import Experiment, SectionSpec
from mpgd_lab.schema import Needs
from mpgd_lab.store import Run
from mpgd_lab.studies.levels.runs import STUDIES, tasks
from mpgd_lab.studies.levels.section import blocks, printout
from mpgd_lab.studies.levels.training import MAX_BATCH, train

PATHS = 800  # of the valley, moved together


def needs(run: Run) -> Needs:
    """Return what a record must hold."""
    data = run.hyperparameters.get("data")
    if data == "valley":
        return Needs(("trace", "free", "diverged"), choices={"data": STUDIES})
    metric = STUDIES[data].metric if data in STUDIES else "diverged"
    return Needs((metric, "growth", "diverged"), (("weights",),), choices={"data": STUDIES})


EXPERIMENT = Experiment(
    name="levels",
    runs=tasks,
    train=train,
    printout=printout,
    needs=needs,
    section=SectionSpec("Force and decay, and a recipe", blocks, place=14),
    data=(AIRFOIL, ECG5000),
    on_request=True,
    seeded=False,
    max_batch=lambda run: PATHS if run.hyperparameters["data"] == "valley" else MAX_BATCH,
    figures=blocks,
    seconds=1.0,
)
