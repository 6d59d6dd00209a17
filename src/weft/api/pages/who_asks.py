"""Who looks at the page: whose token it is, and one-time links that bring a token into a browser."""

from starlette.responses import Response

from weft import __version__
from weft.api.access.auth import bearer
from weft.api.access.sign_in_codes import GOOD_S
from weft.api.calls import OperationCall, handles
from weft.api.responses import reply
from weft.operations.errors import NotFound
from weft.operations.replies import CallerInfo
from weft.operations.resources.server import (
    SignedIn,
    SignInLink,
    UseSignInRequest,
    create_sign_in,
    get_caller,
    use_sign_in,
)


@handles(get_caller)
async def caller(call: OperationCall) -> Response:
    assert call.caller is not None  # the route needs a role
    observing = call.state.connection.role == "observer"
    role = "viewer" if observing else call.caller.role
    return reply(CallerInfo(name=call.caller.name, role=role, version=__version__))


@handles(create_sign_in)
async def make_link(call: OperationCall) -> Response:
    code = call.state.sign_ins.create(bearer(call.http) or "")
    return reply(SignInLink(code=code, expires_in_ms=int(GOOD_S * 1000)), 201)


@handles(use_sign_in)
async def use_link(call: OperationCall) -> Response:
    """A code has 128 random bits and lives for a minute: it cannot be guessed."""
    token = call.state.sign_ins.use(call.request(UseSignInRequest).code)
    if token is None:
        raise NotFound("this link has been used, or is older than a minute")
    return reply(SignedIn(token=token))
