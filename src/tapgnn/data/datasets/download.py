"""Download: a registered data set from its public address to a folder, verified and all at once.

What arrives is collected in FILE.part; a broken connection is continued there with a Range request, by this call or by
the next one. Only a file with the expected size and SHA-256 is moved to its name, in one step, so nothing partial is
ever found there. Where no checksum is known, the caller must give one, or say that an unverified file is wanted; a part
that nothing could verify afterwards is never continued by a later call.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from tapgnn.data.datasets.registry import Dataset, checksum, get_dataset, note_of
from tapgnn.errors import DatasetError

Progress = Callable[[int, int | None], None]

LARGEST_FILE = 1 << 33
_PIECE = 1 << 16
_PASSING = (408, 425, 429, 500, 502, 503, 504)


def download(
    dataset: Dataset | str,
    folder: str | Path,
    *,
    url: str | None = None,
    sha256: str | None = None,
    unverified: bool = False,
    progress: Progress | None = None,
    retries: int = 4,
    wait: float = 1.0,
    timeout: float = 30.0,
) -> Path:
    """Fetch a data set into a folder and give the path of its file.

    sha256 is that of the data file itself, out of the zip where it comes in one. progress(bytes so far, bytes in all or
    None) is called as they arrive. After a failure come `retries` more attempts, `wait`, 2 `wait`, ... seconds apart.
    """
    entry = get_dataset(dataset) if isinstance(dataset, str) else dataset
    address, expected = url or entry.url, _expected(entry, sha256, unverified)
    if urlsplit(address).scheme not in ("http", "https"):
        raise DatasetError(f"{address!r} is not an http or https address; pass --url with one")
    target = Path(folder) / entry.files[0]
    part = target.with_name(target.name + ".part")
    try:
        if expected is not None and target.is_file() and checksum(target) == expected:
            _keep_checksum(entry, target, expected)
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        if expected is None:
            part.unlink(missing_ok=True)
        _Transfer(address, part, progress, timeout).run(retries, wait)
        _keep_checksum(entry, target, _install(address, part, target, expected))
    except OSError as error:
        raise DatasetError(f"{target} cannot be written ({error.strerror or error}); check folder and space") from None
    return target


def _expected(entry: Dataset, sha256: str | None, unverified: bool) -> str | None:
    if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise DatasetError(f"{sha256!r} is not a SHA-256 checksum; it has 64 hexadecimal digits")
    expected = sha256 or entry.sha256
    if expected is None and not unverified:
        raise DatasetError(
            f"no checksum is known of what {entry.name} is served as; '{entry.command}' accepts what the site serves, "
            "--sha256 instead takes one that you trust"
        )
    return None if expected is None else expected.lower()


class _Transfer:
    """One file on its way: what has arrived stands in `part`, `version` says which one the server began with."""

    def __init__(self, url: str, part: Path, progress: Progress | None, timeout: float) -> None:
        self.url, self.part, self.progress, self.timeout = url, part, progress, timeout
        self.version: str | None = None

    def run(self, retries: int, wait: float) -> None:
        """Fetch until everything is here; give up after as many attempts as allowed."""
        problem = ""
        for attempt in range(retries + 1):
            if attempt:
                time.sleep(wait * 2 ** (attempt - 1))
            try:
                self._attempt()
                return
            except urllib.error.HTTPError as error:
                if error.code == 416 and self._is_whole(error):
                    return
                if error.code == 416:
                    self.part.unlink(missing_ok=True)
                elif error.code not in _PASSING:
                    raise DatasetError(
                        f"{self.url} answered {error.code} {error.reason}; check the address or pass another with --url"
                    ) from None
                problem = f"it answered {error.code} {error.reason}"
            except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
                problem = str(getattr(error, "reason", None) or error or type(error).__name__)
        raise DatasetError(
            f"{self.url} could not be fetched in {retries + 1} attempts ({problem}); "
            "check the connection and run it again, it goes on where it stopped"
        )

    def _attempt(self) -> None:
        have = self.part.stat().st_size if self.part.exists() else 0
        headers = {"User-Agent": "tapgnn", "Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
            if self.version is not None:
                headers["If-Range"] = self.version
        request = urllib.request.Request(self.url, headers=headers)
        with urllib.request.urlopen(request, timeout=self.timeout) as answer:
            continued = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            if answer.status == 206 and not continued:
                self.part.unlink(missing_ok=True)
                raise http.client.HTTPException("another range came than was asked for")
            tag = answer.headers.get("ETag", "")
            self.version = tag if tag.startswith('"') else None
            have = have if continued else 0
            length = answer.headers.get("Content-Length", "")
            total = have + int(length) if length.isdigit() else None
            with open(self.part, "ab" if continued else "wb") as out:
                while piece := answer.read(_PIECE):
                    out.write(piece)
                    have += len(piece)
                    if self.progress is not None:
                        self.progress(have, total)
        if total is not None and have != total:
            raise http.client.HTTPException(f"the connection broke after {have:,} of {total:,} bytes")

    def _is_whole(self, error: urllib.error.HTTPError) -> bool:
        """Whether 'range not satisfiable' only says that nothing is missing."""
        size = error.headers.get("Content-Range", "").removeprefix("bytes */")
        return self.part.exists() and size == str(self.part.stat().st_size)


def _keep_checksum(entry: Dataset, target: Path, found: str) -> None:
    """Note the checksum of a file that the registry does not know, so that later damage is found out."""
    note_of(target).unlink(missing_ok=True)
    if found not in entry.known_checksums(target):
        note_of(target).write_text(f"{found}  {target.name}\n", encoding="utf-8", newline="\n")


def _install(url: str, part: Path, target: Path, expected: str | None) -> str:
    """Unpack, verify, and move to the final name; whatever fails leaves neither that name nor a useless part."""
    ready = part
    try:
        if urlsplit(url).path.lower().endswith(".zip"):
            ready = target.with_name(target.name + ".unpacked")
            _unpack(part, ready, target.name)
        found = checksum(ready)
        if expected is not None and found != expected:
            raise DatasetError(
                f"{url}: the SHA-256 is {found}, expected {expected}; nothing was kept, try again or pass another --url"
            )
        os.replace(ready, target)
        return found
    finally:
        ready.unlink(missing_ok=True)
        part.unlink(missing_ok=True)


def _unpack(archive: Path, ready: Path, wanted: str) -> None:
    """Copy the data file out of a zip; the names inside choose the member, never a path to write to."""
    try:
        with (
            zipfile.ZipFile(archive) as packed,
            packed.open(_member(packed, wanted)) as source,
            open(ready, "wb") as out,
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
        raise DatasetError(f"the archive holds no single {wanted}; it holds {inside or 'nothing'}")
    if alike[0].file_size > LARGEST_FILE:
        raise DatasetError(
            f"{wanted} would unpack to {alike[0].file_size:,} bytes; that is no data set, pass another --url"
        )
    return alike[0]
