"""The parser of the HTTP interface's bodies: JSON in UTF-8, measured before it is read."""

from __future__ import annotations

from typing import Any

from rest_framework.parsers import JSONParser

from brokers.admin import InvalidValue
from console.intake.json_text import read_json


class MeasuredJSONParser(JSONParser):
    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """Raises InvalidValue."""
        try:
            text = stream.read().decode()
        except UnicodeDecodeError as error:
            raise InvalidValue({"detail": f"JSON parse error - byte {error.start:,} of the body is no UTF-8"}) from None
        return read_json(text)
