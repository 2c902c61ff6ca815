//! What a command may see and change of the connection it came from.

use std::cell::Cell;
use std::sync::{Arc, LazyLock};

use tollgate_commands::acl::{DEFAULT_USER, User};
use tollgate_commands::{Args, CmdError, NodeCommand, Origin, Reply, Row};
use tollgate_keyspace::DbIndex;
use tollgate_limiter::Timestamp;
use tollgate_wire::resp::{Protocol, ReplyBuf};

use crate::transaction::Transaction;
use crate::waiter::{Mail, Waiter};
use crate::watch::Watches;
use crate::{ClientInfo, Engine, Tracker};

/// The record of one connection that commands read and change.
#[derive(Debug)]
pub struct Session {
    /// Number of the connection, unique in this process; CLIENT ID.
    pub id: u64,
    /// The selected database.
    pub db: DbIndex,
    /// The reply protocol chosen with HELLO.
    pub protocol: Protocol,
    /// False until AUTH or HELLO AUTH when the default user has a password.
    pub authenticated: bool,
    /// The user it has authenticated as.
    pub user: Arc<User>,
    /// The state of the rules under which `user` was found to be unrestricted; 0 when not found so.
    pub(crate) unrestricted_at: u64,
    /// The connection, for the log of refusals.
    pub client: Option<Arc<dyn ClientInfo>>,
    /// CLIENT SETNAME.
    pub name: Box<[u8]>,
    /// CLIENT SETINFO lib-name.
    pub lib_name: Box<[u8]>,
    /// CLIENT SETINFO lib-ver.
    pub lib_version: Box<[u8]>,
    /// CLIENT NO-EVICT.
    pub no_evict: bool,
    /// Subscriptions to channels, patterns and shard channels.
    pub subscriptions: usize,
    /// CLIENT TRACKING, while it is on.
    pub tracker: Option<Arc<Tracker>>,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// READONLY in a cluster; CLIENT LIST shows it.
    pub reads_replicas: bool,
    /// CLIENT CAPA redirect: it goes where a replica sends it.
    pub follows_redirects: bool,
    /// CLIENT REPLY.
    pub replies: Replies,
    /// MONITOR: the connection only watches and may not touch keys.
    pub monitors: bool,
    /// It is a replica's: it may not touch keys, and what its commands reply is not sent.
    pub follows: bool,
    /// The last command, for CLIENT LIST; none before the first, and where there was no such command.
    pub last: Option<&'static Row>,
    /// Takes the answer of a command that waits; without it no command of this connection waits.
    pub mail: Option<Arc<dyn Mail>>,
    /// Commands queued since MULTI.
    pub(crate) transaction: Option<Box<Transaction>>,
    pub(crate) watches: Watches,
    /// Nanoseconds of the command at hand, which has been run, while hot keys are tracked.
    pub(crate) spent: Cell<Option<u64>>,
    /// Memory was short when the command at hand began, and nothing could go.
    pub(crate) out_of_memory: bool,
    /// The command that waits.
    pub(crate) waiting: Option<Arc<Waiter>>,
    /// Commands that may be long are run elsewhere.
    pub(crate) may_move: bool,
    /// It belongs to a thread for long commands.
    pub(crate) is_worker: bool,
    /// Where its commands come from.
    pub(crate) origin: Origin,
}

/// The default user until its rules are looked up.
static EVERYBODY: LazyLock<Arc<User>> =
    LazyLock::new(|| Arc::new(User::unrestricted(DEFAULT_USER)));

/// Whether the connection is sent the replies of its commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replies {
    /// It is.
    On,
    /// It is not.
    Off,
    /// CLIENT REPLY SKIP is running: not that of the next command.
    SkipNext,
    /// Not that of this command.
    Skip,
}

impl Session {
    /// The connection is told what others do, as a monitor or a replica, and may not touch keys.
    #[inline]
    pub(crate) fn only_listens(&self) -> bool {
        self.monitors | self.follows
    }

    /// A fresh RESP2 connection on database 0 as the default user.
    pub fn new(id: u64, authenticated: bool) -> Session {
        Session {
            id,
            db: DbIndex::default(),
            protocol: Protocol::Resp2,
            authenticated,
            user: Arc::clone(&EVERYBODY),
            unrestricted_at: 0,
            client: None,
            name: Box::default(),
            lib_name: Box::default(),
            lib_version: Box::default(),
            no_evict: false,
            subscriptions: 0,
            tracker: None,
            no_touch: false,
            reads_replicas: false,
            follows_redirects: false,
            replies: Replies::On,
            monitors: false,
            follows: false,
            last: None,
            mail: None,
            transaction: None,
            watches: Watches::default(),
            spent: Cell::new(None),
            out_of_memory: false,
            waiting: None,
            may_move: false,
            is_worker: false,
            origin: Origin::Client,
        }
    }
}

/// What the connection does after the reply is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Read the next command.
    Continue,
    /// Nothing is replied yet: the command waits, until [`Session::deadline_ms`], for the answer that
    /// [`Session::mail`] will bring. No further command may be run before.
    Wait,
    /// Nothing was done: the command may be long, and is to be run with [`Session::for_worker`] on another thread, for
    /// the one reply of which the connection waits.
    Elsewhere,
    /// Nothing was done: a long command holds what this one needs. It is to be run again, before any other of the
    /// connection, when [`Mail::try_again`] says so; at once on a thread for long commands.
    TryAgain,
    /// Send what is in the output, then close (QUIT).
    Close,
}

/// Everything a node command works with.
pub struct NodeCx<'a> {
    /// The engine that runs the command.
    pub engine: &'a Engine,
    /// The row of the command; of the sub-command when it has one.
    pub row: &'static Row,
    /// The connection's record.
    pub session: &'a mut Session,
    /// The arguments; name (and sub-command name) are consumed.
    pub args: Args<'a>,
    /// Where replies larger than a [`Reply`] are written.
    pub out: &'a mut ReplyBuf,
    /// The time of the command.
    pub now: Timestamp,
    /// It runs in a transaction.
    pub in_transaction: bool,
    /// Set to [`Outcome::Close`] to end the connection after the reply.
    pub outcome: &'a mut Outcome,
}

/// Commands whose answer belongs to the process and its connections (CLIENT, CONFIG, INFO, SHUTDOWN, AUTH, HELLO,
/// ...). The server implements it; the engine has passed the gate before it calls.
pub trait Node {
    /// Runs one node command.
    fn run(&mut self, command: NodeCommand, cx: NodeCx<'_>) -> Result<Reply, CmdError>;

    /// Counts an error that a script or a transaction met and that is not the reply of a client; `line` is its text.
    fn count_error(&mut self, line: &[u8]) {
        let _ = line;
    }

    /// Where the connection comes from, as MONITOR shows it.
    fn source(&self) -> Vec<u8> {
        Vec::new()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A server that answers everything with `OK`.
    pub(crate) struct NoNode;

    impl Node for NoNode {
        fn run(&mut self, _: NodeCommand, _: NodeCx<'_>) -> Result<Reply, CmdError> {
            Ok(Reply::Ok)
        }
    }
}
