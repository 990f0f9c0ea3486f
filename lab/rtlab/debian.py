"""Debian packages: which version is installed, and installing what is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rtlab.processes import Failed, run_tool

LOCK_WAIT_S = 600  # another apt may be running


def installed_version(package: str) -> str | None:
    try:
        answer = run_tool(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", package])
    except Failed:
        return None
    status, _, version = answer.partition(" ")
    return version if status == "installed" else None


def ensure_packages(packages: Iterable[str], say: Callable[[str], None]) -> str | None:
    """Installs the packages that are missing, one by one so that one unknown name costs only itself.

    Returns None if all are there afterwards, else the reason in a few words. Needs root or sudo.
    """
    missing = [package for package in packages if installed_version(package) is None]
    if not missing:
        return None
    if shutil.which("apt-get") is None:
        return "no apt-get"
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if prefix and shutil.which("sudo") is None:
        return "needs root"
    reasons = []
    for package in missing:
        say(f"Installing the Debian package {package} (apt-get install)")
        try:
            run_tool(
                [
                    *prefix,
                    "apt-get",
                    "-o",
                    f"DPkg::Lock::Timeout={LOCK_WAIT_S}",
                    "install",
                    "-y",
                    "--no-install-recommends",
                    package,
                ],
                environment={"DEBIAN_FRONTEND": "noninteractive"},
            )
        except Failed as failure:
            last = str(failure).splitlines()[-1]
            reasons.append("needs root" if "sudo" in last else f"apt-get: {last}")
    return "; ".join(reasons) or None


@dataclass(frozen=True)
class SourcePackage:
    """A package that brings a source as an archive."""

    name: str
    archive: str  # pattern below /

    @property
    def origin(self) -> str:
        return f"Debian {self.name}"


def unpack_source(package: SourcePackage, folder: Path, install: bool, say: Callable[[str], None]) -> Path:
    """The archive's contents, below `folder`; installs the package if it may. Raises Failed."""
    if installed_version(package.name) is None:
        reason = ensure_packages([package.name], say) if install else "not installed"
        if reason:
            raise Failed(reason)
    archives = sorted(Path("/").glob(package.archive))
    if len(archives) != 1:
        raise Failed(f"expected one /{package.archive} of {package.name}, found {len(archives)}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run_tool(["tar", "-xf", archives[0], "-C", folder, "--strip-components=1"])
    return folder
