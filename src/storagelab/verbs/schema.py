"""`storagelab schema`."""

from __future__ import annotations

from typing import Annotated, Literal

from typer import Argument

from storagelab.verbs import Verb

app = Verb("Read", 5)


@app.command()
def schema(
    of: Annotated[Literal["spec", "capture"], Argument(metavar="OF", help="spec, or a capture's manifest.")] = "spec",
) -> None:
    """Print the JSON schema of specs, or of captures."""
    from storagelab.capture.folder import capture_schema
    from storagelab.report import writing
    from storagelab.spec.schema import schema_text, spec_schema

    writing.deliver(schema_text(spec_schema() if of == "spec" else capture_schema()), None)
