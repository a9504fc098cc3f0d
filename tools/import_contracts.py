"""
The kinds of contract that `[tool.importlinter]` in pyproject.toml uses beside
import-linter's own.

Each asks a function of `tools.import_rules` about every direct import.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.application.contract_utils import (
    AlertLevel,
    remove_ignored_imports_and_report,
)

from tools.import_rules import private_error, sibling_error, third_party_error


class DirectImportsContract(Contract):
    """
    A contract about each direct import alone.

    An entry of *ignore_imports* that matches no import is an error, so that the
    list of exceptions can only get shorter.
    """

    ignore_imports = fields.SetField(
        subfield=fields.ImportExpressionField(), required=False
    )

    @abstractmethod
    def error(self, importer: str, imported: str) -> str:
        """Why *importer* can't import *imported*; "" if it can."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001
        """Every import that breaks the contract, with its lines."""
        removal = remove_ignored_imports_and_report(
            graph,
            self.ignore_imports,  # type: ignore[arg-type]
            AlertLevel.ERROR,
        )
        errors = []
        for imported in sorted(graph.modules):
            for importer in sorted(graph.find_modules_that_directly_import(imported)):
                if error := self.error(importer, imported):
                    details = graph.get_import_details(
                        importer=importer, imported=imported
                    )
                    lines = sorted({each["line_number"] for each in details})
                    errors.append(f"{error} (line {', '.join(map(str, lines))})")

        return ContractCheck(
            kept=not errors,
            warnings=list(removal.warnings),
            ignored_import_count=removal.ignored_import_count,
            metadata={"errors": errors},
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each import that breaks the contract."""
        for error in check.metadata["errors"]:
            output.print_error(error)


class PrivateContract(DirectImportsContract):
    """
    A module whose name starts with an underscore is imported only below the
    package that contains it.
    """

    type_name = "private"

    def error(self, importer: str, imported: str) -> str:
        """Why *importer* can't import *imported*; "" if it can."""
        return private_error(importer, imported)


class SiblingsContract(DirectImportsContract):
    """
    The public modules of *parent* import each other neither directly nor through
    the private modules of *parent*; but all may import those that are *shared*.

    Unlike import-linter's `independence`, a new module is held to it unlisted.
    """

    type_name = "siblings"

    parent = fields.StringField()
    shared = fields.ListField(subfield=fields.StringField(), required=False)

    def error(self, importer: str, imported: str) -> str:
        """Why *importer* can't import *imported*; "" if it can."""
        shared: Any = self.shared
        return sibling_error(importer, imported, str(self.parent), shared or ())


class TableField(fields.Field[Mapping[str, list[str]]]):
    """A table of TOML."""

    def parse(self, raw_data: Any) -> Mapping[str, list[str]]:
        """*raw_data* if it is a table of lists of names."""
        if not isinstance(raw_data, dict) or not all(
            isinstance(names, list) for names in raw_data.values()
        ):
            raise fields.ValidationError("expected a table of lists of module names")

        return raw_data


class ThirdPartiesContract(DirectImportsContract):
    """
    A third party is imported only by the modules that *importers* lists for it,
    and one that *importers* lacks by none.
    """

    type_name = "third_parties"

    importers = TableField()

    def error(self, importer: str, imported: str) -> str:
        """Why *importer* can't import *imported*; "" if it can."""
        (package,) = self.session_options["root_packages"]
        if imported.partition(".")[0] == package:
            return ""

        return third_party_error(importer, imported, self.importers, package)  # type: ignore[arg-type]
