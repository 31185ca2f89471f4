"""How a table's options choose the physical form of its data files (`paimon-append.md` §2.5, 9)."""

from __future__ import annotations

from dataclasses import dataclass

from model.errors import UnsupportedType
from model.option import memory_size
from model.schema import Schema

_APPEND_TARGET = 256 << 20
_NAMES = {"zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "lz4": "lz4", "none": "none", "uncompressed": "none", "brotli": "brotli"}


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
        codec = _NAMES.get(options.get("file.compression", "zstd").lower())
        if codec is None:
            raise UnsupportedType(f"Compression '{options['file.compression']}' is not available; one of {', '.join(_NAMES)} is.")
        level = int(options.get("file.compression.zstd-level", "1")) if codec == "zstd" else None
        suffix = codec if options.get("file.suffix.include.compression", "false").lower() == "true" and codec != "none" else ""
        return cls(
            name=name,
            codec=codec,
            level=level,
            target_bytes=_size(schema, "target-file-size", _APPEND_TARGET),
            target_rows=int(options.get("target-file-row-num", 2**63 - 1)),
            block_bytes=_size(schema, "file.block-size", 128 << 20 if name == "parquet" else 64 << 20),
            dictionary=options.get("parquet.enable.dictionary", "true").lower() not in ("false", "0"),
            prefix=options.get("data-file.prefix", "data-"),
            extension=f"{suffix}.{name}" if suffix else name,
        )


def _size(schema: Schema, key: str, default: int) -> int:
    text = schema.options.get(key)
    return default if text is None else memory_size().parse(text)


def format_of(file_name: str) -> str:
    """The format of an existing file, by the last extension of its name; a table may mix formats."""
    return file_name.rsplit(".", 1)[-1].lower()
