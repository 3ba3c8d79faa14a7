# SPDX-License-Identifier: MIT
# The recipe for Spack; tests/install/spack.py compares it with the CMake files.
from pathlib import Path

from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Wharf(CMakePackage, CudaPackage):
    """Shared GPU and host memory for the MPI ranks of a node: one collective
    call gives every rank a pointer to every rank's segment, and ways to hand
    data over in the order of streams."""

    # The repository that this file lies in. Wherever the recipe is copied to,
    # this becomes the repository's address.
    git = Path(__file__).resolve().parents[6].as_uri()

    license("MIT")

    version("main", branch="main")

    variant("hwloc", default=True,
            description="Topology by hwloc, else from the kernel's files")
    variant("fortran", default=True, description="Fortran module")
    variant("docs", default=False,
            description="HTML reference and manual pages of the calls")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.22:", type="build")
    depends_on("perl", type="build")
    depends_on("doxygen@1.9:", type="build", when="+docs")
    depends_on("mpi@3:")
    depends_on("pkgconfig", type="build", when="+hwloc")
    depends_on("hwloc@2.4:", when="+hwloc")
    # Only to compile: the driver is loaded at run time, where there is one.
    depends_on("cuda@12.0:", when="+cuda")

    conflicts("platform=darwin", msg="Wharf needs Linux")
    conflicts("platform=windows", msg="Wharf needs Linux")

    @property
    def build_targets(self):
        return ["all", "docs"] if self.spec.satisfies("+docs") else ["all"]

    def cmake_args(self):
        args = [
            self.define_from_variant("WHARF_CUDA", "cuda"),
            self.define_from_variant("WHARF_HWLOC", "hwloc"),
            self.define_from_variant("WHARF_FORTRAN", "fortran"),
            self.define("WHARF_BUILD_TESTS", self.run_tests),
            self.define("WHARF_BUILD_EXAMPLES", self.run_tests),
        ]
        architectures = self.spec.variants["cuda_arch"].value \
            if self.spec.satisfies("+cuda") else ("none",)
        if "none" not in architectures:
            args.append(self.define("WHARF_CUDA_ARCHITECTURES",
                                    list(architectures)))
        return args

    def test_tools(self):
        """the tools run where they were installed"""
        for tool in ("wharf-info", "wharf-bench"):
            program = which(join_path(self.prefix.bin, tool))
            assert "usage:" in program("--help", output=str.split,
                                       error=str.split)
