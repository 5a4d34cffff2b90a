"""The jars of a released Cassandra: fetched once by Maven, kept with a stamp, shared by every ring. Runs no Java."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from ring import java
from ring.errors import RingError
from ring.state import locked

VERSION = "5.0.9"
STAMP = "stamp"
SAY_EVERY_S = 5.0

# Only collects jars. No tarball of 5.0 is published where Maven looks; cassandra-all is what the tarball's lib holds.
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId>
  <artifactId>ring-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.cassandra</groupId>
      <artifactId>cassandra-all</artifactId>
      <version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


def find(cache: Path) -> list[Path] | None:
    """The jars in `cache`, if they are whole: ours bear a stamp; jars laid flat into `cache` by hand are trusted."""
    if (cache / f"cassandra-all-{VERSION}.jar").is_file():
        return sorted(cache.glob("*.jar"))
    folder = cache / VERSION
    try:
        stamp = (folder / STAMP).read_text()
    except FileNotFoundError:
        return None
    return sorted(folder.glob("*.jar")) if stamp == _stamp(folder) else None


def require(cache: Path, say: Callable[[str], None]) -> list[Path]:
    """The jars in `cache`, fetched when they are missing or not whole. Several callers fetch once."""
    jars = find(cache)
    if jars:
        return jars
    with locked(cache / "lock", say):
        jars = find(cache)
        if not jars:
            _fetch(cache, say)
            jars = find(cache)
    if not jars:
        raise RingError(
            f"the jars in {cache / VERSION} changed while they were fetched: remove it and call this again."
        )
    return jars


def _fetch(cache: Path, say: Callable[[str], None]) -> None:
    java_17, maven = java.require(maven=True, say=say)
    folder, fresh = cache / VERSION, cache / f"{VERSION}.new"
    for leftover in (folder, fresh):
        shutil.rmtree(leftover, ignore_errors=True)
    fresh.mkdir()
    (fresh / "pom.xml").write_text(POM)
    say(f"fetching the jars of Cassandra {VERSION} by Maven into {folder} (about 65 MB, once)")
    command = [str(maven), "-B", "-f", str(fresh / "pom.xml"), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={fresh}"]
    _run_maven(command, java_17.parents[1], fresh, say)
    if not (fresh / f"cassandra-all-{VERSION}.jar").is_file():
        raise RingError(f"Maven left no cassandra-all-{VERSION}.jar in {fresh}; what it said is in {fresh / 'log'}.")
    (fresh / STAMP).write_text(_stamp(fresh))
    # Last: what bears the final name is whole.
    fresh.rename(folder)


def _run_maven(command: list[str], java_home: Path, folder: Path, say: Callable[[str], None]) -> None:
    log = folder / "log"
    environment = {**os.environ, "JAVA_HOME": str(java_home)}
    began = time.monotonic()
    with (
        log.open("wb") as sink,
        subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink) as maven,
    ):
        while True:
            try:
                code = maven.wait(SAY_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                jars = len(list(folder.glob("*.jar")))
                say(f"  Maven works since {time.monotonic() - began:.0f} s; {jars} jars are there")
            except BaseException:
                maven.terminate()
                raise
    if code != 0:
        errors = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("[ERROR]")]
        shown = "\n".join(errors[:4])
        raise RingError(f"Maven could not fetch the jars; all it said is in {log}. Is the network there?\n{shown}")


def _stamp(folder: Path) -> str:
    """The jars by name and size: a missing, cut or added one shows."""
    return "".join(f"{jar.name} {jar.stat().st_size}\n" for jar in sorted(folder.glob("*.jar")))
