"""How long lists are cut into pages."""

from rest_framework.pagination import PageNumberPagination


class Pages(PageNumberPagination):
    """Numbered pages of 50 rows; `page_size` asks for another length, 200 at most."""

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200
