"""The JSON schema of a capture's manifest. It comes from the same models that read it."""

from __future__ import annotations

import json
from typing import Any

from storagelab.capture.model import Manifest

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def capture_schema() -> dict[str, Any]:
    """The schema, in JSON Schema's draft 2020-12."""
    return {"$schema": DIALECT, **Manifest.model_json_schema(by_alias=True), "title": "A capture of storagelab"}


def capture_schema_text() -> str:
    """The schema as a file's text."""
    return json.dumps(capture_schema(), indent=1, ensure_ascii=False) + "\n"
