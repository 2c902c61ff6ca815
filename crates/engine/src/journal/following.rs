//! This server as a replica: whose data it has, and what it passes on to replicas of its own.
//!
//! A replica's journal is its master's, byte for byte: what is applied is appended as it came, under the locks of the
//! shards it has changed, and nothing else is. So offsets mean the same everywhere, and whoever is made master goes on where
//! the old one was: it calls the rest of the history by a new name, and still knows the old one up to there.
//!
//! Locks: whoever applies holds the shards of a unit and then takes the role to read; whoever changes the role takes it to
//! write, and may hold shards only inside the gate. While the role is held to read nobody waits for a shard, except inside
//! the gate. So they do not wait for each other.

use std::fmt;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};
use tollgate_commands::gate::Restrictions;
use tollgate_keyspace::DbIndex;
use tollgate_limiter::Timestamp;
use tollgate_persist::rdb::RdbError;

use super::{Backlog, Journal, Parting, State};
use crate::cell::One;
use crate::snapshot::Purpose;
use crate::{Engine, Loaded, Undecided};

/// The name of no history.
const NONE: &str = "0000000000000000000000000000000000000000";

/// Names one time of being a replica: what belongs to an earlier one comes too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Following(u64);

/// Why a role cannot be changed, or be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleError {
    /// The data of a master are being loaded.
    Loading,
    /// The server does not follow that master any more.
    Over,
    /// The journal has got on.
    Moved,
}

/// Why the data of a master are not the data of this server.
#[derive(Debug)]
pub enum AdoptError {
    /// The server does not follow that master any more; nothing has been changed.
    Over,
    /// They could not be read to the end. The store is empty.
    Broken(RdbError),
}

impl fmt::Display for AdoptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdoptError::Over => f.write_str("the master is not followed any more"),
            AdoptError::Broken(error) => error.fmt(f),
        }
    }
}

/// Where a replica is in its master's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The name of the history.
    pub id: String,
    /// Bytes of it that the data comprise.
    pub offset: u64,
}

/// Whether this server is a replica.
#[derive(Default)]
pub(crate) struct Role {
    state: RwLock<RoleState>,
    /// What clients may not do, as [`Restrictions`] has it.
    restrictions: AtomicU8,
    /// Replicas want the state of rate limiters. Once they do, they may come back for what they have missed, so it stays.
    limiters: AtomicBool,
}

#[derive(Default)]
struct RoleState {
    /// Counts the changes.
    number: u64,
    follows: bool,
    /// Data are being loaded.
    loading: bool,
}

/// What else the journal knows of its history.
#[derive(Default)]
pub(super) struct Lineage {
    /// It is the master's: only what came from there is appended.
    pub(super) relays: bool,
    /// The data are of no history: those of the last one have been given up.
    lost: bool,
    /// It has just become the master's: what was under way here may still change the data.
    leaving: bool,
    /// Something has, so the data are not what they are called.
    strayed: bool,
    /// What it was called before, and the first byte (counted from 1) that has no place under that name.
    before: Option<(String, u64)>,
    /// The database that the master has selected.
    db: DbIndex,
    /// From which byte on (counted from 1) the journal has the state of rate limiters, if it has.
    pub(super) limiters_from: Option<u64>,
}

impl Lineage {
    /// Whether the data are what the history has made of them.
    pub(super) fn place_is_true(&self) -> bool {
        !self.lost && !self.strayed
    }

    /// This server is a replica that has just loaded data of its master's history; `db` is selected in it.
    pub(super) fn enter(&mut self, db: DbIndex) {
        self.leaving = false;
        self.db = db;
    }

    /// What comes before the byte `end` (counted from 1) was called `id`.
    pub(super) fn come_from(&mut self, id: String, end: u64) {
        self.before = Some((id, end));
    }

    /// Whether replicas that know the history by its old name, and want to go on with the byte `next`, may.
    pub(super) fn knows(&self, id: &[u8], next: i64) -> bool {
        self.before.as_ref().is_some_and(|(before, end)| {
            id.eq_ignore_ascii_case(before.as_bytes()) && next <= i64::try_from(*end).unwrap_or(0)
        })
    }

    /// The old name, and the byte from which it does not count; [`NONE`] and -1 without one.
    pub(super) fn before(&self) -> (String, i64) {
        match &self.before {
            Some((id, end)) => (id.clone(), i64::try_from(*end).unwrap_or(i64::MAX)),
            None => (NONE.to_owned(), -1),
        }
    }

