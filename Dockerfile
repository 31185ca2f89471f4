# The same steps as on any other machine: they are the Makefile's (tests/docs/test_packaging.py holds them together).
FROM python:3.11-slim-bookworm

SHELL ["/bin/sh", "-eu", "-c"]
WORKDIR /sluice

# hadolint ignore=DL3008
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends make procps && rm -rf /var/lib/apt/lists/*

COPY scripts scripts
COPY web web
COPY Makefile pyproject.toml requirements-run.txt README.md ./
RUN make java && rm -rf /var/lib/apt/lists/*

COPY . .
# Bytecode is compiled now, because the server's user may not write here later.
RUN UV_COMPILE_BYTECODE=1 UV_NO_CACHE=1 make install \
    && useradd --create-home --uid 10001 sluice && mkdir /data && chown 10001 /data

USER 10001
ENV SLUICE_LISTEN=0.0.0.0:8083 SLUICE_DATA=/data
VOLUME /data
EXPOSE 8083
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import os, ssl, urllib.request as u; u.urlopen('http%s://127.0.0.1:8083/livez' % ('s' * ('SLUICE_TLS_CERTIFICATE' in os.environ)), timeout=2, context=ssl._create_unverified_context())"]
STOPSIGNAL SIGTERM
# No shell between: the server itself must hear the signal that stops it.
CMD [".venv/bin/sluice", "serve"]
