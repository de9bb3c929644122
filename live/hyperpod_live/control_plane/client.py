"""A client of the Kubernetes API: plain objects in and out, many at once over kept connections."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, Self
from urllib.parse import quote, urlencode

import urllib3

from hyperpod_live.control_plane.errors import ControlPlaneError
from hyperpod_live.control_plane.kubeconfig import Access

Object = dict[str, Any]
"""A Kubernetes object, or a part of one, as JSON has it."""

Objects = list[Object]

FIELD_MANAGER = "hyperpod-fleet"
"""Who owns the fields that server-side apply sets, unless the caller says otherwise."""

THREADS = 16
"""Requests under way at once: past this the API server of a two-core machine gets no faster."""

_FIRST = ("Namespace", "CustomResourceDefinition")
"""Kinds that others need to be there already."""

_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class ApiError(Exception):
    """The API server refused a request. `str()` is the server's own message.

    `status` is the HTTP status, 0 when there was no answer; `reason` is the word of the API, such as
    `NotFound`, `Invalid` or `AlreadyExists`; `causes` are the fields of an invalid object and what is wrong.
    """

    def __init__(
        self, status: int, reason: str, message: str, causes: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.causes = causes

    @classmethod
    def of(cls, status: int, body: bytes) -> Self:
        """Read the error out of an answer."""
        try:
            said = json.loads(body)
            details = (said.get("details") or {}).get("causes") or []
            causes = tuple((each.get("field", ""), each.get("message", "")) for each in details)
            return cls(status, said.get("reason", ""), said["message"], causes)
        except (ValueError, KeyError, AttributeError):
            return cls(status, "", body.decode(errors="replace").strip() or f"HTTP status {status}")


@dataclass(frozen=True)
class Outcome:
    """What became of one object of many: the server's version of it, or why it was refused."""

    sent: Object
    answer: Object | None
    error: ApiError | None


Outcomes = list[Outcome]


@dataclass(frozen=True)
class Event:
    """One change that a watch saw: `ADDED`, `MODIFIED` or `DELETED`, and the object after it."""

    type: str
    object: Object


@dataclass(frozen=True)
class _Resource:
    """How the API server spells a kind in its paths."""

    plural: str
    namespaced: bool


