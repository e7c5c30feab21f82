"""An engine that does nothing, for tests of what runs around one."""

from harness.engine import Engine, EngineVersion


class IdleEngine(Engine):
    """An engine with a release, and all else as the base class has it."""

    def version(self) -> EngineVersion:
        return EngineVersion("idle", "1.0", "1.0", "test")
