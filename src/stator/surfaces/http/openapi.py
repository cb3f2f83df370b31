"""Writes the OpenAPI 3.1 document of the service from its table of routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stator.surfaces.http.endpoint import CURSOR, LIST_MAX, TEXT_MAX, Endpoint, RouteParameter
from stator.surfaces.http.problems import MEDIA_TYPE

PREFIX = "/v1"
PAGE = "stator.page/1"
PROBLEM = {"$ref": "#/components/schemas/Problem"}
REFUSALS = {
    "400": "A parameter is wrong.",
    "401": "No cookie and no token.",
    "404": "There is nothing of that name.",
    "409": "Several things have that name, or the session does not allow it.",
    "410": "It was erased or removed.",
    "413": "The answer would be too large.",
    "503": "The store does not answer now; try again.",
}
"""What may be answered instead, each as a problem."""


def openapi(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Stator",
            "version": "1",
            "description": "What a store holds, read over HTTP on loopback. `stator web --json` prints the token.",
        },
        "servers": [{"url": PREFIX}],
        "security": [{"token": []}],
        "paths": {endpoint.path: {"get": _operation(endpoint)} for endpoint in endpoints},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Problem": _problem_schema(), "Page": _page_schema()},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    parameters = [_parameter(one) for one in endpoint.parameters]
    if endpoint.paged:
        about = "The `next` of the page before; it goes with the same other parameters."
        parameters.append(_parameter(RouteParameter(name=CURSOR, about=about)))
    success: dict[str, Any] = {"description": "The answer.", "content": _content(endpoint)}
    responses: dict[str, Any] = {"200": success}
    if endpoint.tag:
        success["headers"] = {"ETag": {"schema": {"type": "string"}}}
        responses["304"] = {"description": "As it was, by If-None-Match."}
    for status, about in REFUSALS.items():
        responses[status] = {
            "description": about,
            "content": {MEDIA_TYPE: {"schema": PROBLEM}},
        }
    return {
        "operationId": endpoint.name,
        "summary": endpoint.about,
        "parameters": parameters,
        "responses": responses,
    }


def _parameter(one: RouteParameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "maxLength": TEXT_MAX}
    if one.required:
        schema["minLength"] = 1
    if one.choices:
        schema = {"type": "string", "enum": list(one.choices)}
    if one.kind == "whole":
        schema = {"type": "integer", "minimum": one.least, "maximum": one.most}
    elif one.kind == "flag":
        schema = {"type": "boolean"}
    elif one.kind == "list":
        schema = {"type": "array", "items": schema, "maxItems": LIST_MAX}
    if one.default is not None:
        schema["default"] = one.default
    return {
        "name": one.name,
        "in": "path" if one.in_path else "query",
        "required": one.required or one.in_path,
        "description": one.about,
        "schema": schema,
    }


def _content(endpoint: Endpoint) -> dict[str, Any]:
    if endpoint.stream is not None:
        return {"text/event-stream": {"schema": {"type": "string"}}}
    if endpoint.gives == "attachment":
        return {"application/octet-stream": {"schema": {"type": "string"}}}
    if endpoint.gives == "list":
        return {"application/json": {"schema": {"$ref": "#/components/schemas/Page"}}}
    document = {
        "type": "object",
        "required": ["schema"],
        "properties": {"schema": {"const": endpoint.schema}},
    }
    return {"application/json": {"schema": document}}


def _page_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["schema", "items", "next"],
        "properties": {
            "schema": {"const": PAGE},
            "items": {"type": "array", "items": {"type": "object"}},
            "next": {"type": ["string", "null"]},
        },
    }


def _problem_schema() -> dict[str, Any]:
    texts = ("type", "title", "code", "detail", "hint")
    return {
        "type": "object",
        "required": [*texts, "status", "ids"],
        "properties": {
            **{name: {"type": "string"} for name in texts},
            "status": {"type": "integer"},
            "ids": {"type": "object"},
        },
    }
