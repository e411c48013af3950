# SPDX-License-Identifier: MIT
# lwaftr between two interfaces: a packet from the Internet leaves on the other side in a tunnel to its B4.
ip link add w0 type veth peer name inet
ip link add w1 type veth peer name b4
for link in w0 w1 inet b4; do ip link set $link up; done
data=program/lwaftr/tests/data
# --v4 and --v6 would name the interfaces, too, but the tree loses --v4: its list of instances copies what is put into it.
sed 's/device test;/device w1; external-device w0;/' $data/no_icmp.conf >"$WORK/run.conf"
$SNABB lwaftr run --name run -D 15 --conf "$WORK/run.conf" &
status=0
python3 - $data/tcp-frominet-bound.pcap $data/tcp-afteraftr-ipv6.pcap <<'P' || status=$?
import socket, struct, sys, time
def packets(name):
    data = open(name, 'rb').read()[24:]
    while data:
        length = struct.unpack('<I', data[8:12])[0]
        yield data[16:16 + length]
        data = data[16 + length:]
def port(name):
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    port.bind((name, 0))
    port.settimeout(0.5)
    return port
inet, b4 = port('inet'), port('b4')
expected = {p[14:] for p in packets(sys.argv[2])}
end = time.time() + 12
while expected and time.time() < end:
    for packet in packets(sys.argv[1]): # again: it may not have started
        inet.send(packet)
    try:
        while expected:
            expected.discard(b4.recv(9000)[14:])
    except TimeoutError:
        pass
print('nothing arrived in a tunnel' if expected else 'arrived in a tunnel')
sys.exit(len(expected))
P
wait
for link in inet b4; do ip link del $link; done
exit $status
