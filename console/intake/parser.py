"""Parser of API bodies: JSON in UTF-8, checked against the limits."""

from __future__ import annotations

from typing import Any

from rest_framework.parsers import JSONParser

from brokers.admin import InvalidValue
from console.intake.json_text import read_json


class LimitedJSONParser(JSONParser):
    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """Parse the body. Raises InvalidValue."""
        try:
            text = stream.read().decode()
        except UnicodeDecodeError as error:
            raise InvalidValue(
                {"detail": f"JSON parse error - byte {error.start:,} of the body is not UTF-8"}
            ) from None
        return read_json(text)
