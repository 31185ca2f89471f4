"""A line in the log for each request."""

from __future__ import annotations

import logging
import time

from flask import Flask, Response, g, request

_log = logging.getLogger("sluice.request")
_PROBES = frozenset({"/livez", "/readyz", "/metrics"})


def log_requests(app: Flask) -> None:
    """A line for each request when its answer begins; probes that went well are told only where everything is."""

    def note(response: Response) -> Response:
        level = logging.DEBUG if request.path in _PROBES and response.status_code < 400 else logging.INFO
        if _log.isEnabledFor(level):
            facts = {
                "method": request.method,
                "path": request.path,
                "status": response.status_code,
                "millis": round((time.perf_counter() - g.began) * 1000, 1),
                "address": request.remote_addr,
                "agent": (request.user_agent.string or "")[:200],
            }
            _log.log(level, "%s %s %d", request.method, request.path, response.status_code, extra={"facts": facts})
        return response

    app.after_request(note)
