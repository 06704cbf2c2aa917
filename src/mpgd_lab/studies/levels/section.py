"""The paper's settings in force and decay, what these did, what was foreseen, and the recipe."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from mpgd.theory.phases.laminar import unit
from mpgd_lab.content.blocks import Block, Plate, Table, Text, panel
from mpgd_lab.content.tables import IncompleteError, table, terminal_table
from mpgd_lab.experiment import PrintItem
from mpgd_lab.store import Record
from mpgd_lab.studies.levels.effects import (
    LEVEL,
    MIN_DISPLACEMENT,
    TENFOLD,
    Effect,
    effects,
    over_nets,
)
from mpgd_lab.studies.levels.figure import draw_decay, draw_force
from mpgd_lab.studies.levels.runs import CANDIDATES, NETS, PRINTED, RECIPE, STUDIES

Tables = list[Table]

COLUMNS: Final = {  # of the tables: what each says
    "F, M": "force and decay",
    "push": "what the pushes of a whole training come to, in units of the weights' root mean "
    "square",
    "stretch": "the same for the multiplicative part",
    "growth": "the largest factor by which the multiplicative noise alone would multiply a weight "
    "that no gradient holds; the median over seeds",
    "foreseen": f"harm where growth exceeds {TENFOLD:g} or push exceeds 1; it needs no training",
    "lr (h + M)": "h is the largest curvature where descent ends, the median over seeds; above 2 a "
    "step overshoots",
    "score": "the mean of the study's metric, with its standard deviation over seeds in brackets; "
    "accuracies are in per cent and better when higher, RMSE when lower",
    "minus descent": "the score minus descent's, paired by seed, with its 95 % interval",
    "Holm p": "the p-value of that difference, corrected for the number of studies",
    "moved": "how far final weights are from descent's, in per cent of their spread over seeds",
    "diverged": "runs that ended in no number; score and difference leave them out",
}
CHECKED: Final = ("study", "F", "M", "score", "minus descent", "Holm p", "moved", "diverged")


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    panels = [
        panel(
            f"{STUDIES[name].title}: difference to descent against decay.",
            draw_decay,
            swept(records, name, "decay"),
            STUDIES[name].title,
            f"{STUDIES[name].metric.replace('_', ' ')}, minus descent",
        )
        for name in ("ecg 1", "airfoil")
    ]
    panels.append(
        panel("The valley's trace against force.", draw_force, swept(records, "valley", "force"))
    )
    return [
        Text(
            "During a laminar phase MPGD is descent on a loss that is tilted by the force F and "
            "bent by the decay M. In these units the paper's settings can be compared with "
            "gradients and curvatures, and two predictions need no training: how far a weight "
            "that no gradient holds would grow, and where pushes along a flat floor end."
        ),
        Plate("levels", _caption(), tuple(panels), legend=True),
        table("What the columns say", ("column", "what it says"), COLUMNS.items(), wordy=True),
        *all_tables(records),
        Text(verdict(records), answer=True),
    ]


def _caption() -> str:
    return (
        "Decay alone on ECG5000 and airfoil, force alone in the valley; differences to descent "
        "with 95 % intervals. Shaded: the noise alone would make some weight grow more than "
        f"{TENFOLD:g} times. Dashed in the valley: what was foreseen, the start plus all pushes."
    )


def printout(records: Sequence[Record]) -> Iterator[PrintItem]:
    """Yield the tables, and whether the recipe holds."""
    for one in all_tables(records):
        yield terminal_table(one)
    yield from (f"{column}: {meaning}" for column, meaning in COLUMNS.items())
    yield verdict(records)


def all_tables(records: Sequence[Record]) -> Tables:
    """Return the tables of settings, sweeps, candidates and of the check."""
    return [
        settings_table(),
        measured_table(records),
        decay_table(records, "ecg 1"),
        decay_table(records, "airfoil"),
        force_table(records),
        search_table(records),
        check_table(records),
    ]


def settings_table() -> Table:
    """Return force and decay of every setting of the paper."""
    rows = []
    for name, lr, mu, sigma, gammas in PRINTED:
        for gamma in gammas:
            given = [name, f"{gamma:g}", f"{lr:g}", f"{mu:g}", f"{sigma:g}"]
            rows.append([*given, *(f"{level * unit(lr, gamma):.3f}" for level in (sigma, mu))])
    heads = ("setting", "gamma", "lr", "mu", "sigma", "F", "M")
    return table("The paper's settings in units of force and decay", heads, rows)


def swept(records: Sequence[Record], name: str, knob: str) -> dict[float, Effect]:
    """Return the effects of a sweep by level."""
    by_setting = effects(records, name, fresh=False)
    held = {
        float(one.records[0].run.hyperparameters[knob]): one
        for key, one in by_setting.items()
        if key.startswith(f"{knob} ")
    }
    if not held:
        raise IncompleteError(f"no sweep of {knob} on {STUDIES[name].title}")
    return dict(sorted(held.items()))


def measured_table(records: Sequence[Record]) -> Table:
    """Return what the paper's levels do at gamma 0.6, beside what was foreseen."""
    rows = []
    for name, study in STUDIES.items():
        one = effects(records, name, fresh=False).get("paper")
        if one is None:
            raise IncompleteError(f"no run at the paper's levels of {study.title}")
        h = one.records[0].run.hyperparameters
        sizes = [f"{h['force']:.3f}", f"{h['decay']:.3f}"]
        measured = one.difference.text(study.digits)
        rows.append(
            [
                study.title,
                study.metric.replace("_", " "),
                *sizes,
                _foreseen(name, one),
                measured,
                str(one.diverged),
            ]
        )
    heads = ("study", "metric", "F", "M", "foreseen", "minus descent", "diverged")
    return table("The paper's levels at gamma 0.6, beta 0.5: foreseen and measured", heads, rows)


