//! How replicas come to have all data: they wait for the moment of a snapshot, which those that read the same form of it
//! share, and follow from that moment on.
//!
//! Who comes while a snapshot is being written shares it too, as long as another one that does has all that was appended
//! since its moment.

use std::io::Write;
use std::sync::Arc;

use tollgate_limiter::Timestamp;
use tollgate_persist::rdb::{Dialect, History};

use super::followers::{Follower, Stage, Waiting};
use super::{Replica, State};
use crate::Engine;
use crate::held::while_held;
use crate::snapshot::{Form, LOOK, Purpose, SnapshotError, Wanted};

/// How a replica asks for all data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncRequest {
    /// It came by PSYNC: it is told the name of the history, and how many of its bytes the data comprise.
    pub acks: bool,
    /// Bytes that may wait for it until it has the data; 0 = any number.
    pub most: u64,
    /// It may wait for others that come a little later.
    pub is_patient: bool,
}

/// A snapshot for replicas.
struct Sync {
    number: u64,
    dialect: Dialect,
    /// Bytes of the journal at its moment; `None`: that is still to come.
    from: Option<u64>,
    /// Others may share it.
    is_open: bool,
}

/// Those that are to be taken, or are being written.
#[derive(Default)]
pub(super) struct Syncs {
    all: Vec<Sync>,
    last: u64,
}

impl Syncs {
    fn begin(&mut self, dialect: Dialect, is_open: bool) -> u64 {
        self.last += 1;
        self.all.push(Sync {
            number: self.last,
            dialect,
            from: None,
            is_open,
        });
        self.last
    }

    fn get(&self, number: u64) -> Option<&Sync> {
        self.all.iter().find(|sync| sync.number == number)
    }

    /// Nobody may share those that are being written: their history is over.
    pub(super) fn refuse_more(&mut self) {
        for sync in &mut self.all {
            sync.is_open &= sync.from.is_none();
        }
    }
}

fn dialect_of(to: &Arc<dyn Replica>) -> Dialect {
    // Replicas of this kind pose as Valkey to get all of its data; Redis' form says more.
    match to.is_valkey() && !to.knows_limiters() {
        true => Dialect::Valkey,
        false => Dialect::Redis,
    }
}

impl Sync {
    /// Whether one that waits is taken in at its moment.
    fn takes(&self, to: &Arc<dyn Replica>, waiting: Waiting) -> bool {
        match waiting.alone {
            Some(alone) => alone == self.number,
            None => self.is_open && dialect_of(to) == self.dialect,
        }
    }

    /// Whether it is for that replica.
    fn is_for(&self, follower: &Follower) -> bool {
        match &follower.stage {
            Stage::Waiting(waiting) => self.from.is_none() && self.takes(&follower.to, *waiting),
            Stage::Data { sync, .. } => *sync == self.number,
            Stage::Online => false,
        }
    }
}

/// A snapshot that is being written, for one that comes now.
struct Shared {
    sync: u64,
    /// Bytes of the journal at its moment.
    from: u64,
    /// What was appended since.
    queued: Vec<Arc<[u8]>>,
}

impl State {
    /// The snapshot that a replica which comes now can share; `None` when it has to wait for another one.
    fn share(&self, to: &Arc<dyn Replica>, most: u64) -> Option<Shared> {
        if !self.lineage.place_is_true() {
            return None;
        }
        self.syncs.all.iter().find_map(|sync| {
            let from = sync.from.filter(|_| sync.is_open)?;
            let missed = self.offset - from;
            let next = i64::try_from(from + 1).ok()?;
            let fits = dialect_of(to) == sync.dialect && (most == 0 || missed < most);
            if !fits || to.knows_limiters() && !self.has_limiters_from(next) {
                return None;
            }
            // One that left too much unread is gone, and has lost what waited for it.
            let other = self.followers.iter().filter(|it| !it.to.is_gone());
            let queued = other.filter_map(|it| match &it.stage {
                Stage::Data {
                    sync: of, queued, ..
                } if *of == sync.number => Some(queued.clone()),
                _ => None,
            });
            Some(Shared {
                sync: sync.number,
                from,
                queued: queued.into_iter().next()?,
            })
        })
    }
}

