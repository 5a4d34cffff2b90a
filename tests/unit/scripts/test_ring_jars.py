"""Jars are used when they are whole, and fetched anew when they are not. Maven is a shell script here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ring import RingError, jars
from ring.jars import STAMP, VERSION

JAR = f"cassandra-all-{VERSION}.jar"


class Maven:
    """A stand-in that writes what `script` says into the output folder ($OUT)."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._mvn = folder / "mvn"
        self._calls = folder / "calls"
        self.does(f'echo jar >"$OUT/{JAR}"; echo jar >"$OUT/other.jar"')
        monkeypatch.setattr(jars.java, "require", lambda *, maven, say: (Path("/jvm/bin/java"), self._mvn))

    def does(self, script: str) -> None:
        self._mvn.write_text(
            f"#!/bin/sh\necho called >>{self._calls}\n"
            "for argument; do case $argument in -DoutputDirectory=*) OUT=${argument#*=};; esac; done\n"
            f"{script}\n"
        )
        self._mvn.chmod(0o755)

    @property
    def calls(self) -> int:
        return len(self._calls.read_text().splitlines()) if self._calls.exists() else 0


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maven:
    return Maven(tmp_path, monkeypatch)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "jars"


def names(cache: Path) -> list[str]:
    return [jar.name for jar in jars.require(cache, lambda _: None)]


def test_jars_are_fetched_once(cache: Path, maven: Maven) -> None:
    assert names(cache) == [JAR, "other.jar"]
    assert names(cache) == [JAR, "other.jar"]
    assert maven.calls == 1
    assert not (cache / f"{VERSION}.new").exists()


def test_jars_laid_flat_by_hand_are_taken(cache: Path, maven: Maven) -> None:
    cache.mkdir()
    (cache / JAR).touch()
    assert names(cache) == [JAR]
    assert maven.calls == 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "other.jar").unlink(),
        lambda folder: (folder / "other.jar").write_text("j"),
        lambda folder: (folder / STAMP).unlink(),
        lambda folder: folder.rename(folder.with_name(f"{VERSION}.new")),
    ],
    ids=["jar-missing", "jar-cut", "no-stamp", "killed-before-the-end"],
)
def test_a_broken_folder_is_made_anew(cache: Path, maven: Maven, damage: Callable[[Path], object]) -> None:
    names(cache)
    damage(cache / VERSION)
    assert names(cache) == [JAR, "other.jar"]
    assert maven.calls == 2
    assert (cache / VERSION / "other.jar").read_text() == "jar\n"


def test_a_failed_maven_shows_its_errors_and_leaves_no_jars(cache: Path, maven: Maven) -> None:
    maven.does(f'echo jar >"$OUT/{JAR}"; echo "[INFO] tries"; echo "[ERROR] no such host"; exit 1')
    with pytest.raises(RingError, match=r"could not fetch the jars.*\n\[ERROR\] no such host$"):
        names(cache)
    assert jars.find(cache) is None


def test_a_maven_that_brings_nothing_is_said(cache: Path, maven: Maven) -> None:
    maven.does("exit 0")
    with pytest.raises(RingError, match=f"left no {JAR}"):
        names(cache)
