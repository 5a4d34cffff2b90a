"""What is missing is installed where that is possible, and else said with the command that does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ring import RingError, java

BOTH = "openjdk-17-jre-headless maven"


class Machine:
    """A machine with an empty PATH but for what is put there."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bin = folder / "bin"
        self.jvms = folder / "jvm"
        self.bin.mkdir()
        monkeypatch.setenv("PATH", str(self.bin))
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setattr(java, "JVMS", self.jvms)

    def puts(self, path: Path, script: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def java(self, path: Path, version: str) -> Path:
        return self.puts(path, f"echo 'openjdk version \"{version}\" 2026-01-01' >&2")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def require(maven: bool = True) -> tuple[Path, Path | None]:
    return java.require(maven=maven, say=lambda _: None)


def test_java_on_the_path_is_taken_when_it_is_17(machine: Machine) -> None:
    found = machine.java(machine.bin / "java", "17.0.15")
    assert require(maven=False) == (found, None)


def test_a_newer_java_on_the_path_is_passed_over_for_a_17_elsewhere(machine: Machine) -> None:
    machine.java(machine.bin / "java", "25.0.1")
    machine.java(machine.jvms / "a-21" / "bin" / "java", "21.0.2")
    found = machine.java(machine.jvms / "b-17" / "bin" / "java", "17.0.1")
    assert require(maven=False)[0] == found


def test_java_home_goes_first(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.java(machine.bin / "java", "17.0.15")
    found = machine.java(tmp_path / "home" / "bin" / "java", "17.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert require(maven=False)[0] == found


def test_without_apt_the_packages_are_named(machine: Machine) -> None:
    with pytest.raises(RingError, match=f"needs Java 17 and Maven: install the equivalent of Debian's {BOTH}"):
        require()


def test_without_root_the_command_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.puts(machine.bin / "apt-get", "exit 1")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(RingError, match=f"needs Java 17 and Maven; call: sudo apt-get install {BOTH}\n"):
        require()


def test_only_what_is_missing_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.puts(machine.bin / "apt-get", "exit 1")
    machine.java(machine.bin / "java", "17.0.15")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(RingError, match="needs Maven; call: sudo apt-get install maven\n"):
        require()


class TestRoot:
    @pytest.fixture(autouse=True)
    def _root(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 0)

    def test_it_installs_what_is_missing(self, machine: Machine) -> None:
        calls = machine.bin.parent / "calls"
        installed = machine.java(machine.bin.parent / "java", "17.0.15")
        machine.puts(machine.bin.parent / "mvn", "exit 0")
        moves = f'echo "$@" >>{calls}; [ $1 = update ] || /bin/mv {installed} {machine.bin.parent}/mvn {machine.bin}'
        machine.puts(machine.bin / "apt-get", moves)
        assert require() == (machine.bin / "java", machine.bin / "mvn")
        assert calls.read_text().splitlines() == ["update -q", f"install -q -y --no-install-recommends {BOTH}"]

    def test_a_failed_installation_is_said(self, machine: Machine) -> None:
        machine.puts(machine.bin / "apt-get", "[ $1 = update ]")
        with pytest.raises(RingError, match="apt-get install failed"):
            require()

    def test_an_installation_that_brings_nothing_is_said(self, machine: Machine) -> None:
        machine.puts(machine.bin / "apt-get", "exit 0")
        with pytest.raises(RingError, match="found no Java 17 and no Maven, even after the installation"):
            require()
