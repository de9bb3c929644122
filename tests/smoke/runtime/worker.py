"""A process that runs one Python function, as Lambda's runtime does.

`worker.py SOCKET` imports what is in Lambda's runtime too, listens, and forks for each connection. The first
line that comes is what the process is to be: its environment, its handler, and where its log goes. Each line
after it is an invocation, with the time that it is, and is answered with a line that has the time afterwards.
"""

import datetime
import importlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import IO, Any

import boto3  # type: ignore[import-untyped] # noqa: F401 (once for all that are forked)
import botocore.config  # type: ignore[import-untyped] # noqa: F401


class Clock:
    now = 0.0

    @classmethod
    def sleep(cls, seconds: float) -> None:
        cls.now += seconds


class Datetime(datetime.datetime):
    """What functions find under the name of the standard library's class."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "Datetime":
        return cls.fromtimestamp(Clock.now, tz)


class Context:
    def __init__(self, seconds: float) -> None:
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self._end = Clock.now + seconds

    def get_remaining_time_in_millis(self) -> int:
        return int((self._end - Clock.now) * 1000)


Handler = Callable[[Any, Context], Any]


def load(entry: str) -> Handler:
    """Import a function, and give its modules the clock."""
    root = os.environ["LAMBDA_TASK_ROOT"]
    vars(time).update(time=lambda: Clock.now, sleep=Clock.sleep)
    sys.path.insert(0, root)
    module, _, name = entry.rpartition(".")
    handler: Handler = getattr(importlib.import_module(module), name)
    for loaded in list(sys.modules.values()):
        ours = str(getattr(loaded, "__file__", None) or "").startswith(root)
        if ours and getattr(loaded, "datetime", None) is datetime.datetime:
            vars(loaded)["datetime"] = Datetime
    return handler


def serve(lines: IO[str], answers: IO[str]) -> None:
    """Be a function until nobody is there any more."""
    wanted = json.loads(lines.readline())
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.stdout = sys.stderr = open(wanted["log"], "a", buffering=1, encoding="utf-8")  # noqa: SIM115, PTH123
    handler: Handler | None = None
    for line in lines:
        invocation = json.loads(line)
        Clock.now = invocation["now"]
        try:
            handler = handler or load(wanted["handler"])
            answer = {"payload": json.dumps(handler(invocation["event"], Context(invocation["timeout"])))}
        except Exception as error:
            told = {"errorMessage": str(error), "errorType": type(error).__name__}
            answer = {"payload": json.dumps(told), "error": "Unhandled"}
        print(json.dumps({**answer, "now": Clock.now}), file=answers, flush=True)


def main(path: str) -> None:
    """Fork for each connection, until the parent ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                with connection, connection.makefile("r") as lines, connection.makefile("w") as answers:
                    serve(lines, answers)
                os._exit(0)
            connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
