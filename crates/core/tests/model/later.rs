//! A cluster some way into a change: what can happen from there, without every order of what led there.

use crate::cluster::{Action, Edit, State, World};
use crate::explore::Model;
use crate::promises::progress;

/// A world that begins later.
pub(crate) struct Later {
    world: World,
    begin: State,
    only_who_left: bool,
}

impl Later {
    /// With a change asked for and nothing going wrong until this is so.
    pub(crate) fn when(world: World, so: impl Fn(&State) -> bool) -> Later {
        let step =
            |state: &State, action: &Action| world.step(state, action).expect("nothing goes wrong yet");
        let mut begin = step(&world.begin(), &Action::Edit(Edit::Start));
        while !so(&begin) {
            let action = world.actions(&begin).into_iter().find(progress).expect("it is so once");
            begin = step(&begin, &action);
        }
        Later { world, begin, only_who_left: true }
    }

    /// Whether anybody's power may fail, and not only that of a node that left: an order of magnitude more states.
    pub(crate) fn with_power_of_all(self, all: bool) -> Later {
        Later { only_who_left: !all, ..self }
    }
}

/// A node has taken the configuration of phase two, and has not started with it.
pub(crate) fn taken_and_not_started(state: &State) -> bool {
    state.machines.iter().any(|machine| {
        let runs = machine.booted.map(|booted| booted.epoch);
        (machine.disk, runs) == (Some(2), Some(1))
    })
}

impl Model for Later {
    type State = State;
    type Action = Action;

    fn begin(&self) -> State {
        self.begin.clone()
    }

    fn actions(&self, state: &State) -> Vec<Action> {
        let mut actions = self.world.actions(state);
        if self.only_who_left {
            actions.retain(|action| !matches!(action, Action::PowerLoss(at) if !state.machines[*at].left));
        }
        actions
    }

    fn step(&self, state: &State, action: &Action) -> Result<State, String> {
        self.world.step(state, action)
    }

    fn holds(&self, state: &State, actions: &[Action]) -> Result<(), String> {
        self.world.holds(state, actions)
    }
}
