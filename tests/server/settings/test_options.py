"""Settings: read once, named well, refused loudly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from model.errors import InvalidOption
from server.settings.kinds import is_loopback
from server.settings.options import CATALOG_DSN, LISTEN, SERVER_OPTIONS, TOKEN
from server.settings.settings import read_settings, variable


def test_defaults_need_no_variable() -> None:
    settings = read_settings({"PATH": "/bin"})
    assert settings[LISTEN] == ("127.0.0.1", 8083)
    assert settings.data == settings.data.absolute()
    assert settings.warehouse == str(settings.data / "warehouse")
    assert (settings[CATALOG_DSN], settings[TOKEN], settings.import_dirs) == (None, None, ())


def test_every_setting_is_read_from_its_variable(tmp_path: Path) -> None:
    (tmp_path / "spark.conf").write_text("spark.executor.memory 4g\n")
    samples = {
        "spark.conf": str(tmp_path / "spark.conf"),
        "listen": "[::1]:0", "data": "/tmp/d", "catalog.dsn": "postgresql:///x", "warehouse": "s3://bucket/w", "import.dirs": "/a, /b",
        "token": "secret", "spark.master": "spark://h:7077", "spark.driver-memory": "1 gb", "log.level": "DEBUG",
        "cors.origins": "https://a.b, http://c:1", "data-token": "fs.s3.accessKey=a, b=c=d", "compaction.quiet-hours": "08:00-20:00",
        "spark.packages": "g:a:1, g:b:2", "flight.listen": "off", "log.format": "json",
        "traces.endpoint": "http://c:4318", "log.requests": "true", "oidc.issuer": "https://i.example", "oidc.roles": "g=r",
        "advertised.url": "http://a:1", "catalog.pooler": "transaction", "catalog.direct-dsn": "postgresql:///y",
        "spark.start": "when-needed", "data-token.role-seconds": "1800",
    }  # fmt: skip
    defaults, changed = read_settings({}), {}
    for option in SERVER_OPTIONS:
        flipped = str(option.default is False).lower()
        text = samples.get(option.key) or {"size": "17 mb", "boolean": flipped}.get(option.parser.kind, "17")
        changed[variable(option)] = text
    settings = read_settings(changed | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000", "AWS_REGION": "eu-west-3"})
    assert [name for name in type(settings).__slots__ if getattr(settings, name) == getattr(defaults, name)] == []
    assert [option.key for option in SERVER_OPTIONS if settings[option] == defaults[option]] == []
    assert (settings[LISTEN], settings.import_dirs, settings.warehouse) == (("::1", 0), ("/a", "/b"), "s3://bucket/w")


@pytest.mark.parametrize("place", ["file:///srv/w", "file:/srv/w", "/srv/w"])
def test_a_warehouse_may_be_a_file_uri(place: str) -> None:
    assert read_settings({"SLUICE_WAREHOUSE": place}).warehouse == place


@pytest.mark.parametrize("name", ["SLUICE_WAREHOUSE", "SLUICE_JOBS_CHECKPOINTS"])
def test_a_place_that_says_which_server_holds_it_needs_the_variable_for_that(name: str) -> None:
    """Earlier versions heard it; its requests would go to AWS, and its files have it in their names."""
    place = "s3://key:secret@bucket/lake?scheme=http&endpoint_override=minio:9000"
    with pytest.raises(InvalidOption, match=rf"^{name} says endpoint_override=minio:9000, .* set AWS_ENDPOINT_URL") as refused:
        read_settings({name: place})
    assert "secret" not in str(refused.value)
    settings = read_settings({name: place, "AWS_ENDPOINT_URL": "http://minio:9000"})
    assert place in (settings.warehouse, settings.jobs.checkpoints)
    for other in ("s3://bucket/what?", "s3://bucket/lake?x=1", "/srv/lake?endpoint_override=a"):
        read_settings({name: other})


def test_an_unknown_variable_is_named_with_the_nearest() -> None:
    with pytest.raises(InvalidOption, match=r"There is no setting SLUICE_LISTENS\. Did you mean SLUICE_LISTEN\?"):
        read_settings({"SLUICE_LISTENS": "127.0.0.1:1"})


@pytest.mark.parametrize("name", ["SLUICE_URL", "SLUICE_TEST_DSN"])
def test_variables_of_the_client_and_the_tests_are_let_be(name: str) -> None:
    read_settings({name: "x"})


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"SLUICE_SPARK_CONF": "/nowhere/spark.conf"}, "SLUICE_SPARK_CONF: /nowhere/spark.conf: No such file"),
        ({"SLUICE_LISTEN": "8083"}, "host:port is expected"),
        ({"SLUICE_LISTEN": "localhost:99999"}, "host:port is expected"),
        ({"SLUICE_DRAIN_SECONDS": "-1"}, "must be at least 0"),
        ({"SLUICE_STATEMENT_MAX_BYTES": "many"}, "a size such as"),
        ({"SLUICE_LISTEN": "0.0.0.0:8083"}, "set SLUICE_TOKEN, or listen on 127.0.0.1"),
        ({"SLUICE_LISTEN": "[::]:8083"}, "set SLUICE_TOKEN"),
        ({"SLUICE_LISTEN": "lake.example:8083"}, "set SLUICE_TOKEN"),
        ({"SLUICE_TOKEN": "two words"}, "printable ASCII"),
        ({"SLUICE_ADVERTISED_URL": "http://u:p@a:1"}, "URL of host and port alone"),
        ({"SLUICE_ADVERTISED_URL": "http://a:99999"}, "Port out of range"),
        ({"SLUICE_SPARK_PACKAGES": "hadoop-aws:3.5.0"}, "group:artifact:version is expected, not hadoop-aws:3.5.0"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_line(variables: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption, match=said.replace(".", r"\.")) as refusal:
        read_settings(variables)
    assert "\n" not in refusal.value.message


def test_a_token_opens_the_server_to_others() -> None:
    assert read_settings({"SLUICE_LISTEN": "0.0.0.0:8083", "SLUICE_TOKEN": "s3cret"})[TOKEN] == "s3cret"


def test_with_a_token_only_named_brokers_are_connected_to() -> None:
    assert read_settings({}).kafka_brokers is None
    assert read_settings({"SLUICE_TOKEN": "s3cret"}).kafka_brokers == ()
    assert read_settings({"SLUICE_TOKEN": "s3cret", "SLUICE_KAFKA_BROKERS": "a:9092, b"}).kafka_brokers == ("a:9092", "b")
    assert read_settings({"SLUICE_KAFKA_BROKERS": "a"}).kafka_brokers == ("a",)


def test_a_secret_is_not_shown_when_refused() -> None:
    with pytest.raises(InvalidOption) as refusal:
        read_settings({"SLUICE_TOKEN": "hidden words"})
    assert "hidden" not in refusal.value.message


@pytest.mark.parametrize(("host", "expected"), [("127.0.0.5", True), ("::1", True), ("LOCALHOST", True), ("10.0.0.1", False), ("x", False)])
def test_loopback_is_told_from_the_world(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_only_the_entry_point_reads_the_environment() -> None:
    package = Path(__file__).parents[3] / "server"
    readers = [file.name for file in package.rglob("*.py") if "os.environ" in file.read_text() or "getenv" in file.read_text()]
    assert readers == ["__main__.py"], os.getcwd()
