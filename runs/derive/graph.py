"""The derived values of a conf: computed in the order of what they rest on, beside what the conf says."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from runs.derive.numbers import exact, shown
from runs.derive.rules import RULES, NotDerivable, Rule


@dataclass(frozen=True)
class DerivedRow:
    """One derived value.

    `inputs` are what it rests on, as they are in force; `computed` is empty where `problem` says why. `stated` is what
    the conf says; where that is something else, it counts, and `overridden` is set.
    """

    rule: Rule
    inputs: tuple[tuple[str, str], ...]
    computed: str
    stated: str
    overridden: bool
    problem: str
    offers: tuple[str, ...] = ()

    @property
    def in_force(self) -> str:
        """What the scripts work with."""
        return self.stated or self.computed


def derived_rows(values: Mapping[str, str]) -> list[DerivedRow]:
    """The derived values whose inputs the conf knows, in order. What the conf states counts further down."""
    known = dict(values)
    rows = []
    for rule in RULES:
        if all(name in known for name in rule.inputs):
            row = _row(rule, known)
            rows.append(row)
            if row.in_force:
                known[rule.name] = row.in_force
    return rows


def with_derived(values: Mapping[str, str]) -> dict[str, str]:
    """The values, with those that can be derived where the conf leaves them empty."""
    return {**values, **{row.rule.name: row.in_force for row in derived_rows(values) if row.in_force}}


def _row(rule: Rule, known: Mapping[str, str]) -> DerivedRow:
    inputs = tuple((name, known[name]) for name in rule.inputs)
    stated = known.get(rule.name, "") if rule.in_conf else ""
    numbers = {name: number for name, text in inputs if (number := exact(text)) is not None}
    if missing := [name for name, _ in inputs if name not in numbers]:
        return DerivedRow(rule, inputs, "", stated, False, f"{', '.join(missing)} {_lack(missing, known)}")
    try:
        result = rule.compute(numbers)
    except NotDerivable as problem:
        return DerivedRow(rule, inputs, "", stated, False, str(problem))
    offers = tuple(str(each) for each in rule.offer(int(result))) if rule.offer else ()
    return DerivedRow(rule, inputs, shown(result), stated, _differs(stated, Fraction(result), rule), "", offers)


def _lack(missing: list[str], known: Mapping[str, str]) -> str:
    if any(known[name] for name in missing):
        return "is no number" if len(missing) == 1 else "are no numbers"
    return "has no value yet" if len(missing) == 1 else "have no value yet"


def _differs(stated: str, computed: Fraction, rule: Rule) -> bool:
    if not stated:
        return False
    number = exact(stated)
    return number is None or abs(number - computed) > rule.tolerance * abs(computed)
