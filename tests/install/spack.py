# SPDX-License-Identifier: MIT
"""spack.py SOURCE: the recipe for Spack, read by a stand-in for Spack's own
modules: its syntax, what it declares, and for every set of variants what it
would pass to CMake, compared with what the CMake files know and ask for."""
import importlib.util
import itertools
import pathlib
import re
import sys
import types

sys.dont_write_bytecode = True
SOURCE = pathlib.Path(sys.argv[1])
RECIPE = SOURCE / "scripts/spack/spack_repo/wharf/packages/wharf/package.py"
said = {}


def directive(name):
    def record(*values, **named):
        said.setdefault(name, []).append((values, named))
    return record


class Spec:
    def __init__(self, on, architectures):
        self.on = on
        self.variants = {"cuda_arch": types.SimpleNamespace(
            value=architectures)}

    def satisfies(self, text):
        return (text[1:] in self.on) == (text[0] == "+")


class CMakePackage:
    run_tests = False

    def define(self, name, value):
        if isinstance(value, (list, tuple)):
            value = ";".join(value)
        return f"-D{name}={value}"

    def define_from_variant(self, name, variant):
        return self.define(name, "ON" if variant in self.spec.on else "OFF")


class CudaPackage:
    pass


def load():
    for name in ("spack_repo", "spack_repo.builtin",
                 "spack_repo.builtin.build_systems", "spack"):
        sys.modules[name] = types.ModuleType(name)
    for name, kind in (("cmake", CMakePackage), ("cuda", CudaPackage)):
        module = types.ModuleType(name)
        setattr(module, kind.__name__, kind)
        sys.modules[f"spack_repo.builtin.build_systems.{name}"] = module
    package = types.ModuleType("spack.package")
    for name in ("license", "version", "variant", "depends_on", "conflicts"):
        setattr(package, name, directive(name))
    package.which = package.join_path = None
    sys.modules["spack.package"] = package
    there = importlib.util.spec_from_file_location("recipe", RECIPE)
    module = importlib.util.module_from_spec(there)
    there.loader.exec_module(module)
    return module.Wharf


def check(holds, *what):
    if not holds:
        sys.exit(" ".join(str(word) for word in what))


def cmake_text():
    files = [SOURCE / "CMakeLists.txt"]
    files += sorted((SOURCE / "scripts/cmake").glob("*.cmake"))
    return "\n".join(file.read_text() for file in files)


def compare_versions(cmake):
    wanted = {
        "cmake": r"cmake_minimum_required\(VERSION ([\d.]+)\)",
        "hwloc": r"hwloc>=([\d.]+)",
        "cuda": r"find_package\(CUDAToolkit ([\d.]+)",
    }
    needs = [values[0] for values, _ in said["depends_on"]]
    for name, pattern in wanted.items():
        least = re.search(pattern, cmake).group(1)
        check(f"{name}@{least}:" in needs, "the recipe must ask for",
              f"{name}@{least}: as CMake does; it asks for", needs)


def compare_options(recipe, cmake):
    known = set(re.findall(r"^option\((\w+)", cmake, re.M))
    known |= set(re.findall(r"^set\((WHARF_\w+) [^)]*?\bCACHE\b", cmake, re.M))
    variants = ["cuda", "hwloc", "fortran", "docs"]
    for size in range(len(variants) + 1):
        for on in itertools.combinations(variants, size):
            for architectures in (("none",), ("80", "90")):
                package = recipe()
                package.spec = Spec(on, architectures)
                given = dict(arg[2:].split("=", 1)
                             for arg in package.cmake_args())
                check(set(given) <= known, "CMake does not know",
                      set(given) - known)
                for variant in variants[:3]:
                    check(given[f"WHARF_{variant.upper()}"] ==
                          ("ON" if variant in on else "OFF"), variant, given)
                check(given.get("WHARF_CUDA_ARCHITECTURES") ==
                      ("80;90" if "cuda" in on and architectures[0] != "none"
                       else None), "architectures", given)
                check(("docs" in package.build_targets) == ("docs" in on),
                      "targets", package.build_targets)


def main():
    recipe = load()
    cmake = cmake_text()
    names = {values[0] for values, _ in said["variant"]}
    check({"hwloc", "fortran", "docs"} <= names, "variants", names)
    check(issubclass(recipe, CudaPackage), "no variant cuda")
    check(all("branch" in named for _, named in said["version"]),
          "versions go by branches")
    check(recipe.git == SOURCE.resolve().as_uri(), "repository", recipe.git)
    compare_versions(cmake)
    compare_options(recipe, cmake)
    text = (RECIPE.parents[2] / "repo.yaml").read_text()
    check("namespace: wharf" in text, "repo.yaml does not fit its directory")


main()
