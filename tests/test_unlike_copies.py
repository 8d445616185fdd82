"""Layouts whose data is copied in different ways: what their runs say of it is compared."""

from builders import make_environment, make_planned, make_run, make_runs

from storagelab.findings.analysis import analyse
from storagelab.findings.cautions.unlike_hosts import UnlikeCopies
from storagelab.model.plan import RESTORED
from storagelab.report.words.answer import answer_lines
from storagelab.report.words.caution_texts import caution_sentence


def findings_where(states: dict[str, str]):
    """Those of runs on the volumes a and b, each of which began with its data in one of these states."""
    experiment, plan = make_planned({"layout.log": list(states)})
    runs = []
    for run in make_runs(experiment, plan):
        environment = {**make_environment(), "data": {"state": states[str(run.levels["layout.log"])]}}
        measurement = run.measurement.model_copy(update={"environment": environment})
        planned = next(one for one in plan.runs if (one.cell_id, one.repetition) == (run.cell_id, run.repetition))
        runs.append(make_run(planned, plan.cell(run.cell_id), measurement))
    return analyse(experiment, plan, runs)


def unlike(states: dict[str, str]) -> list[UnlikeCopies]:
    return [caution for caution in findings_where(states).cautions if isinstance(caution, UnlikeCopies)]


def test_a_copy_in_full_beside_one_that_shares_its_blocks_is_a_caution_in_the_answer():
    findings = findings_where({"a": f"{RESTORED}copied", "b": f"{RESTORED}reflinked"})
    [caution] = [one for one in findings.cautions if isinstance(one, UnlikeCopies)]
    assert caution.severity == "caution"
    assert caution_sentence(caution, findings).startswith(
        "Data was reflinked from its template (log on b), and elsewhere copied."
    )
    assert "data reflinked here, copied there" in answer_lines(findings)[-1].text


def test_copies_of_one_kind_and_data_that_is_made_anew_are_none():
    assert unlike({"a": f"{RESTORED}copied", "b": f"{RESTORED}copied"}) == []
    assert unlike({"a": "rebuilt", "b": f"{RESTORED}copied"}) == []
    mixed = f"{RESTORED}partly reflinked, partly copied"
    assert unlike({"a": mixed, "b": mixed}) == []
