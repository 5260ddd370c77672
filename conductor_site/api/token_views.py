"""API tokens: getting one for a name and a password, listing one's own, giving them up."""

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import extend_schema
from rest_framework import exceptions, serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from conductor_site.api.tokens import DEFAULT_LIFE_H, DEFAULT_SCOPES, LONGEST_LIFE_H, make_token, own_tokens
from conductor_site.models import ApiToken
from conductor_site.signin import sign_in
from record.access import Scope
from record.rest import RefusalOutput, StrictSerializer


class TokenScheme(OpenApiAuthenticationExtension):
    """How the schema describes `Authorization: Token ...`."""

    target_class = "conductor_site.api.tokens.ApiTokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "apiKey", "in": "header", "name": "Authorization", "description": "Token, a space, the token"}


class TokenInput(StrictSerializer):
    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=4096, trim_whitespace=False, write_only=True)
    name = serializers.CharField(max_length=80, default="API", help_text="what the token is for")
    scopes = serializers.MultipleChoiceField(
        choices=Scope.choices,
        default=lambda: {scope.value for scope in DEFAULT_SCOPES},
        allow_empty=False,
        help_text="what it may be used for; read, operate and decide where nothing is said",
    )
    life_h = serializers.IntegerField(
        min_value=1, max_value=LONGEST_LIFE_H, default=DEFAULT_LIFE_H, help_text="hours until it expires"
    )


class TokenOutput(serializers.ModelSerializer[ApiToken]):
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Scope.choices))

    class Meta:
        model = ApiToken
        fields = ["token_key", "name", "scopes", "created", "expiry", "last_used_at"]


class NewTokenOutput(TokenOutput):
    token = serializers.CharField(help_text="shown once: it is kept as a hash only")

    class Meta(TokenOutput.Meta):
        fields = ["token", *TokenOutput.Meta.fields]


class TokenView(APIView):
    """Tokens for programs that act for a person."""

    throttle_classes = ()

    def get_authenticators(self) -> list[Any]:
        return [] if self.request and self.request.method == "POST" else super().get_authenticators()

    def get_permissions(self) -> list[Any]:
        if self.request.method == "POST":
            return [AllowAny()]
        return list(super().get_permissions()[: 1 if self.request.method == "DELETE" else None])

    @extend_schema(
        operation_id="token_create",
        request=TokenInput,
        responses={201: NewTokenOutput, 400: RefusalOutput, 403: RefusalOutput, 429: RefusalOutput},
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Get a token for a name and a password; it is shown this once."""
        given = TokenInput(data=request.data)
        given.is_valid(raise_exception=True)
        wish = given.validated_data
        user = sign_in(request=request._request, username=wish["username"], password=wish["password"])
        row, token = make_token(user=user, name=wish["name"], scopes=wish["scopes"], life_h=wish["life_h"])
        row.token = token
        return Response(NewTokenOutput(row).data, status=201, headers={"Cache-Control": "no-store"})

    @extend_schema(operation_id="token_list", responses={200: TokenOutput(many=True)})
    def get(self, request: Request) -> Response:
        """Your own tokens, without their secrets."""
        return Response(TokenOutput(own_tokens(request.user), many=True).data)

    @extend_schema(operation_id="token_revoke", request=None, responses={204: None, 400: RefusalOutput})
    def delete(self, request: Request) -> Response:
        """Give up the token that this request was made with."""
        if not isinstance(request.auth, ApiToken):
            raise exceptions.ValidationError("This request was made without a token; there is none to give up.")
        request.auth.delete()
        return Response(status=204)


class OneTokenView(APIView):
    """One of your own tokens."""

    def get_permissions(self) -> list[Any]:
        return [super().get_permissions()[0]]  # any token may give up its owner's tokens: that only takes away

    @extend_schema(operation_id="token_revoke_other", responses={204: None, 404: RefusalOutput})
    def delete(self, request: Request, token_key: str) -> Response:
        """Give up one of your own tokens, named by its first letters (`token_key`)."""
        get_object_or_404(own_tokens(request.user), token_key=token_key).delete()
        return Response(status=204)
