//! Nodes that restart while every path is measured.
//!
//! Flows that end on a node, or go through it, pause for as long as it is away; all others go on, and whatever they lose
//! was lost by the cluster. For that the lab must wait to be told before a node restarts
//! ([`Restarts::WhenTold`](crate::Restarts)).

use std::time::{Duration, Instant};

use crate::error::{During, LabError, Result};
use crate::meter::{Meter, MeterError, Place, Report, Running};
use crate::paths::{self, Selection, Silent, Sites, in_lab};
use crate::{Lab, Name};

/// How long packets that are under way to a node may take before it is given up.
const UNDER_WAY: Duration = Duration::from_secs(2);
/// Between attempts at something that is not there yet.
const AGAIN: Duration = Duration::from_millis(100);

/// A lab, its paths, and a meter on all of them.
#[derive(Debug)]
pub struct Escort<'l> {
    lab: &'l Lab,
    sites: Sites,
    meter: Running,
    patience: Duration,
    /// How long a path may stay silent after a restart before it is measured all the same; without it, that is refused.
    despite_silence: Option<Duration>,
}

impl<'l> Escort<'l> {
    /// Waits until every path is answered, then measures them all. `patience` is for that and for every restart.
    ///
    /// # Errors
    /// If a path is not answered, or the meter cannot start.
    pub fn start(
        lab: &'l Lab,
        sites: Sites,
        selection: &Selection,
        patience: Duration,
    ) -> Result<Escort<'l>> {
        let flows = paths::flows(&sites, selection);
        refuse_silence(&paths::preflight(&flows, patience, |_| {}).during("trying every path")?)?;
        let meter = Meter::start(flows).during("starting the meter")?;
        Ok(Escort { lab, sites, meter, patience, despite_silence: None })
    }

    /// Measures paths that stay silent for so long after a restart all the same: what is lost there is what one wants to
    /// know.
    #[must_use]
    pub fn despite_silence(self, after: Duration) -> Escort<'l> {
        Escort { despite_silence: Some(after), ..self }
    }

    /// What is sent from now on belongs to a lap of this name.
    ///
    /// # Errors
    /// If the meter stopped.
    pub fn lap(&self, name: impl Into<String>) -> Result<()> {
        self.meter.lap(name).during("beginning a lap")
    }

    /// What is measured.
    pub fn meter(&self) -> &Running {
        &self.meter
    }

    /// A node that asks for a restart, if one does.
    pub fn asking(&self) -> Result<Option<Name>> {
        let nodes = self.lab.status()?.nodes;
        Ok(nodes.into_iter().find(|node| node.asks_restart).map(|node| node.name))
    }

    /// Restarts a node. Answers when it is back and every path to it is answered again and measured.
    ///
    /// # Errors
    /// If it is not back in time, or the meter stopped.
    pub fn restart(&mut self, node: &Name) -> Result<()> {
        self.restart_by(node, Lab::reboot)
    }

    /// The same, where the node goes down and comes up again in another way.
    ///
    /// # Errors
    /// As of [`Escort::restart`].
    pub fn restart_by(&mut self, node: &Name, how: impl FnOnce(&Lab, &str) -> Result<()>) -> Result<()> {
        for place in self.places(node) {
            self.meter.leave(&place, UNDER_WAY).during(format!("pausing flows of {place}"))?;
        }
        how(self.lab, node.as_str())?;
        self.lab.wait_ready(self.patience, |_| {})?;
        let back = self.find_again(node)?;
        self.tried(&back)?;
        for place in back {
            let attempt = format!("measuring paths of {} again", place.name);
            self.meter.come_back(place).during(attempt)?;
        }
        Ok(())
    }

    /// Lets `restart` see to every node that asks for a restart, until something holds.
    ///
    /// # Errors
    /// If it does not hold, and no node asks either, for longer than the patience; or if a restart fails.
    pub fn until(
        &mut self,
        what: &str,
        mut holds: impl FnMut() -> Result<bool>,
        mut restart: impl FnMut(&mut Escort<'l>, &Name) -> Result<()>,
    ) -> Result<()> {
        let mut deadline = Instant::now() + self.patience;
        while !holds()? {
            if let Some(node) = self.asking()? {
                restart(self, &node)?;
                deadline = Instant::now() + self.patience;
            } else if Instant::now() >= deadline {
                return Err(LabError::TimedOut { waiting_for: what.to_owned(), within: self.patience });
            } else {
                std::thread::sleep(AGAIN);
            }
        }
        Ok(())
    }

    /// Stops sending and tells what was found, and what there is to measure now.
    ///
    /// # Errors
    /// If the meter stopped before.
    pub fn finish(self) -> Result<(Report, Sites)> {
        Ok((self.meter.finish(UNDER_WAY).during("ending the meter")?, self.sites))
    }

    /// Waits until every path to these places is answered. A pod whose network is being made has no address yet.
    fn tried(&self, back: &[Place]) -> Result<()> {
        let deadline = Instant::now() + self.patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.meter.try_out(back, self.despite_silence.unwrap_or(left)) {
                Err(MeterError::Listen { .. }) if Instant::now() < deadline => std::thread::sleep(AGAIN),
                tried => {
                    let silent = paths::silent(&tried.during("trying every path")?);
                    return if self.despite_silence.is_some() { Ok(()) } else { refuse_silence(&silent) };
                }
            }
        }
    }

    /// The names of a node and of its pods.
    fn places(&self, node: &Name) -> Vec<String> {
        let pods = self.sites.pods_on(node.as_str()).map(|pod| pod.place.name.clone());
        std::iter::once(node.to_string()).chain(pods).collect()
    }

    /// A node and its pods, in the namespaces of its new life.
    fn find_again(&mut self, node: &Name) -> Result<Vec<Place>> {
        let deadline = Instant::now() + self.patience;
        let mut found = Vec::new();
        for name in self.places(node) {
            let place = loop {
                match in_lab::place(self.lab, &name) {
                    Err(error) if Instant::now() >= deadline => return Err(error),
                    Err(_) => std::thread::sleep(AGAIN),
                    Ok(place) => break place,
                }
            };
            found.push(place);
        }
        for place in &found {
            let nodes = self.sites.nodes.iter_mut().map(|node| &mut node.place);
            let pods = self.sites.pods.iter_mut().map(|pod| &mut pod.place);
            nodes
                .chain(pods)
                .filter(|known| known.name == place.name)
                .for_each(|known| *known = place.clone());
        }
        Ok(found)
    }
}

fn refuse_silence(silent: &[Silent]) -> Result<()> {
    let Some(first) = silent.first() else { return Ok(()) };
    let why = format!("{} and {} more were not answered: {}", first.flow, silent.len() - 1, first.why);
    Err(LabError::failed("looking whether every path is answered", why))
}