/// A replica that waits; for a snapshot of its own if it is `alone`.
fn waiting(
    to: Arc<dyn Replica>,
    request: SyncRequest,
    alone: Option<u64>,
    now: Timestamp,
) -> Follower {
    let stage = Stage::Waiting(Waiting {
        since_ms: now.millis(),
        is_patient: request.is_patient,
        alone,
    });
    let mut follower = Follower::new(to, stage, 0, request.acks, now.millis());
    follower.most = request.most;
    follower
}

/// The replica is sent those data, and follows the history `id` from their moment on.
fn enter(follower: &mut Follower, id: &str, shared: Shared) {
    let Shared { sync, from, queued } = shared;
    let bytes = queued.iter().map(|block| block.len()).sum();
    follower.stage = Stage::Data {
        sync,
        queued,
        bytes,
    };
    if follower.acks {
        // At once, so that it sees how far its master is: the data may take their time.
        let greeting = format!("+FULLRESYNC {id} {from}\r\n");
        follower.to.send(&greeting.into_bytes().into());
    }
}

impl Engine {
    /// A replica asks for all data. True: it shares a snapshot that is being written. Else it waits for the next one, of
    /// which [`Engine::next_sync`] says when it is due.
    pub fn ask_for_data(&self, to: Arc<dyn Replica>, request: SyncRequest, now: Timestamp) -> bool {
        let mut state = self.journal.lock();
        let shared = state.share(&to, request.most);
        let mut follower = waiting(to, request, None, now);
        let shares = shared.is_some();
        if let Some(shared) = shared {
            enter(&mut follower, &state.id, shared);
        }
        state.full_syncs += 1;
        state.follow(follower, now.millis());
        shares
    }

    /// The number of a snapshot that is to be written now ([`Engine::write_sync`]), for replicas of which one has waited for
    /// `delay_ms` or will not wait, or which are `enough` (0: never).
    pub fn next_sync(&self, now: Timestamp, delay_ms: i64, enough: usize) -> Option<u64> {
        let mut state = self.journal.lock();
        let due = [Dialect::Redis, Dialect::Valkey]
            .into_iter()
            .find(|&dialect| {
                let is_next =
                    |sync: &Sync| sync.dialect == dialect && sync.is_open && sync.from.is_none();
                if state.syncs.all.iter().any(is_next) {
                    // They are taken in.
                    return false;
                }
                let (mut count, mut is_due) = (0, false);
                for follower in &state.followers {
                    if let Stage::Waiting(waiting) = &follower.stage
                        && waiting.alone.is_none()
                        && dialect_of(&follower.to) == dialect
                        && !follower.to.is_gone()
                    {
                        count += 1;
                        let waited = now.millis() - waiting.since_ms;
                        is_due |= !waiting.is_patient || waited >= delay_ms;
                    }
                }
                is_due || enough > 0 && count >= enough
            })?;
        Some(state.syncs.begin(due, true))
    }

    /// Writes all data to `out` as they are at one moment, from which on those follow that it is for: what is appended to the
    /// journal later waits for [`Engine::go_online`]. Then [`Engine::end_sync`] has to be called. `pace` as for
    /// [`crate::Snapshot::write`].
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn write_sync(
        self: &Arc<Self>,
        number: u64,
        out: &mut dyn Write,
        now: Timestamp,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), SnapshotError> {
        let dialect = self.journal.lock().syncs.get(number).map(|it| it.dialect);
        let dialect = dialect.ok_or(SnapshotError::Stopped)?;
        let opening = loop {
            if let Some(opening) = self.journal.opening.try_lock_for(LOOK) {
                break opening;
            }
            if !self.sync_is_wanted(number) {
                return Err(SnapshotError::Stopped);
            }
        };
        let wanted = Wanted {
            purpose: Purpose::Replica,
            form: Form::Rdb(dialect),
            now: self.lapsed_before(now),
            waits: &mut || self.sync_is_wanted(number),
        };
        let begun = self.begin_snapshot(wanted, |held| {
            let start = self.begin_following(number);
            while_held(held, || self.follow_journal());
            start
        });
        drop(opening);
        let Ok((mut snapshot, Some(history))) = begun else {
            return Err(SnapshotError::Stopped);
        };
        // A replica may keep the file, and start with it.
        snapshot.say_history(&history);
        snapshot.write(out, &mut |entries| {
            self.sync_is_wanted(number) && pace(entries)
        })
    }

