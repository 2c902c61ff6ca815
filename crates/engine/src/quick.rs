//! The short way of most commands: on one key, of a client that may do everything, while nothing else is going on.
//!
//! It leaves out questions whose answer is known, and never one whose answer may matter: what lies outside of the shard
//! is looked at for each command, and who listens to its changes once more under the lock.

use std::sync::atomic::Ordering;

use tollgate_commands::gate::{GateView, Restrictions};
use tollgate_commands::{CmdError, Cx, Effects, Flags, Handler, Origin, Reply, Row, Run, ShardSet};
use tollgate_keyspace::Key;
use tollgate_wire::resp::ReplyBuf;

use crate::cell::{Cell, One};
use crate::execute::Call;
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
        read_only_script: _,
        all_from_scripts: _,
        out_of_memory: _,
        log_error: _,
        lacks_replicas: _,
        restrictions: _,
        queued: _,
        busy: _,
    } = view;
};

impl Engine {
    /// The handler and key of a command that passes the gate and all that stands behind it without being asked anything:
    /// it is about one key, and neither the connection nor the server is in any state that could forbid it, put it off,
    /// queue it, run it elsewhere or show it to somebody.
    #[inline]
    pub(crate) fn passes<'a>(
        &self,
        plan: &Plan<'a>,
        row: &Row,
        session: &Session,
        words: usize,
    ) -> Option<(Handler, Key<'a>)> {
        let (Run::Keys(handler), Some(key)) = (row.run, plan.key) else {
            return None;
        };
        let fits = row.arity.accepts(words) && !row.flags.contains(Flags::BLOCKING);
        (fits && self.is_calm() && self.is_plain(session)).then_some((handler, key))
    }

    /// Nothing is going on in the server that a command would have to look at: neither for the gate nor behind it. What is
    /// asked there and may forbid a command on a key must be asked here. The append-only file listens, so whether it can
    /// be written is too.
    #[inline]
    fn is_calm(&self) -> bool {
        self.listeners.are_silent()
            && !self.pause.is_active()
            && !self.monitors.is_active()
            && !self.shards.are_kept()
            && !self.lacks_replicas.load(Ordering::Relaxed)
            && !self.cluster.asks_each()
            && self.restrictions() == Restrictions::NONE
            && self.scripts.long.busy().is_none()
    }

    /// The connection may do everything, and its commands are run as they come.
    #[inline]
    fn is_plain(&self, session: &Session) -> bool {
        self.access.is_unrestricted(session)
            && (session.authenticated || self.access.is_open())
            && session.subscriptions == 0
            && session.transaction.is_none()
            && !session.monitors
            && !session.is_worker
            && session.origin == Origin::Client
    }

    /// Whether nobody is to hear of what a command does to this cell, which is locked, and nothing of it is counted.
    #[inline]
    pub(crate) fn is_unheard(&self, cell: &Cell, call: &Call<'_>) -> bool {
        self.listeners.are_silent() && !cell.is_heard() && !call.no_touch
    }

    /// Runs a handler on the one cell of its key, which is locked and of which [`Engine::is_unheard`] holds.
    #[inline]
    pub(crate) fn run_alone(
        &self,
        handler: Handler,
        call: &Call<'_>,
        key: Key<'_>,
        index: usize,
        cell: &mut Cell,
        out: &mut ReplyBuf,
    ) -> Result<Reply, CmdError> {
        let mut effects = Effects::new();
        let mut cx = Cx {
            shards: ShardSet::one(index, cell, self.shards.count()),
            walk: &mut NoWalk,
            seed: &self.seed,
            db: call.db,
            now: call.now,
            out,
            effects: &mut effects,
            rng: &mut random(call.now),
            limits: &self.limits,
            origin: call.origin,
            may_block: false,
            replicas: 0,
            synced: None,
            retry_as: None,
        };
        let result = handler(&mut cx, call.cursor(&self.seed).with_keys(&[key]));
        self.count(&effects);
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
        key: Key<'_>,
        index: usize,
        cell: &mut Cell,
        out: &mut ReplyBuf,
    ) -> Result<Reply, CmdError> {
        let mut held = One::new(index, cell, &self.shards);
        let result = self.run_one(handler, call, &[key], &mut held, out);
        self.settle(&mut held, call.now);
        result
    }
}
