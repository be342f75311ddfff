"""--config run.toml: the options of a command from a file.

The file is flat: a key is the long name of an option without the dashes, `learning-rate = 0.001` (or `learning_rate`).
The command line takes precedence over the file. An unknown key is an error, so that a typo never trains another model
than intended.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any

import typer

from tapgnn.errors import ConfigError

NEVER = {"config", "help"}


def read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Use the content of the file as the defaults of this call."""
    if path is not None:
        context.meta["config"] = path
        context.default_map = {**(context.default_map or {}), **_defaults(context, path)}
    return path


def _defaults(context: typer.Context, path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}; write lines such as width = 32") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); pass --config with a TOML file") from None
    known = _options(context)
    defaults: dict[str, Any] = {}
    for key, value in content.items():
        name = key.replace("_", "-")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            cure = f"did you mean {near[0]}?" if near else f"the options are {', '.join(sorted(known))}"
            raise ConfigError(f"{path}: {context.command_path} has no option {key!r}; {cure}")
        parameter, sign = known[name]
        if parameter.name in defaults:
            raise ConfigError(f"{path}: {key!r} is given twice, under different names; remove one of them")
        defaults[parameter.name] = _value(f"{path}: {key}", value, parameter, sign)
    return defaults


def _options(context: typer.Context) -> dict[str, tuple[Any, bool]]:
    """The options of a command by long name, and whether the name turns a flag on or off."""
    found: dict[str, tuple[Any, bool]] = {}
    for parameter in context.command.params:
        for sign, names in ((True, parameter.opts), (False, parameter.secondary_opts)):
            found |= {name[2:]: (parameter, sign) for name in names if name.startswith("--")}
    return {name: entry for name, entry in found.items() if name not in NEVER}


def _value(place: str, value: Any, parameter: Any, sign: bool) -> bool | str:
    """A value as on the command line."""
    if parameter.is_flag:
        if not isinstance(value, bool):
            raise ConfigError(f"{place} must be true or false, not {value!r}")
        return value is sign
    items = value if isinstance(value, list) else [value]
    if not items or any(isinstance(item, bool) or not isinstance(item, str | int | float) for item in items):
        raise ConfigError(f"{place} must be a number or a string, not {value!r}")
    return ",".join(str(item) for item in items)
