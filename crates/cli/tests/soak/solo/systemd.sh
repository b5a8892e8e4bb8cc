# Installed, updated, rebooted, cut from its power, uninstalled.
case $(cat /vm/boot 2> /dev/null || echo none) in
none)
  begin
  until_so "a router advertised itself" sh -c "ip -6 route | grep -q 'default via fe80::2 .*proto ra'"
  systemctl is-active ovn-central ovn-host > /dev/null || problem "before" "the distribution's own OVN does not run"
  host > /vm/before
  uplink > /vm/uplink
  begin_packets
  install
  make_pod
  systemctl restart netferry-solo
  until_so "a pod's network is as good as before" reaches_out web-1
  unchanged "the uplink, installed and restarted" /vm/uplink uplink
  end_packets "while it was installed and restarted"
  echo rebooted > /vm/boot
  again
  ;;
rebooted)
  systemctl is-enabled ovn-central ovn-host > /vm/last 2>&1 || true
  [ "$(grep -c masked /vm/last)" = 2 ] || problem "the distribution's OVN after a reboot" "$(tr '\n' ' ' < /vm/last)"
  until_so "the host's part is back without the API" keeps_the_host
  serve_api
  plug web web-2
  until_so "the pod reaches the world" reaches_out web-2
  serves web-2
  row "rebooted" "back by itself, at first without the API; the pod is what it was"
  echo cut > /vm/boot
  sync
  echo b > /proc/sysrq-trigger
  ;;
cut)
  until_so "the host's part is back without the API" keeps_the_host
  serve_api
  plug web web-3
  until_so "the pod reaches the world" reaches_out web-3
  row "its power failed" "the same"
  printf 'table ip filter {\n chain FORWARD {\n type filter hook forward priority filter; policy drop;\n }\n}\n' | nft -f -
  until_so "the pod reaches the world past a firewall" reaches_out web-3
  nft list chain ip filter FORWARD | grep -q netferry || problem "a firewall that drops" "has no rule of ours"
  row "a firewall came that drops what is forwarded" "the pod reaches the world"
  begin_packets
  "$netferry" solo uninstall > /vm/last 2>&1 && problem "uninstall" "taken while a pod is attached"
  "$netferry" solo uninstall --force
  nft list chain ip filter FORWARD | grep -q netferry && problem "a firewall" "has a rule of ours yet"
  nft delete table ip filter
  end_packets "while it was uninstalled"
  ip netns delete web-3
  unchanged "the host, uninstalled" /vm/before host
  ;;
esac
