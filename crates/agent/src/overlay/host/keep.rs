//! Making the host what the plan says, and keeping it so.
//!
//! Nothing is remembered of what was done: each part is compared with what is there whenever something told that it
//! may differ. The kernel tells of almost everything; what it lost, or never tells, the next resync finds.

mod right;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use netferry_core::overlay::host::HostPlan;
use netferry_core::overlay::host::datagrams::Datagrams;
use netferry_kernel::nft::{Copy, Notice, TableId, What};
use netferry_kernel::route::Route;
use netferry_kernel::{Event, IfName, Kernel, Mark, Object, Result, Topics, Watch};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::admit;
use super::objects::Objects;
use crate::ownership::{self, GUARD_TABLE};
use crate::pause::Pause;

/// After something that the kernel refused: first, and at most.
const PAUSE: Pause = Pause::new(Duration::from_millis(100), Duration::from_secs(5));

/// How the host stands to its plan.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum State {
    /// No plan is known; nothing is touched.
    #[default]
    Unplanned,
    /// The switch has not made the management link yet. Everything else is in place.
    NoLink,
    /// Something could not be done, and is tried again.
    Trouble(String),
    /// Everything is as planned.
    AsPlanned,
}

/// What the host's keeper is told, and by whom.
#[derive(Debug)]
pub struct Inputs {
    /// What the host must have; nothing is touched while that is not known.
    pub plan: watch::Receiver<Option<HostPlan>>,
    /// Links that must be guarded: those a userspace switch reads. Empty with the kernel's datapath.
    pub guarded: watch::Receiver<BTreeSet<IfName>>,
    /// The uplink, where it is one of them.
    pub uplink: Option<IfName>,
    /// How often everything is compared although nothing was told.
    pub resync: Duration,
    /// Our run directory, where it is noted what settings were.
    pub run: PathBuf,
}

impl Inputs {
    fn guarded_now(&mut self) -> BTreeSet<IfName> {
        self.guarded.borrow_and_update().iter().chain(&self.uplink).cloned().collect()
    }
}

/// Keeps the host as planned. Ends when nobody can change the plan any more; the host stays as it is then.
pub async fn run(kernel: Arc<Kernel>, mut inputs: Inputs, state: watch::Sender<State>) {
    let mut pause = PAUSE;
    loop {
        let mut keeper = Keeper::new(&kernel, &mut inputs);
        match keeper.follow(&mut inputs, &state, &mut pause).await {
            Ok(()) => return,
            Err(error) => {
                let words = words(&error);
                tracing::warn!(error = words, "listening to the kernel");
                state.send_replace(State::Trouble(words));
                pause.wait().await;
            }
        }
    }
}

/// Parts of the host that may differ from the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Suspects {
    link: bool,
    addresses: bool,
    routes: bool,
    neighbours: bool,
    settings: bool,
    filter: bool,
    others: bool,
    guards: bool,
}

impl Suspects {
    const ALL: Suspects = Suspects {
        link: true,
        addresses: true,
        routes: true,
        neighbours: true,
        settings: true,
        filter: true,
        others: true,
        guards: true,
    };

    fn any(self) -> bool {
        self != Suspects::default()
    }
}

struct Keeper<'k> {
    kernel: &'k Kernel,
    mark: Mark,
    filter: Copy,
    /// A transaction that is being told touches the filter.
    filter_touched: bool,
    /// The same of chains of others.
    others_touched: bool,
    link: Option<u32>,
    objects: Option<Objects>,
    /// Where conversations by datagrams are known to lead. Not known at first: somebody may have been here before.
    led: Option<Datagrams>,
    /// Tables that drop what is forwarded and are their owners' alone, to say so once.
    closed: BTreeSet<TableId>,
    guarded: BTreeSet<IfName>,
    run: PathBuf,
}

impl<'k> Keeper<'k> {
    fn new(kernel: &'k Kernel, inputs: &mut Inputs) -> Keeper<'k> {
        let mark = ownership::host();
        let filter = Copy::new(mark.clone());
        let guarded = inputs.guarded_now();
        Keeper {
            kernel,
            mark,
            filter,
            filter_touched: false,
            others_touched: false,
            link: None,
            objects: None,
            led: None,
            closed: BTreeSet::new(),
            guarded,
            run: inputs.run.clone(),
        }
    }

    async fn follow(
        &mut self,
        inputs: &mut Inputs,
        state: &watch::Sender<State>,
        pause: &mut Pause,
    ) -> Result<()> {
        let topics = Topics { rules: false, ..Topics::ALL };
        let mut watch = Watch::open(self.kernel, topics)?;
        let mut suspects = Suspects::ALL;
        let mut resync = Instant::now() + inputs.resync;
        inputs.plan.mark_changed();
        loop {
            tokio::select! {
                biased;
                changed = inputs.plan.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    suspects = Suspects { guards: suspects.guards, ..Suspects::ALL };
                    self.read_plan(&inputs.plan.borrow_and_update());
                }
                Ok(()) = inputs.guarded.changed() => {
                    self.guarded = inputs.guarded_now();
                    suspects.guards = true;
                }
                event = watch.next() => {
                    self.hear(&event?, &mut suspects);
                }
                () = sleep_until(resync) => {
                    self.filter = Copy::new(self.mark.clone());
                    suspects = Suspects::ALL;
                }
            }
            for event in watch.ready()? {
                self.hear(&event, &mut suspects);
            }
            if !suspects.any() {
                continue;
            }
            if Instant::now() >= resync {
                resync = Instant::now() + inputs.resync;
            }
            match self.put_right(suspects) {
                Ok(new) => {
                    pause.reset();
                    suspects = Suspects::default();
                    change(state, new);
                }
                Err(error) => {
                    let words = words(&error);
                    tracing::warn!(error = words, "keeping the host as planned");
                    change(state, State::Trouble(words));
                    // Whatever it was, the next attempt looks at everything, and not before it may be over: a kernel that
                    // tells of something all the time would otherwise be asked all the time. Another plan may be it.
                    tokio::select! {
                        () = pause.wait() => {}
                        _ = inputs.plan.changed() => inputs.plan.mark_changed(),
                    }
                    suspects = Suspects::ALL;
                    resync = Instant::now();
                }
            }
        }
    }

