"""flask_app.py: a web service of its own, made with Flask, before a box: its users never see the box or its key.
Bodies go through as they come, in both directions. Who a user is, is said by a header here: put your own sign-in
there. Flask learns that a user left when it has something to send: give commands a timeout."""

import json
import os
from collections.abc import Iterator

from flask import Flask, Response, jsonify, request
from werkzeug.serving import make_server

from runbox import ApiError, Box, Live, Output, TransportError, Workspace

box = Box(os.environ["BOX_URL"], os.environ["BOX_KEY"])
app = Flask(__name__)


def workspace() -> Workspace:
    return box.workspace(tenant="forward", user=request.headers["X-User"])


def events(live: Live) -> Iterator[str]:
    with live:  # who leaves ends this, and so the command
        for event in live:
            if isinstance(event, Output):
                yield f"event: {event.stream}\ndata: {json.dumps({'text': event.text})}\n\n"
            else:
                yield f"event: exit\ndata: {json.dumps({'exit_code': event.exit_code})}\n\n"


@app.post("/run")
def run() -> Response:
    live = workspace().stream(request.get_json()["command"], timeout=600)
    return Response(events(live), mimetype="text/event-stream")


@app.put("/files/<path:path>")
def put(path: str) -> Response:
    stored = workspace().write(path, request.stream, size=request.content_length)
    return jsonify(path=stored.path, size=stored.size)


@app.get("/archive")
def archive() -> Response:
    return Response(workspace().archive(), mimetype="application/x-tar")  # a file, which Flask closes


@app.errorhandler(ApiError)
def refused(err: ApiError) -> tuple[Response, int]:
    return jsonify(code=err.code), err.status


@app.errorhandler(TransportError)
def unreachable(err: TransportError) -> tuple[Response, int]:
    app.logger.error("%s", err)
    return jsonify(code="unreachable"), 502


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
