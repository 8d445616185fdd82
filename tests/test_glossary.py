"""The glossary: terms that every report shows are explained, on the report's page and in the docs."""

from html import unescape
from typing import get_args

from builders import make_campaign

from storagelab.findings.analysis import analyse
from storagelab.model.engines import Provenance
from storagelab.model.measurement import Status
from storagelab.report.page import html
from storagelab.report.page.explore import _VERDICTS
from storagelab.report.page.html import GLOSSARY

SAID_PLAINLY = {"ok", "failed"}


def test_the_verdicts_statuses_and_provenances_of_a_report_are_explained():
    shown = {*_VERDICTS, *get_args(Status), *get_args(Provenance)}
    assert shown - set(GLOSSARY) == SAID_PLAINLY


def test_the_terms_stand_in_alphabetical_order():
    assert list(GLOSSARY) == sorted(GLOSSARY, key=str.casefold)


def test_the_page_of_a_report_explains_every_term():
    experiment, plan, runs = make_campaign({"layout.data_files": [1, 2]}, 2)
    page = unescape(html.page(experiment, plan, runs, analyse(experiment, plan, runs), [])).replace("\u00a0", " ")
    assert [term for term, meaning in GLOSSARY.items() if meaning not in page] == []
