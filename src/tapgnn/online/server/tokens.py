"""Bearer tokens with scopes, kept as hashes in a JSON file that only its owner can change.

    {"format": 1, "tokens": [{"name": "till-3", "scope": "write", "sha256": "9f86d0...",
                              "created": "2026-03-01T12:00:00Z", "expires": "2026-05-30T12:00:00Z"}]}

    token = "tg_" + 32 random bytes            the file holds sha256(token), never the token

A token carries 256 random bits, so that one plain hash is as good as a slow one. A presented token is compared with
every entry in constant time, whether or not one matches. Scope `write` includes `read`. `expires` may be null.

A server reads the file again when it has changed, so that a token is revoked without a restart (`WatchedTokens`).
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, Literal, Protocol

from tapgnn.errors import ConfigError
from tapgnn.file_integrity import bytes_sha256, write_atomically

_log = logging.getLogger("tapgnn.online.server")

Scope = Literal["read", "write"]
SCOPES: tuple[Scope, ...] = ("read", "write")
FORMAT = 1
LONGEST_NAME = 100
_UNITS = {"h": 3_600, "d": 86_400, "w": 604_800, "y": 31_536_000}
# Seconds between looks at the file.
LOOK_SECONDS = 1.0


class TokenChecker(Protocol):
    """What says which scope a presented token has."""

    def scope_of(self, text: str) -> Scope | None:
        """The scope of a presented token, None where it is not valid."""


@dataclass(frozen=True)
class TokenEntry:
    """What is stored of a token: a name, its scope, its hash, when it was created, and when it expires if ever."""

    name: str
    scope: Scope
    sha256: str
    created: str
    expires: str | None = None

    def __post_init__(self) -> None:
        """Refuse a field that is not of the form that it has here."""
        texts: list[Any] = [self.name, self.scope, self.sha256, self.created]
        if not all(isinstance(text, str) for text in texts) or not isinstance(self.expires, str | None):
            raise ConfigError("a field of a token is not text; make the token again")
        name = self.name
        if not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
            raise ConfigError(f"the name of a token has 1 to {LONGEST_NAME} printable characters, not {name[:120]!r}")
        if self.scope not in SCOPES:
            raise ConfigError(f"token {name!r} has scope {self.scope[:40]!r}; it is {' or '.join(SCOPES)}")
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ConfigError(f"the hash of token {name!r} is not 64 hexadecimal digits; make the token again")
        for time_of in (self.created, self.expires):
            try:
                aware = time_of is None or datetime.fromisoformat(time_of).tzinfo is not None
            except ValueError:
                aware = False
            if not aware:
                raise ConfigError(f"token {name!r} has a time that is not like 2026-03-01T12:00:00Z")

    def has_expired(self) -> bool:
        """Whether its time is over."""
        return self.expires is not None and datetime.fromisoformat(self.expires) <= datetime.now(UTC)


class Tokens:
    """The tokens in a file.

    >>> tokens = Tokens()
    >>> text = tokens.add("read", "dashboard")
    >>> tokens.scope_of(text), tokens.scope_of("tg_wrong"), text in repr(tokens.entries)
    ('read', None, False)
    >>> tokens.revoke("dashboard")
    >>> tokens.scope_of(text)
    """

    def __init__(self, entries: list[TokenEntry] | None = None) -> None:
        self.entries = list(entries or [])

    def add(self, scope: Scope, name: str = "", lifetime: timedelta | None = None) -> str:
        """Make a token and keep its hash; the token itself is returned and not kept."""
        if scope not in SCOPES:
            raise ConfigError(f"a token has scope {' or '.join(SCOPES)}, not {scope!r}")
        taken = {entry.name for entry in self.entries}
        name = name or next(free for number in count(1) if (free := f"{scope}-{number}") not in taken)
        if name in taken:
            raise ConfigError(f"there is a token {name!r} already; revoke it first, or pass another --name")
        text, now = "tg_" + secrets.token_urlsafe(32), datetime.now(UTC)
        try:
            expires = None if lifetime is None else _written(now + lifetime)
        except OverflowError:
            raise ConfigError("a token cannot live that long; leave out --expires for one that never expires") from None
        entry = TokenEntry(name, scope, _digest(text), _written(now), expires)
        self.entries.append(entry)
        return text

    def revoke(self, name: str) -> None:
        """Forget a token, which is refused from then on."""
        left = [entry for entry in self.entries if entry.name != name]
        if len(left) == len(self.entries):
            names = ", ".join(entry.name for entry in self.entries) or "none"
            raise ConfigError(f"there is no token {name!r}; the tokens are: {names}")
        self.entries = left

    def scope_of(self, text: str) -> Scope | None:
        """The scope of a presented token, None where it is not one of these or has expired."""
        shown, found = _digest(text), None
        for entry in self.entries:
            if hmac.compare_digest(shown, entry.sha256) and not entry.has_expired():
                found = entry.scope
        return found

    def save(self, path: str | Path) -> None:
        """Write the file, readable by its owner only, whole or not at all."""
        content = json.dumps({"format": FORMAT, "tokens": [asdict(entry) for entry in self.entries]}, indent=2)
        write_atomically(path, content + "\n", mode=0o600)

    @classmethod
    def load(cls, path: str | Path) -> Tokens:
        """Read what `save` wrote; a file with anything else in it, or that others may change, is refused."""
        cure = f"make one with 'tapgnn token new --file {path}'"
        try:
            with open(path, "rb") as stream:
                mode, content = os.fstat(stream.fileno()).st_mode, stream.read()
        except OSError as error:
            raise ConfigError(f"{path} cannot be read ({error.strerror}); {cure}") from None
        # Windows has no such bits.
        if os.name == "posix" and mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ConfigError(
                f"{path} can be changed by other users, who could give themselves access; run 'chmod go-w {path}' and "
                "check the tokens in it with 'tapgnn token list'"
            )
        try:
            found = json.loads(content)
            entries = [TokenEntry(**entry) for entry in found["tokens"]]
            if found["format"] != FORMAT:
                raise ConfigError("this version does not know its format; make the tokens again")
            return cls(entries)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ConfigError(f"{path} is not a token file; {cure}") from None


class WatchedTokens:
    """The tokens in a file as it is now: it is read again when it has changed, and at once by `reload`.

    While it cannot be read the tokens that were read last are valid, and an error is logged.
    """

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = Path(path), clock
        self._lock = threading.Lock()
        self._seen, self._tokens = self._stamp(), Tokens.load(path)
        self._looked = clock()

    def scope_of(self, text: str) -> Scope | None:
        """The scope of a presented token."""
        if self._clock() - self._looked >= LOOK_SECONDS and self._stamp() != self._seen:
            self.reload()
        return self._tokens.scope_of(text)

    def reload(self) -> None:
        """Read the file again."""
        with self._lock:
            self._looked, self._seen = self._clock(), self._stamp()
            try:
                self._tokens = Tokens.load(self._path)
            except ConfigError as error:
                _log.error("tokens not reloaded", extra={"fields": {"reason": str(error)}})
                return
            _log.info("tokens reloaded", extra={"fields": {"tokens": len(self._tokens.entries)}})

    def _stamp(self) -> tuple[int, ...]:
        self._looked = self._clock()
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode


def parse_lifetime(text: str) -> timedelta:
    """How long a token is valid, from text such as 90d.

    >>> parse_lifetime("90d").days, parse_lifetime("12h").seconds
    (90, 43200)
    """
    found = re.fullmatch(rf"(\d{{1,9}})([{''.join(_UNITS)}])", text, re.ASCII)
    if found is None or int(found[1]) == 0:
        raise ConfigError(f"--expires {text} is not a time such as 12h, 90d, 8w or 1y")
    try:
        return timedelta(seconds=int(found[1]) * _UNITS[found[2]])
    except OverflowError:
        raise ConfigError(f"--expires {text} is too long; leave it out for a token that never expires") from None


def _written(time: datetime) -> str:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")


def _digest(text: str) -> str:
    return bytes_sha256(text.encode("utf-8", "surrogatepass"))
