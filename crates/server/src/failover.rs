//! FAILOVER: this master hands its part to one of its replicas. Writes are put off until a replica has everything, then
//! this server follows it and asks it, by PSYNC with FAILOVER, to be the master.

use crate::node::replicaof;
use crate::shared::Shared;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tollgate_engine::{Paused, PausedBy};
use tollgate_limiter::Timestamp;
use tollgate_net::{Clock, threads};

/// Time between two looks at how far the replicas are.
const LOOK: Duration = Duration::from_millis(10);

/// How far a failover is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Stage {
    /// There is none.
    #[default]
    None,
    /// A replica is to get everything.
    Waiting,
    /// One has it, and is asked to be the master.
    InProgress,
}

impl Stage {
    /// As INFO has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stage::None => "no-failover",
            Stage::Waiting => "waiting-for-sync",
            Stage::InProgress => "failover-in-progress",
        }
    }
}

/// What was asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// Address and port that the replica names; none for any.
    pub(crate) target: Option<(String, u16)>,
    /// When it ends, in Unix milliseconds.
    pub(crate) deadline_ms: Option<i64>,
    /// At the end the target becomes the master whatever it has.
    pub(crate) force: bool,
}

#[derive(Debug, Default)]
struct State {
    stage: Stage,
    /// Counts the failovers.
    number: u64,
    /// To whom.
    target: Option<(String, u16)>,
}

/// The failover of a server.
#[derive(Debug, Default)]
pub(crate) struct Failover(Mutex<State>);

impl Failover {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stage(&self) -> Stage {
        self.lock().stage
    }

    /// From one stage of failover `number` to another; false when it is not there.
    fn advance(&self, number: u64, from: Stage, to: Stage) -> bool {
        let mut state = self.lock();
        let there = state.number == number && state.stage == from;
        if there {
            state.stage = to;
        }
        there
    }

    /// It is over, one way or the other: writes go on. Returns how far it was. `aborted`: why there is no new master.
    fn end(&self, shared: &Shared, aborted: Option<&str>) -> Stage {
        let (stage, target) = {
            let mut state = self.lock();
            (std::mem::take(&mut state.stage), state.target.take())
        };
        if stage != Stage::None {
            match (aborted, target) {
                (None, _) => {}
                (Some(why), Some((host, port))) => shared
                    .log
                    .notice(format_args!("FAILOVER to {host}:{port} aborted: {why}")),
                (Some(why), None) => shared
                    .log
                    .notice(format_args!("FAILOVER to any replica aborted: {why}")),
            }
            shared.engine.pause().end(PausedBy::Failover);
        }
        stage
    }

    /// The replica that was asked is the master now.
    pub(crate) fn succeeded(&self, shared: &Shared) {
        if self.stage() == Stage::InProgress {
            self.end(shared, None);
        }
    }
}

/// Begins a failover; false when there is one.
pub(crate) fn begin(shared: &Arc<Shared>, wanted: Wanted) -> bool {
    let number = {
        let mut state = shared.failover.lock();
        if state.stage != Stage::None {
            return false;
        }
        state.stage = Stage::Waiting;
        state.number += 1;
        state.target.clone_from(&wanted.target);
        state.number
    };
    shared
        .engine
        .pause()
        .begin(PausedBy::Failover, Paused::Writes, i64::MAX);
    match &wanted.target {
        Some((host, port)) => shared
            .log
            .notice(format_args!("FAILOVER requested to {host}:{port}.")),
        None => shared
            .log
            .notice(format_args!("FAILOVER requested to any replica.")),
    }
    let job = Arc::clone(shared);
    let work = move || wait(&job, number, &wanted);
    if shared.workers.run(work).is_err() {
        shared
            .failover
            .end(shared, Some("there is no thread for it"));
    }
    true
}

/// Ends it without a new master; false when there is none.
pub(crate) fn abort(shared: &Arc<Shared>, why: &str) -> bool {
    match shared.failover.end(shared, Some(why)) {
        Stage::None => false,
        Stage::Waiting => true,
        Stage::InProgress => {
            let now = Timestamp::from_nanos(Clock::now());
            // While data are loaded it is too late: the new master has given them.
            drop(replicaof::become_master(shared, now));
            true
        }
    }
}

/// Waits until a replica has everything, and follows it.
fn wait(shared: &Arc<Shared>, number: u64, wanted: &Wanted) {
    let failover = &shared.failover;
    loop {
        if failover.lock().number != number || failover.stage() != Stage::Waiting {
            return;
        }
        let now = Timestamp::from_nanos(Clock::now());
        let timed_out = wanted.deadline_ms.is_some_and(|end| end <= now.millis());
        let target = match (timed_out, &wanted.target) {
            (true, Some(target)) if wanted.force => {
                shared.log.notice(format_args!(
                    "FAILOVER to {}:{} time out exceeded, failing over.",
                    target.0, target.1
                ));
                Some(target.clone())
            }
            (true, _) => {
                failover.end(shared, Some("Replica never caught up before timeout"));
                return;
            }
            (false, _) => caught_up(shared, wanted, now),
        };
        if let Some((host, port)) = target {
            if !timed_out {
                shared.log.notice(format_args!(
                    "Failover target {host}:{port} is synced, failing over."
                ));
            }
            if failover.advance(number, Stage::Waiting, Stage::InProgress)
                && replicaof::follow(shared, &host, port).is_err()
            {
                failover.end(shared, Some("data are loaded"));
            }
            return;
        }
        threads::stand_still(LOOK);
    }
}

/// Where a wanted replica listens that has everything.
fn caught_up(shared: &Shared, wanted: &Wanted, now: Timestamp) -> Option<(String, u16)> {
    let offset = shared.engine.journal_facts().offset;
    let followers = shared.engine.followers(now);
    let ready = followers
        .iter()
        .filter(|it| it.state == "online" && it.acked == offset);
    let mut addresses = ready.filter_map(|it| Some(shared.clients.get(it.id)?.replica_address()));
    addresses.find(|address| match &wanted.target {
        Some((host, port)) => address.0.eq_ignore_ascii_case(host) && address.1 == *port,
        None => true,
    })
}
