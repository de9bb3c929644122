"""An AWS endpoint on this machine, for real clients: the CDK CLI, and handlers in processes of their own.

Which service a request is for, and in which region, is what its signature says. Requests of CloudFormation's
protocol are parsed, and answers written, by botocore's model. S3, STS and SSM are moto's. An operation that
nobody registered is an error that says so, and is remembered: see `Endpoint.refused`.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from xml.sax.saxutils import escape

from botocore.awsrequest import AWSPreparedRequest  # type: ignore[import-untyped]
from botocore.compat import HTTPHeaders  # type: ignore[import-untyped]
from botocore.validate import ParamValidator  # type: ignore[import-untyped]
from moto.core.botocore_stubber import BotocoreStubber
from moto.core.parse import QueryParser, RequestDict
from moto.core.serialize import JSONSerializer, QuerySerializer
from moto.core.utils import get_service_model
from tests.constructs.fake_sagemaker import ServiceError
from werkzeug.datastructures import Headers, MultiDict

Json = Any
Operation = Callable[["Caller", dict[str, Json]], Json]
Response = tuple[int, dict[str, str], bytes]
Raw = Callable[["Caller", str, Mapping[str, str], bytes], Response]
Service = Callable[[str], Operation | None]

_SCOPE = re.compile(r"Credential=([^/,]+)/\d+/([^/]+)/([^/]+)/aws4_request")
_OF_MOTO = {"s3", "sts", "ssm"}
_MODELS = {"states": "stepfunctions"}
"""Names of botocore's models, where signatures have others."""


_EMPTY: RequestDict = {
    "body": "",
    "headers": Headers(),
    "method": "POST",
    "url_params": {},
    "url_path": "/",
    "values": MultiDict(),
}


@dataclass(frozen=True)
class Caller:
    """Who calls."""

    key: str
    region: str


class Endpoint:
    """The endpoint. Use it in a `with` statement.

    Args:
        services: by name as signatures spell it, what gives an operation by its name.
        others: services whose protocol is in the path, which answer the request as it is.
        paths: what answers to requests that are not signed, by the first part of the path.

    Attributes:
        url: where it listens.
        refused: operations that were called and that nobody registered.
    """

    def __init__(
        self, services: Mapping[str, Service], others: Mapping[str, Raw], paths: Mapping[str, Raw]
    ) -> None:
        self._services = services
        self._others = others
        self._paths = paths
        self._moto = BotocoreStubber()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.refused: list[str] = []

    def __enter__(self) -> "Endpoint":
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, method: str, path: str, headers: Message, body: bytes) -> Response:
        """Answer one request."""
        raw = self._paths.get(urlsplit(path).path.split("/")[1])
        scope = _SCOPE.search(headers.get("Authorization", ""))
        if raw is not None:
            return raw(Caller("", ""), path, dict(headers.items()), body)
        if scope is None:
            return self._refuse(f"{method} {path}, which is not signed")
        caller, service = Caller(scope[1], scope[2]), scope[3]
        if service in self._others:
            return self._ask(self._others[service], caller, path, headers, body)
        if service in _OF_MOTO:
            return self._ask_moto(service, caller.region, method, path, headers, body)
        target = headers.get("X-Amz-Target")
        if target is not None:
            return self._json(service, target.rpartition(".")[2], caller, body)
        return self._query(service, caller, body)

    def _refuse(self, what: str) -> Response:
        self.refused.append(what)
        return 400, {"Content-Type": "text/plain"}, f"{what} is not simulated here".encode()

    def _ask_moto(
        self, service: str, region: str, method: str, path: str, headers: Message, body: bytes
    ) -> Response:
        host = f"{service}.{region}.amazonaws.com"
        sent = HTTPHeaders()
        for key, value in headers.items():
            sent[key] = host if key.lower() == "host" else value
        request = AWSPreparedRequest(method, f"https://{host}{path}", sent, body, stream_output=False)
        answered = self._moto.process_request(request)
        assert answered is not None, path
        status, received, content = answered
        return status, dict(received), _bytes(content)

    def _ask(self, service: Raw, caller: Caller, path: str, headers: Message, body: bytes) -> Response:
        try:
            return service(caller, path, dict(headers.items()), body)
        except ServiceError as error:
            told = {"Content-Type": "application/json", "x-amzn-ErrorType": error.code}
            return error.status, told, json.dumps({"message": str(error)}).encode()

    def _find(self, service: str, operation: str) -> Operation | None:
        known = self._services.get(service)
        return known(operation) if known else None

    def _json(self, service: str, name: str, caller: Caller, body: bytes) -> Response:
        operation = self._find(service, name)
        if operation is None:
            return self._refuse(f"{service}:{name}")
        headers = {"Content-Type": "application/x-amz-json-1.1"}
        try:
            answer = operation(caller, json.loads(body or b"{}"))
        except ServiceError as error:
            text = json.dumps({"__type": error.code, "message": str(error)})
            return error.status, headers, text.encode()
        model = get_service_model(_MODELS.get(service, service)).operation_model(name)
        return 200, headers, _bytes(JSONSerializer(model).serialize(answer)["body"])

    def _query(self, service: str, caller: Caller, body: bytes) -> Response:
        values = MultiDict(parse_qsl(body.decode(), keep_blank_values=True))
        name = values.get("Action", "")
        operation = self._find(service, name)
        if operation is None:
            return self._refuse(f"{service}:{name}")
        model = get_service_model(_MODELS.get(service, service)).operation_model(name)
        headers = {"Content-Type": "text/xml"}
        try:
            request = QueryParser(model).parse({**_EMPTY, "values": values})
            _hold(name, request, model.input_shape)
            answer = operation(caller, request)
        except ServiceError as error:
            kind = "Sender" if error.status < 500 else "Receiver"
            text = (
                f"<ErrorResponse><Error><Type>{kind}</Type><Code>{error.code}</Code>"
                f"<Message>{escape(str(error))}</Message></Error><RequestId>0</RequestId></ErrorResponse>"
            )
            return error.status, headers, text.encode()
        if model.output_shape is not None:
            _hold(name, answer, model.output_shape)
        return 200, headers, _bytes(QuerySerializer(model).serialize(answer)["body"])


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _hold(name: str, value: Json, shape: Any) -> None:
    report = ParamValidator().validate(value, shape)
    if report.has_errors():
        raise ServiceError("ValidationError", f"{name}: {report.generate_report()}")


class _Server(ThreadingHTTPServer):
    # More wait than the usual five on a machine that is busy; the handlers give a connection two seconds.
    request_queue_size = 128


def _handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
                body = self._chunks()
            else:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            try:
                status, headers, content = endpoint.answer(self.command, self.path, self.headers, body)
            except Exception as error:
                # A fault of the test: the client must hear of it, and not try again, as it would after a 500.
                endpoint.refused.append(f"{self.command} {self.path}: {error!r}")
                status, headers, content = 400, {}, repr(error).encode()
            # Not send_response, which adds a Date where moto has one: the CLI cannot read two.
            self.send_response_only(status)
            for key, value in headers.items():
                if key.lower() not in {"content-length", "connection", "transfer-encoding"}:
                    self.send_header(key, str(value))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def _chunks(self) -> bytes:
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(parts)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _answer  # noqa: N815 (names of the base class)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