    /// A new history begins, of which nothing is known before.
    pub(super) fn forget(&mut self) {
        self.before = None;
    }
}

impl State {
    /// Whether commands that are run here belong to the journal; asked when one has changed data.
    pub(super) fn records(&mut self) -> bool {
        self.lineage.strayed |= self.lineage.leaving;
        self.open && !self.lineage.relays
    }

    /// Whether commands are to be recorded.
    fn wants_commands(&self) -> bool {
        self.open && (!self.lineage.relays || self.lineage.leaving)
    }

    /// From the next byte on the history is called `id`.
    fn rename(&mut self, id: &str) {
        let before = std::mem::replace(&mut self.id, id.to_owned());
        self.lineage.before = Some((before, self.offset + 1));
        self.disconnect_all();
    }

    /// Replicas are to come back: something has become of the history.
    fn disconnect_all(&mut self) {
        for follower in self.followers.drain(..) {
            follower.disconnect(Parting::NewHistory);
        }
        self.syncs.refuse_more();
    }

    /// The database that the master has selected.
    pub(super) fn master_db(&self) -> DbIndex {
        self.lineage.db
    }

    /// Whether the journal has the state of rate limiters from the byte `next` on. That of a master has what its replicas
    /// need, of which this server is one.
    pub(super) fn has_limiters_from(&self, next: i64) -> bool {
        let next = u64::try_from(next).unwrap_or(0);
        self.lineage.relays || self.lineage.limiters_from.is_some_and(|from| from <= next)
    }

    /// Nothing is counted: nobody has come from here.
    pub(super) fn forget_journal(&mut self) {
        self.open = false;
        self.offset = 0;
        self.db = None;
        self.drop_backlog();
    }

    /// Forgets that somebody wanted the state of rate limiters.
    pub(super) fn forget_limiters(&mut self) {
        self.lineage.limiters_from = None;
    }

    fn drop_backlog(&mut self) {
        let most = self.backlog.most;
        self.backlog = Backlog {
            most,
            ..Backlog::default()
        };
    }
}

impl Journal {
    /// From now on the journal has the state of rate limiters too.
    pub(super) fn want_limiters(&self, state: &mut State) {
        let next = state.offset + 1;
        state.lineage.limiters_from.get_or_insert(next);
        self.send_limiters();
    }

    /// What becomes of rate limiters is recorded.
    pub(super) fn send_limiters(&self) {
        self.role.limiters.store(true, Ordering::Relaxed);
    }

    /// Nobody can come back for them any more.
    pub(super) fn end_limiters(&self) {
        self.role.limiters.store(false, Ordering::Relaxed);
    }

    /// Whether replicas want the state of rate limiters.
    pub(super) fn wants_limiters(&self) -> bool {
        self.role.limiters.load(Ordering::Relaxed)
    }

    /// The role as it is while the guard lives.
    pub(super) fn hold_any_role(&self) -> RoleGuard<'_> {
        RoleGuard(self.role.state.read())
    }

    /// The right to apply what the master says; none when it is not followed any more.
    pub(crate) fn hold_role(&self, following: Following) -> Option<RoleGuard<'_>> {
        let guard = self.role.state.read();
        (guard.follows && guard.number == following.0).then_some(RoleGuard(guard))
    }

    /// Appends what was applied as it came; `db`: the database that is selected now.
    pub(crate) fn relay(&self, bytes: &[u8], db: DbIndex) {
        let mut state = self.lock();
        state.lineage.db = db;
        state.append(bytes);
    }
}

/// While it lives, the role stays what it is.
pub(crate) struct RoleGuard<'a>(
    #[allow(dead_code, reason = "held")] RwLockReadGuard<'a, RoleState>,
);

impl Engine {
    /// What clients may not do because of the server's role.
    #[inline]
    pub fn restrictions(&self) -> Restrictions {
        Restrictions::from_bits(self.journal.role.restrictions.load(Ordering::Relaxed))
    }

