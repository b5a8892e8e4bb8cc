# One host after the other: whatever configures its network, whatever its uplink is made of, it goes through a change of
# MTU as its unit does it, and loses what a loss of power takes. Prints what is to be seen of each.
#
#   seen OWNER SHAPE STEP NAME=VALUE...
owners="NetworkManager NetworkManager-wait-online systemd-networkd systemd-networkd.socket systemd-networkd-wait-online"
v4=192.0.2.2/24 v4gw=192.0.2.1 v6=2001:db8::2/64 v6gw=2001:db8::1
saved=/var/lib/netferry/mtu-original.json
told=/etc/cno/mtu-migration/config

# The uplink of a shape, and the links it stands on.
uplink_of() {
  case $1 in
    card) up=eth0 below= ;;
    vlan) up=eth0.5 below=eth0 ;;
    bond) up=bond0 below="eth1 eth2" ;;
    vlan-on-bond) up=bond0.5 below="bond0 eth1 eth2" ;;
    bridge) up=br0 below=eth0 ;;
  esac
}

write() { mkdir -p "${1%/*}" && cat > "$1" && chmod 600 "$1"; }

# A connection: LINK TYPE MORE...; the uplink's has the addresses.
connection() {
  link=$1 type=$2
  shift 2
  {
    printf '[connection]\nid=%s\ntype=%s\ninterface-name=%s\n' "$link" "$type" "$link"
    printf '%s\n' "$@"
    if [ "$link" = "$up" ]; then
      printf '[ipv4]\nmethod=manual\naddress1=%s,%s\n[ipv6]\nmethod=manual\naddress1=%s,%s\n' $v4 $v4gw $v6 $v6gw
    else
      printf '[ipv4]\nmethod=disabled\n[ipv6]\nmethod=disabled\n'
    fi
  } | write "/etc/NetworkManager/system-connections/$link.nmconnection"
}
port() {
  printf '[connection]\nid=%s\ntype=ethernet\ninterface-name=%s\nmaster=%s\nslave-type=%s\n' "$1" "$1" "$2" "$3" |
    write "/etc/NetworkManager/system-connections/$1.nmconnection"
}
by_networkmanager() {
  case $1 in
    card) connection eth0 ethernet ;;
    vlan) connection eth0 ethernet && connection eth0.5 vlan '[vlan]' parent=eth0 id=5 ;;
    bridge) connection br0 bridge '[bridge]' stp=false && port eth0 br0 bridge ;;
    *bond)
      connection bond0 bond '[bond]' mode=active-backup miimon=100
      port eth1 bond0 bond && port eth2 bond0 bond
      [ "$1" = bond ] || connection bond0.5 vlan '[vlan]' parent=bond0 id=5
      ;;
  esac
}

# A unit: LINK MORE...; the uplink's has the addresses.
network() {
  link=$1
  shift
  {
    printf '[Match]\nName=%s\n[Network]\nIPv6AcceptRA=no\n' "$link"
    if [ "$link" = "$up" ]; then
      printf 'Address=%s\nAddress=%s\nGateway=%s\nGateway=%s\n' $v4 $v6 $v4gw $v6gw
    else
      printf 'LinkLocalAddressing=no\n'
    fi
    [ $# = 0 ] || printf '%s\n' "$@"
  } | write "/etc/systemd/network/20-$link.network"
  chmod 644 "/etc/systemd/network/20-$link.network"
}
netdev() {
  link=$1 kind=$2
  shift 2
  { printf '[NetDev]\nName=%s\nKind=%s\n' "$link" "$kind" && printf '%s\n' "$@"; } | write "/etc/systemd/network/10-$link.netdev"
  chmod 644 "/etc/systemd/network/10-$link.netdev"
}
by_systemd_networkd() {
  case $1 in
    card) network eth0 ;;
    vlan) netdev eth0.5 vlan '[VLAN]' Id=5 && network eth0 VLAN=eth0.5 && network eth0.5 ;;
    bridge) netdev br0 bridge '[Bridge]' STP=no && network eth0 Bridge=br0 && network br0 ;;
    *bond)
      netdev bond0 bond '[Bond]' Mode=active-backup MIIMonitorSec=0.1
      network eth1 Bond=bond0 && network eth2 Bond=bond0
      if [ "$1" = bond ]; then network bond0; else
        netdev bond0.5 vlan '[VLAN]' Id=5 && network bond0 VLAN=bond0.5 && network bond0.5
      fi
      ;;
  esac
}
by_ifupdown() {
  write /etc/network/interfaces << CONFIG
auto eth0
iface eth0 inet static
    address $v4
    gateway $v4gw
iface eth0 inet6 static
    address $v6
    gateway $v6gw
CONFIG
}
by_netplan() {
  addresses="addresses: [$v4, \"$v6\"], routes: [{to: default, via: $v4gw}, {to: \"::/0\", via: \"$v6gw\"}]"
  case $1 in
    card) printf 'network: {version: 2, renderer: networkd, ethernets: {eth0: {%s}}}\n' "$addresses" ;;
    vlan) printf 'network: {version: 2, renderer: networkd, ethernets: {eth0: {}}, vlans: {eth0.5: {id: 5, link: eth0, %s}}}\n' "$addresses" ;;
  esac | write /etc/netplan/50-lan.yaml
}

