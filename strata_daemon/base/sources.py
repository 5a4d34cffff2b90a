"""Where a setting's value may stand: flags, environment, TOML file, defaults of a command; the first that has it wins.

Knows places, not meanings: kinds are in `knobs`, rules in `settings`. Reads the file once; main thread, at start.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from strata_daemon.base import gateway_names

if TYPE_CHECKING:
    from strata_daemon.base.knobs import Setting

CONFIG_FILE = "STRATA_CONFIG_FILE"

# The settings that also have a flag of the command line.
FLAGS = {
    CONFIG_FILE: "--config",
    "STRATA_WORKERS": "--workers",
    "STRATA_STATE_DIR": "--state-dir",
    "STRATA_DAEMON_LISTEN": "--listen",
    "STRATA_NODE_ID": "--node-id",
    "STRATA_LOG_LEVEL": "--log-level",
    "STRATA_LOG_FORMAT": "--log-format",
}


@dataclass(frozen=True, slots=True)
class Found:
    """A value as it was written, and where, in words for a message."""

    written: Any
    where: str


class Sources:
    """`flags` and `fallbacks` go by STRATA_* name. A flag that is None and a variable that is blank count as absent.

    `problems` holds a sentence when there is a settings file that cannot be read.
    """

    def __init__(
        self,
        flags: Mapping[str, str | None],
        environ: Mapping[str, str],
        fallbacks: Mapping[str, str] | None = None,
    ) -> None:
        self._flags = {name: value for name, value in flags.items() if value is not None}
        self._environ = {name: value for name, value in environ.items() if value.strip()}
        self._fallbacks = fallbacks or {}
        self.problems: list[str] = []
        self.path = self._flags.get(CONFIG_FILE) or self._environ.get(CONFIG_FILE)
        self._file = self._read_file() if self.path else {}

    def find(self, setting: Setting) -> Found | None:
        if setting.env in self._flags:
            return Found(self._flags[setting.env], FLAGS.get(setting.env, f"the flag for {setting.env}"))
        if setting.env in self._environ:
            return Found(self._environ[setting.env], f"{setting.env} in the environment")
        if setting.key in self._file:
            return Found(self._file[setting.key], f"{setting.key} in {self.path}")
        if setting.env in self._fallbacks:
            return Found(self._fallbacks[setting.env], f"this command's default of {setting.env}")
        return None

    def warnings(self, known: Iterable[Setting]) -> list[str]:
        """A sentence for each name that nobody reads, with the nearest that is read. The gateways' names are fine."""
        settings = list(known)
        names, keys = [CONFIG_FILE, *(setting.env for setting in settings)], [setting.key for setting in settings]
        stray_names = [
            name
            for name in sorted(self._environ)
            if name.startswith("STRATA_") and name not in names and not gateway_names.is_gateway_variable(name)
        ]
        stray_keys = [key for key in self._file if key not in keys and not gateway_names.is_gateway_key(key)]
        return [
            *(f"The variable {name} is not read by strata-daemon{_hint(name, names)}" for name in stray_names),
            *(f"The key {key} in {self.path} is not read by strata-daemon{_hint(key, keys)}" for key in stray_keys),
        ]

    def _read_file(self) -> dict[str, Any]:
        try:
            with open(str(self.path), "rb") as file:
                return _flat(tomllib.load(file))
        except (OSError, ValueError) as exc:  # ValueError: not TOML, not UTF-8, or a NUL in the path
            reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else exc
            self.problems.append(
                f"The settings file {self.path!r} ({CONFIG_FILE} or --config) cannot be read: {reason}; it must be a "
                "TOML file: correct it, or leave it out."
            )
            return {}


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A TOML table with its keys written with dots."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _hint(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.8)
    return f"; did you mean {near[0]}?" if near else "."
