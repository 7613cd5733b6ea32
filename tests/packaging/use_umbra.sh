#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# use_umbra.sh WAY SOURCE_DIR BUILD_DIR
# Builds consumer.c and consumer.cpp against the library as a user would who got it by WAY, and runs
# them:
#   file        include/ copied into the user's tree, the implementation in a file of the user's
#   files       the same, with umbra.c beside, as an object or in an archive
#   pkg-config  installed with Meson under a prefix of its own
#   cmake       the same, also for a shared library of the user's
#   pkg-config-shared, cmake-shared  the same with libumbra.so
#   cmake-fetch  the sources as a part of the user's CMake project
#   wrap        a subproject that Meson unpacks, also for a static library of the user's
#   dist        the tarball of meson dist: it has all files of the commit, and is a subproject; nothing is built
#   debian      the packages of the commit, unpacked; lintian; their own tests are packaging/debian/tests (90 s of a processor)
#   conan       Conan's recipe and its own consumer, no server (9 s)
#   forgotten   no implementation: what each linker says
set -eu
way=$1 source=$2 build=$3
here=$source/tests/packaging
strict='-std=c11 -Wall -Wextra -Wpedantic -Werror'
strict_cxx='-std=c++17 -Wall -Wextra -Wpedantic -Werror'
needs='-lhwloc -pthread'
case $(uname -m) in
    x86_64 | aarch64) ;;
    *) needs="-lboost_context $needs" ;; # no switch in line there
esac
cc=${CC:-cc} cxx=${CXX:-c++}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/consumer.c" "$here/consumer.cpp" "$here/main.c" "$work"
cd "$work"

# install_library: not optimized, which compiles in a fifth of the time; the ways do not depend on it.
install_library()
{
    meson setup library "$source" --prefix "$work/prefix" -Dtests=disabled -Dbench=disabled \
        -Dexamples=disabled -Dmpi=disabled -Domp=disabled --buildtype=plain >log || { cat log; exit 1; }
    meson install -C library >log || { cat log; exit 1; }
}

# light OBJECT: fails if it has a function of the implementation, or can do without.
light()
{
    nm "$1" >symbols
    if ! grep -q ' U shadow_create' symbols || grep ' [TWw] shadow_' symbols; then
        echo "$1 has a part of the implementation"
        exit 1
    fi
}

# linkers: those that are here.
linkers()
{
    echo 'int main(void) { return 0; }' >empty.c
    for linker in bfd gold lld; do
        ! $cc -fuse-ld=$linker empty.c -o empty 2>/dev/null || echo $linker
    done
}

# on_shared PROGRAM: fails if it has a part of the implementation, or needs more than libumbra.so.
on_shared()
{
    nm "$1" >symbols
    readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' >needed
    if grep ' [TWw] shadow_' symbols || ! grep -qx 'libumbra\.so\.0\.2' needed ||
        grep 'hwloc\|uring\|boost' needed; then
        echo "$1 is not on libumbra.so alone"
        exit 1
    fi
}

# undefined SYMBOL COMMAND ...: fails unless the linker misses it.
undefined()
{
    symbol=$1
    shift
    if "$@" -o missing 2>errors || ! grep -q "\(undefined\|hidden symbol\).*$symbol" errors; then
        echo "$* could be linked without $symbol, or not for another reason:"
        cat errors
        exit 1
    fi
}

