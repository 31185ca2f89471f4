"""How a table's options choose the physical form of its data files (`paimon-append.md` §2.5, 9)."""

from __future__ import annotations

from dataclasses import dataclass

from model.errors import UnsupportedType
from model.options.table import TABLE_OPTIONS
from model.schema.schema import Schema

_APPEND_TARGET = 256 << 20
_HIGHEST_ZSTD_LEVEL = 22
_PLAIN = {"zstd": "zstd", "snappy": "snappy", "lz4": "lz4", "none": "none", "uncompressed": "none"}
_CODECS = {
    "parquet": {**_PLAIN, "gzip": "gzip", "zlib": "gzip", "brotli": "zstd"},
    "orc": {**_PLAIN, "zlib": "zlib", "gzip": "zlib", "brotli": "zstd"},
}
"""Codecs by the names tables have for them. New tables are held to those that fit (`model.options.rules`); older ones may have any of
these, and write what is nearest: brotli has no reader in Java."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormat:
    """The format, codec and sizes of new data files."""

    name: str
    codec: str
    level: int | None
    target_bytes: int
    target_rows: int
    block_bytes: int
    dictionary: bool
    prefix: str
    extension: str

    @classmethod
    def of(cls, schema: Schema) -> FileFormat:
        """What the schema's options say; raises `UnsupportedType` for formats that are not written."""
        options = schema.options
        name = options.get("file.format", "parquet").lower()
        if name not in ("parquet", "orc"):
            raise UnsupportedType(f"Data files of format '{name}' are not written here; 'file.format' may be parquet or orc.")
        codec = _CODECS[name].get(options.get("file.compression", "zstd").lower())
        if codec is None:
            raise UnsupportedType(f"Compression '{options['file.compression']}' is not written here; {', '.join(_CODECS[name])} are.")
        suffix = codec if TABLE_OPTIONS.read(options, "file.suffix.include.compression") and codec != "none" else ""
        return cls(
            name=name,
            codec=codec,
            level=min(_HIGHEST_ZSTD_LEVEL, TABLE_OPTIONS.read(options, "file.compression.zstd-level")) if codec == "zstd" else None,
            target_bytes=TABLE_OPTIONS.read(options, "target-file-size") or _APPEND_TARGET,
            target_rows=TABLE_OPTIONS.read(options, "target-file-row-num"),
            block_bytes=TABLE_OPTIONS.read(options, "file.block-size") or (128 << 20 if name == "parquet" else 64 << 20),
            dictionary=TABLE_OPTIONS.read(options, "parquet.enable.dictionary"),
            prefix=TABLE_OPTIONS.read(options, "data-file.prefix"),
            extension=f"{suffix}.{name}" if suffix else name,
        )


def format_of(file_name: str) -> str:
    """The format of an existing file, by the last extension of its name; a table may mix formats."""
    return file_name.rsplit(".", 1)[-1].lower()
