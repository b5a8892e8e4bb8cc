# What scripts of one machine under a service manager say and do.
export HOME=/root
netferry=/opt/netferry/netferry
api=/var/lib/api
kubectl() { /opt/netferry/kubectl --kubeconfig "$api/kubeconfig" "$@"; }

# until WHAT COMMAND...: waits for it. The processor is emulated: minutes are nothing.
until_so() {
  what=$1 left=900
  shift
  until "$@" > /vm/last 2>&1; do
    left=$((left - 1))
    if [ "$left" = 0 ]; then
      echo "not so in time: $what"; cat /vm/last; journalctl --no-pager -u netferry-solo | tail -n 40
      exit 1
    fi
    sleep 1
  done
}
row() { echo "row | $1 | $2 |"; }
problem() { echo "problem $1: $2"; }

serve_api() {
  mkdir -p "$api"
  systemd-run --quiet --unit api "$netferry" apiserver --data "$api/journal" --tls-dir "$api/tls" \
    --kubeconfig-out "$api/kubeconfig" --service-cidr 10.43.0.0/16,fd43::/112
  until_so "the API answers" kubectl get namespaces
}

# Everything of the host that somebody could have touched. What counts down, what is numbered as it comes and what is
# rolled by the kernel is left out; the switch's own bridges are made by whoever runs.
host() {
  {
    ip -d -o link; ip -o addr; ip route show table all; ip -6 route show table all; ip rule; ip -6 rule
    tc qdisc; nft list ruleset; ovs-vsctl list-br; ovs-vsctl get open . external_ids other_config
    systemctl is-enabled ovn-central ovn-host openvswitch-switch || true
    systemctl is-active ovn-central ovn-host openvswitch-switch || true
    find /etc /opt/cni /run/netferry /var/lib/netferry /var/lib/ovn ! -type d 2> /dev/null || true
    grep -rs . /proc/sys/net/ipv4 /proc/sys/net/ipv6 || true
  } | sed -e 's/^[0-9]*: //' -e 's/expires [0-9]*sec/expires/' -e 's/_lft [0-9]*sec/_lft/g' \
    -e 's/addrgenmode.*//' -e 's/link\/ether [0-9a-f:]*//' -e 's/ *$//' |
    grep -v -e base_reachable_time -e stable_secret -e '^ovs-system' -e '^br-int' -e tcp_fastopen_key -e '/\.conf\.db' |
    sort
}
# Of the uplink alone.
uplink() { host | grep -e eth0 -e '^default' | grep -v -e 'eth0/forwarding' -e 'eth0/accept_ra:' -e '^anycast'; }

# unchanged WHAT FILE COMMAND: what it prints is what it printed then.
unchanged() {
  "$3" > /vm/now
  if diff "$2" /vm/now > /vm/diff; then row "$1" "as before"; else problem "$1" "$(tr '\n' ';' < /vm/diff)"; fi
}

# Packets of the host's own, by its uplink.
begin_packets() {
  ping -i 0.2 10.0.2.2 > /vm/ping 2>&1 &
  ping=$!
  perl -MSocket -e '
    $SIG{INT} = sub { $over = 1 };
    socket(S, PF_INET, SOCK_STREAM, 0); connect(S, sockaddr_in(7777, inet_aton("10.0.2.100"))) or die $!;
    until ($over) { syswrite(S, sprintf("%08d\n", ++$n)); $got = "";
      while (length $got < 9) { sysread(S, $got, 9 - length $got, length $got) or $!{EINTR} or die "cut: $!" }
      die "$got is not $n" if $got != $n; select(undef, undef, undef, 0.1) }
    print "$n\n"' > /vm/stream 2>&1 &
  stream=$!
}
end_packets() {
  kill -INT "$ping" "$stream"
  wait "$ping" || true
  if wait "$stream"; then row "a stream by the uplink, $1" "$(cat /vm/stream) there and back"
  else problem "a stream by the uplink, $1" "$(cat /vm/stream)"; fi
  lost=$(sed -n 's/.*icmp_seq=\([0-9]*\).*/\1/p' /vm/ping | awk 'NR == 1 { first = $1 } { last = $1 } END { print last - first + 1 - NR }')
  said="$(grep -c icmp_seq /vm/ping) answered, $lost lost"
  if [ "$lost" = 0 ]; then row "pings of the router, $1" "$said"; else problem "pings of the router, $1" "$said"; fi
}

# plug POD CONTAINER: as a runtime starts a pod.
plug() {
  ip netns add "$2"
  uid=$(kubectl get pod "$1" -o 'jsonpath={.metadata.uid}')
  echo '{"cniVersion":"1.0.0","name":"netferry","type":"netferry-cni","socket":"/run/netferry/cni.sock"}' |
    CNI_COMMAND=ADD CNI_CONTAINERID=$2 CNI_NETNS=/run/netns/$2 CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin \
    CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=$1;K8S_POD_INFRA_CONTAINER_ID=$2;K8S_POD_UID=$uid" \
    /opt/cni/bin/netferry-cni > /vm/plugged || { cat /vm/plugged; return 1; }
}
reaches_out() {
  timeout 20 ip netns exec "$1" perl -MSocket -e 'socket(S, PF_INET, SOCK_STREAM, 0);
    connect(S, sockaddr_in(7777, inet_aton("10.0.2.100"))) or die $!; syswrite(S, "pod\n"); sysread(S, $_, 4); exit !/pod/'
}
# The pod of a container serves; the host reaches it by its address and by its Service.
serves() {
  ip netns exec "$1" "$netferry" lab-pod --port 8080 --name web > /dev/null 2>&1 &
  until_so "the host reaches the pod" "$netferry" lab-pod probe "$(address_of "$1"):8080"
  until_so "the host reaches the Service" "$netferry" lab-pod probe 10.43.0.80:80
}
address_of() { ip -n "$1" -o -4 addr show dev eth0 | awk '{ sub("/.*", "", $4); print $4 }'; }
keeps_the_host() { ip -o addr show dev ovn-k8s-mp0 | grep -q 10.42.0.2 && nft list table inet netferry > /dev/null; }

begin() {
  printf 'auto lo\niface lo inet loopback\nauto eth0\niface eth0 inet static\naddress 10.0.2.15/24\ngateway 10.0.2.2\n' \
    > /etc/network/interfaces
  ifup eth0
  serve_api
  kubectl create -f - << 'END'
---
{apiVersion: v1, kind: Node, metadata: {name: vm}}
END
  kubectl patch node vm --subresource status --type merge -p \
    '{"status": {"addresses": [{"type": "InternalIP", "address": "10.0.2.15"}]}}'
}
install() {
  "$netferry" solo install --kubeconfig "$api/kubeconfig" --timeout 15m -- \
    --cluster-network 10.42.0.0/16,fd42::/48 --service-network 10.43.0.0/16,fd43::/112
}
# A pod, and a Service for it.
make_pod() {
  kubectl create -f - << 'END'
---
{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {nodeName: vm, containers: [{name: main, image: none}]}}
END
  plug web web-1
  until_so "the pod reaches the world" reaches_out web-1
  kubectl create -f - << END
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.43.0.80, ports: [{port: 80, targetPort: 8080}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web-1, labels: {kubernetes.io/service-name: web}},
 addressType: IPv4, ports: [{port: 8080, protocol: TCP, name: ""}],
 endpoints: [{addresses: ["$(address_of web-1)"], nodeName: vm, conditions: {ready: true}}]}
END
  serves web-1
  row "installed" "a pod reaches the world, the host reaches it and its Service"
}
