"""Finds Java 17 and Maven, and installs what is missing where that is possible. Runs neither for anything else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from ring.errors import RingError

# Cassandra 5.0 installs a SecurityManager, which newer releases refuse; 11 would want other module flags.
RELEASE = 17
JVMS = Path("/usr/lib/jvm")

JAVA_PACKAGE = f"openjdk-{RELEASE}-jre-headless"
MAVEN_PACKAGE = "maven"


def find_java() -> Path | None:
    for java in _candidates():
        if _release(java) == RELEASE:
            return java
    return None


def find_maven() -> Path | None:
    found = shutil.which("mvn")
    return Path(found) if found else None


def require(*, maven: bool, say: Callable[[str], None]) -> tuple[Path, Path | None]:
    """Java, and Maven when it is wanted; installs what is missing, or raises RingError with the command that does."""
    missing = _missing(maven)
    if missing:
        _install(missing, say)
        missing = _missing(maven)
    java = find_java()
    if missing or java is None:
        raise RingError(f"found no {' and no '.join(missing.values())}, even after the installation.")
    return java, find_maven() if maven else None


def _missing(maven: bool) -> dict[str, str]:
    """Debian's package: what it gives."""
    missing = {}
    if find_java() is None:
        missing[JAVA_PACKAGE] = f"Java {RELEASE}"
    if maven and find_maven() is None:
        missing[MAVEN_PACKAGE] = "Maven"
    return missing


def _install(missing: dict[str, str], say: Callable[[str], None]) -> None:
    wanted, packages = " and ".join(missing.values()), " ".join(missing)
    by_hand = f"or put {wanted} on the PATH yourself (JAVA_HOME is looked at, too)"
    apt = shutil.which("apt-get")
    if apt is None:
        raise RingError(f"a ring needs {wanted}: install the equivalent of Debian's {packages}, {by_hand}.")
    if os.geteuid() != 0:
        raise RingError(f"a ring needs {wanted}; call: sudo apt-get install {packages}\n{by_hand}.")
    say(f"installing {packages} by apt-get")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *missing]):
        # Its output is progress: the standard output is for results.
        done = subprocess.run([apt, *arguments], env=environment, stdout=sys.stderr, check=False)
        if done.returncode != 0:
            raise RingError(f"apt-get {arguments[0]} failed (see above): call apt-get install {packages}, {by_hand}.")


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    named = [Path(home, "bin/java")] if home else []
    named += [Path(on_path)] if on_path else []
    seen = set()
    for java in [*named, *sorted(JVMS.glob("*/bin/java"))]:
        real = java.resolve()
        if real.is_file() and real not in seen:
            seen.add(real)
            yield real


def _release(java: Path) -> int | None:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)', done.stderr)
    return int(match[1]) if match else None
