"""The manifests of ops/kubernetes, as far as that can be seen without a Kubernetes: its schemas,
what they name, and what must agree with the image, the settings and the pages of a node."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from cdcbus import __version__
from cdcbus.ops.cli.main import main
from cdcbus.ops.web.auth import FREE
from cdcbus.tasks.control.bus_settings import BusSettings, read_bus_settings
from tests.unit.ops.docker.test_docker import of

FOLDER = Path(__file__).parents[4] / "ops" / "kubernetes"
# The oldest of which there is a schema with all that is used, and the newest.
RELEASES = ("1.25", "1.31", "1.37")
SECRET = "/etc/cdcbus/secret/"


def read(name: str) -> list[dict[str, Any]]:
    """As kubectl reads YAML: 0440 is octal."""
    yaml = YAML(typ="safe")
    yaml.version = (1, 1)
    return list(yaml.load_all((FOLDER / name).read_text(encoding="utf-8")))


[KUSTOMIZATION] = read("kustomization.yaml")
MANIFESTS = [each for name in KUSTOMIZATION["resources"] for each in read(name)]
[NODES] = [each for each in MANIFESTS if each["kind"] == "StatefulSet"]
POD: dict[str, Any] = NODES["spec"]["template"]["spec"]
[CONTAINER] = POD["containers"]


@pytest.fixture
def settings(tmp_path: Path) -> BusSettings:
    """What a node would read, with a Secret of its own."""
    (tmp_path / "http-token").write_text("t" * 48, encoding="utf-8")
    text = (FOLDER / "cdcbus.properties").read_text(encoding="utf-8")
    file = tmp_path / "cdcbus.properties"
    file.write_text(text.replace(SECRET, f"{tmp_path}/"), encoding="utf-8")
    return read_bus_settings({}, file, {})


@pytest.fixture(scope="module")
def schemas() -> ModuleType:
    """A package whose import takes seconds, which runs of other tests need not wait for."""
    return importlib.import_module("kubernetes_validate")


@pytest.mark.parametrize("release", RELEASES)
def test_manifests_follow_the_schemas_of_kubernetes(schemas: ModuleType, release: str) -> None:
    for manifest in MANIFESTS:
        schemas.validate(manifest, release, strict=True)


def test_the_check_of_the_schemas_finds_a_fault(schemas: ModuleType) -> None:
    probe = {**CONTAINER, "livelinessProbe": CONTAINER["livenessProbe"]}
    pod = {**NODES["spec"]["template"], "spec": {**POD, "containers": [probe]}}
    wrong = {**NODES, "spec": {**NODES["spec"], "template": pod}}
    with pytest.raises(schemas.ValidationError, match="livelinessProbe"):
        schemas.validate(wrong, RELEASES[-1], strict=True)


def test_every_file_is_applied() -> None:
    named = [*KUSTOMIZATION["resources"], *KUSTOMIZATION["configMapGenerator"][0]["files"]]
    assert sorted([*named, "kustomization.yaml"]) == sorted(file.name for file in FOLDER.iterdir())


def test_the_image_is_the_one_of_this_version_and_runs_a_node() -> None:
    # It replaces the entry point, and with it the first process.
    assert "command" not in CONTAINER
    assert KUSTOMIZATION["images"] == [{"name": CONTAINER["image"], "newTag": __version__}]
    result = CliRunner().invoke(main, [*CONTAINER["args"], "--help"])
    assert result.exit_code == 0, result.output


def test_a_node_is_the_user_of_the_image_and_has_no_right_beyond() -> None:
    [user] = [run.text for run in of("RUN") if run.text.startswith("useradd")]
    assert f"--uid {POD['securityContext']['runAsUser']} " in user
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["automountServiceAccountToken"] is False
    own = CONTAINER["securityContext"]
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}


def test_folders_that_a_node_writes_to_are_its_own(settings: BusSettings) -> None:
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    assert sorted(volumes) == sorted(mount["name"] for mount in CONTAINER["volumeMounts"])
    written = {
        mount["mountPath"] for mount in CONTAINER["volumeMounts"] if not mount.get("readOnly")
    }
    assert written == {"/home/cdcbus", "/tmp", str(settings.node_logs)}
    assert CONTAINER["workingDir"] in written
    for mount in CONTAINER["volumeMounts"]:
        assert ("emptyDir" in volumes[mount["name"]]) is (mount["mountPath"] in written)


def test_settings_are_ones_that_a_node_knows_and_takes(settings: BusSettings) -> None:
    assert not settings.errors()
    assert settings.http_token == "t" * 48
    [variable] = [each for each in CONTAINER["env"] if each["name"] == "CDCBUS_CONFIG"]
    [map_] = KUSTOMIZATION["configMapGenerator"]
    [mount] = [each for each in CONTAINER["volumeMounts"] if each["name"] == "settings"]
    assert variable["value"] == f"{mount['mountPath']}/{map_['files'][0]}"
    [volume] = [each for each in POD["volumes"] if each["name"] == "settings"]
    assert volume["configMap"]["name"] == map_["name"]


def test_the_memory_is_enough_for_the_cores_that_spark_uses_on_any_machine(
    settings: BusSettings,
) -> None:
    """Without a limit of CPU, `local[*]` would be all cores of the machine."""
    found = re.fullmatch(r"local\[(\d+)\]", settings.spark_options["spark.master"])
    assert found
    # For the node and its other tasks, for the JVM, and for the Python of each core.
    assert CONTAINER["resources"]["limits"] == {"memory": f"{1 + 1 + int(found[1])}Gi"}


def test_probes_ask_for_what_the_node_serves_without_a_token(settings: BusSettings) -> None:
    bind = settings.http_bind
    assert bind is not None
    [port] = CONTAINER["ports"]
    assert bind == ("0.0.0.0", port["containerPort"])
    for name in ("startupProbe", "readinessProbe"):
        assert CONTAINER[name]["httpGet"] == {"path": "/healthz", "port": port["name"]}
    assert "/healthz" in FREE
    assert CONTAINER["livenessProbe"]["tcpSocket"] == {"port": port["name"]}
    for service in MANIFESTS:
        if service["kind"] == "Service":
            assert [each["targetPort"] for each in service["spec"]["ports"]] == [port["name"]]


def selectors() -> Iterator[dict[str, str]]:
    for manifest in MANIFESTS:
        if selector := manifest.get("spec", {}).get("selector"):
            yield selector.get("matchLabels", selector)
    for spread in POD["topologySpreadConstraints"]:
        yield spread["labelSelector"]["matchLabels"]


def test_all_selectors_find_the_nodes() -> None:
    labels = NODES["spec"]["template"]["metadata"]["labels"]
    found = list(selectors())
    assert len(found) == 5
    assert all(each == labels for each in found)
    assert NODES["spec"]["serviceName"] in [each["metadata"]["name"] for each in MANIFESTS]


def test_a_node_has_time_to_stop_and_others_stay_meanwhile() -> None:
    [budget] = [each for each in MANIFESTS if each["kind"] == "PodDisruptionBudget"]
    assert budget["spec"]["maxUnavailable"] < NODES["spec"]["replicas"]
    assert POD["terminationGracePeriodSeconds"] >= 60


def test_no_secret_is_written_out() -> None:
    texts = [file.read_text(encoding="utf-8") for file in FOLDER.iterdir()]
    assert not any(re.search(r"^kind: Secret", text, re.MULTILINE) for text in texts)
    [token] = re.findall(r"^http\.token=(.*)", "\n".join(texts), re.MULTILINE)
    assert token == f"${{file:{SECRET}http-token}}"
