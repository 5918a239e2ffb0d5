"""What options are, of a format or of anything else."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

STRICT = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


class OptionsModel(BaseModel):
    """Options by name, none of which is unknown."""

    model_config = STRICT
