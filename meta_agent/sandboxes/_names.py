"""Names that several files of this folder use: backends, images, labels and fences."""

from typing import Final

BACKENDS: Final = ("docker", "podman", "process")
CONTAINERS: Final = ("docker", "podman")
SERVICE_PREFIX: Final = "harbor:"  # then a service of Harbor's, and @IMAGE where it is not ours
TITLES: Final[dict[str, str]] = {"docker": "Docker", "podman": "podman"}
BUILD_COMMAND: Final = "meta-agent sandbox build"

BASE_IMAGE: Final = "meta-agent-base:1"
RECIPE_LABEL: Final = "ma.recipe"
SEALED_LABEL: Final = "ma.sealed"
SNAPSHOT_LABEL: Final = "ma.snapshot"

FOLDER_PREFIX: Final = "meta-agent-sandbox-"
HOLDER_FILE: Final = "holder"

# What a sandbox can promise beyond what each must; `tests/sandbox/_conformance.py` attacks each.
FENCES: Final = frozenset(
    {
        "network",  # nothing but its own loopback
        "processes",  # no process of the host is in sight
        "files",  # only its work and temporary folders can be written; no host socket
        "unprivileged",  # nothing untrusted runs as root
        "capabilities",  # none, and none to be gained
        "seccomp",  # dangerous system calls are filtered
        "memory",  # bounded in sum, not only for each process
        "pids",  # bounded in number
        "disk",  # bounded in sum, not only for each file
        "inodes",  # bounded in the number of files
        "peers",  # cannot read another sandbox
        "host",  # no file of the host but system programs, the interpreter and its packages
        "locks",  # cannot meet a lock that another sandbox holds
        "worker",  # nothing inside can signal what watches it, or work without being counted
    }
)


def short_name(image: str) -> str:
    """Returns an image's name without a prefix such as `docker.io/library/` or `localhost/`."""
    return image.removeprefix("localhost/").removeprefix("docker.io/").removeprefix("library/")


def whole_id(image_id: str) -> str:
    """Returns an image id with its prefix `sha256:`, which podman may omit."""
    return f"sha256:{image_id.removeprefix('sha256:')}"
