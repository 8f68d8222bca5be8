"""The table of the settings in the docs is what the code says."""

from pathlib import Path

from a2a_grpc.server.settings import Settings
from a2a_grpc.server.settings.source import all_settings
from a2a_grpc.server.settings.table import markdown

ROOT = Path(__file__).parents[2]


def test_the_table_in_the_docs_is_current() -> None:
    written = (ROOT / "docs" / "SETTINGS.md").read_text()

    assert written == markdown(), "run: python -m a2a_grpc.server.settings.table > docs/SETTINGS.md"


def test_every_setting_has_a_sentence_and_a_name_of_its_own() -> None:
    settings = list(all_settings(Settings))
    names = [setting.variable.name for setting in settings]

    assert len(names) == len(set(names))
    assert [setting.variable.name for setting in settings if not setting.variable.doc.endswith(".")] == []
    # What OpenTelemetry has a name for keeps it.
    assert all(name.startswith(("A2A_", "OTEL_")) for name in names)


def test_every_duration_and_size_says_its_unit() -> None:
    numbers = [
        setting
        for setting in all_settings(Settings)
        if setting.info.annotation is float and setting.variable.name != "OTEL_TRACES_SAMPLER_ARG"  # a share
    ]

    assert numbers
    assert {setting.variable.unit for setting in numbers} == {"seconds"}
