"""Images and containers without a daemon: buildah and podman, with a storage of their own."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.replica import ROOT

NEEDED = ("buildah", "podman", "runc", "mmdebstrap")
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"


def missing() -> str:
    """Why no image can be built here, or ""."""
    if os.geteuid() != 0:
        return "only root can build and run images without a daemon"
    absent = [name for name in NEEDED if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


class Engine:
    """Builds and runs in `folder`, and touches no image or container of anybody else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
        )
        # What works where there is neither systemd nor the right to raise limits.
        (folder / "containers.conf").write_text(
            '[containers]\ndefault_ulimits = ["nofile=1024:4096", "nproc=1024:4096"]\n'
            '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        )
        self._env = {
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "BUILDAH_ISOLATION": "chroot",
        }

    def run(self, *command: str, env: Mapping[str, str] | None = None, timeout: float = 300) -> str:
        """What a command writes to stdout; AssertionError with all that it said where it fails."""
        done = self._try(*command, env=env, timeout=timeout)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def image(self, name: str, containerfile: str, context: Path | None = None) -> str:
        """Builds from a text."""
        path = self._folder / "Containerfile"
        path.write_text(containerfile)
        self.run("buildah", "bud", "--quiet", "-t", name, "-f", str(path), str(context or self._folder))
        return name

    def debian(self) -> str:
        """A base with Debian's Python, pip and venv."""
        tar = self._folder / "root.tar"
        # Half a minute, and ten times that on a machine with much else to do.
        fetch = ("--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(tar))
        self.run("mmdebstrap", "--quiet", *fetch, timeout=600)
        return self.image("localhost/debian-python", "FROM scratch\nADD root.tar /\n")

    def without_shell(self, base: str) -> str:
        """A base with Python and nothing to build or to type commands with, as a distroless one."""
        remove = (
            "import glob, os, shutil; "
            "[shutil.rmtree(path, True) for path in glob.glob('/usr/lib/python3/dist-packages/*') + ['/usr/lib/apt']]; "
            "[os.remove(path) for path in ('/bin/bash', '/bin/dash', '/bin/sh', '/usr/bin/apt-get', '/usr/bin/dpkg')]"
        )
        return self.image("localhost/distroless", f'FROM {base}\nRUN ["/usr/bin/python3", "-c", "{remove}"]\n')

    def build(self, name: str, **bases: str) -> str:
        """Builds this project's image with the script that users are told of."""
        # Where the packages come from may be known to this machine's certificates only.
        trust = ["-v", f"{_CERTIFICATES}:{_CERTIFICATES}:ro"] if _CERTIFICATES.exists() else []
        self.run("deploy/build-image.sh", *trust, env={"IMAGE": name, **bases}, timeout=600)
        return name

    def size(self, image: str) -> int:
        """Bytes of all its layers."""
        return int(self.run("podman", "image", "inspect", "--format", "{{.Size}}", image))

    def start(self, name: str, image: str, *options: str, env: Mapping[str, str]) -> None:
        """Runs an image in the background, confined as the manifests ask for."""
        settings = [option for key, value in env.items() for option in ("-e", f"{key}={value}")]
        self.run(
            *("podman", "run", "--detach", "--name", name, "--network", "host"),
            *("--read-only", "--tmpfs", "/tmp", "--cap-drop", "all", "--security-opt", "no-new-privileges"),
            *settings,
            *options,
            image,
        )

    def stop(self, name: str) -> int:
        """SIGTERM, as a platform sends it; the exit status."""
        self.run("podman", "stop", "--time", "20", name)
        return int(self.run("podman", "inspect", "--format", "{{.State.ExitCode}}", name))

    def log(self, name: str) -> str:
        """What a container said."""
        done = self._try("podman", "logs", name)
        return done.stdout + done.stderr

    def _try(
        self, *command: str, env: Mapping[str, str] | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        full = self._env | dict(env or {})
        return subprocess.run(command, cwd=ROOT, env=full, capture_output=True, text=True, timeout=timeout, check=False)

    def close(self) -> None:
        """Ends and removes everything."""
        self._try("podman", "rm", "--all", "--force", "--time", "1")
        self._try("buildah", "rm", "--all")
        self._try("buildah", "rmi", "--all", "--force")
        shutil.rmtree(self._folder, ignore_errors=True)