# shellcheck disable=SC2086,SC2046 # lists of words, here and below
case $way in
    file)
        cp -r "$source/include" vendored
        $cc $strict -DUMBRA_IMPLEMENTATION -Ivendored consumer.c $needs -o consumer
        printf '#define UMBRA_IMPLEMENTATION\n#include <umbra/shadow.h>\n' >implementation.c
        $cc $strict -Ivendored -c implementation.c
        $cxx $strict_cxx -Ivendored consumer.cpp implementation.o $needs -o consumer++
        ;;
    files)
        cp -r "$source/include" vendored
        $cc $strict -Ivendored -c vendored/umbra.c consumer.c
        $cxx $strict_cxx -Ivendored -c consumer.cpp -o consumer++.o
        light consumer.o
        light consumer++.o
        $cc $strict -DUMBRA_POSIX_ONLY -Ivendored -c consumer.c -o other.o
        undefined um_chosen_posix $cc other.o umbra.o $needs
        # twice is harmless
        $cc $strict -DUMBRA_IMPLEMENTATION -Ivendored -c consumer.c -o whole.o
        $cc whole.o umbra.o $needs -o consumer
        ./consumer
        ar rc libcold.a umbra.o
        $cc consumer.o libcold.a $needs -o consumer
        $cxx consumer++.o libcold.a $needs -o consumer++
        ;;
    pkg-config)
        install_library
        PKG_CONFIG_PATH=$work/prefix/share/pkgconfig
        export PKG_CONFIG_PATH
        pkg-config --exact-version=0.2.0 umbra
        $cc $strict $(pkg-config --cflags umbra) -c consumer.c
        light consumer.o
        $cc consumer.o $(pkg-config --libs umbra) -o consumer
        $cxx $strict_cxx $(pkg-config --cflags umbra) consumer.cpp $(pkg-config --libs umbra) -o consumer++
        ;;
    pkg-config-shared)
        install_library
        PKG_CONFIG_PATH=$work/prefix/share/pkgconfig
        export PKG_CONFIG_PATH
        pkg-config --exact-version=0.2.0 umbra-shared
        library=$(pkg-config --variable=libdir umbra-shared)
        run_path=-Wl,-rpath,$library
        $cc $strict $(pkg-config --cflags umbra-shared) -c consumer.c
        light consumer.o
        $cc consumer.o $(pkg-config --libs umbra-shared) "$run_path" -o consumer
        $cxx $strict_cxx $(pkg-config --cflags umbra-shared) -c consumer.cpp -o consumer++.o
        $cxx consumer++.o $(pkg-config --libs umbra-shared) "$run_path" -o consumer++
        on_shared consumer
        on_shared consumer++
        undefined um_UMBRA_SHARED_needs_libumbra_so $cc consumer.o "$library/libumbra.a" $needs
        for linker in $(linkers); do # UMBRA_SHARED is forgotten
            undefined um_define_UMBRA_IMPLEMENTATION_in_one_C_file_or_UMBRA_SHARED_in_all \
                $cc -O2 $(pkg-config --cflags umbra) -fuse-ld=$linker consumer.c \
                $(pkg-config --libs umbra-shared)
        done
        ;;
    cmake | cmake-shared)
        command -v cmake >/dev/null || exit 77
        install_library
        cp "$here/CMakeLists.txt" .
        [ "$way" = cmake ] && target=umbra::umbra || target=umbra::shared
        cmake -G Ninja -S . -B built -DCMAKE_PREFIX_PATH="$work/prefix" -DTARGET=$target >log ||
            { cat log; exit 1; }
        cmake --build built
        light built/CMakeFiles/consumer.dir/consumer.c.o
        if [ "$way" = cmake-shared ]; then
            on_shared built/consumer
            on_shared built/consumer++
        fi
        [ "$(built/user)" = 42 ]
        mv built/consumer built/consumer++ .
        ;;
    cmake-fetch)
        command -v cmake >/dev/null || exit 77
        mkdir fetched # of the size of a release: no tests
        cp -r "$source/include" "$source/packaging" "$source/meson.build" fetched
        cp "$here/CMakeLists.txt" .
        cmake -G Ninja -S . -B built -DFETCHED="$work/fetched" -DTARGET=umbra::umbra >log ||
            { cat log; exit 1; }
        cmake --build built
        light built/CMakeFiles/consumer.dir/consumer.c.o
        [ "$(built/user)" = 42 ]
        mv built/consumer built/consumer++ .
        ;;
    wrap)
        mkdir -p user/subprojects/packagefiles
        cp "$here/user.meson.build" user/meson.build
        cp "$here/umbra.wrap" user/subprojects/umbra.wrap
        cp consumer.c consumer.cpp main.c user
        tar -C "$source" -cf user/subprojects/packagefiles/umbra.tar --transform 's,^\.,umbra,' \
            ./include ./meson.build ./meson_options.txt ./packaging
        meson setup built user --wrap-mode=forcefallback
        meson compile -C built
        light built/consumer.p/consumer.c.o
        on_shared built/shared
        [ "$(built/shared)" = 42 ]
        [ "$(built/user)" = 42 ]
        mv built/consumer built/consumer++ .
        ;;
    dist)
        [ -e "$source/.git" ] || exit 77
        meson dist -C "$build" --no-tests --allow-dirty --formats gztar >log 2>&1 || { cat log; exit 1; }
        mkdir -p user/subprojects
        tar -xf "$build"/meson-dist/umbra-*.tar.gz -C user/subprojects
        mv user/subprojects/umbra-* user/subprojects/umbra
        git -C "$source" ls-tree -r --name-only HEAD | sort >committed
        (cd user/subprojects/umbra && find . -type f -o -type l) | sed 's,^\./,,' | sort | diff committed -
        cp "$here/user.meson.build" user/meson.build
        sed '/^source_/d' "$here/umbra.wrap" >user/subprojects/umbra.wrap
        cp consumer.c consumer.cpp main.c user
        meson setup built user --wrap-mode=forcefallback
        exit 0
        ;;
    debian)
        if ! command -v lintian dh >/dev/null || [ ! -e "$source/.git" ]; then
            echo "skipped: no lintian or dh (tools/setup package), or no clone"
            exit 77
        fi
        export DEB_BUILD_OPTIONS="noopt noautodbgsym" UMBRA_SKIP_SETUP=1
        "$source/tools/package" debian "$work/made" >log 2>&1 || { tail -50 log; exit 1; }
        for package in made/*.deb; do
            dpkg-deb -x "$package" root
        done
        library=$(dirname "$work"/root/usr/lib/*/pkgconfig)
        sed -i "s,^prefix=.*,prefix=$work/root/usr," "$library"/pkgconfig/*.pc
        export PKG_CONFIG_PATH="$library/pkgconfig" LD_LIBRARY_PATH="$library"
        $cc $strict consumer.c $(pkg-config --cflags --libs umbra) -o consumer
        $cxx $strict_cxx consumer.cpp $(pkg-config --cflags --libs umbra-shared) -o consumer++
        on_shared consumer++
        man -l root/usr/share/man/man3/umbra_event_wait.3.gz | grep -q 'ETIMEDOUT'
        root/usr/bin/umbra-omp --help
        ;;
    conan)
        conan=$source/build/conan/bin/conan CONAN_HOME=$work/conan
        export CONAN_HOME
        [ -x "$conan" ] || { echo "skipped: no Conan in build/conan"; exit 77; }
        mkdir -p tree/examples
        cp -r "$source/include" "$source/packaging" "$source/tools" "$source"/meson* "$source/LICENSE" tree
        cp -r "$source/examples/first" tree/examples
        "$conan" profile detect
        "$conan" create tree/packaging/conan --no-remote -s build_type=Debug
        exit 0
        ;;
    forgotten)
        for linker in $(linkers); do
            for level in -O0 -O2; do
                undefined um_define_UMBRA_IMPLEMENTATION_in_one_C_file_or_UMBRA_SHARED_in_all \
                    $cc $level -I"$source/include" -fuse-ld=$linker consumer.c $needs
                undefined um_define_UMBRA_IMPLEMENTATION_in_one_C_file_or_UMBRA_SHARED_in_all \
                    $cxx $level -I"$source/include" -fuse-ld=$linker consumer.cpp $needs
            done
            echo "$linker says so"
        done
        exit 0
        ;;
esac

for program in consumer consumer++; do
    result=$(./$program)
    echo "$program printed: $result"
    [ "$result" = 42 ]
done