    /// Sets what clients of a replica may not do; whether it is one, and whether data are being loaded, is the engine's to
    /// say.
    pub fn restrict(&self, wanted: Restrictions) {
        let keep = Restrictions::LOADING
            .or(Restrictions::REPLICA)
            .or(Restrictions::UNSAVED)
            .or(Restrictions::CROWDED)
            .bits();
        let set = |bits: u8| Some(bits & keep | wanted.bits() & !keep);
        let bits = &self.journal.role.restrictions;
        bits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, set)
            .ok();
    }

    pub(crate) fn set_restriction(&self, which: Restrictions, on: bool) {
        let bits = &self.journal.role.restrictions;
        match on {
            true => bits.fetch_or(which.bits(), Ordering::Relaxed),
            false => bits.fetch_and(!which.bits(), Ordering::Relaxed),
        };
    }

    /// Whether clients may not write since the last snapshot could not be written.
    pub fn refuse_unsaved(&self, on: bool) {
        self.set_restriction(Restrictions::UNSAVED, on);
    }

    /// Refuses what needs the data while those of the start are being loaded.
    pub fn refuse_while_loading(&self, on: bool) {
        self.set_restriction(Restrictions::LOADING, on);
    }

    /// Whether the data of a master, or those of the start, are being loaded.
    pub fn is_loading(&self) -> bool {
        self.restrictions().contains(Restrictions::LOADING)
    }

    /// Makes this server a replica, or the replica of another master: from now on no key expires by itself, and only what
    /// [`crate::Applier::of_master`] is given changes the journal. Replicas of this server stay. `at`: only if the journal
    /// ends there, so that who has it up to there has everything.
    ///
    /// # Errors
    ///
    /// [`RoleError::Loading`], [`RoleError::Moved`].
    pub fn follow(&self, at: Option<u64>) -> Result<Following, RoleError> {
        let following = {
            let mut role = self.journal.role.state.write();
            if role.loading {
                return Err(RoleError::Loading);
            }
            let mut state = self.journal.lock();
            if at.is_some_and(|at| at != state.offset) {
                return Err(RoleError::Moved);
            }
            role.number += 1;
            role.follows = true;
            self.set_restriction(Restrictions::REPLICA, true);
            let lineage = &mut state.lineage;
            // Commands go on being recorded until the master goes on from here: one that comes too late shows.
            lineage.leaving |= !lineage.relays;
            lineage.relays = true;
            Following(role.number)
        };
        self.follow_role();
        Ok(following)
    }

    /// Makes this server a master, which goes on with the history that it has under the name `id`.
    ///
    /// # Errors
    ///
    /// [`RoleError::Loading`].
    pub fn stop_following(&self, id: &str, now: Timestamp) -> Result<Following, RoleError> {
        let following = {
            let mut role = self.journal.role.state.write();
            if role.loading {
                return Err(RoleError::Loading);
            }
            role.number += 1;
            if !std::mem::take(&mut role.follows) {
                return Ok(Following(role.number));
            }
            self.set_restriction(Restrictions::REPLICA, false);
            let mut state = self.journal.lock();
            state.rename(id);
            if state.lineage.strayed || state.lineage.lost {
                // Nobody may go on from what the data are not.
                state.lineage.forget();
            }
            state.lineage.relays = false;
            state.lineage.leaving = false;
            state.lineage.strayed = false;
            state.lineage.lost = false;
            // Whoever comes back has whatever database selected that the old master had.
            state.db = None;
            // Its replicas have what this server has been sent, and go on from there.
            state.lineage.limiters_from = Some(0);
            self.journal.send_limiters();
            state.alone_since_ms = Some(now.millis());
            Following(role.number)
        };
        self.follow_journal();
        self.follow_role();
        Ok(following)
    }

    /// Has each shard let keys expire, or not. Roles may change meanwhile: what each reads last is true.
    fn follow_role(&self) {
        self.for_each_cell(&mut |cell| cell.keep_expired(self.is_replica()));
    }

    /// Has commands recorded for replicas while the journal wants them. Whoever changes that at the same time comes here
    /// too, and the last one sees what is true.
    pub(super) fn follow_journal(&self) {
        loop {
            let wanted = self.journal.lock().wants_commands();
            if wanted == self.listeners.replicates() {
                return;
            }
            self.listen_for_journal(wanted);
        }
    }

    /// Decisions can be counted, as commands can write: not on a replica, whose data are its master's; not while fewer replicas follow
    /// than are asked for, because a failover would lose what is counted; and not where it would never be in the append-only file.
    ///
    /// # Errors
    ///
    /// Why not; [`Undecided::Kept`] while there is no room in the file yet.
    #[inline]
    pub(crate) fn may_count(&self) -> Result<(), Undecided> {
        if self.lacks_replicas.load(Ordering::Relaxed) {
            return Err(Undecided::TooFewReplicas);
        }
        if !self.is_own_to_change() {
            return Err(Undecided::OnReplica);
        }
        self.has_room_in_log()
    }

    /// Whether the service may change what is counted: not on a replica, where what comes back is not counted either.
    #[inline]
    pub(crate) fn is_own_to_change(&self) -> bool {
        !self.restrictions().contains(Restrictions::READ_ONLY)
    }

    /// Whether this server is a replica.
    pub fn is_replica(&self) -> bool {
        self.restrictions().contains(Restrictions::REPLICA)
    }

    /// Where this server could go on, if a master knows its history; `None` when its data are of none.
    pub fn place(&self) -> Option<Place> {
        let state = self.journal.lock();
        state.lineage.place_is_true().then(|| Place {
            id: state.id.clone(),
            offset: state.offset,
        })
    }

    /// Whether the data of a master were begun to be loaded and are not there: what there is is nothing to keep.
    pub fn has_lost_data(&self) -> bool {
        self.journal.lock().lineage.lost
    }

    /// The database that the master has selected.
    pub fn master_db(&self) -> DbIndex {
        self.journal.lock().lineage.db
    }

    /// The master goes on with the history that this server has, and calls it `id`, if that is said.
    ///
    /// # Errors
    ///
    /// [`RoleError::Over`].
    pub fn continue_history(
        &self,
        following: Following,
        id: Option<&str>,
    ) -> Result<(), RoleError> {
        let role = self.journal.hold_role(following).ok_or(RoleError::Over)?;
        {
            let mut state = self.journal.lock();
            if let Some(id) = id.filter(|id| !state.id.eq_ignore_ascii_case(id)) {
                state.rename(id);
            }
            state.open = true;
            state.lineage.leaving = false;
        }
        drop(role);
        self.follow_journal();
        Ok(())
    }

    /// Replaces all data by those of a master, which comprise the first `offset` bytes of the history `id`. Commands that
    /// need the data are refused meanwhile. Replicas of this server are disconnected.
    ///
    /// # Errors
    ///
    /// See [`AdoptError`].
    pub fn adopt(
        &self,
        following: Following,
        place: &Place,
        source: &mut dyn Read,
        now: Timestamp,
    ) -> Result<Loaded, AdoptError> {
        self.begin_loading(following)?;
        // What is given up need not be kept for it.
        self.stop_snapshot(Purpose::Save);
        self.empty(now);
        let loaded = self.load_base(source, now).map(|base| base.loaded);
        if loaded.is_err() {
            self.empty(now);
        }
        let mut role = self.journal.role.state.write();
        role.loading = false;
        if let Ok(loaded) = &loaded {
            let mut state = self.journal.lock();
            place.id.clone_into(&mut state.id);
            state.offset = place.offset;
            state.open = true;
            state.lineage.lost = false;
            state.lineage.leaving = false;
            state.lineage.strayed = false;
            state.lineage.forget();
            state.lineage.db = loaded.stream_db.unwrap_or_default();
        }
        drop(role);
        self.follow_journal();
        self.set_restriction(Restrictions::LOADING, false);
        loaded.map_err(AdoptError::Broken)
    }

    fn begin_loading(&self, following: Following) -> Result<(), AdoptError> {
        // Whoever runs a transaction is done with it.
        let gate = self.shards.lock_gate();
        let mut role = self.journal.role.state.write();
        if !role.follows || role.number != following.0 {
            return Err(AdoptError::Over);
        }
        role.loading = true;
        self.set_restriction(Restrictions::LOADING, true);
        let mut state = self.journal.lock();
        state.disconnect_all();
        state.drop_backlog();
        state.open = false;
        state.lineage.lost = true;
        drop((state, role, gate));
        Ok(())
    }

    /// Empties all databases, and forgets all libraries. Those who watch and track keys are told.
    fn empty(&self, now: Timestamp) {
        for index in 0..self.shards.count() {
            let mut cell = self.shards.lock(index);
            let mut held = One::new(index, &mut cell, &self.shards);
            self.visit(&mut held, index, true, now.millis(), &mut |shard| {
                for db in DbIndex::all() {
                    shard.clear(db);
                }
            });
            self.settle(&mut held, now);
        }
        self.announce_flushed();
        self.forget_functions();
    }
}
