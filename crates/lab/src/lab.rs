//! A lab, as its user holds it: start, ask, enter, end. Everything here blocks; a lab is a thing of seconds.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::enter::Way;
use crate::error::{During, LabError, Result};
use crate::neighbours;
use crate::options::{Lifetime, Name, NewNode, Options};
use crate::protocol::{Fault, Reply, Request, Status, Waiting, WayThere};
use crate::state::{Runner, State, started};

/// A lab that ends takes this long at most: the kernel has to end some thousand processes.
const END_WITHIN: Duration = Duration::from_secs(60);
/// The lab's process takes requests after this long at most.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// A running lab.
#[derive(Debug)]
pub struct Lab {
    state: State,
    /// Of a lab that ends with us: it ends when this is closed.
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    process: Child,
    leash: Option<ChildStdin>,
}

impl Lab {
    /// Starts a lab. It takes requests when this returns, and goes on coming up: see [`Lab::wait_ready`].
    ///
    /// What a lab of this name left behind when it was killed is removed first. One that runs is left alone, and this
    /// refused.
    pub fn up(options: &Options) -> Result<Lab> {
        options.check()?;
        if !nix::unistd::geteuid().is_root() {
            return Err(LabError::Refused("a lab needs root: it makes network namespaces".into()));
        }
        let state = State::of(&options.root, &options.name);
        if state.is_running() {
            let name = &options.name;
            return Err(LabError::Refused(format!(
                "lab {name} is up already; netferry lab down --name {name} ends it, --name gives another one"
            )));
        }
        clean(&state)?;
        state.create()?;
        state.write_options(options)?;
        let mut lab = start(state, options)?;
        match lab.wait_for_answers() {
            Ok(()) => Ok(lab),
            Err(error) => {
                let log = std::fs::read_to_string(lab.state.log()).unwrap_or_default();
                // The lab is gone or useless; why it is so matters more than whether its rests can be removed.
                let _ = lab.end();
                let last = log.lines().rev().find(|line| !line.trim().is_empty());
                Err(last.map_or(error, |line| LabError::failed("starting the lab's process", line)))
            }
        }
    }

    /// A lab that runs.
    pub fn attach(root: &Path, name: &Name) -> Result<Lab> {
        let state = State::of(root, name);
        if state.is_running() {
            return Ok(Lab { state, held: None });
        }
        Err(LabError::Refused(if state.exists() {
            format!("lab {name} is not running; netferry lab up --name {name} starts it anew")
        } else {
            format!("there is no lab {name}; netferry lab up --name {name} starts one")
        }))
    }

    /// Ends a lab and removes everything it made, also what is left of one that was killed.
    ///
    /// Answers whether there was anything.
    pub fn remove(root: &Path, name: &Name) -> Result<bool> {
        let state = State::of(root, name);
        let existed = state.exists();
        clean(&state)?;
        Ok(existed)
    }

    /// Ends this lab and removes everything it made.
    pub fn down(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let cleaned = clean(&self.state);
        if let Some(mut held) = self.held.take() {
            drop(held.leash.take());
            // It has been killed, so this returns; its status says nothing.
            let _ = held.process.wait();
        }
        cleaned
    }

    /// Its directory.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// How it is.
    pub fn status(&self) -> Result<Status> {
        self.ask(&Request::Status)
    }

    /// Waits until nothing is waited for any more; `progress` is told every second what is.
    pub fn wait_ready(&self, patience: Duration, progress: impl FnMut(&[Waiting])) -> Result<Status> {
        self.follow(&Request::Ready { seconds: patience.as_secs() }, progress)
    }

    /// Makes a node and boots it; answers its name.
    pub fn add_node(&self, node: NewNode) -> Result<Name> {
        self.ask(&Request::AddNode(node))
    }

    /// Ends a node, forgets its disk and its Node object.
    pub fn remove_node(&self, node: &str) -> Result<()> {
        self.ask(&Request::RemoveNode { node: node.to_owned() })
    }

    /// Shuts a node down and boots it again from its disk. Answers when it is off; it boots on.
    pub fn reboot(&self, node: &str) -> Result<()> {
        self.ask(&Request::Reboot { node: node.to_owned(), orderly: true, again: true })
    }

    /// The same without the goodbye.
    pub fn power_cut(&self, node: &str) -> Result<()> {
        self.ask(&Request::Reboot { node: node.to_owned(), orderly: false, again: true })
    }

    /// Takes a node's power away and leaves it off until it is rebooted.
    pub fn power_off(&self, node: &str) -> Result<()> {
        self.ask(&Request::Reboot { node: node.to_owned(), orderly: false, again: false })
    }

    /// Lets something go wrong.
    pub fn harm(&self, fault: Fault) -> Result<()> {
        self.ask(&Request::Harm(fault))
    }

