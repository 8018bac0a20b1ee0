"""What every section of a recipe is: a frozen mapping of known keys."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class Section(BaseModel):
    """A frozen mapping of known keys; null means the default."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_default(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        fields = cls.model_fields
        return {
            key: value
            for key, value in data.items()
            if key not in fields
            or not (value is None or (value == "" and fields[key].default is None))
        }
