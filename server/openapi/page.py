"""``/openapi.json`` for programs, and ``/docs``, the same for people: a plain page that needs nothing but itself."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from functools import lru_cache

from flask import Blueprint, Flask, Response, current_app, render_template_string

from server.openapi.document import documented, json_of, openapi

bp = Blueprint("openapi", __name__)
page = Blueprint("api_page", __name__)

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 14px/1.45 ui-monospace, monospace; }
pre { overflow-x: auto; border: 1px solid #8886; border-radius: 4px; padding: .75rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8884; }
section { border-top: 1px solid #8888; margin-top: 1.5rem; }
nav ul { columns: 18rem; padding-left: 1.25rem; }
"""

_TEMPLATE = """{%- macro bodies(content) -%}
{% for media, one in content.items() %}<code>{{ media }}</code>{{ name(one.schema) }}{{ "; " if not loop.last }}{% endfor %}
{%- endmacro -%}
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Sluice: HTTP API</title><style>{{ style|safe }}</style></head>
<body>
<header><h1>{{ api.info.title }} HTTP API</h1>
<p>{{ api.info.description }} Version {{ api.info.version }}; as a document: <a href="openapi.json">openapi.json</a>.</p></header>
<nav aria-label="Endpoints"><ul>
{%- for path, methods in api.paths.items() %}{% for method, operation in methods.items() %}
<li><a href="#{{ operation.operationId }}"><code>{{ method|upper }} {{ path }}</code></a></li>
{%- endfor %}{% endfor %}
</ul></nav>
<main>
{%- for path, methods in api.paths.items() %}{% for method, operation in methods.items() %}
<section id="{{ operation.operationId }}" aria-labelledby="h-{{ operation.operationId }}">
<h2 id="h-{{ operation.operationId }}"><code>{{ method|upper }} {{ path }}</code></h2>
<p>{{ operation.summary }}</p>
{%- if operation.parameters %}
<table><caption>Parameters</caption><thead><tr><th scope="col">name</th><th scope="col">in</th><th scope="col">what</th></tr></thead><tbody>
{%- for one in operation.parameters %}
<tr><td><code>{{ one.name }}</code></td><td>{{ one.in }}</td><td>{{ one.description }}</td></tr>
{%- endfor %}
</tbody></table>
{%- endif %}
{%- if operation.get("requestBody") %}
<p>Body: {{ bodies(operation.requestBody.content) }}</p>
{%- endif %}
<table><caption>Answers</caption><thead><tr><th scope="col">status</th><th scope="col">body</th></tr></thead><tbody>
{%- for status, answer in operation.responses.items() %}
<tr><td>{{ status }} {{ answer.description }}</td><td>{{ bodies(answer.content) }}</td></tr>
{%- endfor %}
</tbody></table>
</section>
{%- endfor %}{% endfor %}
<section aria-labelledby="bodies"><h2 id="bodies">Bodies</h2>
{%- for title, schema in api.components.schemas.items() %}
<details id="schema-{{ title }}"><summary>{{ title }}</summary><pre tabindex="0">{{ show(schema) }}</pre></details>
{%- endfor %}
</section>
</main></body></html>
"""
_STYLE_HASH = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{_STYLE_HASH}'"


@bp.get("/openapi.json")
@documented(tag="server", answers={200: json_of("Document")}, open=True)
def document() -> Response:
    """This description, in OpenAPI 3.1."""
    return Response(_document(current_app._get_current_object()), mimetype="application/json")  # type: ignore[attr-defined] # a proxy


@page.get("/docs")
def show() -> Response:
    """The description as a page."""
    text = _page(current_app._get_current_object())  # type: ignore[attr-defined] # a proxy
    return Response(text, mimetype="text/html", headers={"Content-Security-Policy": _POLICY})


@lru_cache(maxsize=1)
def _document(app: Flask) -> bytes:
    """Made once: whoever asks shows no token."""
    return json.dumps(openapi(app), indent=1).encode()


@lru_cache(maxsize=1)
def _page(app: Flask) -> bytes:
    values = {"api": openapi(app), "style": _STYLE, "name": _named, "show": lambda schema: json.dumps(schema, indent=2)}
    return render_template_string(_TEMPLATE, **values).encode()


def _named(schema: dict[str, object]) -> str:
    """The name of a schema that has one."""
    reference = schema.get("$ref")
    return f" {str(reference).rpartition('/')[2]}" if reference else ""
