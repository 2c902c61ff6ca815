//! Applying what has been decided before: the commands of a master, or of an append-only file.
//!
//! A stream of commands is fed one by one. Each is one unit, and so is everything between MULTI and EXEC: the shards of all
//! its keys are locked together, so nobody sees a part of it. No check refuses what was accepted elsewhere (users, memory,
//! replicas, scripts that run too long, pauses), and while it runs no key expires by the clock of this server: it goes when
//! the stream says so. All else is as for the commands of clients: watched keys, tracking, notifications, those who wait
//! for a key, the journal.

use std::fmt;

use smallvec::SmallVec;
use tollgate_commands::{CmdError, Flags, Origin, Row, Run, TransactionCommand, gate};
use tollgate_keyspace::DbIndex;
use tollgate_limiter::Timestamp;
use tollgate_wire::resp::{Protocol, ReplyBuf};

use crate::journal::{Following, RoleGuard};
use crate::transaction::{Command, QUEUED_BYTES_MAX, Transaction};
use crate::{Engine, Node, Outcome, Session};

/// Capacity for replies, which nobody reads, that is kept from one unit to the next.
const REPLIES_KEPT: usize = 64 * 1024;

/// Most bytes of one unit: what a transaction of a client may hold, and a command of that length at its end.
const UNIT_BYTES_MAX: usize = 2 * QUEUED_BYTES_MAX;

/// Bytes of a command's name that an error repeats.
const NAME_MAX: usize = 64;

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It took effect, with all that was waiting for it.
    Whole,
    /// It waits for EXEC.
    Open,
    /// It did nothing: the master is not followed any more.
    Over,
}

/// A command that could not be applied as it was where it comes from. Those of its unit that could have taken effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyError {
    /// The first words of the command, cut off.
    pub command: String,
    /// The reply that a client would have got: a line without the `-`.
    pub reply: String,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' was answered by '{}'", self.command, self.reply)
    }
}

impl std::error::Error for ApplyError {}

impl ApplyError {
    fn new(words: &[&[u8]], line: &[u8]) -> ApplyError {
        let name = words.first().copied().unwrap_or_default();
        let name = &name[..name.len().min(NAME_MAX)];
        ApplyError {
            command: String::from_utf8_lossy(name).into_owned(),
            reply: String::from_utf8_lossy(line).into_owned(),
        }
    }

    fn of(words: &[&[u8]], error: &CmdError) -> ApplyError {
        ApplyError::new(words, &error.to_line())
    }
}

/// The state of a stream of commands: the selected database, and the transaction that has begun.
#[derive(Debug)]
pub struct Applier {
    session: Session,
    /// Replies, which are looked at for errors only.
    replies: ReplyBuf,
    open: Option<Transaction>,
    /// The time of being a replica to which the stream belongs.
    following: Option<Following>,
    /// The bytes of the unit at hand as they came from the master.
    unit: Vec<u8>,
}

impl Applier {
    /// A stream at its beginning: database 0 is selected. `client`: the number under which those who track keys know it; 0
    /// = nobody's.
    pub fn new(origin: Origin, client: u64) -> Applier {
        let mut session = Session::new(client, true);
        session.origin = origin;
        // Commands that may be long are told from others; they run here all the same.
        session.allow_moves();
        Applier {
            session,
            replies: ReplyBuf::new(Protocol::Resp2),
            open: None,
            following: None,
            unit: Vec::new(),
        }
    }

    /// The stream of a master, which goes on with `db` selected: what is applied is passed on as it came.
    pub fn of_master(following: Following, client: u64, db: DbIndex) -> Applier {
        let mut applier = Applier::new(Origin::Replica, client);
        applier.following = Some(following);
        applier.session.db = db;
        applier
    }

    /// Says how the command came that is applied next, or passed over by [`Applier::pass`]. False, and nothing is noted, when
    /// the transaction at hand is longer than any may be: then the stream cannot go on.
    #[must_use]
    pub fn came_as(&mut self, bytes: &[u8]) -> bool {
        let fits = self.unit.len() + bytes.len() <= UNIT_BYTES_MAX;
        if fits {
            self.unit.extend_from_slice(bytes);
        }
        fits
    }

    /// Passes on what has no effect here, such as signs of life.
    pub fn pass(&mut self, engine: &Engine) -> Applied {
        if self.open.is_some() {
            return Applied::Open;
        }
        let Some(_role) = self.hold_role(engine) else {
            return Applied::Over;
        };
        self.relay(engine);
        Applied::Whole
    }

