"""Cloud assemblies: what is deployed, in the CDK CLI's order, without it."""

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.smoke.cloudformation import ACCOUNT
from tests.smoke.template import Template
from tests.smoke.world import World

Json = Any


class Assembly:
    """A cloud assembly as synthesis writes it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        artifacts = json.loads((directory / "manifest.json").read_text())["artifacts"]
        self._artifacts: dict[str, Json] = artifacts
        kinds = {key: artifact["type"] for key, artifact in artifacts.items()}
        self._stacks = [key for key in sorted(kinds) if kinds[key] == "aws:cloudformation:stack"]

    def stacks(self) -> list[str]:
        """Give the stacks, each after those that it needs."""
        done: list[str] = []
        while left := [name for name in self._stacks if name not in done]:
            done += [name for name in left if self.needs(name) <= set(done)]
        return done

    def needs(self, name: str) -> set[str]:
        """Give the stacks that a stack needs."""
        return set(self._artifacts[name].get("dependencies", [])) & set(self._stacks)

    def region(self, name: str) -> str:
        """Give the region of a stack."""
        return str(self._artifacts[name]["environment"].rpartition("/")[2])

    def template(self, name: str) -> Template:
        """Give a fresh copy of a stack's template."""
        path = self.directory / self._artifacts[name]["properties"]["templateFile"]
        template: Template = json.loads(path.read_text())
        return template

    def deploy(self, world: World) -> dict[str, str]:
        """Publish the code and deploy all stacks, until one fails; give the status of each."""
        found: dict[str, str] = {}
        for name in self.stacks():
            region = world.place(self.region(name)).cloudformation
            self._publish(world, name)
            template = self.template(name)
            region.validate(template)
            stack = region.stacks.get(name) or region.begin(name, "REVIEW_IN_PROGRESS")
            region.deploy(stack, template, {}, self._tags(name))
            found[name] = stack.status
            if stack.status not in {"CREATE_COMPLETE", "UPDATE_COMPLETE"}:
                break
        return found

    def destroy(self, world: World) -> dict[str, str]:
        """Delete all stacks in the reverse order; give the status of those that are left."""
        left: dict[str, str] = {}
        for name in reversed(self.stacks()):
            stacks = world.place(self.region(name)).cloudformation.stacks
            if (stack := stacks.get(name)) is not None:
                world.place(self.region(name)).cloudformation.delete(stack)
            if name in stacks:
                left[name] = stacks[name].status
        return left

    def _tags(self, name: str) -> dict[str, str]:
        tags: dict[str, str] = self._artifacts[name]["properties"].get("tags", {})
        return tags

    def _publish(self, world: World, name: str) -> None:
        for source, destinations in self._files(name):
            if source.is_dir():
                _put(world, destinations, _zipped(source))

    def _files(self, name: str) -> Iterator[tuple[Path, list[Json]]]:
        manifest = json.loads((self.directory / f"{name}.assets.json").read_text())
        for file in manifest["files"].values():
            yield self.directory / file["source"]["path"], list(file["destinations"].values())


def _put(world: World, destinations: list[Json], content: bytes) -> None:
    for destination in destinations:
        bucket = destination["bucketName"].replace("${AWS::AccountId}", ACCOUNT)
        world.s3.put_object(Bucket=bucket, Key=destination["objectKey"], Body=content)


def _zipped(directory: Path) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(directory))
    return content.getvalue()
