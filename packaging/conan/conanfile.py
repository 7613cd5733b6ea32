# SPDX-License-Identifier: BSL-1.0
"""Conan's recipe, on hwloc, Boost.Context and liburing of the system: conan create packaging/conan"""
import os

from conan import ConanFile
from conan.tools.files import copy, load, rm, rmdir
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain
from conan.tools.system.package_manager import Apt, Dnf

ROOT = os.path.join("..", "..")


class Umbra(ConanFile):
    name = "umbra"
    license = "BSL-1.0"
    description = "Fibers, events and shadow threads that hand work over in nanoseconds"
    topics = ("fibers", "scheduler", "concurrency", "c11")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": False}

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, ROOT, "meson.build"))
        self.version = text.split("version: '", 1)[1].split("'", 1)[0]

    def export_sources(self):
        for what in ("include/*", "packaging/*", "tools/*", "meson.build", "meson_options.txt", "LICENSE"):
            copy(self, what, os.path.join(self.recipe_folder, ROOT), self.export_sources_folder)

    def system_requirements(self):
        Apt(self).install(["libhwloc-dev", "libboost-context-dev", "liburing-dev"], check=True)
        Dnf(self).install(["hwloc-devel", "boost-devel", "liburing-devel"], check=True)

    def configure(self):
        self.settings.rm_safe("compiler.libcxx")
        self.settings.rm_safe("compiler.cppstd")

    def layout(self):
        basic_layout(self)

    def generate(self):
        toolchain = MesonToolchain(self)
        for option in ("tests", "bench", "examples", "mpi", "omp"):
            toolchain.project_options[option] = "disabled"
        toolchain.generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        Meson(self).install()
        rm(self, "*.a" if self.options.shared else "*.so*", os.path.join(self.package_folder, "lib"))
        rmdir(self, os.path.join(self.package_folder, "share", "cmake"))

    def package_info(self):
        self.cpp_info.libs = ["umbra"]
        if self.options.shared:
            self.cpp_info.defines = ["UMBRA_SHARED"]
            return
        self.cpp_info.system_libs = ["hwloc", "boost_context", "pthread"]
        installed = load(self, os.path.join(self.package_folder, "share", "pkgconfig", "umbra.pc"))
        if "liburing" in installed:
            self.cpp_info.system_libs.insert(0, "uring")
