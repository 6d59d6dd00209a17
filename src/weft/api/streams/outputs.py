"""What attempts printed, and large outputs: bytes, by range."""

from starlette.responses import Response

from weft.api.calls import OperationCall, handles
from weft.api.streams.file_parts import FileParts
from weft.operations.errors import NotFound
from weft.operations.resources.streams import (
    BYTES,
    GetTaskArtifactRequest,
    GetTaskFileRequest,
    GetTaskOutputRequest,
    get_task_artifact,
    get_task_file,
    get_task_output,
)


@handles(get_task_output)
def task_output(call: OperationCall) -> Response:
    request = call.request(GetTaskOutputRequest)
    attempt = request.attempt
    if attempt is None:
        attempt = call.connection.task(request.run, request.task).attempt
        if attempt == 0:
            raise NotFound(f"{request.task} has not run yet")
    part = call.connection.read_output(
        request.run, request.task, attempt, request.stream, offset=request.offset, limit=request.limit
    )
    headers = {
        "Weft-Offset": str(part.offset), "Weft-Next": str(part.next), "Weft-Size": str(part.size),
        "Weft-Ended": "true" if part.ended else "false", "Weft-Attempt": str(attempt),
    }  # fmt: skip
    return Response(part.data, media_type=BYTES, headers=headers)


@handles(get_task_artifact)
def task_artifact(call: OperationCall) -> Response:
    request = call.request(GetTaskArtifactRequest)
    reference, file = call.connection.open_artifact(request.run, request.task, request.attempt)
    return FileParts(file, reference, request.range, request.if_range)


@handles(get_task_file)
def task_file(call: OperationCall) -> Response:
    request = call.request(GetTaskFileRequest)
    reference, file = call.connection.open_file(request.run, request.task, request.path)
    return FileParts(file, reference, request.range, request.if_range)
