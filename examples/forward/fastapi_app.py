"""fastapi_app.py: a web service of its own, made with FastAPI, before a box: its users never see the box or its
key. Bodies go through as they come, in both directions. Who a user is, is said by a header here: put your own
sign-in there. The client waits in threads, so that the event loop doesn't."""

import json
import os
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Optional, Union

import uvicorn
from anyio import from_thread, to_thread
from fastapi import Body as FromBody
from fastapi import Depends, FastAPI, Header, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from runbox import ApiError, Body, Box, Live, Output, TransportError, Workspace

box = Box(os.environ["BOX_URL"], os.environ["BOX_KEY"])
app = FastAPI()


def workspace(x_user: Annotated[str, Header()]) -> Workspace:
    return box.workspace(tenant="forward", user=x_user)


Mine = Annotated[Workspace, Depends(workspace)]


async def events(live: Live) -> AsyncIterator[str]:
    turns = iter(live)
    try:  # who leaves cancels this, and so ends the command, also while it says nothing
        while (event := await to_thread.run_sync(next, turns, None, abandon_on_cancel=True)) is not None:
            if isinstance(event, Output):
                yield f"event: {event.stream}\ndata: {json.dumps({'text': event.text})}\n\n"
            else:
                yield f"event: exit\ndata: {json.dumps({'exit_code': event.exit_code})}\n\n"
    finally:
        live.close()


@app.post("/run")
def run(ws: Mine, command: Annotated[str, FromBody(embed=True)]) -> StreamingResponse:
    return StreamingResponse(events(ws.stream(command)), media_type="text/event-stream")


@app.put("/files/{path:path}")
async def put(ws: Mine, path: str, request: Request, content_length: Annotated[Optional[int], Header()] = None
              ) -> dict[str, Union[str, int]]:
    incoming = request.stream()

    async def some() -> bytes:
        return await anext(incoming, b"")

    def pieces() -> Iterator[bytes]:
        while piece := from_thread.run(some):
            yield piece

    stored = await to_thread.run_sync(lambda: ws.write(path, pieces(), size=content_length))
    return {"path": stored.path, "size": stored.size}


async def parts(tar: Body) -> AsyncIterator[bytes]:
    try:
        while piece := await to_thread.run_sync(tar.read, 1 << 16):
            yield piece
    finally:
        tar.close()


@app.get("/archive")
def archive(ws: Mine) -> StreamingResponse:
    return StreamingResponse(parts(ws.archive()), media_type="application/x-tar")


@app.exception_handler(ApiError)
def refused(_: Request, err: Exception) -> Response:
    assert isinstance(err, ApiError)
    return JSONResponse({"code": err.code}, err.status)


@app.exception_handler(TransportError)
def unreachable(_: Request, err: Exception) -> Response:
    print(err)
    return JSONResponse({"code": "unreachable"}, 502)


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])
