#!/bin/bash
# Installs, starts, upgrades over, removes and purges the Debian package: test.sh OLD.deb NEW.deb. Needs root. All of it
# happens on this machine's own system under an overlay in memory, in namespaces of its own: nothing is left of it.
set -euo pipefail

if [ "${1-}" != --inside ]; then
    old=$(realpath "$1") new=$(realpath "$2")
    exec unshare --mount --pid --fork --kill-child "$0" --inside "$old" "$new"
fi
old=$2 new=$3
here=$(cd "$(dirname "$0")" && pwd)

say() { echo "test.sh: $*"; }
fail() { echo "test.sh: $*" >&2; exit 1; }

system=/mnt
# Another file system than the one below it, which an overlay may not be made of.
mount -t tmpfs none "$system"
mkdir "$system"/{upper,work,root,packages}
cp "$old" "$system/packages/old.deb"
cp "$new" "$system/packages/new.deb"
mount -t overlay overlay -o "lowerdir=/,upperdir=$system/upper,workdir=$system/work" "$system/root"
root=$system/root
mount -t proc proc "$root/proc"
mount -t tmpfs none "$root/tmp"
mount -t tmpfs none "$root/run"
mount --rbind /dev "$root/dev"
mkdir "$root/tmp/packages"
cp "$system/packages"/*.deb "$root/tmp/packages/"
"$here/../ring.sh" "$root/tmp/ring"

enter=(chroot "$root" env -u FISHPLATE_CONFIG PATH=/usr/sbin:/usr/bin:/sbin:/bin)
inside() { "${enter[@]}" "$@"; }

# Starts the server as its unit does, on a port that is free, and says where.
start() {
    # Each is executed by the one before it, so that the number is the server's.
    "${enter[@]}" setpriv --reuid fishplate --regid fishplate --init-groups \
        fishplate serve --config /etc/fishplate/fishplate.toml --listen 127.0.0.1:0 \
        > "$system/told" 2>> "$system/log" &
    server=$!
    for _ in $(seq 600); do
        url=$(sed -n 's/^sum //p' "$system/told")
        [ -z "$url" ] || return 0
        kill -0 "$server" 2>/dev/null || { cat "$system/log" >&2; fail "the server did not start"; }
        sleep 0.1
    done
    fail "the server says nothing"
}

stop() {
    kill -TERM "$server"
    wait "$server" || fail "the server ended badly: $(cat "$system/log")"
}

say "installing"
inside dpkg -i /tmp/packages/old.deb >/dev/null
inside getent passwd fishplate >/dev/null || fail "there is no user"
[ "$(stat -c '%U %a' "$root/var/lib/fishplate" | cut -d' ' -f2)" = 700 ] || fail "others can look into the state"
inside dpkg -V fishplate || fail "files are not what was packed"
inside fishplate check /etc/fishplate/fishplate.toml 2>/dev/null || fail "the configuration has a mistake"
inside sh -c 'test -L /etc/systemd/system/multi-user.target.wants/fishplate.service' || fail "the unit is not enabled"
# Without looking for the manual: whether there is a man is the machine's.
inside systemd-analyze verify --man=no /lib/systemd/system/fishplate.service || fail "the unit has a mistake"
inside systemd-analyze security --offline=true --threshold=50 --no-pager \
    /lib/systemd/system/fishplate.service > "$system/security" || { cat "$system/security"; fail "the unit is too open"; }
say "$(tail -1 "$system/security" | sed 's/[^ -~]//g; s/^ *//')"
for page in fishplate fishplate-serve fishplate-call; do
    [ -s "$root/usr/share/man/man1/$page.1.gz" ] || fail "there is no manual of $page"
done
for file in bash-completion/completions/fishplate zsh/vendor-completions/_fishplate fish/vendor_completions.d/fishplate.fish; do
    [ -s "$root/usr/share/$file" ] || fail "there are no completions: $file"
done

say "starting"
cat > "$root/etc/fishplate/services/sum.toml" <<'SERVICE'
command = "expr [in val x:int] + [in val y:int] > [out file sum:int]"
SERVICE
start
[ "$(inside fishplate call "$url" x=1 y=2)" = "sum: 3" ] || fail "a call gave something else"
job=$(inside fishplate spawn "$url" x=20 y=22)
inside fishplate wait "$url" "$job" >/dev/null
stop

said=$(inside fishplate run -n 3 /tmp/ring) || fail "an MPI program failed"
[ "$said" = "the ranks of 3 sum up to 3" ] || fail "an MPI program said something else: $said"

say "upgrading"
echo '# changed by the administrator' >> "$root/etc/fishplate/fishplate.toml"
before=$(inside dpkg-query -W -f '${Version}' fishplate)
inside dpkg --force-confold -i /tmp/packages/new.deb >/dev/null
[ "$(inside dpkg-query -W -f '${Version}' fishplate)" != "$before" ] || fail "it is the same version"
grep -q 'changed by the administrator' "$root/etc/fishplate/fishplate.toml" || fail "the configuration was overwritten"
start
[ "$(inside fishplate results "$url" "$job")" = "sum: 42" ] || fail "the job was lost"
stop

say "removing"
inside dpkg -r fishplate >/dev/null
[ ! -e "$root/usr/bin/fishplate" ] || fail "the program is still there"
[ -e "$root/etc/fishplate/fishplate.toml" ] && [ -d "$root/var/lib/fishplate" ] || fail "too much was removed"

say "purging"
rm "$root/etc/fishplate/services/sum.toml"
inside dpkg -P fishplate >/dev/null
[ ! -e "$root/etc/fishplate" ] && [ ! -e "$root/var/lib/fishplate" ] || fail "something is left"
[ -z "$(inside find /usr /lib/systemd /etc/systemd -name '*fishplate*' 2>/dev/null)" ] || fail "files are left"
say "the package installs, starts, upgrades and goes"
