"""One spelling for one meaning, and another for any other."""

import json
import random

import pytest

from record.canonical import canonical_text, link_digest, sha256_hex, statement_digest


def some_value(rng: random.Random, depth: int = 0) -> object:
    kind = rng.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.randrange(-(2**53), 2**53)
    if kind in (2, 3):
        return rng.uniform(-1, 1) * 10.0 ** rng.randrange(-30, 30)
    if kind in (4, 5):
        return "".join(rng.choice('aÅé\n\t"\\/\u2028😀中 ') for _ in range(rng.randrange(8)))
    if kind == 6:
        return [some_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {f"k{rng.randrange(50)}": some_value(rng, depth + 1) for _ in range(rng.randrange(4))}


@pytest.mark.parametrize("seed", range(200))
def test_the_text_survives_reading_and_another_order_of_names(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    payload = {f"n{i}": some_value(rng) for i in range(6)}
    text = canonical_text(payload)
    assert canonical_text(json.loads(text)) == text
    names = list(payload)
    rng.shuffle(names)
    assert canonical_text({name: payload[name] for name in names}) == text
    assert canonical_text(json.loads(json.dumps(payload, indent=2))) == text


@pytest.mark.parametrize(
    ("one", "same"),
    [(2.0, 2), (-0.0, 0), (6e23, 600000000000000000000000), (1e300, 10**300), ((1, 2), [1, 2]), (1e2, 100)],
)
def test_what_databases_may_give_back_is_spelled_alike(one: object, same: object) -> None:
    assert canonical_text({"value": one}) == canonical_text({"value": same})


def test_what_differs_is_spelled_differently() -> None:
    different = [None, True, False, 0, 1, 1.5, "1", "", [], {}, [[]], [1], {"value": 1}, "é", "e\u0301", "null"]
    assert len({canonical_text({"value": each}) for each in different}) == len(different)


def test_the_spelling_itself() -> None:
    payload = {"b": [1, 2.50, None], "a": "Ångström\n", "c": {"z": True, "y": 1e-7}}
    assert canonical_text(payload) == '{"a":"Ångström\\n","b":[1,2.5,null],"c":{"y":1e-07,"z":true}}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_a_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError):
        canonical_text({"value": value})


def test_digests_depend_on_everything_they_are_over() -> None:
    assert link_digest("0" * 64, "{}") == sha256_hex("0" * 64 + "\n{}")
    digests = {
        link_digest("0" * 64, "{}"),
        link_digest("1" * 64, "{}"),
        link_digest("0" * 64, "[]"),
        statement_digest("salt", "why", {}),
        statement_digest("other", "why", {}),
        statement_digest("salt", "why", {"a": 1}),
        statement_digest("salt", "", {}),
    }
    assert len(digests) == 7 and all(len(digest) == 64 for digest in digests)
