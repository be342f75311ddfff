"""Text blocks: a text file as blocks of whole lines, so that memory stays bounded.

A block is UTF-8 text with newline line endings and never ends inside a quoted field, so that each block can be split
independently. Gzip is decompressed; for other binary files the error says what they are.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from tapgnn.errors import DataError

BLOCK, LONGEST_LINE = 1 << 22, 1 << 24
MAGIC = {
    b"PAR1": "a Parquet file; pass --format parquet",
    b"PK\x03\x04": "a zip archive; extract it first",
    b"BZh91AY": "compressed with bzip2; decompress it first, or use gzip",
    b"\xfd7zXZ": "compressed with xz; decompress it first, or use gzip",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; decompress it first, or use gzip",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
}
_GZIP, _BYTE_ORDER_MARK = b"\x1f\x8b", b"\xef\xbb\xbf"


def read_blocks(path: Path, quoted: bool = False) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole lines of about BLOCK bytes, each with the number of its first line."""
    number, rest = 1, b""
    for piece in _pieces(path):
        rest += piece
        cut = _last_line_end(rest, quoted)
        if not cut and len(rest) > LONGEST_LINE:
            cause = "a quote is never closed" if quoted and b'"' in rest else "the line is too long"
            raise DataError(f"{path.name} line {number}: {cause}; expected one event per line")
        if cut:
            yield number, _checked_text(path.name, number, rest[:cut])
            number, rest = number + rest.count(b"\n", 0, cut), rest[cut:]
    if rest:
        if quoted and rest.count(b'"') % 2:
            raise DataError(f"{path.name} line {number}: a quote is never closed; close it or remove it")
        yield number, _checked_text(path.name, number, rest + b"\n")


def _pieces(path: Path) -> Iterator[bytes]:
    """The bytes of a text file, decompressed if they are gzip, without a byte order mark."""
    try:
        with open(path, "rb") as raw:
            start = raw.read(8)
            raw.seek(0)
            for magic, what in MAGIC.items():
                if start.startswith(magic):
                    raise DataError(f"{path.name} is {what}")
            packed = start.startswith(_GZIP)
            if path.suffix.lower() == ".gz" and not packed:
                raise DataError(
                    f"{path.name} is not gzip although its name ends in .gz; rename it or download it again"
                )
            stream = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw
            yield stream.read(BLOCK).removeprefix(_BYTE_ORDER_MARK)
            while piece := stream.read(BLOCK):
                yield piece
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{path.name}: the gzip data is damaged or truncated; download the file again") from None
    except OSError as error:
        raise DataError(f"{path.name} cannot be read ({error.strerror or error}); check the file") from None


def _last_line_end(text: bytes, quoted: bool) -> int:
    """The end of the last whole line that does not end inside a quoted field, 0 if there is none."""
    cut = text.rfind(b"\n") + 1
    inside = quoted and text.count(b'"', 0, cut) % 2 == 1
    while inside and cut:
        earlier = text.rfind(b"\n", 0, text.rfind(b'"', 0, cut)) + 1
        inside = text.count(b'"', earlier, cut) % 2 == 0
        cut = earlier
    return cut


def _checked_text(name: str, number: int, block: bytes) -> bytes:
    block = block.replace(b"\r\n", b"\n")
    for unwanted, what in ((b"\0", "a NUL byte"), (b"\r", "a carriage return without a newline")):
        if unwanted in block:
            line = number + block.count(b"\n", 0, block.index(unwanted))
            raise DataError(f"{name} line {line}: there is {what}; expected UTF-8 text with newline line endings")
    try:
        block.decode()
    except UnicodeDecodeError as error:
        line = number + block.count(b"\n", 0, error.start)
        byte = block[error.start]
        raise DataError(f"{name} line {line}: byte 0x{byte:02x} is not UTF-8; save the file as UTF-8 text") from None
    return block
