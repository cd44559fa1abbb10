//! The script that brings a program, for the POSIX shell of a host.

use super::{Build, HEAD};

/// The script. It makes the file under another name, compares it, and renames it. It writes nothing before it is asked
/// to, and removes what pushes left on this machine that were killed.
///
/// A file is taken for the build only if it and the folders `kqps` and `HASH` are no links, are of this user, and may be
/// written by nobody else. The folder above may be of root too, and may be sticky. `ls -n` (POSIX) shows type, mode and
/// owner. A system without a program for SHA-256 compares lengths of what just arrived, and takes no older file for whole.
pub(super) fn text(build: &Build) -> String {
    let Build { hash, sha256, bytes, .. } = build;
    format!(
        r#"umask 077
m=$(uname -m)
n=$(uname -n)
u=$(id -u)
c="${{XDG_CACHE_HOME:-$HOME/.cache}}"
k="$c/kqps"
d="$k/{hash}"
f="$d/kqps"
is() {{
  l=$(ls -ldn "$1" 2>/dev/null) || return 1
  case "$l" in $2) ;; *) return 1 ;; esac
  o=$3
  set -f
  set -- $l
  set +f
  [ "$3" = "$u" ] || [ "$3" = "$o" ]
}}
own() {{ is "$1" 'd????-??-*' "$u"; }}
safe() {{ is "$c/." 'd????-??-*' 0 || is "$c/." 'd????????[tT]*' 0; }}
failed() {{ echo "{HEAD}failed $m $1"; exit 1; }}
bad() {{ failed "the folder $1 is a link, is another user's, or may be written by others (chmod go-w)"; }}
sum() {{
  {{ sha256sum <"$1" || shasum -a 256 <"$1" || sha256 -q <"$1" || openssl dgst -sha256 -r <"$1"; }} 2>/dev/null |
    cut -d ' ' -f 1
}}
if safe && own "$k" && own "$d" && is "$f" '-rwx------*' "$u" && [ "$(sum "$f")" = "{sha256}" ]; then
  echo "{HEAD}have $m $f"
  exit 0
fi
echo "{HEAD}want $m $f"
read -r go || exit 0
mkdir -p "$c" || failed "the folder $c cannot be made"
safe || bad "$c"
for i in "$k" "$d"; do
  [ -d "$i" ] || mkdir "$i" || failed "the folder $i cannot be made"
  own "$i" || bad "$i"
done
for o in "$d/.part-$n-"*; do kill -0 "${{o##*-}}" 2>/dev/null || rm -f "$o"; done
p="$d/.part-$n-$$"
trap 'rm -f "$p"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$p" || failed "$p cannot be written"
s=$(sum "$p")
[ "$s" = "{sha256}" ] || {{ [ -z "$s" ] && [ "$(($(wc -c <"$p")))" -eq {bytes} ]; }} ||
  failed "the file did not arrive whole"
chmod 700 "$p" && mv -f "$p" "$f" && echo "{HEAD}done $m $f"
"#
    )
}
