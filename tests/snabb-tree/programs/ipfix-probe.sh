# SPDX-License-Identifier: MIT
# ipfix probe on a capture: what arrives at a collector is each of its flows once, with as many packets and octets as another program
# counts here; exported by one process, then by two behind interlinks. Then, where a port need not be a card, from an interface.
capture=program/ipfix/tests/sanitized4k.pcap
touch "$WORK/nothing" # for maps that must be named, but serve other templates
device=00:00.0
configuration() { # configuration MORE
  cat <<C
snabbflow-config {
  interface { device "$device"; }
  $1
  flow-director { default-class { exporter ip; } }
  ipfix {
    idle-timeout 4; active-timeout 600; flush-timeout 1; scan-time 0.5; template-refresh-interval 1;
    exporter-ip 10.0.0.1;
    collector-pool { name c1; collector { ip 10.0.0.2; port 4739; } }
    maps {
      pfx4-to-as { file "$WORK/nothing"; } pfx6-to-as { file "$WORK/nothing"; }
      vlan-to-ifindex { file "$WORK/nothing"; } mac-to-as { file "$WORK/nothing"; }
    }
    exporter { name ip; template v4; template v6; collector-pool c1; }
  }
}
C
}
cat >"$WORK/collect.py" <<'P'
import collections, socket, struct, sys, time
FIELDS = {8: 'src', 12: 'dst', 27: 'src', 28: 'dst', 4: 'protocol', 7: 'sport', 11: 'dport', 1: 'octets', 2: 'packets'}
def flows_of(name, fragments):
    """{(src, dst, protocol, sport, dport): [packets, octets]} of a capture of tagged IP packets."""
    data, flows = open(name, 'rb').read()[24:], collections.defaultdict(lambda: [0, 0])
    while data:
        length = struct.unpack('<I', data[8:12])[0]
        packet, data = data[16:16 + length], data[16 + length:]
        kind, ip = packet[16:18], packet[18:]
        if kind == b'\x08\0':
            if not fragments and struct.unpack('>H', ip[6:8])[0] & 0x3fff:
                continue
            key, protocol, l4 = (ip[12:16], ip[16:20]), ip[9], ip[4 * (ip[0] & 15):]
            first, octets = not struct.unpack('>H', ip[6:8])[0] & 0x1fff, struct.unpack('>H', ip[2:4])[0]
        else:
            key, protocol, l4 = (ip[8:24], ip[24:40]), ip[6], ip[40:]
            first, octets = True, 40 + struct.unpack('>H', ip[4:6])[0]
        ports = struct.unpack('>HH', l4[:4]) if protocol in (6, 17, 132) and first else (0, 0)
        flow = flows[key + (protocol,) + ports]
        flow[0] += 1
        flow[1] += octets
    return flows
def records(message, templates, domain):
    """Flow records of an IPFIX message (RFC 7011)."""
    at = 16
    while at + 4 <= len(message):
        kind, length = struct.unpack('>HH', message[at:at + 4])
        body, at = message[at + 4:at + length], at + length
        if kind == 2:
            while len(body) >= 4:
                template, count = struct.unpack('>HH', body[:4])
                body, fields = body[4:], []
                for _ in range(count):
                    element, size = struct.unpack('>HH', body[:4])
                    body = body[8 if element & 0x8000 else 4:]
                    fields.append((FIELDS.get(element), size))
                templates[domain, template] = fields
        elif (domain, kind) in templates:
            fields = templates[domain, kind]
            size = sum(size for _, size in fields)
            while len(body) >= size:
                record = {}
                for name, length in fields:
                    if name:
                        record[name] = body[:length]
                    body = body[length:]
                yield record
        elif kind > 255:
            sys.exit('records before their template')
expected = flows_of(sys.argv[1], sys.argv[3] == '00:00.0')
port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
port.bind(('0.0.0.0', 4739))
port.settimeout(1)
got, templates, end = collections.defaultdict(lambda: [0, 0, 0]), {}, time.time() + float(sys.argv[2])
number = lambda bytes: int.from_bytes(bytes, 'big')
while time.time() < end and sum(flow[0] for flow in got.values()) < sum(flow[0] for flow in expected.values()):
    try:
        message = port.recv(65535)
    except TimeoutError:
        continue
    for r in records(message, templates, message[12:16]):
        flow = got[r['src'], r['dst'], number(r['protocol']), number(r['sport']), number(r['dport'])]
        flow[0] += number(r['packets'])
        flow[1] += number(r['octets'])
        flow[2] += 1
wrong = [key for key in set(expected) | set(got) if got[key] != expected[key] + [1]]
print('%d flows, %d exported, %d differ' % (len(expected), len(got), len(wrong)))
for key in wrong[:5]:
    print(key, 'expected', expected[key], 'got', got[key])
sys.exit(bool(wrong))
P
try() { # try NAME INTERFACES MORE OPTIONS...: one probe, and a collector behind its TAPs
  local name=$1 taps=$2 tap
  configuration "$3" >"$WORK/$name.conf"
  shift 3
  for tap in $taps; do
    ip tuntap add $tap mode tap
    ip link set $tap addrgenmode none up
  done
  ip address add 10.0.0.2/24 dev "${taps%% *}"
  $SNABB ipfix probe --name $name "$@" "$WORK/$name.conf" &
  local probe=$! status=0
  [ $device != probed ] || python3 "$WORK/replay.py" $capture other &
  python3 "$WORK/collect.py" $capture 40 $device || status=$?
  kill $probe
  wait $probe || true
  for tap in $taps; do ip link del $tap; done
  return $status
}
cat >"$WORK/replay.py" <<'P'
import socket, struct, sys, time
time.sleep(3) # it starts
# Without fragments: DPDK's AF_PACKET has the kernel reassemble them first.
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind((sys.argv[2], 0))
data, n = open(sys.argv[1], 'rb').read()[24:], 0
while data:
    length, n = struct.unpack('<I', data[8:12])[0], n + 1
    packet, data = data[16:16 + length], data[16 + length:]
    if packet[16:18] != b'\x08\0' or not struct.unpack('>H', packet[24:26])[0] & 0x3fff:
        port.send(packet)
    if n % 16 == 0:
        time.sleep(0.001)
P
try one ipfixexport256 '' --test-pcap $capture
try two 'ipfixexport256 ipfixexport257' 'rss { software-scaling { exporter { name ip; embed false; instances 2; } } }' \
  --test-pcap $capture
grep -q perigee "$SNABB" || exit 0
device=probed
ip link add probed type veth peer name other
for link in probed other; do ip link set $link addrgenmode none mtu 9000 up; done
try three ipfixexport256 ''