    fn hold_role<'e>(&self, engine: &'e Engine) -> Option<Option<RoleGuard<'e>>> {
        match self.following {
            Some(following) => engine.journal.hold_role(following).map(Some),
            None => Some(None),
        }
    }

    /// Appends the unit to the journal as it came.
    fn relay(&mut self, engine: &Engine) {
        if self.following.is_some() && !self.unit.is_empty() {
            engine.journal.relay(&self.unit, self.session.db);
        }
        self.unit.clear();
        self.unit.shrink_to(REPLIES_KEPT);
    }

    /// The selected database.
    pub fn db(&self) -> DbIndex {
        self.session.db
    }

    /// Selects a database, as the command does.
    pub fn select(&mut self, db: DbIndex) {
        self.session.db = db;
    }

    /// The record of the stream, as connections have one.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Whether a transaction has begun and not ended.
    pub fn in_transaction(&self) -> bool {
        self.open.is_some()
    }

    /// Applies one command: its name and arguments. Inside a transaction it waits for EXEC. `node` answers the commands of
    /// the server, such as SELECT and FUNCTION.
    ///
    /// # Errors
    ///
    /// There is no such command, or it fails here. After an error the stream may go on: what else the unit had to do is
    /// done.
    pub fn apply(
        &mut self,
        engine: &Engine,
        words: &[&[u8]],
        now: Timestamp,
        node: &mut dyn Node,
    ) -> Result<Applied, ApplyError> {
        let found = engine
            .resolve_any(words)
            .map_err(|error| ApplyError::of(words, &error));
        let row = match found.and_then(|row| self.check(row, words).map(|()| row)) {
            Ok(row) => row,
            Err(error) => {
                return match self.pass(engine) {
                    Applied::Over => Ok(Applied::Over),
                    _ => Err(error),
                };
            }
        };
        if let Run::Transaction(command) = row.run {
            return self.apply_bracket(engine, command, words, now, node);
        }
        if let Some(open) = &mut self.open {
            return match open.push(row, row.flags, words) {
                Ok(()) => Ok(Applied::Open),
                Err(error) => Err(ApplyError::of(words, &error)),
            };
        }
        let words = SmallVec::from_slice(words);
        self.run(engine, &[(row, words)], now, node)
    }

    /// What remains to be checked of a command that was accepted elsewhere: that it is one.
    fn check(&self, row: &'static Row, words: &[&[u8]]) -> Result<(), ApplyError> {
        let view = gate::GateView {
            origin: self.session.origin,
            ..gate::GateView::open()
        };
        gate::check(row, words, &view).map_err(|error| ApplyError::of(words, &error))
    }

    fn apply_bracket(
        &mut self,
        engine: &Engine,
        command: TransactionCommand,
        words: &[&[u8]],
        now: Timestamp,
        node: &mut dyn Node,
    ) -> Result<Applied, ApplyError> {
        let result = self.bracket(engine, command, words, now, node);
        match result {
            // The others are a unit of their own, which does nothing.
            Ok(Applied::Whole) | Err(_) if !self.unit.is_empty() => match self.pass(engine) {
                Applied::Over => Ok(Applied::Over),
                _ => result,
            },
            result => result,
        }
    }

    fn bracket(
        &mut self,
        engine: &Engine,
        command: TransactionCommand,
        words: &[&[u8]],
        now: Timestamp,
        node: &mut dyn Node,
    ) -> Result<Applied, ApplyError> {
        match (command, self.open.take()) {
            (TransactionCommand::Multi, None) => {
                self.open = Some(Transaction::default());
                Ok(Applied::Open)
            }
            (TransactionCommand::Multi, open) => {
                self.open = open;
                Err(ApplyError::of(words, &CmdError::NestedMulti))
            }
            (TransactionCommand::Exec, Some(open)) => self.run(engine, &open.commands(), now, node),
            (TransactionCommand::Exec, None) => {
                Err(ApplyError::of(words, &CmdError::ExecWithoutMulti))
            }
            (TransactionCommand::Discard, Some(_)) => Ok(Applied::Whole),
            (TransactionCommand::Discard, None) => {
                Err(ApplyError::of(words, &CmdError::DiscardWithoutMulti))
            }
            // They are a client's own affair.
            (TransactionCommand::Watch | TransactionCommand::Unwatch, open) => {
                self.open = open;
                Ok(Applied::Whole)
            }
        }
    }

    /// Runs one unit. The first error is told.
    fn run(
        &mut self,
        engine: &Engine,
        commands: &[Command<'_>],
        now: Timestamp,
        node: &mut dyn Node,
    ) -> Result<Applied, ApplyError> {
        let mut first_error = None;
        // Before anything is locked, since it looks at sizes.
        self.session.is_worker = engine.is_unit_long(&self.session, commands, now);
        {
            let Some(mut held) = engine.lock_transaction(&self.session, commands) else {
                unreachable!("only what connections of clients ask for is put off");
            };
            let Some(_role) = self.hold_role(engine) else {
                return Ok(Applied::Over);
            };
            let session = &mut self.session;
            for (row, words) in commands {
                self.replies.clear();
                let out = &mut self.replies;
                let outcome = &mut Outcome::Continue;
                engine.run_queued(row, words, session, now, &mut held, out, node, outcome);
                if let Some(line) = error_line(self.replies.bytes())
                    && first_error.is_none()
                {
                    first_error = Some(ApplyError::new(words, line));
                }
            }
            self.relay(engine);
            engine.settle(&mut held, now);
        }
        if engine.listeners.has_put_off() {
            engine.serve_later(now);
        }
        if self.replies.len() > REPLIES_KEPT {
            self.replies = ReplyBuf::new(Protocol::Resp2);
        }
        first_error.map_or(Ok(Applied::Whole), Err)
    }
}

