//! FAILOVER: this master hands its part to one of its replicas. Writes are put off until a replica has everything, then
//! this server follows it and asks it, by PSYNC with FAILOVER, to be the master.

use crate::node::replicaof::{self, NotFollowed};
use crate::shared::Shared;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    /// This server is just becoming a replica: whoever calls the failover off meanwhile leaves the rest to who sees to that.
    turning: bool,
    /// Why it was called off meanwhile.
    called_off: Option<String>,
}

/// The failover of a server.
#[derive(Debug, Default)]
pub(crate) struct Failover {
    state: Mutex<State>,
    /// Commands that may change data and were given to workers: no pause puts them off any more.
    pub(crate) long_writes: AtomicUsize,
}

impl Failover {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stage(&self) -> Stage {
        self.lock().stage
    }

    /// This server is about to become a replica for failover `number`; false when that was called off.
    fn begin_turn(&self, number: u64) -> bool {
        let mut state = self.lock();
        let there = state.number == number && state.stage == Stage::Waiting;
        if there {
            state.stage = Stage::InProgress;
            state.turning = true;
        }
        there
    }

    /// It has become one, or it has not, and the replica is to get more; the reason for which the failover was called off
    /// meanwhile, if it was.
    fn end_turn(&self, turned: bool) -> Option<String> {
        let mut state = self.lock();
        state.turning = false;
        let called_off = state.called_off.take();
        if !turned && called_off.is_none() && state.stage == Stage::InProgress {
            state.stage = Stage::Waiting;
        }
        called_off
    }

    /// Failover `number` is over, one way or the other: writes go on. `aborted`: why there is no new master.
    fn end(&self, shared: &Shared, number: u64, aborted: Option<&str>) {
        let target = {
            let mut state = self.lock();
            if state.number != number || state.stage == Stage::None {
                return;
            }
            state.stage = Stage::None;
            state.target.take()
        };
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

    /// The replica that was asked is the master now.
    pub(crate) fn succeeded(&self, shared: &Shared) {
        let number = {
            let state = self.lock();
            (state.stage == Stage::InProgress).then_some(state.number)
        };
        if let Some(number) = number {
            self.end(shared, number, None);
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
        let why = Some("there is no thread for it");
        shared.failover.end(shared, number, why);
    }
    true
}

/// Ends it without a new master; false when there is none.
pub(crate) fn abort(shared: &Arc<Shared>, why: &str) -> bool {
    let (number, stage) = {
        let mut state = shared.failover.lock();
        if state.turning && state.stage != Stage::None {
            state.called_off.get_or_insert_with(|| why.to_owned());
            return true;
        }
        (state.number, state.stage)
    };
    match stage {
        Stage::None => return false,
        Stage::Waiting => shared.failover.end(shared, number, Some(why)),
        Stage::InProgress => turn_back(shared, number, why),
    }
    true
}

/// This server goes on as the master that it was.
fn turn_back(shared: &Arc<Shared>, number: u64, why: &str) {
    let now = Timestamp::from_nanos(Clock::now());
    // While data are loaded it is too late: the new master has given them. The role first: what was put off goes on then.
    drop(replicaof::become_master(shared, now));
    shared.failover.end(shared, number, Some(why));
}

/// Waits until a replica has everything, and follows it.
fn wait(shared: &Arc<Shared>, number: u64, wanted: &Wanted) {
    let failover = &shared.failover;
    loop {
        // What was asked for right before the writes were paused is done by then.
        threads::stand_still(LOOK);
        shared.engine.let_all_pass();
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
                Some((target.clone(), None))
            }
            (true, _) => {
                let why = Some("Replica never caught up before timeout");
                failover.end(shared, number, why);
                return;
            }
            (false, _) => caught_up(shared, wanted, now),
        };
        if let Some((target, at)) = target
            && turn(shared, number, &target, at)
        {
            return;
        }
    }
}

/// Follows the replica that is to be the master, if it has everything: the journal must end `at` that byte, unless it is
/// forced. False when more has come, which is to be waited for.
fn turn(shared: &Arc<Shared>, number: u64, target: &(String, u16), at: Option<u64>) -> bool {
    let failover = &shared.failover;
    let (host, port) = target;
    if !failover.begin_turn(number) {
        return true;
    }
    let followed = replicaof::follow(shared, host, *port, at);
    let moved = matches!(followed, Err(NotFollowed::Moved));
    if followed.is_ok() && at.is_some() {
        shared.log.notice(format_args!(
            "Failover target {host}:{port} is synced, failing over."
        ));
    }
    match (followed, failover.end_turn(!moved)) {
        (Ok(()), None) => true,
        (Ok(()), Some(why)) => {
            turn_back(shared, number, &why);
            true
        }
        (Err(NotFollowed::Moved), None) => false,
        (Err(_), why) => {
            let why = why.as_deref().unwrap_or("data are loaded");
            failover.end(shared, number, Some(why));
            true
        }
    }
}

/// Where a wanted replica listens, and the byte of the journal up to which it has everything: the last one.
fn caught_up(
    shared: &Shared,
    wanted: &Wanted,
    now: Timestamp,
) -> Option<((String, u16), Option<u64>)> {
    if shared.failover.long_writes.load(Ordering::SeqCst) > 0 {
        return None;
    }
    let offset = shared.engine.journal_facts().offset;
    let followers = shared.engine.followers(now);
    let ready = followers
        .iter()
        .filter(|it| it.state == "online" && it.acked == offset);
    let mut addresses = ready.filter_map(|it| Some(shared.clients.get(it.id)?.replica_address()));
    let found = addresses.find(|address| match &wanted.target {
        Some((host, port)) => address.0.eq_ignore_ascii_case(host) && address.1 == *port,
        None => true,
    });
    found.map(|address| (address, Some(offset)))
}