    fn read_plan(&mut self, plan: &Option<HostPlan>) {
        // No plan any more is not a plan of nothing.
        let Some(plan) = plan else { return };
        match Objects::of(plan) {
            Ok(objects) => self.objects = Some(objects),
            Err(error) => {
                tracing::error!(error = words(&error), "the plan of the host cannot be carried out")
            }
        }
    }

    /// What an event makes suspicious.
    fn hear(&mut self, event: &Event, suspects: &mut Suspects) {
        if let Event::Nft(notice) = event {
            return self.hear_of_filter(notice, suspects);
        }
        let Some(objects) = &self.objects else {
            suspects.guards |= *event == Event::Resync;
            return;
        };
        let ours = |protocol: u8| protocol == self.mark.protocol;
        let here = |link: u32| Some(link) == self.link;
        match event {
            Event::Resync => {
                self.filter_touched = false;
                *suspects = Suspects::ALL;
            }
            Event::Link(link) if link.name == objects.link.name => {
                let Suspects { filter, others, guards, .. } = *suspects;
                *suspects = Suspects { filter, others, guards, ..Suspects::ALL };
            }
            Event::LinkGone(link) if link.name == objects.link.name => suspects.link = true,
            // A link that comes back is guarded before the switch reads it, but not by a kernel that forgets.
            Event::Link(link) if self.guarded.contains(&link.name) && !link.up => suspects.guards = true,
            Event::AddressGone(address) if here(address.link) => {
                // Routes that speak from it went with it, and nobody says so.
                suspects.addresses = true;
                suspects.routes = true;
            }
            Event::Address(address) if here(address.link) => suspects.addresses = true,
            Event::RouteGone(route) => suspects.routes |= ours(route.protocol),
            // One that took the place of ours is told as its own coming, not as our going.
            Event::Route(route) => suspects.routes |= self.is_wrong(route, objects),
            Event::NeighbourGone(neighbour) | Event::Neighbour(neighbour) if here(neighbour.link) => {
                suspects.neighbours |= objects.knows(neighbour);
            }
            Event::Setting => suspects.settings = true,
            Event::Nft(_)
            | Event::Link(_)
            | Event::LinkGone(_)
            | Event::Address(_)
            | Event::AddressGone(_)
            | Event::Rule(_)
            | Event::RuleGone(_)
            | Event::Neighbour(_)
            | Event::NeighbourGone(_) => {}
        }
    }

    /// A route of ours that is not planned, or one in the place of one that is.
    fn is_wrong(&self, route: &Route, objects: &Objects) -> bool {
        let planned = self.link.map_or(vec![], |link| objects.routes(link));
        let planned = planned.iter().map(|own| own.stamped(&self.mark)).find(|own| own.key() == route.key());
        match planned {
            Some(own) => !own.satisfied_by(route),
            None => route.is_ours(&self.mark),
        }
    }

    fn hear_of_filter(&mut self, notice: &Notice, suspects: &mut Suspects) {
        match notice {
            Notice::Object { table, .. } if table.name == self.mark.nft_table => self.filter_touched = true,
            Notice::Object { table, what, gone, .. } => {
                // Guards have no rules: one that comes was made by somebody else, and may let something pass.
                suspects.guards |= table.name == GUARD_TABLE && (*gone || matches!(what, What::Rule));
                let passes = matches!(what, What::Chain | What::Rule);
                self.others_touched |= passes && admit::is_foreign(table.family, &table.name);
            }
            Notice::Committed { generation, .. } => {
                suspects.others |= std::mem::take(&mut self.others_touched);
                // Our own are told too; the copy knows them, and the comparison then costs no message but one.
                if std::mem::take(&mut self.filter_touched) {
                    suspects.filter = true;
                } else {
                    self.filter.unaffected(*generation);
                }
            }
        }
    }
}

fn change(state: &watch::Sender<State>, new: State) {
    state.send_if_modified(|state| {
        let differs = *state != new;
        if differs {
            tracing::info!(host = ?new, "the host");
            *state = new;
        }
        differs
    });
}

/// From the attempt to its cause.
fn words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}
