"""The documentation: its tables are what the code says, and its site is whole and asks no network for anything."""

from __future__ import annotations

import importlib
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import unquote, urlsplit

import pytest
from real_browser import opened_browser

from storagelab.model.config import Config
from storagelab.spec import keys

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
TOOL = ROOT / "tools" / "make_docs.py"
