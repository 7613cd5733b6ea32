# SPDX-License-Identifier: BSL-1.0
# Untested. In a clone: vcpkg install umbra --overlay-ports=packaging/vcpkg
vcpkg_configure_meson(
  SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../.."
  OPTIONS -Dtests=disabled -Dbench=disabled -Dexamples=disabled -Dmpi=disabled -Domp=disabled)
vcpkg_install_meson()
vcpkg_fixup_pkgconfig()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/umbra)
# Meson builds the archive and the shared library: one of them is wanted.
if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
  file(GLOB unwanted "${CURRENT_PACKAGES_DIR}/lib/*.so*" "${CURRENT_PACKAGES_DIR}/debug/lib/*.so*")
else()
  set(unwanted "${CURRENT_PACKAGES_DIR}/lib/libumbra.a" "${CURRENT_PACKAGES_DIR}/debug/lib/libumbra.a")
endif()
file(REMOVE_RECURSE ${unwanted} "${CURRENT_PACKAGES_DIR}/bin" "${CURRENT_PACKAGES_DIR}/debug/bin"
  "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${CMAKE_CURRENT_LIST_DIR}/../../LICENSE")