class Client:
    """Talks to one API server. Threads may share it.

    `check` is called before each request and after one without an answer; it may raise what is known better
    there (that the server's process ended, and its log).
    """

    def __init__(self, access: Access, *, check: Callable[[], None] = lambda: None) -> None:
        self.url = access.url
        self._check = check
        self._headers = {"Accept": "application/json", "User-Agent": "hyperpod-fleet", **access.headers}
        # A throttled request was not executed, whatever its method; all else is reported as it is.
        throttled = urllib3.Retry(
            5,
            connect=0,
            read=0,
            redirect=0,
            status_forcelist=[429],
            allowed_methods=None,
            raise_on_status=False,
            backoff_factor=0.1,
        )
        self._pool = urllib3.PoolManager(
            maxsize=THREADS,
            ssl_context=_tls(access),
            retries=throttled,
            timeout=urllib3.Timeout(connect=5, read=60),
        )
        self._resources: dict[tuple[str, str], _Resource] = {}

    def close(self) -> None:
        """Close the kept connections."""
        self._pool.clear()

    # One object

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object:
        """Return one object; `ApiError` with reason `NotFound` when there is none."""
        return self._json("GET", self._path(api_version, kind, namespace, name))

    def list(
        self, api_version: str, kind: str, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> Objects:
        """Return the objects of a kind, in all namespaces unless one is named, filtered by selectors."""
        path = self._path(api_version, kind, namespace) + _query(labelSelector=labels, fieldSelector=fields)
        # Items of a list come without these two.
        return [
            {"apiVersion": api_version, "kind": kind, **item} for item in self._json("GET", path)["items"]
        ]

    def create(self, thing: Object, *, dry_run: bool = False) -> Object:
        """Create an object; `ApiError` with reason `AlreadyExists` when there is one of that name."""
        path = self._path_of(thing, named=False) + _query(dryRun="All" if dry_run else "")
        return self._json("POST", path, thing)

    def apply(
        self,
        thing: Object,
        *,
        field_manager: str = FIELD_MANAGER,
        force: bool = True,
        dry_run: bool = False,
        subresource: str = "",
    ) -> Object:
        """Create or change an object by server-side apply.

        Without `force`, changing a field of another owner is an `ApiError` with reason `Conflict`.
        """
        query = _query(
            fieldManager=field_manager, force="true" if force else "", dryRun="All" if dry_run else ""
        )
        path = self._path_of(thing, subresource=subresource) + query
        return self._json("PATCH", path, thing, _PATCH_TYPES["apply"])

    def patch(
        self,
        api_version: str,
        kind: str,
        name: str,
        change: Object | Objects,
        namespace: str | None = None,
        *,
        type: Literal["merge", "json", "strategic"] = "merge",
        subresource: str = "",
    ) -> Object:
        """Change an object by a patch; `subresource` is `status` or `scale`."""
        path = self._path(api_version, kind, namespace, name, subresource)
        return self._json("PATCH", path, change, _PATCH_TYPES[type])

    def delete(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> bool:
        """Delete an object and, by garbage collection, what it owns; False when there was none."""
        options = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
        try:
            self._json("DELETE", self._path(api_version, kind, namespace, name), options)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    # Many objects

    def apply_all(
        self, things: Iterable[Object], *, field_manager: str = FIELD_MANAGER, dry_run: bool = False
    ) -> Outcomes:
        """Apply many at once, namespaces and CRDs before the rest; outcomes are in the order of `things`."""
        return self._all(
            lambda thing: self.apply(thing, field_manager=field_manager, dry_run=dry_run), list(things)
        )

    def create_all(self, things: Iterable[Object]) -> Outcomes:
        """Create many at once, namespaces and CRDs before the rest; outcomes are in the order of `things`."""
        return self._all(self.create, list(things))

    def delete_all(self, things: Iterable[Object]) -> Outcomes:
        """Delete many at once; what is not there counts as deleted."""

        def delete(thing: Object) -> Object:
            meta = thing["metadata"]
            self.delete(thing["apiVersion"], thing["kind"], meta["name"], meta.get("namespace"))
            return {}

        return self._all(delete, list(things))

    # Changes

    def watch(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        *,
        seconds: int = 300,
        labels: str = "",
    ) -> Iterator[Event]:
        """Yield what there is as `ADDED`, then changes as they happen, for so many seconds."""
        query = _query(watch="true", timeoutSeconds=str(seconds), labelSelector=labels)
        path = self._path(api_version, kind, namespace) + query
        timeout = urllib3.Timeout(connect=5, read=seconds + 5)
        answer = self._send("GET", path, None, "", preload_content=False, timeout=timeout)
        try:
            if answer.status >= 400:
                raise ApiError.of(answer.status, answer.data)
            for line in _lines(answer):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise ApiError.of(event["object"].get("code", 0), json.dumps(event["object"]).encode())
                yield Event(event["type"], event["object"])
        finally:
            # The rest of the answer is not wanted, so the connection cannot be kept.
            answer.close()

    def wait(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str | None = None,
        *,
        until: Callable[[Object], bool],
        seconds: float = 30,
    ) -> Object:
        """Return an object once `until` holds for it; `TimeoutError` with its last state after `seconds`."""
        end = time.monotonic() + seconds
        last: Object | None = None
        while time.monotonic() < end:
            try:
                last = self.get(api_version, kind, name, namespace)
            except ApiError as error:
                if error.status != 404:
                    raise
            if last is not None and until(last):
                return last
            time.sleep(0.03)
        state = json.dumps((last or {}).get("status")) if last else "it does not exist"
        raise TimeoutError(f"{kind} {name} is not as awaited after {seconds:g} s: {state}")

    def raw(self, path: str) -> tuple[int, bytes]:
        """Return status and body of a GET of any path, such as `/readyz` or `/version`."""
        answer = self._send("GET", path, None, "")
        return answer.status, answer.data

    # Underneath

    def _all(self, action: Callable[[Object], Object], things: Objects) -> Outcomes:
        def one(thing: Object) -> Outcome:
            try:
                return Outcome(thing, action(thing), None)
            except ApiError as error:
                return Outcome(thing, None, error)

        first = [number for number, thing in enumerate(things) if thing["kind"] in _FIRST]
        rest = [number for number, thing in enumerate(things) if thing["kind"] not in _FIRST]
        outcomes: dict[int, Outcome] = {}
        with ThreadPoolExecutor(THREADS) as threads:
            for wave in (first, rest):
                outcomes |= zip(wave, threads.map(one, [things[number] for number in wave]), strict=True)
        return [outcomes[number] for number in range(len(things))]

    def _path_of(self, thing: Object, *, named: bool = True, subresource: str = "") -> str:
        meta = thing["metadata"]
        name = meta["name"] if named else ""
        return self._path(thing["apiVersion"], thing["kind"], meta.get("namespace"), name, subresource)

    def _path(
        self, api_version: str, kind: str, namespace: str | None, name: str = "", subresource: str = ""
    ) -> str:
        resource = self._resource(api_version, kind)
        parts = [_group(api_version)]
        if resource.namespaced and (namespace or name):
            parts += ["namespaces", quote(namespace or "default")]
        parts += [resource.plural, *([quote(name)] if name else []), *([subresource] if subresource else [])]
        return "/".join(parts)

    def _resource(self, api_version: str, kind: str) -> _Resource:
        known = self._resources.get((api_version, kind))
        if known is None:
            # Asked each time for an unknown kind: its CRD may have been installed since.
            for each in self._json("GET", _group(api_version))["resources"]:
                if "/" not in each["name"]:
                    found = _Resource(each["name"], each["namespaced"])
                    self._resources[api_version, each["kind"]] = found
            known = self._resources.get((api_version, kind))
        if known is None:
            raise ApiError(404, "NotFound", f'the server has no kind "{kind}" in "{api_version}"')
        return known

    def _json(self, method: str, path: str, body: object = None, content: str = "application/json") -> Object:
        answer = self._send(method, path, body, content)
        if answer.status >= 400:
            raise ApiError.of(answer.status, answer.data)
        found: Object = json.loads(answer.data)
        return found

    def _send(
        self, method: str, path: str, body: object, content: str, **options: Any
    ) -> urllib3.BaseHTTPResponse:
        self._check()
        headers = self._headers | ({"Content-Type": content} if body is not None else {})
        data = json.dumps(body, separators=(",", ":")) if body is not None else None
        try:
            return self._pool.request(method, self.url + path, body=data, headers=headers, **options)
        except urllib3.exceptions.HTTPError as error:
            self._explain()
            raise ApiError(0, "Unreachable", f"no answer from {self.url}: {error}") from error

    def _explain(self) -> None:
        """Let `check` say why there was no answer: a process closes its connections just before it ends."""
        for _ in range(10):
            self._check()
            time.sleep(0.05)


def _tls(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=access.authority)
    if access.certificate:
        context.load_cert_chain(access.certificate, access.key)
    return context


def _group(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _query(**values: str) -> str:
    given = {name: value for name, value in values.items() if value}
    return f"?{urlencode(given)}" if given else ""


def _lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for chunk in answer.stream(None):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


def failures(outcomes: Iterable[Outcome]) -> list[str]:
    """Return a line for each object that was refused: kind, name and the server's words."""
    return [
        f"{each.sent['kind']} {each.sent['metadata']['name']}: {each.error}"
        for each in outcomes
        if each.error
    ]


def require(outcomes: Iterable[Outcome], doing: str) -> None:
    """Raise `ControlPlaneError` when an object was refused that the control plane itself needs."""
    if refused := failures(outcomes):
        raise ControlPlaneError(f"{doing} failed:\n" + "\n".join(refused))


def condition(thing: Mapping[str, Any], type_: str) -> Object:
    """Return the condition of a type from an object's status; empty when there is none."""
    found = (thing.get("status") or {}).get("conditions") or []
    return next((each for each in found if each["type"] == type_), {})


def holds(type_: str) -> Callable[[Object], bool]:
    """Return a test for `Client.wait`: the condition of this type is True."""
    return lambda thing: condition(thing, type_).get("status") == "True"
