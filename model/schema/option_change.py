"""What ALTER does to a table's options: those it sets, and those that name a column it drops or renames."""

from __future__ import annotations

from collections.abc import Mapping

from model.errors import InvalidOption, InvalidSchemaChange
from model.options.clustering import CLUSTERING_COLUMNS, cluster_columns
from model.options.column_lists import COLUMN_LISTS, LISTS_OF_BLOBS, listed_columns, renamed_column, without_column
from model.options.deletion_vectors import ENABLED, MODIFIABLE
from model.options.file_index import renamed_in_file_indexes
from model.options.masking import unmasked
from model.options.table import IMMUTABLE, TABLE_OPTIONS, is_on
from model.schema.findable import OLD_NAMES, require_new_names
from model.schema.loadable import is_blob
from model.schema.schema import Schema, bucket_count, other_kind


def set_option(options: dict[str, str], key: str, value: str | None, *, before: Schema, has_snapshot: bool, marked: bool) -> None:
    """Give an option a value, or take it away with None.

    ``before`` is the schema that the ALTER found, ``has_snapshot`` whether files lie by it, ``marked`` whether deletion vectors mark rows
    in a snapshot or tag that is kept. Raises `InvalidOption` for what cannot change any more.
    """
    value = None if value is None else unmasked(TABLE_OPTIONS.stored({key: value}), options)[key]
    if options.get(key) == value:
        return
    if key in ("primary-key", "partition"):
        raise InvalidOption(f"Option '{key}' is given when a table is created and cannot change.")
    if key == "type" and other_kind({} if value is None else {key: value}) != other_kind(options):
        raise InvalidOption("Option 'type' says what kind of a table it is, which does not change; drop the table and make it anew.")
    if has_snapshot and key in IMMUTABLE and not _places_alike(key, options.get(key), value, before):
        raise InvalidOption(f"Option '{key}' cannot change once the table has data.")
    if key == OLD_NAMES and not has_snapshot:
        require_new_names(before, {key: "true" if value is None else value})
    if key == "bucket":
        _check_rescale(options, value, has_snapshot=has_snapshot)
    if key == ENABLED and has_snapshot:
        _check_deletion_vectors(options, value, before=before.options, marked=marked)
    if value is None:
        options.pop(key, None)
    else:
        options[key] = value


def _places_alike(key: str, old: str | None, new: str | None, before: Schema) -> bool:
    """Whether files are found by one value of an option as by the other."""
    if key in LISTS_OF_BLOBS:  # a column of another type has no files of BLOBs: its name shuts Java's clients out, and may go
        left, there = ({*listed_columns({key: text or ""}, key)} for text in (new, old))
        blobs = {field.name for field in before.fields if is_blob(field.type)}
        return there & blobs <= left <= there
    return TABLE_OPTIONS.get(key) is not None and TABLE_OPTIONS.alike(key, old, new)


def _check_rescale(options: Mapping[str, str], value: str | None, *, has_snapshot: bool) -> None:
    old, new = bucket_count(options), bucket_count({} if value is None else {"bucket": value})
    if has_snapshot and (old == -1) != (new == -1):
        raise InvalidOption(
            f"Option 'bucket' cannot go from {old} to {new} once the table has data; create a new table and INSERT INTO it."
        )


def _check_deletion_vectors(options: Mapping[str, str], value: str | None, *, before: Mapping[str, str], marked: bool) -> None:
    """Paimon's own clients look for deletion vectors only where the option says so: without it deleted rows would be theirs again."""
    was, on = is_on(options, ENABLED), value is not None and is_on({ENABLED: value}, ENABLED)
    if was == on:
        return
    if not is_on(before, MODIFIABLE) and not (on and marked):  # who switched it off before this was refused may have it again
        raise InvalidOption(
            f"Option '{ENABLED}' cannot change once the table has data: other Paimon clients would read deleted rows again, or rows twice."
        )
    if marked and not on:
        raise InvalidOption(
            f"Option '{ENABLED}' cannot be switched off while deletion vectors mark rows of the table, or of snapshots and tags that it "
            "keeps: other Paimon clients would read these rows again. Have Spark or Flink compact the table in full, delete such tags and "
            "let such snapshots expire before."
        )


def drop_from_options(options: dict[str, str], name: str) -> None:
    """Take away what is said of a column that is dropped: Java loads no table whose options name a missing column."""
    for key in [key for key in options if key.startswith(f"fields.{name}.")]:
        del options[key]
    without_column(options, name)
    options.pop(f"field.{name}.vector-dim", None)


def rename_in_options(options: dict[str, str], name: str, to: str) -> None:
    """Have the options say of a column's new name what they say of its old one; raises `InvalidSchemaChange` for one they cannot hold."""
    if "," in to and any(name in listed_columns(options, key) for key in COLUMN_LISTS):
        raise InvalidSchemaChange(f"Column {name} is in an option where names are parted by commas; {to} has one.")
    renamed_in_file_indexes(options, name, to)
    renamed_column(options, name, to)
    clustered = cluster_columns(options)
    if name in clustered:
        if "," in to:
            raise InvalidSchemaChange(f"Column {name} is in 'clustering.columns', where names are parted by commas; {to} has one.")
        options[CLUSTERING_COLUMNS.key] = ",".join(to if each == name else each for each in clustered)
    for key in [k for k in options if k.startswith(f"fields.{name}.")]:
        options[f"fields.{to}." + key.removeprefix(f"fields.{name}.")] = options.pop(key)
    for key, value in list(options.items()):
        if key.startswith("schema.watermark.") and key.endswith(".rowtime") and value == name:
            options[key] = to
            expression = key.removesuffix("rowtime") + "strategy.expr"
            if expression in options:
                options[expression] = options[expression].replace(f"`{name}`", f"`{to}`")
