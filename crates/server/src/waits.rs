//! The waiting commands of one thread: when they give up, and how they are answered.

use crate::client::{Client, Signal};
use crate::conn::Conn;
use crate::shared::Shared;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use tollgate_engine::Mail;
use tollgate_net::ConnRef;

/// Deadlines of the connections that wait for a limited time.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// By deadline, in clock nanoseconds, and client.
    due: BTreeMap<(i64, u64), ConnRef>,
}

impl Waits {
    fn key(conn: &Conn) -> Option<(i64, u64)> {
        let deadline = conn.session.deadline_ms()?;
        Some((deadline.saturating_mul(1_000_000), conn.session.id))
    }

    /// The connection's command goes on waiting, if its time is later than `now`: who is past it is being answered.
    pub(crate) fn go_on(&mut self, conn: &Conn, now: i64) {
        if Waits::key(conn).is_some_and(|(deadline, _)| deadline > now) {
            self.start(conn);
        }
    }

    /// The connection's command has begun to wait.
    pub(crate) fn start(&mut self, conn: &Conn) {
        if let Some(key) = Waits::key(conn) {
            self.due.insert(key, conn.client.at);
        }
    }

    /// The wait is over; called before the session forgets it.
    pub(crate) fn end(&mut self, conn: &Conn) {
        if let Some(key) = Waits::key(conn) {
            self.due.remove(&key);
        }
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<i64> {
        Some(self.due.first_key_value()?.0.0)
    }

    /// Takes one connection whose deadline has come.
    pub(crate) fn take(&mut self, now: i64) -> Option<ConnRef> {
        let due = self
            .due
            .first_entry()
            .filter(|entry| entry.key().0 <= now)?;
        Some(due.remove())
    }
}

/// Posts answers to one connection.
pub(crate) struct Post {
    pub(crate) shared: Weak<Shared>,
    pub(crate) client: Arc<Client>,
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Post").field(&self.client.at).finish()
    }
}

impl Mail for Post {
    fn answer(&self, reply: Vec<u8>) {
        if let Some(shared) = self.shared.upgrade() {
            shared
                .mailboxes
                .answer(self.client.at, Signal::Answer(reply));
        }
    }

    fn dismiss(&self, reply: Vec<u8>) {
        if let Some(shared) = self.shared.upgrade() {
            shared.mailboxes.answer(self.client.at, Signal::Last(reply));
        }
    }

    fn try_again(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.mailboxes.answer(self.client.at, Signal::TryAgain);
        }
    }

    fn is_gone(&self) -> bool {
        self.client.is_killed()
    }
}
