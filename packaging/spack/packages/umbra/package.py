# SPDX-License-Identifier: BSL-1.0
# Untested. In a clone: spack repo add packaging/spack; spack install umbra
import pathlib

from spack.package import *


class Umbra(MesonPackage):
    """Fibers, events and shadow threads that hand work over in nanoseconds."""

    git = str(pathlib.Path(__file__).resolve().parents[4])
    license("BSL-1.0")
    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("meson@1:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("boost+context")
    depends_on("hwloc@2:")
    depends_on("liburing@2.3:")

    def meson_args(self):
        return [f"-D{part}=disabled" for part in ("tests", "bench", "examples", "mpi", "omp")]
