# A whole lab on a kernel that moves the packets itself. The machine's own switch and OVN are not a lab's.
systemctl stop ovn-central ovn-host openvswitch-switch
modprobe openvswitch
export HOME=/root
netferry=/opt/netferry/netferry
"$netferry" lab up --nodes 2 --wait 2400 > /vm/up 2>&1 || { cat /vm/up; exit 1; }
for node in node-1 node-2; do
  "$netferry" lab exec "$node" -- ovs-appctl dpif/show | grep -q '^system@'
  # The uplink stays as it is: the kernel's tunnels need no bridge.
  if "$netferry" lab exec "$node" -- ovs-vsctl br-exists br-ex; then exit 1; fi
done
measured() {
  "$netferry" lab meter --rate 1 --for "$1" --protocols udp,icmp -o json > /vm/report 2> /vm/progress ||
    { cat /vm/report /vm/progress; "$netferry" lab logs node-1 agent | tail -n 40; exit 1; }
}
measured 20s
echo "report $(tr -d '\n' < /vm/report)"
"$netferry" lab down
