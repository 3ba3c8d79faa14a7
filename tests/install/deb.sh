# shellcheck shell=sh disable=SC2015,SC2016,SC2020,SC2034,SC2154
# SPDX-License-Identifier: MIT
#
# Read by run.sh: the Debian packages of a build directory.
#   deb     cpack makes them; they are unpacked under a prefix, compared with
#           files.txt, and used as an installation there
#   chroot  they are installed by apt in a fresh system, and used there; takes
#           minutes, root and a Debian mirror
# Besides run.sh's variables: CPACK, DEBLIBDIR, DEBROOT (chroot: a directory to
# be made and removed), DEBSUITE, DEBMIRROR.

# The value of a field; fails if the package lacks it.
deb_field() { # PACKAGE FIELD
    value=$(dpkg-deb -f "$scratch/packages/$1"_*.deb "$2")
    [ -n "$value" ] || die "$1: no $2"
    echo "$value"
}

deb_depends() { # PACKAGE ON...
    package=$1
    shift
    for on; do
        deb_field "$package" Depends | tr ',|' '\n\n' | sed 's/^ *//' |
            grep -q "^$on" ||
            die "$package does not depend on $on: $(deb_field "$package" Depends)"
    done
}

deb_make() {
    command -v dpkg-deb >/dev/null || {
        echo "skipped: dpkg-deb is needed"
        exit 77
    }
    rm -rf "$scratch"
    mkdir -p "$scratch/root"
    (cd "$scratch" && "$CPACK" -G DEB --config "$build/CPackConfig.cmake" \
        -B packages) >"$scratch/cpack.log" 2>&1 ||
        die "cpack failed: $(cat "$scratch/cpack.log")"
    packages="libwharf$SOVERSION libwharf-dev wharf-tools"
    [ ! -e "$build/docs/html/index.html" ] || packages="$packages wharf-doc"
    for package in $packages; do
        dpkg-deb -x "$scratch/packages/$package"_*.deb "$scratch/root" ||
            die "cpack made no $package"
        dpkg-deb -c "$scratch/packages/$package"_*.deb | grep -v '^d' |
            sed -e 's/ -> .*//' -e 's|.* \./||'
    done | sort >"$scratch/found"
}

# Names, versions and who needs whom.
deb_control() {
    for package in $packages; do
        [ "$(deb_field "$package" Version)" = "$VERSION-1" ] ||
            die "$package: version $(deb_field "$package" Version)"
        deb_field "$package" Maintainer >/dev/null
        [ "$(deb_field "$package" Description | wc -l)" -gt 3 ] ||
            die "$package: no description"
        for file in copyright changelog.Debian.gz; do
            [ -s "$scratch/root/usr/share/doc/$package/$file" ] ||
                die "$package: no $file"
        done
    done
    [ "$(deb_field libwharf-dev Description | head -n 1)" != \
        "$(deb_field wharf-tools Description | head -n 1)" ] ||
        die "two packages have one summary"
    deb_depends libwharf-dev "libwharf$SOVERSION (= $VERSION-1)" 'lib.*mpi.*-dev\|mpi-'
    deb_depends wharf-tools "libwharf$SOVERSION (= $VERSION-1)"
    if command -v dpkg-shlibdeps >/dev/null && command -v file >/dev/null; then
        deb_depends "libwharf$SOVERSION" libc6
        # An MPI that did not come as a package has none to be named.
        mpi=$(ldd "$build/runtime/libwharf.so" | awk '/libmpi/ { print $3; exit }')
        ! dpkg -S "$(readlink -f "$mpi")" >/dev/null 2>&1 ||
            deb_depends "libwharf$SOVERSION" 'lib.*mpi'
        dpkg-deb -I "$scratch/packages/libwharf$SOVERSION"_*.deb shlibs |
            grep -q "^libwharf $SOVERSION libwharf$SOVERSION" ||
            die "other packages cannot learn from shlibs what they need"
        dpkg-deb -I "$scratch/packages/libwharf$SOVERSION"_*.deb triggers |
            grep -q ldconfig || die "no trigger brings the library into use"
    else
        tr -s ' \n' '  ' <"$scratch/cpack.log" | grep -q 'do not name the libraries' ||
            die "nothing says that library dependencies are left out"
    fi
}

# Each file once, in its place, and those of `cmake --install`.
deb_files() {
    uniq -d <"$scratch/found" | grep . && die "these are in two packages"
    grep -v '^usr/' "$scratch/found" && die "these are outside of /usr"
    installed_files "$DEBLIBDIR" | sed -e 's|^|usr/|' \
        -e 's|\(/man/man[1-9]/.*\)|\1.gz|' | sort >"$scratch/expected"
    grep -v -e '^usr/share/doc/' -e '/man3/' "$scratch/found" |
        diff -u "$scratch/expected" - ||
        die "the packages do not hold what is installed"
    ! find "$scratch/root/usr" -name 'libwharf.so.*.*.*' -exec readelf -S {} + |
        grep -q debug_info || die "the library was not stripped"
    ! find "$scratch/root/usr" \( -name 'libwharf.so.*.*.*' -o -name 'wharf-*' \) \
        -type f -exec readelf -d {} + 2>/dev/null | grep 'R.*PATH.*/usr/lib/' ||
        die "these look for libraries where packages bring them"
}

step_deb() {
    deb_make
    deb_control
    deb_files
    prefix=$scratch/root/usr
    LIBDIR=$DEBLIBDIR
    step_cmake "$@"
    step_pkgconfig "$@"
    for tool in info bench; do
        uses_installed "$prefix/$BINDIR/wharf-$tool"
    done
    "$@" "$prefix/$BINDIR/wharf-info" | grep -q '2 ranks' ||
        die "wharf-info does not run from the packages"
}

in_chroot() {
    chroot "$DEBROOT" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C \
        DEBIAN_FRONTEND=noninteractive WHARF_BACKEND=host \
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        "$@"
}

step_chroot() {
    [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null || {
        echo "skipped: root and debootstrap are needed"
        exit 77
    }
    [ ! -e "$DEBROOT" ] || die "$DEBROOT exists: name a directory to be made"
    deb_make
    trap 'rm -rf --one-file-system "$DEBROOT"' EXIT
    debootstrap --variant=minbase "$DEBSUITE" "$DEBROOT" ${DEBMIRROR:+"$DEBMIRROR"} \
        >"$scratch/debootstrap.log"
    cp "$scratch/packages/"*.deb "$DEBROOT/tmp/"
    cp -R "$source/tests/install/consumer" "$DEBROOT/tmp/consumer"
    in_chroot sh -eu -c 'apt-get -q update
        cd /tmp && apt-get -q -y install ./*.deb
        wharf-info --version
        mpirun -n 2 --oversubscribe wharf-info | grep "2 ranks"
        apt-get -q -y --no-install-recommends install g++ cmake make pkg-config
        cmake -S consumer -B use && cmake --build use
        mpirun -n 2 --oversubscribe use/consumer_shared
        mpirun -n 2 --oversubscribe use/consumer_static
        mpicc consumer/consumer.c -o by-hand $(pkg-config --cflags --libs wharf)
        ldd by-hand | grep "/lib/.*libwharf"
        mpirun -n 2 --oversubscribe ./by-hand
        apt-get -q -y purge "libwharf*" "wharf-*"
        ! find / -xdev -path /tmp -prune -o -iname "*wharf*" -print | grep .'
}
