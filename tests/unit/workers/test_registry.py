"""Names become workers, and a wrong name is answered without importing anybody's code."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

from strata_daemon.base.errors import ConfigError
from strata_daemon.workers.registry import BUILTIN, Entry, name_problems, resolve, settings_models


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, Entry]:
    module = ModuleType("workers_of_a_test")
    module.A, module.B = object(), object()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return {
        "a": Entry("first", worker="workers_of_a_test:A"),
        "b": Entry("second", worker="workers_of_a_test:B"),
        "broken": Entry("never imported", worker="no_such_module:X"),
    }


def test_names_resolve_in_order_and_once(registry: dict[str, Entry]) -> None:
    module = sys.modules["workers_of_a_test"]
    assert resolve(["b", "a", "b"], registry) == [module.B, module.A]


def test_unknown_names_are_all_named_with_the_known_ones(registry: dict[str, Entry]) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(["a", "nope", "broken", "never"], registry)
    assert ["'nope'" in caught.value.problems[0], "'never'" in caught.value.problems[1]] == [True, True]
    assert "a, b, broken" in caught.value.problems[0]


def test_no_name_is_refused_with_the_list(registry: dict[str, Entry]) -> None:
    with pytest.raises(ConfigError, match="one or more of: a, b, broken"):
        resolve([], registry)


def test_good_names_have_no_problem() -> None:
    assert name_problems(["gc"]) == []


def test_settings_models_belong_to_their_workers() -> None:
    assert set(settings_models()) <= set(BUILTIN)
    assert settings_models()["gc"].__name__ == "GCSettings"


def test_a_worker_that_nobody_chose_is_not_imported() -> None:
    program = (
        "import sys; from strata_daemon import settings; settings.load({}, {});"
        "print([m for m in sys.modules if m.startswith('strata_daemon.workers.gc.worker') or m == 'falcon'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "[]"