/// The text of a reply that is an error.
fn error_line(reply: &[u8]) -> Option<&[u8]> {
    let line = reply.strip_prefix(b"-")?;
    let end = line.iter().position(|&byte| byte == b'\r');
    Some(&line[..end.unwrap_or(line.len())])
}

impl Engine {
    /// Whether a unit holds what it locks for so long that threads which serve connections are not to wait for it.
    fn is_unit_long(&self, session: &Session, commands: &[Command<'_>], now: Timestamp) -> bool {
        commands.len() > UNIT_MAX
            || commands.iter().any(|(row, words)| {
                matches!(row.run, Run::Script(_))
                    || row.flags.contains(Flags::BULKY)
                        && self.is_elsewhere(row, session, words, now)
                    || matches!(row.run, Run::Keyspace(_))
                        && self.is_elsewhere(row, session, words, now)
            })
    }
}

/// Commands of a unit that threads which serve connections wait for.
const UNIT_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EngineConfig, NodeCx};
    use tollgate_commands::{NodeCommand, Reply};

    /// Knows SELECT, as every server does.
    struct Selects;

    impl Node for Selects {
        fn run(&mut self, command: NodeCommand, mut cx: NodeCx<'_>) -> Result<Reply, CmdError> {
            assert_eq!(command, NodeCommand::Select);
            cx.session.db = cx.args.any_database()?;
            Ok(Reply::Ok)
        }
    }

    struct Bed {
        engine: std::sync::Arc<Engine>,
        applier: Applier,
        client: Session,
        now: Timestamp,
    }

    impl Bed {
        fn new(origin: Origin) -> Bed {
            Bed {
                engine: Engine::new(EngineConfig {
                    shards: 4,
                    ..EngineConfig::default()
                }),
                applier: Applier::new(origin, 0),
                client: Session::new(1, true),
                now: Timestamp::from_millis(1_000_000),
            }
        }

        fn apply(&mut self, line: &str) -> Result<Applied, ApplyError> {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            self.applier
                .apply(&self.engine, &words, self.now, &mut Selects)
        }

        fn ask(&mut self, line: &str) -> String {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let mut out = ReplyBuf::new(Protocol::Resp2);
            self.engine
                .execute(&mut self.client, &words, self.now, &mut out, &mut Selects);
            String::from_utf8_lossy(out.bytes()).replace("\r\n", " ")
        }
    }

    #[test]
    fn commands_go_to_the_selected_database() {
        let mut bed = Bed::new(Origin::Replica);
        assert_eq!(bed.apply("SET a 1"), Ok(Applied::Whole));
        assert_eq!(bed.apply("SELECT 3"), Ok(Applied::Whole));
        assert_eq!(bed.apply("SET b 2"), Ok(Applied::Whole));
        assert_eq!(bed.applier.db().get(), 3);
        assert_eq!(bed.ask("GET a"), "$1 1 ");
        assert_eq!(bed.ask("GET b"), "$-1 ");
        bed.ask("SELECT 3");
        assert_eq!(bed.ask("GET b"), "$1 2 ");
    }

    #[test]
    fn a_transaction_takes_effect_with_exec_and_selects_inside() {
        let mut bed = Bed::new(Origin::Replica);
        for line in ["MULTI", "SET a 1", "SELECT 1", "SET b 2"] {
            assert_eq!(bed.apply(line), Ok(Applied::Open));
        }
        assert!(bed.applier.in_transaction());
        assert_eq!(bed.ask("GET a"), "$-1 ");
        assert_eq!(bed.apply("EXEC"), Ok(Applied::Whole));
        assert_eq!(bed.ask("GET a"), "$1 1 ");
        assert_eq!(bed.applier.db().get(), 1);
        assert!(bed.apply("EXEC").is_err());
        assert_eq!(bed.apply("MULTI"), Ok(Applied::Open));
        assert!(bed.apply("MULTI").is_err());
        assert_eq!(bed.apply("SET a 2"), Ok(Applied::Open));
        assert_eq!(bed.apply("DISCARD"), Ok(Applied::Whole));
        assert_eq!(bed.ask("GET a"), "$1 1 ");
    }

    #[test]
    fn errors_are_told_and_the_rest_is_done() {
        let mut bed = Bed::new(Origin::Replay);
        let unknown = bed.apply("NOSUCH a").expect_err("there is none");
        assert_eq!(unknown.command, "NOSUCH");
        assert!(bed.apply("GET").is_err());
        bed.apply("SET text x").expect("it can be set");
        let error = bed.apply("LPUSH text 1").expect_err("it is no list");
        assert!(error.reply.starts_with("WRONGTYPE"), "{error}");
        for line in ["MULTI", "SET a 1", "LPUSH text 1", "SET b 1"] {
            bed.apply(line).expect("it waits");
        }
        assert_eq!(bed.apply("EXEC").expect_err("one fails").command, "LPUSH");
        assert_eq!(bed.ask("MGET a b"), "*2 $1 1 $1 1 ");
    }

    #[test]
    fn nothing_expires_by_the_clock_while_it_is_applied() {
        for origin in [Origin::Replica, Origin::Replay] {
            let mut bed = Bed::new(origin);
            bed.apply("SET a 1 PXAT 5").expect("it can be set");
            bed.apply("INCR a").expect("it is still there");
            bed.apply("RPUSH list 1 2").expect("it can be made");
            bed.apply("PEXPIREAT list 5").expect("it stays");
            bed.apply("RPUSHX list 3").expect("it is still there");
            bed.apply("HSET hash f 1 g 1").expect("it can be made");
            bed.apply("HPEXPIREAT hash 5 FIELDS 1 f")
                .expect("the field stays");
            bed.apply("HINCRBY hash f 1").expect("it is still there");
            let len = |bed: &Bed| bed.engine.database_sizes()[0].keys;
            assert_eq!(len(&bed), 3);
            let seen = |bed: &Bed, key: &[u8]| {
                let found = |entry: tollgate_keyspace::EntryRef<'_>| entry.expires_at_ms();
                bed.engine.with_entry(DbIndex::ZERO, key, 0, found)
            };
            assert_eq!(seen(&bed, b"a"), Some(Some(5)));
            assert_eq!(seen(&bed, b"list"), Some(Some(5)));
            // Those who ask do not find them.
            assert_eq!(bed.ask("EXISTS a list hash"), ":1 ");
            assert_eq!(bed.ask("HGETALL hash"), "*2 $1 g $1 1 ");
        }
    }

    #[test]
    fn effects_reach_those_who_watch() {
        let mut bed = Bed::new(Origin::Replica);
        bed.ask("WATCH a");
        bed.apply("SET a 1").expect("it can be set");
        bed.ask("MULTI");
        bed.ask("SET b 1");
        assert_eq!(bed.ask("EXEC"), "*-1 ");
    }

    #[test]
    fn lack_of_memory_refuses_nothing() {
        let mut bed = Bed::new(Origin::Replica);
        bed.engine.set_limit("maxmemory", 1);
        bed.engine.follow_memory_limits();
        assert!(bed.ask("SET a 1").starts_with("-OOM"));
        assert_eq!(bed.apply("SET a 1"), Ok(Applied::Whole));
    }
}
