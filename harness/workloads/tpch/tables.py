"""The eight tables: columns, cardinalities and sizes.

Types are those of standard SQL that hold every value of clause 1.4 in any engine;
an engine's own ``10_tables.sql`` may choose others of the same range and scale.
"""

from __future__ import annotations

from collections.abc import Mapping


def _columns(text: str) -> Mapping[str, str]:
    return dict(column.split(":") for column in text.split())


#: Name and type of every column, in the order of the generated files.
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "region": _columns("r_regionkey:integer r_name:varchar r_comment:varchar"),
    "nation": _columns("n_nationkey:integer n_name:varchar n_regionkey:integer n_comment:varchar"),
    "supplier": _columns(
        "s_suppkey:integer s_name:varchar s_address:varchar s_nationkey:integer"
        " s_phone:varchar s_acctbal:decimal(15,2) s_comment:varchar"
    ),
    "customer": _columns(
        "c_custkey:integer c_name:varchar c_address:varchar c_nationkey:integer"
        " c_phone:varchar c_acctbal:decimal(15,2) c_mktsegment:varchar c_comment:varchar"
    ),
    "part": _columns(
        "p_partkey:integer p_name:varchar p_mfgr:varchar p_brand:varchar p_type:varchar"
        " p_size:integer p_container:varchar p_retailprice:decimal(15,2) p_comment:varchar"
    ),
    "partsupp": _columns(
        "ps_partkey:integer ps_suppkey:integer ps_availqty:integer"
        " ps_supplycost:decimal(15,2) ps_comment:varchar"
    ),
    "orders": _columns(
        "o_orderkey:bigint o_custkey:integer o_orderstatus:varchar o_totalprice:decimal(15,2)"
        " o_orderdate:date o_orderpriority:varchar o_clerk:varchar o_shippriority:integer"
        " o_comment:varchar"
    ),
    "lineitem": _columns(
        "l_orderkey:bigint l_partkey:integer l_suppkey:integer l_linenumber:integer"
        " l_quantity:decimal(15,2) l_extendedprice:decimal(15,2) l_discount:decimal(15,2)"
        " l_tax:decimal(15,2) l_returnflag:varchar l_linestatus:varchar l_shipdate:date"
        " l_commitdate:date l_receiptdate:date l_shipinstruct:varchar l_shipmode:varchar"
        " l_comment:varchar"
    ),
}
TABLES: tuple[str, ...] = tuple(COLUMNS)

#: Rows per unit of scale (clause 4.2.5.1); nation and region have the same number at any.
_ROWS_PER_SCALE = {
    "supplier": 10_000,
    "customer": 150_000,
    "part": 200_000,
    "orders": 1_500_000,
}
#: An order has 1 to 7 lines, drawn: the table's cardinality is known for the TPC's own
#: scales only (clause 4.2.5.1) and counted from the generator's output for all others.
_LINEITEM_ROWS: Mapping[float, int] = {
    1: 6_001_215,
    10: 59_986_052,
    30: 179_998_372,
    100: 600_037_902,
    300: 1_799_989_091,
    1_000: 5_999_989_709,
    3_000: 18_000_048_306,
    10_000: 59_999_994_267,
    30_000: 179_999_978_268,
    100_000: 599_999_969_200,
}
OFFICIAL_SCALES: tuple[float, ...] = tuple(_LINEITEM_ROWS)


def expected_rows(table: str, scale: float) -> int | None:
    """Cardinality of ``table``; None for lineitem at a scale that is not the TPC's."""
    if table == "region":
        return 5
    if table == "nation":
        return 25
    if table == "lineitem":
        return _LINEITEM_ROWS.get(scale)
    # In double arithmetic and cut, as the generator does it: 5,699 suppliers at scale 0.57.
    if table == "partsupp":  # four suppliers to each part
        return 4 * int(_ROWS_PER_SCALE["part"] * scale)
    return int(_ROWS_PER_SCALE[table] * scale)


def keys_are_unique(scale: float) -> bool:
    """Return whether clause 4.2.3's formula gives each part four different suppliers.

    The four differ by multiples of S/4 + ⌊(part - 1)/S⌋ modulo the number of suppliers
    S, and with few suppliers such a step can come round: then partsupp has no primary key.
    """
    suppliers = expected_rows("supplier", scale) or 0
    if suppliers == 0:
        return False
    quarter = suppliers // 4
    steps = range(quarter, quarter + 20)  # 20 parts to each supplier
    return all(i * step % suppliers for step in steps for i in (1, 2, 3))
