"""Where values come from, what is refused and in which words, and that the sample file says what the models say."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_daemon import settings
from strata_daemon.base.errors import ConfigError
from strata_daemon.cli.settings import sample_file
from strata_daemon.leader.store import Allowance
from strata_daemon.workers.registry import BUILTIN, Entry

ROOT = Path(__file__).parents[2]


def loaded(**environ: str) -> settings.Settings:
    return settings.load({}, environ).settings


def problems(flags: dict[str, str | None] | None = None, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        settings.load(flags or {}, environ, needs_workers="STRATA_WORKERS" in environ)
    return caught.value.problems


def only_problem(**environ: str) -> str:
    found = problems(**environ)
    assert len(found) == 1, found
    return found[0]


def test_defaults_are_those_of_the_issue() -> None:
    got = loaded(XDG_STATE_HOME="/x")
    assert (got.meta_backend, got.data_backend, got.region) == ("sqlite", "dir", "strata-local")
    assert (got.lease_ttl_s, got.lease_renew_s, got.lease_poll_s, got.lease_stop_budget_s) == (30, 10, 5, 2)
    assert (got.listen_host, got.listen_port, got.shutdown_wait_s) == ("127.0.0.1", 9321, 20)
    assert (got.log_level, got.log_format, got.workers) == ("info", "auto", ())
    gc = got.worker("gc")
    assert (gc.interval_s, gc.grace_s, gc.batch_size, gc.concurrency, gc.shards) == (30, 300, 500, 1, 1)
    assert got.node_id == f"{os.uname().nodename}-strata-daemon"


def test_state_folder_follows_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert loaded().state_dir == Path("/home/somebody/.local/state/strata-daemon")
    assert loaded(XDG_STATE_HOME="/x").state_dir == Path("/x/strata-daemon")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert loaded().state_dir == Path("/var/lib/strata-daemon")


def test_flag_beats_environment_beats_file_beats_fallback_beats_default(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('region = "file"\n[workers.gc]\nshards = 4\ninterval = "7s"\n')
    environ = {"STRATA_CONFIG_FILE": str(file), "STRATA_REGION": "env", "STRATA_GC_SHARDS": "5"}
    fallbacks = {"STRATA_GC_INTERVAL": "1s", "STRATA_GC_GRACE": "2s"}
    got = settings.load({"STRATA_REGION": "flag", "STRATA_NODE_ID": None}, environ, fallbacks=fallbacks).settings
    gc = got.worker("gc")
    assert (got.region, gc.shards, gc.interval_s, gc.grace_s, gc.batch_size) == ("flag", 5, 7, 2, 500)


def test_blank_variable_counts_as_absent() -> None:
    assert loaded(STRATA_REGION=" ", STRATA_LEASE_TTL="").region == "strata-local"


def test_settings_cannot_be_changed() -> None:
    got = loaded()
    with pytest.raises(ValueError, match="frozen"):
        got.region = "x"
    with pytest.raises(ValueError, match="frozen"):
        got.worker("gc").shards = 2


def test_all_problems_come_at_once() -> None:
    found = problems(
        STRATA_WORKERS="gc,nope",
        STRATA_GC_SHARDS="0",
        STRATA_GC_INTERVAL="-5s",
        STRATA_LEASE_TTL="1s",
        STRATA_NODE_ID="a/b",
        STRATA_CONFIG_FILE="/does/not/exist",
    )
    text = "\n".join(found)
    for part in ("'nope'", "STRATA_GC_SHARDS", "STRATA_GC_INTERVAL", "STRATA_LEASE_TTL", "STRATA_NODE_ID", "/does/not"):
        assert part in text
    assert len(found) == 6


def test_problem_says_what_where_got_allowed_and_what_to_do() -> None:
    assert only_problem(STRATA_GC_SHARDS="1025") == (
        "The number of gc shards is '1025' (STRATA_GC_SHARDS in the environment), but it must be a whole number from "
        "1 to 1024; correct it, or leave it out for 1."
    )


def test_problem_names_the_flag_or_the_key_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text("[lease]\npoll = true\n")
    found = problems({"STRATA_LOG_LEVEL": "loud"}, STRATA_CONFIG_FILE=str(file))
    assert "(--log-level)" in found[1]
    assert f"is True (lease.poll in {file})" in found[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STRATA_GC_BATCH_SIZE", "-1"),
        ("STRATA_GC_BATCH_SIZE", "10001"),
        ("STRATA_GC_BATCH_SIZE", "1e3"),
        ("STRATA_GC_CONCURRENCY", "0"),
        ("STRATA_GC_CONCURRENCY", "257"),
        ("STRATA_GC_SHARDS", "٣"),
        ("STRATA_GC_GRACE", "-1s"),
        ("STRATA_LEASE_TTL", "0"),
        ("STRATA_LEASE_TTL", "900ms"),
        ("STRATA_LEASE_TTL", "30500ms"),
        ("STRATA_LEASE_RENEW", "0"),
        ("STRATA_SHUTDOWN_WAIT", "0s"),
        ("STRATA_LOG_FORMAT", "xml"),
        ("STRATA_META_BACKEND", "tikv"),
        ("STRATA_DATA_BACKEND", "s3"),
        ("STRATA_NODE_ID", "a/b"),
        ("STRATA_NODE_ID", "a\nb"),
        ("STRATA_NODE_ID", "ä" * 101),
        ("STRATA_NODE_ID", "\udcff"),
        ("STRATA_DAEMON_LISTEN", "9321"),
        ("STRATA_DAEMON_LISTEN", "::1:9321"),
        ("STRATA_DAEMON_LISTEN", "localhost:65536"),
        ("STRATA_DAEMON_LISTEN", "localhost:"),
        ("STRATA_DAEMON_LISTEN", "local host:80"),
        ("STRATA_STATE_DIR", "~nobody-of-this-name/x"),
    ],
)
def test_value_out_of_bounds_is_refused(name: str, value: str) -> None:
    assert name in only_problem(**{name: value})


@pytest.mark.parametrize(
    ("value", "host", "port"),
    [
        ("127.0.0.1:9321", "127.0.0.1", 9321),
        ("[::1]:80", "::1", 80),
        (":0", "0.0.0.0", 0),
        ("example.org:65535", "example.org", 65535),
        ("OFF", "", None),
    ],
)
def test_listen_address_is_read(value: str, host: str, port: int | None) -> None:
    got = loaded(STRATA_DAEMON_LISTEN=value)
    assert (got.listen_host, got.listen_port) == (host, port)


def test_zero_means_the_default_for_gc_interval_grace_and_batch() -> None:
    gc = loaded(STRATA_GC_INTERVAL="0", STRATA_GC_GRACE="0s", STRATA_GC_BATCH_SIZE="0").worker("gc")
    assert (gc.interval_s, gc.grace_s, gc.batch_size) == (30, 300, 500)


def test_workers_are_a_comma_list_without_repeats() -> None:
    assert loaded(STRATA_WORKERS=" gc, x,gc,,").workers == ("gc", "x")


def test_workers_may_be_a_list_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('[workers]\nenabled = ["gc", "gc"]\n')
    assert loaded(STRATA_CONFIG_FILE=str(file)).workers == ("gc",)


@pytest.mark.parametrize("body", [b"x = ", b"\xff\xfe", b'region = "a"\nregion = "b"\n'])
def test_file_that_is_no_toml_is_one_problem(tmp_path: Path, body: bytes) -> None:
    file = tmp_path / "s.toml"
    file.write_bytes(body)
    assert str(file) in only_problem(STRATA_CONFIG_FILE=str(file))


def test_missing_file_is_named_with_its_reason() -> None:
    assert "No such file" in only_problem(STRATA_CONFIG_FILE="/does/not/exist")


def test_no_worker_is_a_problem_only_for_who_needs_one() -> None:
    assert loaded().workers == ()
    with pytest.raises(ConfigError, match="known|one or more of: gc"):
        settings.load({}, {}, needs_workers=True)


def test_misspelt_variable_warns_with_the_nearest() -> None:
    (warning,) = settings.load({}, {"STRATA_GC_SHARD": "3"}).warnings
    assert "STRATA_GC_SHARD is not read" in warning
    assert "did you mean STRATA_GC_SHARDS?" in warning


def test_misspelt_key_warns_with_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('[workers.gc]\nintervall = "3s"\n')
    (warning,) = settings.load({}, {"STRATA_CONFIG_FILE": str(file)}).warnings
    assert "did you mean workers.gc.interval?" in warning


def test_names_of_the_gateways_do_not_warn(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('listen = ":9000"\n[cassandra]\nhosts = ["a"]\n[workers.lifecycle]\nunit = "day"\n')
    environ = {"STRATA_LISTEN": ":9000", "STRATA_CASSANDRA_HOSTS": "a", "STRATA_GC_DUAL_WRITE": "off"}
    assert settings.load({}, {**environ, "STRATA_CONFIG_FILE": str(file)}).warnings == ()


def test_no_setting_of_ours_passes_for_a_gateways() -> None:
    from strata_daemon.base.gateway_names import is_gateway_key, is_gateway_variable

    for setting in settings.all_settings():
        assert not is_gateway_variable(setting.env)
        assert not is_gateway_key(setting.key)


def test_worker_without_settings_has_none() -> None:
    registry = {**BUILTIN, "plain": Entry("does nothing", worker="nowhere:X")}
    assert settings.load({}, {}, registry=registry).settings.worker("plain") is None


@pytest.mark.parametrize(("ttl", "renew", "budget"), [(3, 1, 0.5), (10, 2, 1), (30, 10, 2), (1, 0.2, 0.2)])
def test_documented_timings_fit(ttl: int, renew: float, budget: float) -> None:
    assert settings.timing_problems(ttl, renew, budget) == []


def test_ttl_that_is_too_short_is_refused_with_the_numbers() -> None:
    (problem,) = settings.timing_problems(10, 5, 2)
    assert "10s, but it must be at least 11.3s = renew 5s" in problem
    assert "3 tries x 1.43s + rounding 0s + skew 0s + stop budget 2s" in problem
    assert "raise the TTL to 13s" in problem


def test_renew_longer_than_ttl_is_refused_in_its_own_words() -> None:
    assert "before its first renewal" in only_problem(STRATA_LEASE_RENEW="40s")


def test_ttl_of_one_second_with_default_times_is_refused() -> None:
    assert "is 1s" in only_problem(STRATA_LEASE_TTL="1s")


def test_allowance_of_the_store_counts() -> None:
    assert settings.timing_problems(30, 10, 2, Allowance(1, 8)) == []
    assert settings.timing_problems(30, 10, 2, Allowance(1, 9)) != []


@given(
    ttl=st.integers(1, 3600),
    renew=st.floats(0.05, 3600),
    budget=st.floats(0, 3600),
)
def test_timing_that_passes_leaves_room_for_three_tries(ttl: int, renew: float, budget: float) -> None:
    """faults.md 62: either refused, or three tries after a renewal period end before the validity does."""
    if settings.timing_problems(ttl, renew, budget) == []:
        assert renew + 3 * min(3.0, ttl / 7) <= ttl - budget + 1e-6
    else:
        assert renew + 3 * min(3.0, ttl / 7) > ttl - budget - 1e-6


def test_sample_file_is_what_the_models_say() -> None:
    assert (ROOT / "etc/strata-daemon.toml").read_text() == sample_file(), (
        "call: strata-daemon settings > etc/strata-daemon.toml"
    )


def test_sample_file_read_as_settings_gives_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(sample_file())
    got = settings.load({}, {"STRATA_CONFIG_FILE": str(file)})
    assert got == settings.load({}, {})
    assert got.warnings == ()


def test_sample_file_names_every_setting_once() -> None:
    text = sample_file()
    for setting in settings.all_settings():
        assert text.count(f"[{setting.env}]") == 1 or re.search(rf"\[{setting.env}\]", text.replace("\n# ", " "))

    def keys(table: dict[str, Any], prefix: str = "") -> set[str]:
        return {
            key
            for name, value in table.items()
            for key in (keys(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}"})
        }

    fixed = {setting.key for setting in settings.all_settings() if setting.default is not None}
    assert keys(tomllib.loads(text)) == fixed
