"""Download: a registered data set from its public address to a folder, verified and all at once.

`pooch` verifies the SHA-256 and moves the file to its name in one step, so nothing partial is ever found there. It has
no resume of its own: `ResumingDownload` collects what arrives in FILE.part and continues a broken connection there, in
this call or in the next one. Where no checksum is known, the caller must give one, or say that an unverified file is
wanted; a part that nothing could verify afterwards is never continued by a later call.
"""

from __future__ import annotations

import http.client
import logging
import os
import re
import shutil
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from tapgnn.data.datasets.registry import Dataset, checksum_file, get_dataset
from tapgnn.errors import DatasetError
from tapgnn.file_integrity import file_sha256, write_atomically

ShowProgress = Callable[[int, int | None], None]

LARGEST_FILE = 1 << 33
_PIECE = 1 << 16
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)


def download(
    dataset: Dataset | str,
    folder: str | Path,
    *,
    url: str | None = None,
    sha256: str | None = None,
    unverified: bool = False,
    progress: ShowProgress | None = None,
    retries: int = 4,
    wait: float = 1.0,
    timeout: float = 30.0,
) -> Path:
    """Fetch a data set into a folder and return the path of its file.

    sha256 is that of the data file itself, unpacked where it comes in a zip. progress(bytes so far, total bytes or
    None) is called as they arrive. After a failure come `retries` more attempts, `wait`, 2 `wait`, ... seconds apart.
    """
    import pooch

    entry = get_dataset(dataset) if isinstance(dataset, str) else dataset
    address, expected = url or entry.url, _expected(entry, sha256, unverified)
    if urlsplit(address).scheme not in ("http", "https"):
        raise DatasetError(f"{address!r} is not an http or https address; pass --url with one")
    target = Path(folder) / entry.files[0]
    # Without a checksum pooch keeps a file that is already there; an unverified one is to be fetched anew.
    arrived = target if expected else target.with_name(f"{target.name}.unverified")
    downloader = ResumingDownload(target, progress or (lambda have, total: None), retries, wait, timeout)
    pooch.get_logger().setLevel(logging.WARNING)
    try:
        if expected is None:
            downloader.part.unlink(missing_ok=True)
            arrived.unlink(missing_ok=True)
        pooch.retrieve(address, expected, arrived.name, target.parent, downloader=downloader)
        os.replace(arrived, target)
        _keep_checksum(entry, target, expected or file_sha256(target))
    except ValueError as error:
        mismatch = str(error).partition(". ")[0]
        raise DatasetError(f"{address}: {mismatch}; nothing was kept, try again or pass another --url") from None
    except OSError as error:
        raise DatasetError(
            f"{target} cannot be written ({error.strerror or error}); check the folder and the free space"
        ) from None
    return target


def _expected(entry: Dataset, sha256: str | None, unverified: bool) -> str | None:
    if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise DatasetError(f"{sha256!r} is not a SHA-256 checksum; it has 64 hexadecimal digits")
    expected = sha256 or entry.sha256
    if expected is None and not unverified:
        raise DatasetError(
            f"no checksum is known for the download of {entry.name}; run '{entry.command}' to accept what the site "
            "serves, or pass a checksum that you trust with --sha256"
        )
    return None if expected is None else expected.lower()


def _keep_checksum(entry: Dataset, target: Path, found: str) -> None:
    """Note the checksum of a file that the registry does not know, so that later damage is detected."""
    checksum_file(target).unlink(missing_ok=True)
    if found not in entry.known_checksums(target):
        write_atomically(checksum_file(target), f"{found}  {target.name}\n")


@dataclass
class ResumingDownload:
    """A downloader for pooch; `version` is the ETag that the server began with."""

    target: Path
    progress: ShowProgress
    retries: int
    wait: float
    timeout: float
    version: str | None = None

    @property
    def part(self) -> Path:
        """Where bytes are collected until all have arrived."""
        return self.target.with_name(self.target.name + ".part")

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        """Fetch everything, in as many attempts as allowed, and leave the data file at `output_file`."""
        self._fetch(url)
        try:
            if urlsplit(url).path.lower().endswith(".zip"):
                _unpack(self.part, output_file, self.target.name)
            else:
                os.replace(self.part, output_file)
        finally:
            self.part.unlink(missing_ok=True)

    def _fetch(self, url: str) -> None:
        problem = ""
        for attempt in range(self.retries + 1):
            if attempt:
                time.sleep(self.wait * 2 ** (attempt - 1))
            try:
                return self._attempt(url)
            except urllib.error.HTTPError as error:
                if error.code == 416 and self._is_complete(error):
                    return None
                if error.code == 416:
                    self.part.unlink(missing_ok=True)
                elif error.code not in _TRANSIENT:
                    raise DatasetError(
                        f"{url} answered {error.code} {error.reason}; check the address or pass another with --url"
                    ) from None
                problem = f"it answered {error.code} {error.reason}"
            except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
                problem = str(getattr(error, "reason", None) or error or type(error).__name__)
        raise DatasetError(
            f"{url} could not be fetched in {self.retries + 1} attempts ({problem}); check the connection and run the "
            "command again, it continues where it stopped"
        )

    def _attempt(self, url: str) -> None:
        have = self.part.stat().st_size if self.part.exists() else 0
        headers = {"User-Agent": "tapgnn", "Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
            if self.version is not None:
                headers["If-Range"] = self.version
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=self.timeout) as answer:
            continued = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            if answer.status == 206 and not continued:
                self.part.unlink(missing_ok=True)
                raise http.client.HTTPException("the server sent another range than the one requested")
            tag = answer.headers.get("ETag", "")
            self.version = tag if tag.startswith('"') else None
            have = have if continued else 0
            length = answer.headers.get("Content-Length", "")
            total = have + int(length) if length.isdigit() else None
            with open(self.part, "ab" if continued else "wb") as out:
                while piece := answer.read(_PIECE):
                    out.write(piece)
                    have += len(piece)
                    self.progress(have, total)
        if total is not None and have != total:
            raise http.client.HTTPException(f"the connection broke after {have:,} of {total:,} bytes")

    def _is_complete(self, error: urllib.error.HTTPError) -> bool:
        """Whether 'range not satisfiable' only says that nothing is missing."""
        size = error.headers.get("Content-Range", "").removeprefix("bytes */")
        return self.part.exists() and size == str(self.part.stat().st_size)


def _unpack(archive: Path, output_file: str, wanted: str) -> None:
    """Copy the data file out of a zip; the names inside choose the member, never a path to write to."""
    try:
        with (
            zipfile.ZipFile(archive) as packed,
            packed.open(_member(packed, wanted)) as source,
            open(output_file, "wb") as out,
        ):
            shutil.copyfileobj(source, out)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DatasetError(f"the archive of {wanted} is damaged ({error}); try again or pass another --url") from None


def _member(packed: zipfile.ZipFile, wanted: str) -> zipfile.ZipInfo:
    files = [info for info in packed.infolist() if not info.is_dir()]
    named = [info for info in files if PurePosixPath(info.filename).name == wanted]
    alike = named or [info for info in files if PurePosixPath(info.filename).suffix == PurePosixPath(wanted).suffix]
    if len(alike) != 1:
        inside = ", ".join(repr(info.filename) for info in files[:8])
        raise DatasetError(f"the archive does not contain exactly one {wanted}; it contains {inside or 'nothing'}")
    if alike[0].file_size > LARGEST_FILE:
        raise DatasetError(
            f"{wanted} would unpack to {alike[0].file_size:,} bytes, too large for a data set; pass another --url"
        )
    return alike[0]
