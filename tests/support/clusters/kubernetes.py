"""A Kubernetes on this machine: API server, scheduler and one node, whose containers are real, with
etcd and containerd.

Kubernetes and etcd are built with Go, which takes minutes, and kept in the cache; containerd and
runc are the machine's. Everything needs root.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from cdcbus.consumer.jvm.maven import cache_folder, java, making
from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import free_port
from tests.support.servers.secure_servers import Authority
from tests.support.waiting import wait_until

SOURCES = Path(__file__).with_name("kubernetes_server")
SPARK_JARS = Path(pyspark.__file__).parent / "jars"
# containerd and kubelet have namespaces of processes and of mounts of their own: nothing runs, or
# is mounted, when they are killed. And of what others of their kind have where no option leads them
# away they see nothing.
ALONE = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
NODE_START = """
for hidden in /run/containerd /var/lib/kubelet /var/log/containers; do mkdir -p $hidden && mount -t tmpfs tmpfs $hidden; done
containerd --config {folder}/containerd.toml > {folder}/containerd.log 2>&1 &
until ctr --address {socket} --namespace k8s.io images import {folder}/images.tar; do sleep 0.1; done
exec {program} kubelet --config={folder}/kubelet.json --kubeconfig={folder}/kubeconfig --hostname-override=node \\
  --root-dir={folder}/kubelet --cert-dir={folder}/kubelet-certificates
"""
PAUSE, SPARK = "cdcbus.test/pause:1", "cdcbus.test/spark:1"  # images
FOLDERS = {
    "usr": Path("/usr"),
    "etc": Path("/etc"),
    "python": Path(sys.base_prefix),
    "packages": Path(sys.prefix),
}
ACCOUNT = "cdcbus"  # of services, with the same rights
# tokens: of one who may do all, and of one who has the rights that docs/loading.md names
OPERATOR, USER = "the-operator", "a-user"

# What a task's Spark may do in its namespace.
RIGHTS = [
    {
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["create", "get", "list", "watch", "delete", "deletecollection"],
    },
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "deletecollection"]},
]
# As that of Spark's images.
ENTRYPOINT = """#!/bin/bash
options=()
for name in ${!SPARK_JAVA_OPT_@}; do options+=("${!name}"); done
exec %(java)s "${options[@]}" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \\
  -cp "$SPARK_CONF_DIR:$SPARK_CLASSPATH:%(jars)s/*" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \\
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \\
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \\
  --podName "$SPARK_EXECUTOR_POD_NAME"
"""


@dataclass(frozen=True)
class Kubernetes:
    """A running Kubernetes; everything that belongs to it is in `folder`."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self) -> Path:
        return self.folder / "kubernetes.pem"

    def ask(self, path: str, body: Mapping[str, Any] | None = None, *, method: str = "GET") -> Any:
        """The API server's answer to a client with all rights."""
        data = None
        if body is not None:
            data = json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {OPERATOR}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(
            request, timeout=60, context=ssl.create_default_context(cafile=self.ca)
        ) as answer:
            return json.load(answer)

    def found(self, kind: str) -> dict[str, dict[str, Any]]:
        """All `pods`, or `configmaps`, of the default namespace, by name."""
        items = self.ask(f"/api/v1/namespaces/default/{kind}")["items"]
        return {item["metadata"]["name"]: item for item in items}

    def delete_pod(self, name: str) -> None:
        """Deletes a pod, as an operator does, or Kubernetes to free a node for others."""
        self.ask(f"/api/v1/namespaces/default/pods/{name}", method="DELETE")

    def kill_pod(self, name: str) -> None:
        """SIGKILL to its executor, as when it has taken too much memory."""
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                if process.name.isdigit() and (process / "cmdline").read_bytes().endswith(
                    f"--podName\0{name}\0".encode()
                ):
                    return os.kill(int(process.name), signal.SIGKILL)
        raise AssertionError(f"no executor of {name} runs")

    def start_task(self, name: str, task: TaskProcess, folder: Path) -> None:
        """Starts a task in a pod of this name and with its service account. It has the machine's
        network and programs, and may write to `folder`, which holds all that the task needs."""
        command = f"exec {sys.executable} -m cdcbus task run {task.file} > {task.log} 2>&1"
        environment = {
            **{key: value for key, value in task.environment.items() if key.startswith("CDCBUS_")},
            "TMPDIR": str(folder),
            # what gives it an address of its own does not run here
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.port),
        }
        folders = {
            **FOLDERS,
            "cdcbus": Path(__file__).parents[3],
            "cache": cache_folder(),
            "folder": folder,
        }
        mounts: list[dict[str, Any]] = []
        volumes: list[dict[str, Any]] = []
        for name_of_folder, path in folders.items():
            is_read_only = name_of_folder != "folder"
            mount = {"name": name_of_folder, "mountPath": str(path), "readOnly": is_read_only}
            mounts.append(mount)
            volumes.append({"name": name_of_folder, "hostPath": {"path": str(path)}})
        identity = {
            "name": "identity",
            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            "readOnly": True,
        }
        sources = [{"serviceAccountToken": {"path": "token"}}, {"secret": {"name": "ca"}}]
        container = {
            "name": "task",
            "image": SPARK,
            "command": ["/bin/sh", "-c", command],
            "env": [{"name": key, "value": value} for key, value in environment.items()],
            "volumeMounts": [*mounts, identity],
        }
        spec = {
            "hostNetwork": True,
            "restartPolicy": "Never",
            "serviceAccountName": ACCOUNT,
            "containers": [container],
            "volumes": [*volumes, {"name": "identity", "projected": {"sources": sources}}],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.ask("/api/v1/namespaces/default/pods", pod, method="POST")

    def login(self) -> dict[str, str]:
        """What a task file needs of a task that does not run in a pod."""
        authenticate = "spark.kubernetes.authenticate"
        return {f"{authenticate}.caCertFile": str(self.ca), f"{authenticate}.oauthToken": USER}

    def spark_options(self, modules: Path) -> dict[str, str]:
        """What a task file needs to have its executors here: they share the machine's network
        and programs, and may write to `modules`, where further Python modules are."""
        template = self.folder / "executor.json"
        template.write_text(
            json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"hostNetwork": True}}),
            encoding="utf-8",
        )
        volumes: dict[str, str] = {}
        for name, folder in {**FOLDERS, "modules": modules}.items():
            prefix = f"spark.kubernetes.executor.volumes.hostPath.{name}"
            volumes[f"{prefix}.mount.path"] = str(folder)
            volumes[f"{prefix}.mount.readOnly"] = "false" if name == "modules" else "true"
            volumes[f"{prefix}.options.path"] = str(folder)
        return {
            "spark.master": f"k8s://{self.url}",
            "spark.kubernetes.container.image": SPARK,
            "spark.kubernetes.executor.podTemplateFile": str(template),
            # one for all would be the machine's: one pod could have it
            "spark.blockManager.port": "0",
            "spark.executorEnv.PYTHONPATH": str(modules),
            **volumes,
        }


