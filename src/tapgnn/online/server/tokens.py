"""Bearer tokens with scopes, kept as hashes in a JSON file that only its owner can read.

    token = "tg_" + 32 random bytes            the file holds sha256(token), never the token

A token carries 256 random bits, so that one plain hash is as good as a slow one. A presented token is compared with
every entry in constant time, whether or not one matches. Scope `write` includes `read`.
"""

from __future__ import annotations

import hmac
import json
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from tapgnn.errors import ConfigError
from tapgnn.file_integrity import bytes_sha256, write_atomically

Scope = Literal["read", "write"]
SCOPES: tuple[Scope, ...] = ("read", "write")
FORMAT = 1


@dataclass(frozen=True)
class TokenEntry:
    """What is stored of a token: a name, its scope, its hash, and when it was created."""

    name: str
    scope: Scope
    sha256: str
    created: str


class Tokens:
    """The tokens that a server accepts.

    >>> tokens = Tokens()
    >>> text = tokens.add("read", "dashboard")
    >>> tokens.scope_of(text), tokens.scope_of("tg_wrong"), text in repr(tokens.entries)
    ('read', None, False)
    """

    def __init__(self, entries: list[TokenEntry] | None = None) -> None:
        self.entries = list(entries or [])

    def add(self, scope: Scope, name: str = "") -> str:
        """Make a token and keep its hash; the token itself is returned and not kept."""
        if scope not in SCOPES:
            raise ConfigError(f"a token has scope {' or '.join(SCOPES)}, not {scope!r}")
        text = "tg_" + secrets.token_urlsafe(32)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.entries.append(TokenEntry(name or f"{scope}-{len(self.entries) + 1}", scope, _digest(text), now))
        return text

    def scope_of(self, text: str) -> Scope | None:
        """The scope of a presented token, None where it is not one of these."""
        shown, found = _digest(text), None
        for entry in self.entries:
            if hmac.compare_digest(shown, entry.sha256):
                found = entry.scope
        return found

    def save(self, path: str | Path) -> None:
        """Write the file, readable by its owner only, whole or not at all."""
        content = json.dumps({"format": FORMAT, "tokens": [asdict(entry) for entry in self.entries]}, indent=2)
        write_atomically(path, content + "\n", mode=0o600)

    @classmethod
    def load(cls, path: str | Path) -> Tokens:
        """Read what `save` wrote; a file with anything else in it is refused."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            entries = [TokenEntry(**entry) for entry in content["tokens"]]
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be read ({error.strerror}); make one with 'tapgnn token new --file {path}'"
            ) from None
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f"{path} is not a token file; make one with 'tapgnn token new --file {path}'") from None
        if content.get("format") != FORMAT or any(entry.scope not in SCOPES for entry in entries):
            raise ConfigError(f"{path} has a format or a scope that this version does not know; make the tokens again")
        return cls(entries)


def _digest(text: str) -> str:
    return bytes_sha256(text.encode("utf-8", "surrogatepass"))
