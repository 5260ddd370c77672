"""Names that rows keep, and where in the code what they mean lies: import strings, resolved when first needed."""

from typing import Any

from django.utils.module_loading import import_string


class Registry:
    """key -> "module:attribute". Filled in `AppConfig.ready()`; nothing is imported until it is asked for."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._paths: dict[str, str] = {}

    def register(self, key: str, path: str) -> None:
        """Name `path` ("module:attribute") by `key`. The same again is fine; another under the same key is an error."""
        if ":" not in path:
            raise ValueError(f"{self.what} {key}: write module:attribute, not {path}")
        if self._paths.setdefault(key, path) != path:
            raise ValueError(f"{self.what} {key} is {self._paths[key]} already; it can't be {path} too")

    def find(self, key: str) -> Any | None:
        """What `key` names, or None where nothing has been registered under it."""
        path = self._paths.get(key)
        return None if path is None else import_string(path.replace(":", "."))

    def keys(self) -> list[str]:
        return sorted(self._paths)
