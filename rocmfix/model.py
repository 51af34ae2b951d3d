"""The frozen records, in pipeline order: what one stage hands to the next. Read this first."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A frozen record: refuses unknown keys, prints as JSON, holds tuples rather than lists."""

    model_config = ConfigDict(frozen=True, extra="forbid")
