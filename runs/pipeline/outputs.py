"""Outputs as manifests write them: patterns, and prose that nothing can look for."""

import re
from collections.abc import Mapping

SERIES = "TS_XXX"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)")
_PLAIN = re.compile(r"^[A-Za-z0-9_./*?\[\]${}+=@%,:-]+\Z")


def is_checkable(output: str) -> bool:
    """Whether an output is a pattern: no spaces, brackets or `<placeholder>`, no way out of the work folder."""
    return bool(_PLAIN.match(output)) and not output.startswith("/") and ".." not in output.split("/")


def fill_placeholders(output: str, placeholders: Mapping[str, str]) -> str:
    """The output with `<species>` and the like as the variables that they stand for; unknown ones stay."""
    for name, variable in placeholders.items():
        output = output.replace(f"<{name}>", f"${{{variable}}}")
    return output


def below(work_dir: str, values: Mapping[str, str]) -> dict[str, str]:
    """The values with paths below the work folder made relative to it, as patterns are."""
    start = work_dir.rstrip("/") + "/"
    return {name: value.removeprefix(start) for name, value in values.items()}


def variables_in(pattern: str) -> list[str]:
    """Names of the variables in a pattern, as `${NAME}` or `$NAME`."""
    return [long or short for long, short in _VARIABLE.findall(pattern)]


def expand(pattern: str, values: Mapping[str, str], *, series: str = "") -> str | None:
    """The pattern with its variables and TS_XXX filled in; None where a variable isn't set or has no usable value.

    A value is put in as a name, never as a pattern: one with wildcards, a slash at its start or `..` is not usable.
    A folder (`average/`) becomes what lies in it (`average/*`).
    """
    for name in variables_in(pattern):
        if name not in values or (values[name] and not _is_name(values[name])):
            return None
    filled = _VARIABLE.sub(lambda match: values[match.group(1) or match.group(2)], pattern)
    filled = filled.replace(SERIES, series) if series else filled
    return f"{filled}*" if filled.endswith("/") else filled


def _is_name(value: str) -> bool:
    return is_checkable(value) and not set(value) & set("*?[]")
