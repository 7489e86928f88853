"""A collector of traces for the tests: it takes OTLP over HTTP, and decodes with PyPI's opentelemetry-proto."""
import contextlib
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

try:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
except ImportError as reason:
    print(f"SKIPPED traces: {reason} (tools/check installs opentelemetry-proto from PyPI)")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

LARGEST = 600 << 10  # of a request: 512 KiB of spans, and what is around them


def plain(value):
    """Of a message AnyValue."""
    kind = value.WhichOneof("value")
    return [plain(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, kind)


class Span:
    """A span that came: its message's fields, and attributes as a dict."""

    def __init__(self, resource, message):
        self.resource = {pair.key: plain(pair.value) for pair in resource.attributes}
        self.message = message
        self.name = message.name
        self.trace = message.trace_id.hex()
        self.id = message.span_id.hex()
        self.parent = message.parent_span_id.hex()
        self.attributes = {pair.key: plain(pair.value) for pair in message.attributes}
        self.events = [(event.name, event.time_unix_nano) for event in message.events]

    def __repr__(self):
        return f"<{self.name} {self.trace} {self.attributes} {self.events} {self.message.status}>"


class Collector:
    """A context manager; `status` is what it answers, None: nothing at all, until it is given one."""

    def __init__(self, status=200, tls=None):
        self.status = status
        self.headers = {}
        self.tls = tls  # an ssl.SSLContext of a server; None: plain HTTP
        self.spans = []
        self.asked = []  # (path, headers, body) of all requests
        self.changed = threading.Condition()
        self.port = 0
        self.server = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def url(self):
        return f"http{'s' if self.tls else ''}://localhost:{self.port}"

    def start(self):
        """Again on the same port, where it was stopped."""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                collector.take(self)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_):  # who asks may leave
                pass
        self.connections = []
        self.server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        if self.tls:
            self.server.socket = self.tls.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self):
        """Closes its port and its connections."""
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None
            for connection in self.connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(2)
            self.answer(200)

    def answer(self, status, headers=None):
        """What it answers from now on, also to those that wait for an answer."""
        with self.changed:
            self.status, self.headers = status, headers or {}
            self.changed.notify_all()

    def take(self, handler):
        self.connections.append(handler.connection)
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        request = ExportTraceServiceRequest.FromString(body)
        with self.changed:
            self.asked.append((handler.path, dict(handler.headers), body))
            while self.status is None:
                self.changed.wait()
            status, headers = self.status, self.headers
            if status == 200:
                self.spans += [Span(part.resource, span) for part in request.resource_spans for scope in part.scope_spans
                               for span in scope.spans]
        answer = ExportTraceServiceResponse().SerializeToString() if status == 200 else b"no"
        handler.send_response(status)
        for name, value in {"Content-Type": "application/x-protobuf", "Content-Length": str(len(answer)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(answer)
