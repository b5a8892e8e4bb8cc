# A kernel without IPv6, and a network of both families.
[ ! -e /proc/sys/net/ipv6 ] || { echo "this kernel has IPv6"; exit 1; }
begin
install
make_pod
until_so "the operator says what is missing" sh -c \
  "/opt/netferry/kubectl --kubeconfig $api/kubeconfig get network.operator.openshift.io cluster -o yaml | grep -q 'it has no IPv6 address'"
row "the condition" "the node has no IPv6 address"
systemctl restart netferry-solo
until_so "a pod's network is as good as before" reaches_out web-1
"$netferry" solo uninstall --force
if ip link show ovn-k8s-mp0 > /dev/null 2>&1; then problem "uninstalled" "the management port is there yet"; fi
if [ -n "$(nft list ruleset)" ]; then problem "uninstalled" "$(nft list ruleset | tr '\n' ' ')"; fi
row "uninstalled" "nothing is left"
