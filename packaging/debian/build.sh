#!/bin/sh
# Makes the Debian package: build.sh BINARY MPI_LIBRARY VERSION DIRECTORY. The binary is static; the MPI library, which programs
# load beside the system's own, is not.
set -eu

binary=$1 library=$2 version=$3 output=$4
here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)
umask 022
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
# dpkg takes the modes as they are.
chmod 755 "$tree"

put() { install -D -m "$1" "$2" "$tree/$3"; }

put 755 "$binary" usr/bin/fishplate
put 644 "$library" usr/lib/fishplate/libmpi_abi.so.1
# By these names it takes the command lines of the papers.
ln -s fishplate "$tree/usr/bin/oids_tool"
ln -s fishplate "$tree/usr/bin/oids_server"
put 644 "$here/fishplate.service" lib/systemd/system/fishplate.service
put 644 "$here/fishplate.toml" etc/fishplate/fishplate.toml
install -d "$tree/etc/fishplate/services"

install -d "$tree/usr/share/man/man1"
"$binary" manuals "$tree/usr/share/man/man1"
find "$tree/usr/share/man" -type f -exec gzip -9n {} +
install -d "$tree/usr/share/bash-completion/completions" "$tree/usr/share/zsh/vendor-completions" \
    "$tree/usr/share/fish/vendor_completions.d"
"$binary" completions bash > "$tree/usr/share/bash-completion/completions/fishplate"
"$binary" completions zsh > "$tree/usr/share/zsh/vendor-completions/_fishplate"
"$binary" completions fish > "$tree/usr/share/fish/vendor_completions.d/fishplate.fish"

documents=usr/share/doc/fishplate
put 644 "$repository/LICENSE-MIT" "$documents/LICENSE-MIT"
put 644 "$repository/LICENSE-APACHE" "$documents/LICENSE-APACHE"
put 644 "$repository/CHANGELOG.md" "$documents/changelog"
gzip -9n "$tree/$documents/changelog"
cat > "$tree/$documents/copyright" <<COPYRIGHT
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: fishplate

Files: *
Copyright: The authors of Fishplate
License: Apache-2.0 or MIT
 Both are in this directory.
Comment: the binary contains option-ext (MPL-2.0, https://github.com/soc/option-ext), unchanged
COPYRIGHT

glibc=$(objdump -T "$library" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
control=$tree/DEBIAN
install -d "$control"
for script in postinst prerm postrm; do put 755 "$here/$script" "DEBIAN/$script"; done
echo /etc/fishplate/fishplate.toml > "$control/conffiles"
(cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum) \
    > "$tree.md5sums"
mv "$tree.md5sums" "$control/md5sums"
chmod 644 "$control/md5sums" "$control/conffiles"
cat > "$control/control" <<CONTROL
Package: fishplate
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: The authors of Fishplate <fishplate@localhost>
Installed-Size: $(du -sk --exclude DEBIAN "$tree" | cut -f1)
Depends: init-system-helpers, passwd, libc6 (>= ${glibc#GLIBC_}), libgcc-s1
Recommends: ca-certificates
Section: science
Priority: optional
Description: unmodified programs as web services
 Makes command-line programs into SOAP web services with typed parameters, and
 runs them as jobs that survive the server, the client and the connection
 between them. This package has the server, its unit, the client, and the
 library by which programs compiled for the ABI of MPI 5 pass messages.
CONTROL

mkdir -p "$output"
package=$output/fishplate_${version}_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group --build "$tree" "$package" >/dev/null
echo "$package"
