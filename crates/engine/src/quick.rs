//! The short way of most commands: on one key, of a client that may do everything, while nothing else is going on.
//!
//! It leaves out questions whose answer is known, and never one whose answer may matter: what lies outside of the shard
//! is looked at for each command, and who listens to its changes once more under the lock.

use std::sync::atomic::Ordering;

use tollgate_commands::gate::{GateView, Restrictions};
use tollgate_commands::{CmdError, Cx, Effects, Flags, Handler, Origin, Reply, Row, Run, ShardSet};
use tollgate_keyspace::Key;
use tollgate_wire::resp::ReplyBuf;

use crate::call::Call;
use crate::cell::{Cell, One};
use crate::journal::is_recorded_as_it_is;
use crate::walk::{NoWalk, random};
use crate::{Engine, Plan, Session};

/// All that the gate asks. A new question does not compile until it stands here; [`Engine::is_calm`] or
/// [`Engine::is_plain`] must know the answer to it.
const _: fn(&GateView<'_>) = |view| {
    let GateView {
        authenticated: _,
        origin: _,
        permit: _,
        slots: _,
        redirect: _,
        read_only_script: _,
        script_wrote: _,
        all_from_scripts: _,
        out_of_memory: _,
        log_error: _,
        lacks_replicas: _,
        restrictions: _,
        flags: _,
        queued: _,
        in_transaction: _,
        busy: _,
    } = view;
};

impl Engine {
    /// The handler and key of a command that passes the gate and all that stands behind it without being asked anything:
    /// it is about one key, and neither the connection nor the server is in any state that could forbid it, put it off,
    /// queue it, run it elsewhere or show it to somebody.
    #[inline]
    pub(crate) fn passes<'p, 'a>(
        &self,
        plan: &'p Plan<'a>,
        row: &Row,
        session: &Session,
        words: usize,
    ) -> Option<(Handler, &'p Key<'a>)> {
        let (Run::Keys(handler), Some(key)) = (row.run, &plan.key) else {
            return None;
        };
        let fits = row.arity.accepts(words) && !row.flags.contains(Flags::BLOCKING);
        (fits && self.is_calm() && self.is_plain(session)).then_some((handler, key))
    }

    /// Nothing is going on in the server that a command would have to look at: neither for the gate nor behind it. What is
    /// asked there and may forbid a command on a key must be asked here.
    #[inline]
    fn is_calm(&self) -> bool {
        (self.listeners.are_silent() || self.may_be_heard())
            && !self.pause.is_active()
            && !self.monitors.is_active()
            && !self.shards.are_kept()
            && !self.lacks_replicas.load(Ordering::Relaxed)
            && !self.cluster.asks_each()
            && self.restrictions() == Restrictions::NONE
            && self.scripts.long.busy().is_none()
    }

    /// Those who listen have nothing against any command: memory is not short, and the append-only file can be written.
    fn may_be_heard(&self) -> bool {
        if self.listeners.tracking() {
            self.tracking.trim();
        }
        let short = self.listeners.limits_memory() && self.exceeds();
        let lost = self.listeners.logs() && self.journal.log.has_failed();
        !short && !lost && !self.listeners.has_put_off()
    }

    /// The connection may do everything, and its commands are run as they come.
    #[inline]
    fn is_plain(&self, session: &Session) -> bool {
        self.access.is_unrestricted(session)
            && (session.authenticated || self.access.is_open())
            && session.subscriptions == 0
            && session.transaction.is_none()
            && !session.only_listens()
            && !session.is_worker
            && session.origin == Origin::Client
    }

    /// Whether nobody is to hear of what a command does to this cell, which is locked.
    #[inline]
    pub(crate) fn is_unheard(&self, cell: &Cell, call: &Call<'_>) -> bool {
        !self.listeners.any() && !cell.is_heard() && !call.no_touch
    }

    /// Whether those who are to hear of what a command does to this cell, which is locked, are the replicas and the
    /// append-only file alone, and need nothing but its words.
    #[inline]
    pub(crate) fn is_only_recorded(&self, cell: &Cell, call: &Call<'_>) -> bool {
        self.listeners.only_records()
            && !cell.is_heard()
            && !call.no_touch
            && is_recorded_as_it_is(call.row, call.args.len())
    }

    /// Runs a handler on the one cell of its key, of which [`Engine::is_only_recorded`] holds.
    #[inline(never)]
    pub(crate) fn run_recorded(
        &self,
        handler: Handler,
        call: &Call<'_>,
        key: &Key<'_>,
        index: usize,
        cell: &mut Cell,
        out: &mut ReplyBuf,
    ) -> Result<Reply, CmdError> {
        let mut effects = Effects::new();
        let result = self.run_alone(handler, call, key, index, cell, &mut effects, out);
        if cell.has_expired() {
            // Nobody waits for a key of this cell.
            self.announce_expired(index, cell, &mut Vec::new());
        }
        if effects.dirty() > 0 && result.is_ok() {
            self.record_gone_fields(&effects);
            self.record_as_it_is(call);
        }
        self.conclude();
        result
    }

    /// Runs a handler on the one cell of its key, which is locked and of which [`Engine::is_unheard`] holds.
    // Always inlined: the result is used where it lies.
    #[inline(always)]
    #[allow(
        clippy::too_many_arguments,
        reason = "all that the short way has at hand"
    )]
    pub(crate) fn run_alone(
        &self,
        handler: Handler,
        call: &Call<'_>,
        key: &Key<'_>,
        index: usize,
        cell: &mut Cell,
        effects: &mut Effects,
        out: &mut ReplyBuf,
    ) -> Result<Reply, CmdError> {
        let before = cell.version();
        let mut cx = Cx {
            shards: ShardSet::one(index, cell, self.shards.count()),
            walk: &mut NoWalk,
            seed: &self.seed,
            db: call.db,
            now: call.now,
            out,
            effects: &mut *effects,
            rng: &mut random(call.now),
            limits: &self.limits,
            origin: call.origin,
            may_block: false,
            replicas: 0,
            synced: None,
            retry_as: None,
        };
        let result = handler(
            &mut cx,
            call.cursor(&self.seed).with_keys(std::slice::from_ref(key)),
        );
        self.count(effects);
        if self.listeners.limits_memory() && cell.version() != before {
            self.count_memory(cell);
        }
        if effects.has_discarded() {
            self.garbage.add(effects.take_discarded());
        }
        result
    }

    /// Runs a handler on the one cell of its key, of which somebody may want to hear.
    #[cold]
    pub(crate) fn run_heard(
        &self,
        handler: Handler,
        call: &Call<'_>,
        key: &Key<'_>,
        index: usize,
        cell: &mut Cell,
        out: &mut ReplyBuf,
    ) -> Result<Reply, CmdError> {
        let mut held = One::new(index, cell, &self.shards);
        let result = self.run_one(handler, call, std::slice::from_ref(key), &mut held, out);
        self.settle(&mut held, call.now);
        result
    }
}
