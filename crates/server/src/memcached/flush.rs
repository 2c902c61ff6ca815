//! `flush_all`, at once or later.

use super::{Count, Memcached, Ran, State};
use crate::conn::{Conn, RespDriver};
use crate::shared::Shared;
use std::sync::atomic::Ordering;
use tollgate_commands::{CmdError, NodeCommand, Reply};
use tollgate_engine::{Node, NodeCx, Session};
use tollgate_limiter::Timestamp;
use tollgate_wire::resp::{Protocol, ReplyBuf};

/// The command of Redis that does it: items live in one database.
const FLUSH: &[&[u8]] = &[b"FLUSHDB"];

/// Delays up to here count from now, larger ones are times; in seconds.
const RELATIVE_MAX_SECS: i64 = 60 * 60 * 24 * 30;

const NANOS: i64 = 1_000_000_000;

/// When it is tried again while a long command holds keys, or writes are paused, in nanoseconds.
const AGAIN: i64 = 10_000_000;

impl RespDriver {
    /// All items go, and `state.away` says how that is told. What was asked before to happen later does not happen any more.
    pub(super) fn flush_all(&mut self, conn: &mut Conn, state: &mut State, delay: i32) -> Ran {
        let delay = i64::from(delay);
        let at = match delay {
            ..=0 => self.now,
            1..=RELATIVE_MAX_SECS => self.now + delay * NANOS,
            _ => delay * NANOS,
        };
        if at > self.now {
            // Who may not do it now may not do it later either.
            let plan = self.shared.engine.plan(FLUSH);
            let (engine, now) = (&self.shared.engine, Timestamp::from_nanos(self.now));
            if let Err(error) = engine.may_run(&plan, &mut conn.session, FLUSH, now) {
                let mark = self.out.len();
                error.write(&mut self.out);
                self.acknowledge(mark, state.away);
                return Ran::Done;
            }
            self.counts().add(Count::CmdFlush);
            self.shared.memcached.flush_at.store(at, Ordering::Relaxed);
            self.acknowledge(self.out.len(), state.away);
            return Ran::Done;
        }
        let ran = self.run_words(conn, state, FLUSH);
        if !matches!(ran, Ran::PutOff) {
            self.counts().add(Count::CmdFlush);
            self.shared
                .memcached
                .flush_at
                .store(i64::MAX, Ordering::Relaxed);
        }
        ran
    }
}

impl Memcached {
    /// Does what was asked for this time. When it is to be called again, in clock nanoseconds.
    pub(crate) fn tend(&self, shared: &Shared, now: i64) -> Option<i64> {
        let at = self.flush_at.load(Ordering::Relaxed);
        if at == i64::MAX {
            return None;
        }
        if now < at {
            return Some(at);
        }
        if shared.engine.is_kept() || shared.engine.pause().is_active() {
            return Some(now + AGAIN);
        }
        let taken =
            self.flush_at
                .compare_exchange(at, i64::MAX, Ordering::Relaxed, Ordering::Relaxed);
        if taken.is_ok() {
            let mut out = ReplyBuf::new(Protocol::Resp2);
            let mut session = Session::new(0, true);
            let now = Timestamp::from_nanos(now);
            shared
                .engine
                .execute(&mut session, FLUSH, now, &mut out, &mut Nobody);
        }
        None
    }
}

/// FLUSHDB asks nothing of the server.
struct Nobody;

impl Node for Nobody {
    fn run(&mut self, _: NodeCommand, _: NodeCx<'_>) -> Result<Reply, CmdError> {
        Err(CmdError::Syntax)
    }
}
