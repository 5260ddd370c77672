"""The values of conf files as a script sees them that sources one after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runs.conf.arithmetic import computed
from runs.conf.errors import ConfFault, ConfRefused, Unreadable
from runs.conf.files import Assignment, ConfFile, Derived, Statement
from runs.conf.words import fill, read_word, references


@dataclass(frozen=True)
class ConfValue:
    """What a name came to, and where: `formula` is that of the derived form, `unset` names that had no value then."""

    name: str
    value: str
    file: str
    line: int
    formula: str = ""
    unset: tuple[str, ...] = ()


def evaluate(files: Sequence[ConfFile], given: Mapping[str, str] | None = None) -> dict[str, ConfValue]:
    """Name -> value after all files, pipeline first, species on top. `given` are names of the environment.

    A name counts as it is at each line, as in bash: what a later file sets does not change what was filled in before.
    Raises ConfRefused where a derived value can't be computed, with its line.
    """
    result, faults = evaluate_all(files, given)
    if faults:
        raise ConfRefused(faults)
    return result


def evaluate_all(
    files: Sequence[ConfFile], given: Mapping[str, str] | None = None
) -> tuple[dict[str, ConfValue], list[ConfFault]]:
    """The same, and what could not be computed beside it: there the value is empty, as after an awk that fails."""
    known = dict(given or {})
    result: dict[str, ConfValue] = {}
    faults: list[ConfFault] = []
    for file in files:
        for each in file.statements:
            try:
                found = _apply(each, file.name, known)
            except Unreadable as fault:
                faults.append(ConfFault(file.name, each.line, str(fault)))
                found = ConfValue(each.name, "", file.name, each.line)
            if found is not None:
                known[each.name] = found.value
                result[each.name] = found
    return result, faults


def values_of(files: Sequence[ConfFile], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Name -> value as text, see `evaluate`."""
    return {name: each.value for name, each in evaluate(files, given).items()}


def _apply(statement: Statement, file: str, known: Mapping[str, str]) -> ConfValue | None:
    if isinstance(statement, Assignment):
        unset = tuple(dict.fromkeys(name for name in references(statement.word) if name not in known))
        return ConfValue(statement.name, fill(statement.word, known), file, statement.line, unset=unset)
    return None if known.get(statement.name) else _compute(statement, file, known)


def _compute(form: Derived, file: str, known: Mapping[str, str]) -> ConfValue:
    expression = "".join(_number(form, part, known) if i % 2 else part for i, part in enumerate(form.parts))
    return ConfValue(form.name, computed(form.form, expression), file, form.line, formula=form.expression)


def _number(form: Derived, reference: str, known: Mapping[str, str]) -> str:
    word, _ = read_word(reference, 0)
    value = fill(word, known)
    if not value:
        raise Unreadable(f"{form.name} is computed from {references(word)[0]}, which is empty")
    return value
