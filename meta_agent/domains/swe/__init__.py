"""Tasks from real repositories, graded by a package's own tests in a fresh sandbox."""

from meta_agent.domains._options import DomainOptions
from meta_agent.domains.swe._domain import RealSwe, fetch_images, load_tasks_domain
from meta_agent.domains.swe._patch import make as make_patch
from meta_agent.domains.swe._tree import Tree, read_archive
from meta_agent.domains.swe.grading._command import Report
from meta_agent.domains.swe.grading._runs import SandboxFactory
from meta_agent.domains.swe.grading._sift import Sifted, is_test_path, sift

__all__ = [
    "RealSwe",
    "Report",
    "SandboxFactory",
    "Sifted",
    "Tree",
    "fetch_images",
    "is_test_path",
    "load_tasks_domain",
    "make_patch",
    "open_domain",
    "read_archive",
    "sift",
]


def open_domain(options: DomainOptions) -> RealSwe:
    """Opens a file of repository tasks as a domain. Raises ConfigError if a row is unusable."""
    assert options.tasks is not None, "a domain that needs a file is not opened without one"
    return load_tasks_domain(
        options.tasks,
        sandbox=options.sandbox,
        run=options.run,
        images=options.images,
        seconds=options.seconds,
    )
