#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# use_umbra.sh WAY SOURCE_DIR
# Builds consumer.c against the library as a user would who got it by WAY, and runs it:
#   pkg-config, cmake   installed with Meson under a prefix of its own
#   wrap                a subproject that Meson unpacks
#   copy                include/ copied into the user's tree
# and with the cold functions compiled once (UMBRA_DECLARE):
#   pkg-config-light    umbra-light, and the file it names compiled beside the consumer
#   cmake-light         the target umbra::light, for a program, and for a shared library and its user
#   wrap-light          the subproject's option light, and the consumer in a library of the user's
#   copy-light          umbra.c compiled beside the consumer, or put into an archive
set -eu
way=$1 source=$2
here=$source/tests/packaging
strict='-std=c11 -Wall -Wextra -Wpedantic -Werror'
cc=${CC:-cc}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/consumer.c" "$work"
cd "$work"

install_library() {
    meson setup library "$source" --prefix "$work/prefix" -Dtests=disabled -Dbench=disabled \
        -Dexamples=disabled -Dmpi=disabled >log || { cat log; exit 1; }
    meson install -C library >log || { cat log; exit 1; }
}

# cold_elsewhere OBJECT: fails if it has a cold function of the library, or can do without.
cold_elsewhere() {
    nm "$1" >symbols
    if ! grep -q ' U shadow_create' symbols || grep ' [TWw] shadow_' symbols; then
        echo "$1 defines what is to be compiled once"
        exit 1
    fi
}

needs='-lboost_context -lhwloc -pthread'

# undefined SYMBOL FILE ...: fails unless the linker misses it.
undefined() {
    symbol=$1
    shift
    # shellcheck disable=SC2086
    if $cc "$@" $needs -o missing 2>errors || ! grep -q "undefined.*$symbol" errors; then
        echo "$* could be linked without $symbol, or not for another reason:"
        cat errors
        exit 1
    fi
}

case $way in
    pkg-config)
        install_library
        PKG_CONFIG_PATH=$work/prefix/share/pkgconfig
        export PKG_CONFIG_PATH
        pkg-config --exact-version=0.1.0 umbra
        # shellcheck disable=SC2046,SC2086 # both are lists of words
        $cc $strict $(pkg-config --cflags umbra) consumer.c $(pkg-config --libs umbra) -o consumer
        ;;
    pkg-config-light)
        install_library
        PKG_CONFIG_PATH=$work/prefix/share/pkgconfig
        export PKG_CONFIG_PATH
        # shellcheck disable=SC2046,SC2086 # both are lists of words
        $cc $strict $(pkg-config --cflags umbra-light) -c consumer.c
        cold_elsewhere consumer.o
        # shellcheck disable=SC2046
        $cc -std=c11 $(pkg-config --cflags umbra-light) consumer.o \
            "$(pkg-config --variable=source umbra-light)" $(pkg-config --libs umbra-light) -o consumer
        ;;
    cmake | cmake-light)
        command -v cmake >/dev/null || exit 77
        install_library
        cp "$here/CMakeLists.txt" "$here/main.c" .
        light=OFF
        [ "$way" = cmake ] || light=ON
        cmake -G Ninja -S . -B built -DCMAKE_PREFIX_PATH="$work/prefix" -DLIGHT=$light >log ||
            { cat log; exit 1; }
        cmake --build built
        [ "$way" = cmake ] || {
            cold_elsewhere built/CMakeFiles/consumer.dir/consumer.c.o
            [ "$(built/shared)" = 42 ]
        }
        mv built/consumer .
        ;;
    wrap | wrap-light)
        mkdir -p user/subprojects/packagefiles
        [ "$way" = wrap ] && project=user || project=light
        cp "$here/$project.meson.build" user/meson.build
        cp "$here/umbra.wrap" user/subprojects/umbra.wrap
        cp consumer.c "$here/main.c" user
        tar -C "$source" -cf user/subprojects/packagefiles/umbra.tar --transform 's,^\.,umbra,' \
            ./include ./meson.build ./meson_options.txt ./packaging
        meson setup built user --wrap-mode=forcefallback
        meson compile -C built
        [ "$way" = wrap ] || cold_elsewhere built/liblibrary.a.p/consumer.c.o
        mv built/consumer .
        ;;
    copy)
        cp -r "$source/include" vendored
        # No Boost: umbra/shadow.h needs none.
        # shellcheck disable=SC2086
        $cc $strict -Ivendored consumer.c -lhwloc -pthread -o consumer
        ;;
    copy-light)
        cp -r "$source/include" vendored
        # shellcheck disable=SC2086
        $cc $strict -DUMBRA_DECLARE -Ivendored -c vendored/umbra.c consumer.c
        cold_elsewhere consumer.o
        undefined shadow_create consumer.o
        # shellcheck disable=SC2086
        $cc $strict -DUMBRA_DECLARE -DUMBRA_POSIX_ONLY -Ivendored -c consumer.c -o other.o
        undefined um_chosen_posix other.o umbra.o
        # twice is harmless: a file that has the cold functions, too
        # shellcheck disable=SC2086
        $cc $strict -Ivendored -c consumer.c -o whole.o
        # shellcheck disable=SC2086
        $cc whole.o umbra.o $needs -o consumer
        ./consumer
        ar rc libcold.a umbra.o
        # shellcheck disable=SC2086
        $cc consumer.o libcold.a $needs -o consumer
        ;;
esac

result=$(./consumer)
echo "consumer printed: $result"
[ "$result" = 42 ]
