#!/bin/sh
# SPDX-License-Identifier: MIT
# The kernel as a router for `./x conformance --target tests/conformance/linux.sh`: an example of a command line that configures itself as
# its environment says. `--target linux` is the same, made by the runner. It ends, as the kernel goes on.
set -eu

set_all() {
  for folder in /proc/sys/net/ipv4/conf/*; do echo "$2" >"$folder/$1"; done
}

# All errors, unless they are to be few.
limit=0 mask=0
rp_filter=0
for word in $PERIGEE_SETTINGS; do
  case $word in
    limited) limit=1000 mask=6168 ;;
    urpf=strict) rp_filter=1 ;;
    urpf=loose) rp_filter=2 ;;
    source-routes) set_all accept_source_route 1 ;;
    *) echo "found the setting $word, which is not known here" >&2; exit 77 ;;
  esac
done
echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
set_all rp_filter 0
echo "$rp_filter" >"/proc/sys/net/ipv4/conf/$PERIGEE_LEFT/rp_filter"
case " $PERIGEE_SETTINGS " in *" source-routes "*) ;; *) set_all accept_source_route 0 ;; esac
set_all shared_media 0
set_all send_redirects 1
set_all accept_redirects 0
echo "$limit" >/proc/sys/net/ipv4/icmp_ratelimit
echo "$mask" >/proc/sys/net/ipv4/icmp_ratemask
echo "$limit" >/proc/sys/net/ipv6/icmp/ratelimit

add() { # INTERFACE ADDRESSES
  ip link set "$1" addrgenmode eui64 down
  ip link set "$1" up
  for address in $2; do ip addr add "$address" dev "$1"; done
}
add "$PERIGEE_LEFT" "$PERIGEE_LEFT_ADDRESSES"
add "$PERIGEE_RIGHT" "$PERIGEE_RIGHT_ADDRESSES"
[ -z "${PERIGEE_THIRD:-}" ] || add "$PERIGEE_THIRD" "$PERIGEE_THIRD_ADDRESSES"
printf '%s\n' "$PERIGEE_ROUTES" | sed 's/^/route add /' | ip -batch -
