"""Plans."""
from harness.engine import SqlConnection
from harness.plan import ExecutedPlan


def explain(connection: SqlConnection, sql: str) -> ExecutedPlan:
    """Plan."""
    raise NotImplementedError
