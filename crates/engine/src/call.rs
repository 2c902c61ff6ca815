//! One call of a command: what a handler needs beside its shards.

use std::cell::Cell;
use std::sync::Arc;

use tollgate_commands::{Args, Origin, Row};
use tollgate_keyspace::{DbIndex, Seed};
use tollgate_limiter::Timestamp;

use crate::Session;
use crate::access::Caller;

/// What is done with a command that may be long.
#[derive(Clone, Copy)]
pub(crate) enum Long<'a> {
    /// It runs on this thread.
    Here,
    /// It runs on this thread, which is there for such commands; what it locks is marked.
    Worker,
    /// It is not run, and the mark is set.
    Elsewhere(&'a Cell<bool>),
}

impl Long<'_> {
    /// Whether the command is to run elsewhere; then the mark is set.
    pub(crate) fn moves(self) -> bool {
        let Long::Elsewhere(mark) = self else {
            return false;
        };
        mark.set(true);
        true
    }
}

/// What a handler needs beside its shards.
pub(crate) struct Call<'a> {
    pub(crate) row: &'static Row,
    pub(crate) args: &'a [&'a [u8]],
    pub(crate) db: DbIndex,
    pub(crate) now: Timestamp,
    pub(crate) origin: Origin,
    /// The command may wait for its keys.
    pub(crate) may_block: bool,
    /// Number of the connection that asks.
    pub(crate) client: u64,
    pub(crate) long: Long<'a>,
    /// What it looks at does not count as used.
    pub(crate) no_touch: bool,
    /// Whose user must be asked before anything the command calls; none when it may do everything.
    pub(crate) caller: Option<Arc<Caller>>,
    /// Memory is short and nothing may go.
    pub(crate) out_of_memory: bool,
}

impl<'a> Call<'a> {
    /// A call of a client.
    #[inline]
    pub(crate) fn of_client(
        row: &'static Row,
        args: &'a [&'a [u8]],
        session: &Session,
        now: Timestamp,
    ) -> Call<'a> {
        Call {
            row,
            args,
            db: session.db,
            now,
            origin: Origin::Client,
            may_block: false,
            client: session.id,
            long: if session.is_worker {
                Long::Worker
            } else {
                Long::Here
            },
            caller: None,
            out_of_memory: session.out_of_memory,
            no_touch: session.no_touch && row.name != "TOUCH",
        }
    }

    /// The arguments behind the command's name.
    pub(crate) fn cursor(&self, seed: &'a Seed) -> Args<'a> {
        Args::new(self.args, self.row.name_words(), seed)
    }
}
