#!/bin/sh
# Makes the signed copies of example.zone: with NSEC, with NSEC3, and with NSEC3 and opt-out. Needs dnssec-keygen
# and dnssec-signzone (Debian: bind9-utils). Their signatures differ every time, so do this only when example.zone
# has changed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cd "$work"
dnssec-keygen -q -a ECDSAP256SHA256 example >/dev/null
cat "$here/example.zone" Kexample.*.key >zone
sign() {
    out=$1
    shift
    dnssec-signzone -q -z -P -O full -o example -s 20260101000000 -e 20460101000000 -f "$out" "$@" zone Kexample.*.private
    # One record a line; the signer's remarks differ every time.
    grep -v '^;' "$out" >"$here/$out"
}
sign nsec.zone
sign nsec3.zone -3 aabbccdd -H 3
sign optout.zone -3 - -H 0 -A