start_owner() {
  case $1 in
    NetworkManager) systemctl restart NetworkManager ;;
    systemd-networkd) systemctl restart systemd-networkd ;;
    ifupdown) systemctl restart networking ;;
    # As its generator does at a boot.
    netplan) rm -rf /run/systemd/network && netplan generate && systemctl restart systemd-networkd ;;
  esac
}

# Everything a host's network has in the kernel and below /run goes, as with its power.
off() {
  systemctl stop netferry-host-init $owners networking 2> /dev/null || true
  rm -rf /run/netferry /run/NetworkManager /run/systemd/netif /run/network
  for link in bond0.5 eth0.5 br0; do ip link del "$link" 2> /dev/null || true; done
  for link in eth0 eth1 eth2; do
    ip link set "$link" nomaster down
    ip addr flush dev "$link"
    ip link set "$link" mtu 1500
  done
  ip link del bond0 2> /dev/null || true
}

# Lets the owner bring the uplink up. One that had to wait for the processor for half a minute gives up on a link, and is
# then told to try again.
online() {
  start_owner "$1"
  tries=0
  until [ -n "$(ip -4 route show default)" ] && [ -n "$(ip -6 route show default)" ] &&
    [ -z "$(ip -6 addr show dev "$up" tentative)" ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo "$up is not up:"; ip addr; ip route; journalctl -n 40 --no-pager; exit 1; }
    [ $((tries % 200)) != 0 ] || start_owner "$1"
    sleep 0.5
  done
}
prepare() {
  systemctl restart netferry-host-init || { journalctl -u netferry-host-init -n 20 --no-pager; ip -d link; exit 1; }
}

mtu_of() { cat "/sys/class/net/$1/mtu"; }
seen() {
  links=
  for link in $up $below; do links=$links,$link:$(mtu_of "$link"); done
  routes=$( { ip -4 route show dev "$up" && ip -6 route show dev "$up" | grep -v ^fe80; } |
    sed -n 's/.* mtu \([0-9]*\).*/\1/p; t; s/.*/-/p' | sort -u | tr '\n' , )
  kept=no
  [ ! -e $saved ] || kept=yes
  echo "seen $1 $2 $3 links=${links#,} routes=${routes%,} interface=$(cat /proc/sys/net/ipv6/conf/"$up"/mtu) kept=$kept"
}

# OWNER SHAPE [NAME]
begin() {
  off
  rm -rf /etc/NetworkManager/system-connections/* /etc/systemd/network/* /etc/netplan/* /var/lib/netferry /etc/cno
  printf 'auto lo\niface lo inet loopback\n' > /etc/network/interfaces
  uplink_of "$2"
  "by_$(echo "$1" | tr 'A-Z-' 'a-z_')" "$2"
  online "$1"
  seen "$1" "${3:-$2}" before
  echo TARGET_MTU=9000 | write $told
}

# All of a change on one host: OWNER SHAPE.
change() {
  begin "$1" "$2"
  prepare
  seen "$1" "$2" first-boot
  off && online "$1"
  seen "$1" "$2" brought-up
  prepare
  seen "$1" "$2" second-boot
  online "$1"
  seen "$1" "$2" owner-restarted
  rm $told
  off && online "$1" && prepare
  seen "$1" "$2" after
}

# Whatever is not on the disk is gone.
restart() { reboot -ffn && sleep 600; }
power_cut() {
  begin "$1" vlan-on-bond power-cut
  systemctl -q enable "$1" "$1-wait-online"
  echo "$1" > /vm/owner
  sync
  prepare
  seen "$1" power-cut first-boot
  restart
}

if [ ! -e /vm/owner ]; then
  printf '[main]\nno-auto-default=*\n' | write /etc/NetworkManager/conf.d/hosts.conf
  ln -s /opt/netferry/netferry /usr/bin/netferry
  systemctl daemon-reload
  for owner in NetworkManager systemd-networkd; do
    for shape in card vlan bond vlan-on-bond bridge; do change $owner $shape; done
  done
  change ifupdown card
  change netplan card
  change netplan vlan
  # And now for real: the host boots by itself, whatever was in memory is gone.
  mkdir -p /etc/systemd/system/multi-user.target.wants
  ln -s /etc/systemd/system/netferry-host-init.service /etc/systemd/system/multi-user.target.wants/
  ln -s /etc/systemd/system/netferry-files.service /etc/systemd/system/sysinit.target.wants/ 2> /dev/null || true
  power_cut NetworkManager
fi
owner=$(cat /vm/owner)
uplink_of vlan-on-bond
systemctl is-active --quiet netferry-host-init || { journalctl -b --no-pager -n 60; exit 1; }
if [ -e $told ]; then
  seen "$owner" power-cut second-boot
  rm $told && sync && restart
fi
seen "$owner" power-cut after
systemctl -q disable "$owner" "$owner-wait-online"
[ "$owner" != NetworkManager ] || power_cut systemd-networkd