def missing() -> list[str]:
    """The requirements that this machine lacks."""
    programs = ("go", "containerd", "ctr", "runc", "unshare")
    found = [program for program in programs if shutil.which(program) is None]
    if os.geteuid() != 0:
        found.append("root")
    return found


@contextmanager
def open_kubernetes(folder: Path) -> Iterator[Kubernetes]:
    """Starts it in `folder`, which is created. Everything in it is killed at the end."""
    program, pause = _programs()
    folder.mkdir()
    ports: list[int] = []
    for _ in range(6):
        ports.append(free_port(ports))
    etcd, peers, api, scheduling, node, health = ports
    kubernetes = Kubernetes(folder, api)
    key = Authority.new(folder, kubernetes.ca.stem).issue("apiserver")
    (folder / "tokens.csv").write_text(
        f'{OPERATOR},operator,1,"system:masters"\n{USER},{USER},2\n', encoding="utf-8"
    )
    (folder / "kubeconfig").write_text(json.dumps(_kubeconfig(kubernetes)), encoding="utf-8")
    _write_images(folder / "images.tar", pause)
    socket, group = folder / "containerd.sock", f"cdcbus-{api}"
    (folder / "containerd.toml").write_text(_containerd(folder, socket), encoding="utf-8")
    (folder / "kubelet.json").write_text(
        json.dumps(_kubelet(folder, socket, node, health, group)), encoding="utf-8"
    )
    with ExitStack() as ends:

        def start(name: str, *command: object) -> Path:
            log = folder / f"{name}.log"
            with log.open("wb") as output:
                process = subprocess.Popen(
                    list(map(str, command)),
                    cwd=folder,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            ends.callback(_end, process)
            return log

        ends.callback(_remove_control_group, group)
        start("etcd", program, "etcd", *_etcd_options(folder, etcd, peers))
        log = start("apiserver", program, "apiserver", *_api_options(folder, key, etcd, api))
        wait_until(lambda: _answers(kubernetes), f"the API server: {log}", 120)
        reached = f"--kubeconfig={folder}/kubeconfig"
        start(
            "scheduler",
            program,
            "scheduler",
            reached,
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={scheduling}",
        )
        command = NODE_START.format(folder=folder, socket=socket, program=program)
        log = start("node", *ALONE, "bash", "-c", command)
        _give_rights(kubernetes)
        wait_until(
            lambda: bool(kubernetes.ask("/api/v1/nodes")["items"]),
            f"the node: {log}, {folder}/containerd.log",
            120,
        )
        yield kubernetes


def _etcd_options(folder: Path, port: int, peers: int) -> list[str]:
    return [
        f"--data-dir={folder}/etcd",
        "--unsafe-no-fsync",
        f"--listen-client-urls=http://127.0.0.1:{port}",
        f"--advertise-client-urls=http://127.0.0.1:{port}",
        f"--listen-peer-urls=http://127.0.0.1:{peers}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peers}",
        f"--initial-cluster=default=http://127.0.0.1:{peers}",
    ]


def _api_options(folder: Path, key: Path, etcd: int, port: int) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={key}",
        f"--tls-private-key-file={key}",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-account-issuer=https://cdcbus.test",
        "--service-cluster-ip-range=10.96.0.0/24",
        f"--token-auth-file={folder}/tokens.csv",
        "--authorization-mode=RBAC",
        # The controller that creates service accounts and removes a new node's taints does not run.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    ]


def _containerd(folder: Path, socket: Path) -> str:
    return f"""version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
Root = "{folder}/runc"
[plugins."io.containerd.grpc.v1.cri".cni]
conf_dir = "{folder}/cni"
"""


def _kubelet(folder: Path, socket: Path, port: int, health: int, group: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{group}",
        "enforceNodeAllocatable": ["none"],
        "cgroupsPerQOS": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "address": "127.0.0.1",
        "port": port,
        "healthzPort": health,
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "evictionHard": {
            "memory.available": "1Mi",
            "nodefs.available": "0%",
            "imagefs.available": "0%",
            "nodefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "podLogsDir": str(folder / "pod-logs"),
        "volumePluginDir": str(folder / "volume-plugins"),
        "resolvConf": "/etc/resolv.conf",
    }


def _kubeconfig(kubernetes: Kubernetes) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "test",
                "cluster": {"server": kubernetes.url, "certificate-authority": str(kubernetes.ca)},
            }
        ],
        "users": [{"name": "operator", "user": {"token": OPERATOR}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "operator"}}],
        "current-context": "test",
    }


