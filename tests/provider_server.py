"""
A server on this machine with a provider's protocol, for tests of whole turns.

It answers requests with prepared responses, in their order, and keeps the requests.
"""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["ProviderServer", "serve"]


class ProviderServer:
    """
    What a running server was asked, and what it answers.

    Attributes:
        url: Its address, without a slash at its end.

        responses: What it still has to answer: a dict is JSON, a list the events of
            a stream.

        requests: The path and the JSON body of each request so far.
    """

    def __init__(self, url, responses):
        self.url = url
        self.responses = list(responses)
        self.requests = []

    def respond(self, path, body):
        """The type and the bytes of the next response."""
        self.requests.append((path, body))
        response = self.responses.pop(0)
        if isinstance(response, dict):
            return "application/json", json.dumps(response).encode()

        lines = []
        for event in response:
            if "type" in event:
                lines.append(f"event: {event['type']}\r\n")

            lines.append(f"data: {json.dumps(event)}\r\n\r\n")

        return "text/event-stream", "".join(lines).encode()


@contextmanager
def serve(*responses):
    """A server that gives *responses*, in the background; it ends with the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            size = int(self.headers["Content-Length"])
            body = json.loads(self.rfile.read(size))
            kind, content = server.respond(self.path, body)
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server = ProviderServer(f"http://127.0.0.1:{http.server_port}", responses)
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
