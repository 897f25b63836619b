"""Permission to use the API: any role suffices. Visibility follows from the links that views get
(`console/links/visible.py`); permission to change is checked by each operation (`console/operations/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.permissions import BasePermission

from console.access.user_rights import request_rights

if TYPE_CHECKING:  # Django REST framework loads this module while it is being loaded itself
    from rest_framework.request import Request
    from rest_framework.views import APIView


class HasAnyRole(BasePermission):
    message = "You have no role yet. An administrator can assign one on the Access page."

    def has_permission(self, request: Request, view: APIView) -> bool:
        return bool(request.user and request.user.is_authenticated and request_rights(request._request).grants)
