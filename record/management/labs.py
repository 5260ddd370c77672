"""Which labs a command is about."""

from django.core.management.base import CommandError
from django.db.models import QuerySet

from record.models import Lab


def chosen_labs(slug: str | None) -> QuerySet[Lab]:
    """The lab of that slug, or all; CommandError, with the slugs there are, where there is none such."""
    labs = Lab.objects.all()
    if slug is None:
        return labs
    if not labs.filter(slug=slug).exists():
        slugs = ", ".join(labs.values_list("slug", flat=True)) or "none yet"
        raise CommandError(f"There is no lab {slug}. The labs are: {slugs}.")
    return labs.filter(slug=slug)
