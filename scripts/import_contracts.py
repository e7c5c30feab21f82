"""A contract of import-linter: no module imports itself, through however many others.

Its own contract of this kind is about packages. Imports within functions, and those for type checks
alone, count: they hide a circle, they do not remove it.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class AcyclicContract(Contract):
    """Import-linter's contract type ``acyclic`` (pyproject.toml)."""

    type_name = "acyclic"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
        circle: list[tuple[str, str, int | None]] = []
        try:
            TopologicalSorter(imports).prepare()
        except CycleError as error:
            for importer, imported in pairwise(reversed(error.args[1])):
                details = graph.get_import_details(importer=importer, imported=imported)
                circle.append((importer, imported, details[0]["line_number"] if details else None))
        return ContractCheck(kept=not circle, metadata={"circle": circle})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported, line in check.metadata["circle"]:
            output.print_error(f"{importer} imports {imported} (line {line})")