def _foreseen(name: str, one: Effect) -> str:
    if name == "valley":
        free = np.median([record.metrics["free"] for record in one.records])
        return f"trace {free:.0f}"
    prediction = "harm" if one.growth > TENFOLD or one.push > 1.0 else "no harm"
    return f"{prediction} (growth {one.growth:.3g}, push {one.push:.2g})"


def decay_table(records: Sequence[Record], name: str) -> Table:
    """Return what decay alone does to a study."""
    study, rows = STUDIES[name], []
    plain = [
        r for r in records if r.run.scheme == "descent" and r.run.hyperparameters["data"] == name
    ]
    h = np.median([r.metrics.get("curvature", np.nan) for r in plain])
    for M, one in swept(records, name, "decay").items():
        foreseen = "harm" if one.growth > TENFOLD else "none"
        row = [f"{M:g}", f"{one.growth:.3g}", foreseen]
        row += [f"{study.fixed['eta'] * (h + M):.2f}"] if np.isfinite(h) else []
        rows.append(
            [
                *row,
                one.score.text(study.digits),
                one.difference.text(study.digits),
                str(one.diverged),
            ]
        )
    heads = ["M", "growth", "foreseen", *(["lr (h + M)"] if np.isfinite(h) else [])]
    title = f"{study.title}: {study.metric.replace('_', ' ')} against decay, sigma = 0, beta = 0"
    return table(title, [*heads, "score", "minus descent", "diverged"], rows)


def force_table(records: Sequence[Record]) -> Table:
    """Return the trace of the valley against force.

    Beyond 2/eta steps across the valley overshoot, and bring u down again.
    """
    rows, limit = [], 2.0 / STUDIES["valley"].fixed["eta"]
    for F, one in swept(records, "valley", "force").items():
        free, ends = ([r.metrics[key] for r in one.records] for key in ("free", "trace"))
        foreseen = np.median(free), np.median(np.minimum(free, limit)), np.median(ends)
        rows.append([f"{F:g}", *(f"{value:.1f}" for value in foreseen), str(one.diverged)])
    title = "Valley: median final trace against force, mu = 0, beta = 0; descent keeps its start"
    heads = ("F", "foreseen: start plus pushes", "at most 2/lr", "measured", "diverged")
    return table(title, heads, rows)


def search_table(records: Sequence[Record]) -> Table:
    """Return the candidates of the recipe on all nets."""
    rows = []
    for push, stretch in CANDIDATES:
        for one in over_nets(records, f"push {push:g} stretch {stretch:g}", fresh=False):
            rows.append([f"{push:g}", f"{stretch:g}", *_checked(one)])
    title = "Candidates of the recipe, seeds 1 to 10"
    return table(title, ("push", "stretch", *CHECKED), rows)


def check_table(records: Sequence[Record]) -> Table:
    """Return the recipe on fresh seeds."""
    push, stretch = RECIPE
    on_nets = over_nets(records, f"push {push:g} stretch {stretch:g}", fresh=True)
    title = f"The recipe on fresh seeds: push {push:g}, stretch {stretch:g}"
    return table(title, CHECKED, [_checked(one) for one in on_nets])


def _checked(one: Effect) -> list[str]:
    h, digits = one.records[0].run.hyperparameters, one.study.digits
    sizes = [f"{h['force']:.2g}", f"{h['decay']:.2g}"]
    scores = [one.score.text(digits), one.difference.text(digits), f"{one.p_holm:.3f}"]
    return [one.study.title, *sizes, *scores, f"{100 * one.displacement:.0f} %", str(one.diverged)]


def verdict(records: Sequence[Record]) -> str:
    """Return in a sentence whether the recipe holds on fresh seeds."""
    push, stretch = RECIPE
    on_nets = over_nets(records, f"push {push:g} stretch {stretch:g}", fresh=True)
    if len(on_nets) < len(NETS):
        raise IncompleteError("the recipe was not run on all nets with fresh seeds")
    failed = [one.study.title for one in on_nets if not one.passes]
    better = [one.study.title for one in on_nets if one.is_better]
    rule = (
        f"no run diverged, no metric is worse at level {LEVEL} after Holm's correction, and final "
        f"weights moved by more than {100 * MIN_DISPLACEMENT:.0f} % of their spread"
    )
    verdict = f"The recipe fails on {', '.join(failed)}" if failed else f"The recipe holds: {rule}"
    return f"{verdict}. It is better than descent on {', '.join(better) or 'none'}."
