//! A node and somebody on its wire, in namespaces that vanish with the test, even when it is killed.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use netferry_kernel::link::{Make, VethPeer, Want};
use netferry_kernel::{IfName, Kernel, Mark, Namespace, Objects};
use netferry_ovs::tables::vswitch::{Bridge, Interface, OpenVSwitch, Port};
use netferry_ovs::unixctl::Control;
use netferry_ovs::{Client, Options, Remote, Spec};
use netferry_testkit::wait::until_blocking;
pub(crate) use netferry_testkit::wait::{in_time, until};

pub(crate) fn name(name: &str) -> IfName {
    IfName::new(name).unwrap()
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn namespace() -> Kernel {
    let namespace = Namespace::anonymous()
        .expect("these tests need root, or CAP_NET_ADMIN and CAP_SYS_ADMIN, to make network namespaces");
    let kernel = Kernel::inside(namespace).unwrap();
    kernel.links().converge(&[Want::adjust(name("lo")).up()], &Mark::default()).unwrap();
    // New namespaces take it from the machine, and one with containers forwards.
    run(&kernel, "echo 0 > /proc/sys/net/ipv4/ip_forward");
    kernel
}

/// Two namespaces with a wire between them: `eth0` here, `wire` there, both up.
pub(crate) struct Wire {
    pub(crate) host: Arc<Kernel>,
    pub(crate) peer: Kernel,
}

impl Wire {
    pub(crate) fn new() -> Wire {
        let (host, peer) = (namespace(), namespace());
        add_wire(&host, "eth0", &peer, "wire");
        Wire { host: Arc::new(host), peer }
    }
}

/// One more pair between two namespaces. Carries the mark of the test alone: what is told to remove ours must not
/// take the wire away.
pub(crate) fn add_wire(host: &Kernel, here: &str, peer: &Kernel, there: &str) {
    let mark = Mark { link_alias: "wire".to_owned(), ..Mark::default() };
    let other = VethPeer::named(name(there)).inside(Arc::new(peer.namespace().try_clone().unwrap()));
    let made = Want::make(name(here), Make::Veth(other)).up().note(here);
    let create = netferry_kernel::link::diff(&[made], &[], &mark);
    host.links().apply(&create).unwrap();
    peer.links().converge(&[Want::adjust(name(there)).up()], &Mark::default()).unwrap();
}

/// Runs a command inside; panics with its words if it fails.
pub(crate) fn run(kernel: &Kernel, command: &str) -> String {
    try_run(kernel, command).unwrap_or_else(|error| panic!("{command}: {error}"))
}

pub(crate) fn try_run(kernel: &Kernel, command: &str) -> Result<String, String> {
    let output = kernel
        .namespace()
        .run(|| Command::new("sh").args(["-c", command]).output())
        .unwrap()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Enough tries for a busy machine: a minute.
pub(crate) const PATIENT: usize = 300;

/// Does a datagram get from one namespace to an address of the other, and the answer back? Asks `tries` times.
pub(crate) fn answers(client: &Kernel, server: &Kernel, address: IpAddr, tries: usize) -> bool {
    let open = |kernel: &Kernel, ip: IpAddr| {
        // An address of IPv6 that was just given is not used before it is known to be nobody else's.
        let bind = || kernel.namespace().run(|| std::net::UdpSocket::bind((ip, 0))).unwrap().ok();
        let socket = until_blocking(&format!("{ip} to be used"), bind);
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        socket
    };
    // Bound to the address itself, so that the answer comes from it.
    let server = open(server, address);
    let any = if address.is_ipv4() { ip("0.0.0.0") } else { ip("::") };
    let client = open(client, any);
    let target = server.local_addr().unwrap();
    (0..tries).any(|_| {
        let mut buffer = [0; 64];
        // A neighbour that does not answer is told as an error of the next send. Questions wait for the neighbour
        // and come late, so whichever comes is answered.
        let _ = client.send_to(b"are you there?", target);
        let Ok((length, from)) = server.recv_from(&mut buffer) else { return false };
        server.send_to(&buffer[..length], from).is_ok() && client.recv_from(&mut buffer).is_ok()
    })
}

/// A daemon behind a shell that kills it when our end of a pipe closes: on drop, on panic, and when the test
/// process itself is killed.
struct Daemon {
    shell: Child,
    leash: Option<ChildStdin>,
}

impl Daemon {
    fn start(kernel: &Kernel, run: &Path, program: &str, arguments: &[String]) -> Daemon {
        let script = r#""$@" </dev/null >/dev/null 2>&1 & read _; kill -9 $!; wait"#;
        let mut shell = kernel
            .namespace()
            .run(|| {
                Command::new("sh")
                    .args(["-c", script, "sh", program])
                    .args(arguments)
                    .env("OVS_RUNDIR", run)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
            })
            .unwrap()
            .expect("sh starts");
        let leash = shell.stdin.take();
        Daemon { shell, leash }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.leash.take());
        let _ = self.shell.wait();
    }
}

/// A node's Open vSwitch, its files in a directory of its own.
pub(crate) struct Switch {
    pub(crate) dir: tempfile::TempDir,
    kernel: Arc<Kernel>,
    database: Option<Daemon>,
    daemon: Option<Daemon>,
    /// What the daemon is told besides.
    options: Vec<String>,
}

impl Switch {
    /// Starts one in the host's namespace, with an empty database.
    pub(crate) async fn start(kernel: &Arc<Kernel>) -> Switch {
        Switch::start_with(kernel, &[]).await
    }

    /// [`start`](Switch::start), with options of the daemon.
    pub(crate) async fn start_with(kernel: &Arc<Kernel>, options: &[&str]) -> Switch {
        let dir = tempfile::tempdir().unwrap();
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        let made =
            Command::new("ovsdb-tool").arg("create").arg(dir.path().join("conf.db")).arg(schema).output();
        let made = made.expect("this test needs what `scripts/setup` installs");
        assert!(made.status.success(), "ovsdb-tool: {}", String::from_utf8_lossy(&made.stderr));
        let mut switch = Switch {
            dir,
            kernel: Arc::clone(kernel),
            database: None,
            daemon: None,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
        };
        switch.start_database();
        let socket = switch.path("db.sock");
        // It exists before anybody listens.
        until("the database", async || std::os::unix::net::UnixStream::connect(&socket).is_ok()).await;
        switch.vsctl("--no-wait init");
        switch.vsctl(
            "--no-wait set open . other_config:n-handler-threads=1 other_config:n-revalidator-threads=1",
        );
        switch.start_daemon().await;
        switch
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    pub(crate) fn remote(&self) -> Remote {
        Remote::Unix(self.path("db.sock"))
    }

    fn start_database(&mut self) {
        let arguments = [
            self.path("conf.db").display().to_string(),
            format!("--remote=punix:{}", self.path("db.sock").display()),
            format!("--unixctl={}", self.path("ovsdb.ctl").display()),
            "--no-chdir".to_owned(),
        ];
        self.database = Some(Daemon::start(&self.kernel, self.dir.path(), "ovsdb-server", &arguments));
    }

    /// Starts the daemon and waits until it answers.
    pub(crate) async fn start_daemon(&mut self) {
        let arguments = [
            self.remote().to_string(),
            format!("--pidfile={}", self.path("ovs-vswitchd.pid").display()),
            "--no-chdir".to_owned(),
        ];
        let arguments = [&arguments[..], &self.options].concat();
        self.daemon = Some(Daemon::start(&self.kernel, self.dir.path(), "ovs-vswitchd", &arguments));
        until("the switch", async || {
            let control = self.control().await.ok()?;
            control.command("tnl/neigh/show", &[]).await.ok()
        })
        .await;
    }

    /// `kill -9` of the daemon; gone when this returns.
    pub(crate) fn kill_daemon(&mut self) {
        drop(self.daemon.take());
    }

    /// `kill -9` of both; gone when this returns. The database keeps its file.
    pub(crate) fn power_off(&mut self) {
        drop(self.daemon.take());
        drop(self.database.take());
        let _ = std::fs::remove_file(self.path("db.sock"));
    }

    /// Starts both with the file there is, on another kernel if the machine is another one since.
    pub(crate) async fn power_on(&mut self, kernel: &Arc<Kernel>) {
        self.kernel = Arc::clone(kernel);
        self.start_database();
        let socket = self.path("db.sock");
        // It exists before anybody listens.
        until("the database", async || std::os::unix::net::UnixStream::connect(&socket).is_ok()).await;
        self.start_daemon().await;
    }

    pub(crate) async fn control(&self) -> Result<Control, netferry_ovs::unixctl::ControlError> {
        Control::find(self.dir.path(), "ovs-vswitchd").await
    }

    pub(crate) fn vsctl(&self, arguments: &str) -> String {
        let database = self.path("db.sock");
        run(&self.kernel, &format!("ovs-vsctl --db=unix:{} --timeout=30 {arguments}", database.display()))
    }

    pub(crate) async fn client(&self) -> Client {
        let spec = Spec::new("Open_vSwitch")
            .table::<OpenVSwitch>()
            .table::<Bridge>()
            .table::<Port>()
            .table::<Interface>();
        let connecting = Client::connect(spec, vec![self.remote()], Options::default());
        in_time("connecting", connecting).await.expect("the server is accepted")
    }
}
