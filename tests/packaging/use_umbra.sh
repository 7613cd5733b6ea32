#!/bin/sh
# SPDX-License-Identifier: BSL-1.0
# use_umbra.sh WAY SOURCE_DIR
# Builds consumer.c against the library as a user would who got it by WAY, and runs it:
#   pkg-config, cmake   installed with Meson under a prefix of its own
#   wrap                a subproject that Meson unpacks
#   copy                include/ copied into the user's tree
# and with the cold functions compiled once:
#   wrap-split          the subproject's option split, and the consumer in a library of the user's
#   copy-split          tools/split copied, too
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
        -Dexamples=disabled >log || { cat log; exit 1; }
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
    cmake)
        command -v cmake >/dev/null || exit 77
        install_library
        cp "$here/CMakeLists.txt" .
        cmake -G Ninja -S . -B built -DCMAKE_PREFIX_PATH="$work/prefix" >log || { cat log; exit 1; }
        cmake --build built
        mv built/consumer .
        ;;
    wrap | wrap-split)
        mkdir -p user/subprojects/packagefiles
        [ "$way" = wrap ] && project=user || project=split
        cp "$here/$project.meson.build" user/meson.build
        cp "$here/umbra.wrap" user/subprojects/umbra.wrap
        cp consumer.c "$here/main.c" user
        tar -C "$source" -cf user/subprojects/packagefiles/umbra.tar --transform 's,^\.,umbra,' \
            ./include ./meson.build ./meson_options.txt ./packaging ./tools/split
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
    copy-split)
        cp -r "$source/include" vendored
        cp -r "$source/tools/split" .
        split/declare vendored declared
        # shellcheck disable=SC2086
        $cc $strict -Ivendored -c split/cold.c
        # shellcheck disable=SC2086
        $cc $strict -Ideclared -c consumer.c
        cold_elsewhere consumer.o
        undefined shadow_create consumer.o
        # shellcheck disable=SC2086
        $cc $strict -DUMBRA_POSIX_ONLY -Ideclared -c consumer.c -o other.o
        undefined um_chosen_posix other.o cold.o
        ar rc libcold.a cold.o
        # shellcheck disable=SC2086
        $cc consumer.o libcold.a $needs -o consumer
        ;;
esac

result=$(./consumer)
echo "consumer printed: $result"
[ "$result" = 42 ]
