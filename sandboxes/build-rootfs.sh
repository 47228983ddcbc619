#!/bin/sh
# Makes the base image's root file system without a registry: Debian packages in, one tar out.
#
#   sandboxes/build-rootfs.sh OUT.tar          (as root; needs debootstrap)
#
# The same content as sandboxes/Dockerfile. `meta-agent sandbox build` runs this and imports the
# tar; by hand: docker import --change 'WORKDIR /scratch' OUT.tar meta-agent-base:1
# MA_DEBIAN_MIRROR picks a mirror, MA_DEBIAN_KEYRING other keys than Debian's. Security updates newer than the point release are not applied.
set -eu

out=${1:?usage: build-rootfs.sh OUT.tar}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
suite=${MA_DEBIAN_SUITE:-bookworm}
mirror=${MA_DEBIAN_MIRROR:-http://deb.debian.org/debian}
keyring=${MA_DEBIAN_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}
packages=$(grep -v '^#' "$here/packages.txt" | paste -sd, -)

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT INT TERM
chmod 755 "$root"

# The mirror is only as good as the signature on what it serves: without the keys nothing is built.
debootstrap --force-check-gpg --keyring="$keyring" --variant=minbase --include="$packages" \
    "$suite" "$root" "$mirror" >&2

echo 'agent:x:10001:10001:agent:/scratch:/bin/sh' >>"$root/etc/passwd"
echo 'agent:x:10001:' >>"$root/etc/group"
mkdir -p "$root/scratch"
# Nobody in the sandbox needs to become root; no setuid program is left to attack.
find "$root" -xdev -type f -perm /6000 -exec chmod a-s {} +
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* \
    "$root"/usr/share/doc "$root"/usr/share/man "$root"/usr/share/locale "$root"/usr/share/info
rm -f "$root/etc/resolv.conf" "$root/etc/hostname"

# /dev is the engine's to fill: device nodes in a tar cannot be imported everywhere.
tar --sort=name --numeric-owner --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' \
    -C "$root" -cf "$out.part" .
mv "$out.part" "$out"
