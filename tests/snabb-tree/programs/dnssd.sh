# SPDX-License-Identifier: MIT
# Services that an mDNS response announces, from a capture; then a query into a network and the response to it.
cat >"$WORK/mdns.py" <<'P'
import socket, struct, sys, time
def name(text):
    return b''.join(bytes([len(part)]) + part.encode() for part in text.split('.')) + b'\0'
def record(owner, target):
    data = name(target)
    return name(owner) + struct.pack('>HHIH', 12, 1, 120, len(data)) + data
def frame(body, flags, questions, answers):
    dns = struct.pack('>6H', 0, flags, questions, answers, 0, 0) + body
    udp = struct.pack('>4H', 5353, 5353, 8 + len(dns), 0) + dns
    ip = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 20 + len(udp), 0, 0, 255, 17, 0, bytes([10, 0, 0, 9]), bytes([224, 0, 0, 251]))
    total = sum(struct.unpack('>10H', ip))
    total = (total & 0xffff) + (total >> 16)
    ip = ip[:10] + struct.pack('>H', ~total & 0xffff) + ip[12:]
    return bytes.fromhex('01005e0000fb') + bytes.fromhex('020000000009') + b'\x08\0' + ip + udp
response = frame(record('_services._dns-sd._udp.local', '_ssh._tcp.local'), 0x8400, 0, 1)
if sys.argv[1] == 'capture':
    with open(sys.argv[2], 'wb') as file:
        file.write(struct.pack('<IHHiIII', 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        file.write(struct.pack('<IIII', 0, 0, len(response), len(response)) + response)
else:
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    port.bind((sys.argv[2], 0))
    port.settimeout(10)
    query = port.recv(2000)
    while name('_services._dns-sd._udp.local') not in query:
        query = port.recv(2000)
    print('asked')
    port.send(response)
P
python3 "$WORK/mdns.py" capture "$WORK/mdns.pcap"
$SNABB dnssd --pcap "$WORK/mdns.pcap" | tee "$WORK/out"
grep -q _ssh._tcp.local "$WORK/out"
ip link add dns type veth peer name other
for link in dns other; do ip link set $link addrgenmode none up; done
ip address add 10.0.0.1/24 dev dns
# It goes on until it is ended; to a terminal it writes line by line.
timeout 10 script -qfec "$SNABB dnssd --interface dns" "$WORK/out" >/dev/null &
python3 "$WORK/mdns.py" answer other
for try in $(seq 40); do ! grep -q _ssh._tcp.local "$WORK/out" || break; sleep 0.1; done
kill $!
wait || true
ip link del dns
grep _ssh._tcp.local "$WORK/out"