    /// Ends one harm of this kind and place, or all.
    pub fn heal(&self, fault: Option<Fault>) -> Result<()> {
        self.ask(&Request::Heal { fault })
    }

    /// The way into a node, a pod or another part of the lab, for a program to be started there.
    pub fn way(&self, target: &str) -> Result<Way> {
        let WayThere { mut way } = self.ask(&Request::Way { target: target.to_owned() })?;
        let runner = self.state.runner()?;
        way.through.insert(0, runner.pid);
        Ok(way)
    }

    /// Starts a program in a node, a pod or another part of the lab.
    ///
    /// Wait for it before the lab is ended: the kernel keeps a lab's processes until nobody is missing, and only the
    /// caller can take leave of this one.
    pub fn spawn(&self, target: &str, mut command: Command) -> Result<Child> {
        if !command.get_envs().any(|(name, _)| name == "PATH") {
            command.env("PATH", self.path()?);
        }
        self.way(target)?.spawn(command)
    }

    /// Where programs are looked for inside: as outside, and our own.
    fn path(&self) -> Result<OsString> {
        let mut path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into());
        let program = self.state.options()?.program;
        path.push(":/opt/netferry/bin:");
        path.push(program.parent().unwrap_or(Path::new("/usr/bin")));
        Ok(path)
    }

    /// Runs a program there to its end, and keeps what it prints.
    pub fn exec(&self, target: &str, program: &str, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.spawn(target, command)?;
        child.wait_with_output().during(format!("waiting for {program} in {target}"))
    }

    fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T> {
        self.follow(request, |_| {})
    }

    fn follow<T: DeserializeOwned>(
        &self,
        request: &Request,
        mut progress: impl FnMut(&[Waiting]),
    ) -> Result<T> {
        let attempt = || format!("asking the lab in {}", self.state.path().display());
        let mut stream = UnixStream::connect(self.state.socket()).during(attempt())?;
        let line = serde_json::to_string(request).during(attempt())?;
        writeln!(stream, "{line}").and_then(|()| stream.shutdown(Shutdown::Write)).during(attempt())?;
        for line in BufReader::new(stream).lines() {
            let reply: Reply = serde_json::from_str(&line.during(attempt())?).during(attempt())?;
            match reply.read() {
                Err(waiting) => progress(&waiting),
                Ok(answer) => return serde_json::from_value(answer?).during(attempt()),
            }
        }
        Err(LabError::failed(attempt(), "it ended without an answer"))
    }

    fn wait_for_answers(&mut self) -> Result<()> {
        let deadline = Instant::now() + ANSWERS_WITHIN;
        loop {
            match self.ask::<Value>(&Request::Status) {
                Ok(_) => return Ok(()),
                Err(error) => {
                    let ended =
                        self.held.as_mut().is_some_and(|h| matches!(h.process.try_wait(), Ok(Some(_))));
                    if ended || Instant::now() > deadline {
                        return Err(error);
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.held.as_ref().is_some_and(|held| held.leash.is_some()) {
            // Ends with its owner; there is nobody left to tell.
            let _ = self.end();
        }
    }
}

/// Ends what runs and removes what is there.
fn clean(state: &State) -> Result<()> {
    if !state.exists() {
        return Ok(());
    }
    state.kill_runner(END_WITHIN)?;
    // First, so that if we are killed in between there is still a lab to be taken down.
    let given_back = neighbours::give_back(state);
    state.remove().and(given_back)
}

/// Starts the lab's process in process and mount namespaces of its own.
fn start(state: State, options: &Options) -> Result<Lab> {
    let log = File::create(state.log()).during(format!("making {}", state.log().display()))?;
    let errors = log.try_clone().during(format!("opening {} again", state.log().display()))?;
    let mut command = Command::new(&options.program);
    command.arg("lab-run").arg("--state").arg(state.path());
    command.current_dir("/").stdin(Stdio::piped()).stdout(log).stderr(errors);
    let spawned = std::thread::Builder::new().name("new lab".into()).spawn(move || {
        unshare(CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS)?;
        command.spawn()
    });
    let mut process = spawned
        .during("starting a thread")?
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        .during("starting the lab's process in namespaces of its own")?;

    let pid = process.id().cast_signed();
    let mut leash = process.stdin.take();
    // It waits for this line and ends if we do before it is written: nobody could find it to end it otherwise.
    let runner = Runner { pid, started: started(pid).unwrap_or_default() };
    let told = state.write_runner(runner).and_then(|()| match &mut leash {
        Some(pipe) => pipe.write_all(b"go\n").during("telling the lab's process to go on"),
        None => Ok(()),
    });
    if options.lifetime == Lifetime::Detached {
        leash = None;
    }
    told.map(|()| Lab { state, held: Some(Held { process, leash }) })
}