    /// Whether somebody waits for it, or may: whoever cannot look says so.
    fn sync_is_wanted(&self, number: u64) -> bool {
        let Some(state) = self.journal.state.try_lock() else {
            return true;
        };
        let sync = state.syncs.get(number);
        sync.is_some_and(|sync| {
            let mut all = state.followers.iter();
            all.any(|it| !it.to.is_gone() && sync.is_for(it))
        })
    }

    /// All shards are held: those it is for follow from here on. Where the data are in the history; `None`, and nobody
    /// follows, when there is nobody, or when they are those of no history, as while the data of a master are being loaded.
    fn begin_following(&self, number: u64) -> Option<History> {
        let _role = self.journal.hold_any_role();
        let mut state = self.journal.lock();
        if !state.lineage.place_is_true() {
            return None;
        }
        let state = &mut *state;
        let sync = state.syncs.get(number)?;
        let all = state.followers.iter().enumerate();
        let taken: Vec<usize> = (all.filter(|(_, it)| sync.is_for(it)))
            .map(|(at, _)| at)
            .collect();
        if taken.is_empty() {
            return None;
        }
        state.open = true;
        if taken
            .iter()
            .any(|&at| state.followers[at].to.knows_limiters())
        {
            self.journal.want_limiters(state);
        }
        state.alone_since_ms = None;
        // Replicas begin with no database selected, or with the one that our master has.
        state.db = None;
        let history = state.history();
        for at in taken {
            let follower = &mut state.followers[at];
            let shared = Shared {
                sync: number,
                from: history.offset,
                queued: Vec::new(),
            };
            enter(follower, &history.id, shared);
        }
        let all = &mut state.syncs.all;
        if let Some(sync) = all.iter_mut().find(|it| it.number == number) {
            sync.from = Some(history.offset);
        }
        Some(history)
    }

    /// Nobody can share the snapshot any more; returns those that it is for, by CLIENT ID.
    pub fn end_sync(&self, number: u64) -> Vec<u64> {
        let mut state = self.journal.lock();
        let state = &mut *state;
        let Some(at) = state.syncs.all.iter().position(|it| it.number == number) else {
            return Vec::new();
        };
        let sync = state.syncs.all.swap_remove(at);
        let all = state.followers.iter().filter(|it| sync.is_for(it));
        all.map(|it| it.to.id()).collect()
    }

    /// Writes a snapshot for this replica alone, as [`Engine::write_sync`] does.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; then the replica does not follow.
    pub fn sync_alone(
        self: &Arc<Self>,
        to: Arc<dyn Replica>,
        request: SyncRequest,
        out: &mut dyn Write,
        now: Timestamp,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), SnapshotError> {
        let id = to.id();
        let number = {
            let mut state = self.journal.lock();
            let number = state.syncs.begin(dialect_of(&to), false);
            state.full_syncs += 1;
            state.follow(waiting(to, request, Some(number), now), now.millis());
            number
        };
        let written = self.write_sync(number, out, now, pace);
        self.end_sync(number);
        if written.is_err() {
            self.unfollow(id, now);
        }
        written
    }

    /// The data are about to be sent: signs of life would be taken for a part of them.
    pub fn greet(&self, id: u64) {
        if let Some(follower) = self.journal.lock().follower(id) {
            follower.greeted = true;
        }
    }

    /// The replica has been sent the data: it is sent what was appended meanwhile, and everything from now on.
    pub fn go_online(&self, id: u64) {
        let mut state = self.journal.lock();
        let Some(follower) = state.follower(id) else {
            return;
        };
        if let Stage::Data { queued, .. } = std::mem::replace(&mut follower.stage, Stage::Online) {
            for block in queued {
                follower.to.send(&block);
            }
        }
    }
}