def _give_rights(kubernetes: Kubernetes) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    name = {"name": "spark", "namespace": "default"}
    kubernetes.ask(
        "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": ACCOUNT}}, method="POST"
    )
    ca = {"metadata": {"name": "ca"}, "stringData": {"ca.crt": kubernetes.ca.read_text()}}
    kubernetes.ask("/api/v1/namespaces/default/secrets", ca, method="POST")
    kubernetes.ask(f"{roles}/roles", {"metadata": name, "rules": RIGHTS}, method="POST")
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "spark"}
    subjects = [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER},
        {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"},
    ]
    kubernetes.ask(
        f"{roles}/rolebindings",
        {"metadata": name, "roleRef": role, "subjects": subjects},
        method="POST",
    )


def _answers(kubernetes: Kubernetes) -> bool:
    with suppress(OSError):
        return bool(kubernetes.ask("/api/v1/namespaces/default"))
    return False


def _programs() -> tuple[Path, Path]:
    """Kubernetes and the pause program, built if they are not in the cache."""
    sources = sorted([*SOURCES.glob("*.go"), *SOURCES.glob("go.*"), *SOURCES.glob("*/*.go")])
    texts = b"".join(file.read_bytes() for file in sources)
    built = cache_folder() / "kubernetes" / hashlib.sha256(texts).hexdigest()[:12]
    with making(built) as part:
        if part:
            subprocess.run(
                ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", part, ".", "./pause"],
                cwd=SOURCES,
                check=True,
            )
    return built / "kubernetes", built / "pause"


def _write_images(file: Path, pause: Path) -> None:
    """Two images of one layer, in the form of `docker save`: what a node needs for every pod,
    and one with Spark's entrypoint, whose programs are the machine's."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for folder in ("usr", "etc", "tmp", "opt", "opt/spark", "opt/spark/work-dir"):
            rights = 0o1777 if folder == "tmp" else 0o755
            tar.addfile(_entry(folder, tarfile.DIRTYPE, rights))
        for link in ("bin", "sbin", "lib", "lib64"):
            tar.addfile(_entry(link, tarfile.SYMTYPE, target=f"usr/{link}"))
        script = ENTRYPOINT % {"java": java().resolve(), "jars": SPARK_JARS}
        for name, content in (
            ("pause", pause.read_bytes()),
            ("opt/entrypoint.sh", script.encode()),
        ):
            tar.addfile(_entry(name, size=len(content), mode=0o755), io.BytesIO(content))
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    files = {"layer.tar": layer.getvalue()}
    manifest = []
    for image, entrypoint in ((PAUSE, "/pause"), (SPARK, "/opt/entrypoint.sh")):
        name = f"{image.partition('/')[2].partition(':')[0]}.json"
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": [entrypoint], "WorkingDir": "/opt/spark/work-dir"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
        files[name] = json.dumps(config).encode()
        manifest.append({"Config": name, "RepoTags": [image], "Layers": ["layer.tar"]})
    files["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(file, "w") as tar:
        for name, content in files.items():
            tar.addfile(_entry(name, size=len(content)), io.BytesIO(content))


def _entry(
    name: str, kind: bytes = tarfile.REGTYPE, mode: int = 0o644, *, size: int = 0, target: str = ""
) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.size, entry.linkname = kind, mode, size, target
    return entry


def _end(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _remove_control_group(name: str) -> None:
    """Removes it with those of its containers, once these have ended."""

    def is_removed() -> bool:
        groups = sorted(Path("/sys/fs/cgroup").glob(f"**/{name}/**"), reverse=True)
        for group in groups:
            with suppress(OSError):
                group.rmdir()
        return not groups

    wait_until(is_removed, f"the processes of the control group {name} to be gone", 30)
