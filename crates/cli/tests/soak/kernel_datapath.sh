# Two namespaces on a switch whose datapath is the kernel's. Packets flow while its database is killed: once under the
# distribution's units, and then under the same without the requirement by which systemd restarts the switch too.
for n in 1 2; do
  ip netns add "n$n"
  ip link add "v$n" type veth peer name eth0 netns "n$n"
  ip link set "v$n" up
  ip -n "n$n" addr add "192.0.2.$n/24" dev eth0
  ip -n "n$n" link set eth0 up
done
ovs-vsctl add-br br0 -- add-port br0 v1 -- add-port br0 v2
ovs-appctl dpif/show | grep -q '^system@'

pid() { cat "/run/openvswitch/$1.pid" 2> /dev/null || true; }
active() { systemctl is-active --quiet ovsdb-server && systemctl is-active --quiet ovs-vswitchd; }
works() { active && ovs-vsctl --timeout=10 add-br br1 -- del-br br1; }

# under UNITS TIMES PACKETS: prints how often the database was killed while packets flowed, how often the switch was
# another one afterwards, and what ping counted.
under() {
  ip netns exec n1 ping -q -c 3 192.0.2.2 > /dev/null
  ip netns exec n1 ping -q -i 0.05 -c "$3" 192.0.2.2 > /vm/pings &
  pings=$! kills=0 restarts=0
  while [ "$kills" -lt "$2" ]; do
    sleep 3
    database=$(pid ovsdb-server) switch=$(pid ovs-vswitchd)
    kill -9 "$database"
    until [ "$(pid ovsdb-server)" != "$database" ] && works; do sleep 0.5; done
    kill -0 "$pings" || break
    kills=$((kills + 1))
    [ "$(pid ovs-vswitchd)" = "$switch" ] || restarts=$((restarts + 1))
  done
  wait "$pings" || true
  echo "$1 $kills $restarts $(sed -n 's/^\([0-9]*\) packets transmitted, \([0-9]*\) received.*/\1 \2/p' /vm/pings)"
}

under shipped 1 2000
for unit in openvswitch-switch ovs-vswitchd ovs-record-hostname; do
  sed 's/^Requires=ovsdb-server/Wants=ovsdb-server/' "/lib/systemd/system/$unit.service" > "/etc/systemd/system/$unit.service"
done
systemctl daemon-reload
under apart 3 3000
