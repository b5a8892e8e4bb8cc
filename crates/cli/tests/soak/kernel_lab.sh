# A whole lab on a kernel that moves the packets itself.
netferry=/opt/netferry/netferry
"$netferry" lab up --nodes 2 --family dual --wait 2400 > /vm/up 2>&1 || { cat /vm/up; exit 1; }
for node in node-1 node-2; do
  "$netferry" lab exec "$node" -- ovs-appctl dpif/show | grep -q '^system@'
  # The uplink stays as it is: the kernel's tunnels need no bridge.
  if "$netferry" lab exec "$node" -- ovs-vsctl br-exists br-ex; then exit 1; fi
done

# process PART: prints its number, in a node.
process() {
  case $1 in
    database) echo 'cat /run/openvswitch/ovsdb-server.pid' ;;
    # A pattern that does not match the command line it stands in.
    agent) echo 'pgrep -f "[n]etferry .*agent --node"' ;;
  esac
}
# killed PART NODE: kills it without a goodbye, and waits until another has its place. With an agent goes its whole process
# group, as a service manager ends it.
killed() {
  find=$(process "$1") whole=$([ "$1" = agent ] && echo - || true)
  before=$("$netferry" lab exec "$2" -- sh -c "pid=\$($find) && kill -9 $whole\$pid && echo \$pid")
  again="pid=\$($find) && [ \$pid != $before ] && kill -0 \$pid"
  until "$netferry" lab exec "$2" -- sh -c "$again"; do sleep 1; done
}

"$netferry" lab meter --rate 1 --for 30m --wait 20m --protocols udp,icmp -o json > /vm/report 2> /vm/progress &
meter=$!
failed() {
  cat /vm/report /vm/progress
  "$netferry" lab logs node-1 agent | tail -n 40
  exit 1
}
# Packets are counted from then on; before, it is only seen to that every flow is answered.
until grep -q 'flows, .* sent, ' /vm/progress; do
  kill -0 "$meter" || failed
  sleep 1
done
kills=0
for node in node-1 node-2; do
  for part in database agent; do
    sleep 5
    killed "$part" "$node"
    kills=$((kills + 1))
  done
done
# What they do when they are back is measured too.
sleep 20
kill -INT "$meter" || failed
wait "$meter" || failed
echo "kills $kills"
echo "report $(tr -d '\n' < /vm/report)"
"$netferry" lab down
