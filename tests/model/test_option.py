"""Options are declared once and read, checked and shown from the declaration."""

from __future__ import annotations

from datetime import timedelta

import pytest

from model.errors import InvalidOption
from model.options.masking import MASK, masked_all, masked_text, names_secret, unmasked
from model.options.option import Option, OptionGroup, boolean, duration, integer, memory_size, number, one_of, optional, text
from model.options.table import TABLE_OPTIONS
from sql.connectors.filesystem import FILE_OPTIONS
from sql.connectors.kafka import KAFKA_OPTIONS


@pytest.fixture
def group() -> OptionGroup:
    made = OptionGroup("Table option", "Options of a table.")
    made.declare(Option("bucket", integer(at_least=-1), 1, "Buckets.", mutable=False))
    made.declare(Option("target-file-size", optional(memory_size()), None, "Size."))
    made.family(r"fields\..+\.stats-mode", Option("fields.<column>.stats-mode", text(), "", "Statistics of one column."))
    made.refuse(r"merge-engine", "append tables have no primary key.")
    return made


def test_a_value_is_read_typed_or_by_default(group: OptionGroup) -> None:
    bucket = group.get("bucket")
    assert bucket is not None
    assert bucket.read({"bucket": "4"}) == 4
    assert bucket.read({}) == 1


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"bukcet": "4"}, r"no table option 'bukcet'. Did you mean 'bucket'"),
        ({"bucket": "four"}, "'bucket' = 'four': a whole number"),
        ({"bucket": "-2"}, "at least -1"),
        ({"merge-engine": "x"}, "no primary key"),
        ({"target-file-size": "8 miles"}, "a size such as"),
    ],
)
def test_bad_options_are_refused_by_name(group: OptionGroup, raw: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        group.check(raw)


def test_families_are_known_by_pattern(group: OptionGroup) -> None:
    group.check({"fields.a.b.stats-mode": "full"})
    assert group.get("fields.stats-mode") is None


def test_an_option_is_declared_once(group: OptionGroup) -> None:
    with pytest.raises(ValueError, match="twice"):
        group.declare(Option("bucket", integer(), 0, "Again."))


def test_the_docs_show_default_and_mutability(group: OptionGroup) -> None:
    page = group.markdown()
    assert "| `bucket` | integer | `1` | Buckets. Fixed once the table has data. |" in page
    assert "| `target-file-size` | size | (none) | Size. |" in page


@pytest.mark.parametrize(("raw", "value"), [("8 mb", 8 << 20), ("1gb", 1 << 30), ("64 kb", 65536), ("500 bytes", 500), ("7", 7)])
def test_sizes_are_binary(raw: str, value: int) -> None:
    assert memory_size().parse(raw) == value


@pytest.mark.parametrize("value", [0, 500, 1024, 8 << 20, 3 << 30])
def test_a_shown_size_reads_back(value: int) -> None:
    assert memory_size().parse(memory_size().show(value)) == value


@pytest.mark.parametrize(
    ("raw", "millis"), [("10 s", 10_000), ("1 h", 3_600_000), ("5 min", 300_000), ("2 days", 172_800_000), ("250 ms", 250), ("250", 250)]
)
def test_durations(raw: str, millis: int) -> None:
    value = duration().parse(raw)
    assert value == timedelta(milliseconds=millis)
    assert duration().parse(duration().show(value)) == value


def test_words_booleans_and_numbers() -> None:
    assert one_of("parquet", "orc").parse("ORC") == "orc"
    assert boolean().parse("TRUE") is True
    assert number(at_least=0, at_most=1).parse("0.7") == 0.7
    for parser, bad in ((one_of("a"), "b"), (boolean(), "yes"), (number(at_least=0), "nan"), (duration(), "1 fortnight")):
        with pytest.raises(ValueError, match=r"expected|between|at least"):
            parser.parse(bad)


def test_secrets_are_masked() -> None:
    shown = masked_all({"fs.s3.secret-key": "x", "s3.access-key": "y", "bucket": "4"})
    assert shown == {"fs.s3.secret-key": MASK, "s3.access-key": MASK, "bucket": "4"}


SECRETS = (
    "properties.ssl.key.password", "properties.ssl.keystore.key", "properties.ssl.truststore.password", "properties.sasl.jaas.config",
    "avro-confluent.basic-auth.user-info", "properties.basic.auth.user.info", "properties.sasl.oauthbearer.client.secret", "db.pwd",
    "fs.s3a.secret.key", "fs.s3a.access.key", "fs.oss.accessKeySecret", "fs.azure.account.key.me.blob.core.windows.net", "smtp.pass",
    "fs.azure.sas.me", "fs.s3a.server-side-encryption.key", "ssl.key", "tls_key", "header.Authorization", "connectionString", "passphrase",
)  # fmt: skip
NO_SECRETS = (
    "properties.sasl.mechanism", "properties.ssl.keystore.type", "properties.ssl.keystore.location",
    "file-index.bloom-filter.token.fpp", "file-index.bitmap.access_key.index-block-size", "fields.password_hash.default-value",
    "key.format", "key.fields", "bucket-key", "primary-key", "basic.path", "compass", "disaster", "PWD",
)  # fmt: skip


@pytest.mark.parametrize("key", SECRETS)
def test_what_names_a_secret_is_shown_nowhere(key: str) -> None:
    assert masked_all({key: "hush"}) == {key: MASK}
    assert "hush" not in masked_text(f"CREATE TABLE t (a INT) WITH ('bucket' = '1', '{key}' = 'hush')")
    told = masked_text(f"CALL sys.migrate_table(options => 'bucket=4,{key}=hush,x=y')")
    assert told == f"CALL sys.migrate_table(options => 'bucket=4,{key}={MASK},x=y')"


@pytest.mark.parametrize("key", NO_SECRETS)
def test_what_names_none_is_shown(key: str) -> None:
    assert not names_secret(key)


def test_no_option_of_a_table_or_a_connector_is_taken_for_a_secret() -> None:
    groups = (TABLE_OPTIONS, KAFKA_OPTIONS, FILE_OPTIONS)
    assert [option.key for group in groups for option in group if names_secret(option.key)] == []


def test_a_secret_that_comes_back_as_it_was_shown_stays() -> None:
    stored = {"db.password": "hush", "a": "1"}
    assert unmasked({"db.password": MASK, "a": "2"}, stored) == {"db.password": "hush", "a": "2"}
    assert unmasked({"a": MASK}, stored) == {"a": MASK}
    with pytest.raises(InvalidOption, match="give the secret itself"):
        unmasked({"db.token": MASK}, stored)


def test_a_secrets_value_is_not_in_its_error() -> None:
    with pytest.raises(InvalidOption) as failure:
        Option("db.password", integer(), 0, "A secret.").parse("hunter2")
    assert "hunter2" not in str(failure.value)
