//! MULTI, EXEC and DISCARD.
//!
//! Queued commands have passed the same checks as others. EXEC locks the shards of all their keys, and of all watched
//! keys, by the lock rule, and runs them one after the other. If one of them may touch other shards (it walks the keyspace,
//! is a script, belongs to the server, or names keys in its data) the gate is entered, and shards are added as they come.

use smallvec::SmallVec;
use tollgate_commands::{
    CmdError, Flags, NodeCommand, Reply, Row, Run, TransactionCommand, gate, uses_hidden_keys,
};
use tollgate_limiter::Timestamp;
use tollgate_net::clock::Clock;
use tollgate_wire::resp::{Protocol, ReplyBuf, request_len};

use crate::access::UserPermit;
use crate::call::{Call, Long};
use crate::elsewhere::{looks_at_all, runs_script};
use crate::execute::{changes_functions, elapsed, fail, pong, write_result};
use crate::held::while_held;
use crate::keys::ShardList;
use crate::script::{Around, Host};
use crate::shards::LockSet;
use crate::walk::{LockedWalk, NoWalk};
use crate::{Engine, Node, NodeCx, Outcome, Session};

/// Bytes that the queued commands of one connection may hold: as much as one command may (`client-query-buffer-limit`).
pub(crate) const QUEUED_BYTES_MAX: usize = 1 << 30;

/// A command that waits for EXEC.
#[derive(Debug)]
struct Queued {
    row: &'static Row,
    /// The words, one after the other.
    bytes: Box<[u8]>,
    /// Where each word ends.
    ends: Box<[usize]>,
}

impl Queued {
    fn new(row: &'static Row, args: &[&[u8]]) -> Queued {
        let mut end = 0;
        let ends = args.iter().map(|word| {
            end += word.len();
            end
        });
        Queued {
            row,
            ends: ends.collect(),
            bytes: args.concat().into_boxed_slice(),
        }
    }

    fn words(&self) -> SmallVec<[&[u8]; 8]> {
        let mut start = 0;
        let word = |&end: &usize| &self.bytes[std::mem::replace(&mut start, end)..end];
        self.ends.iter().map(word).collect()
    }

    fn memory(&self) -> usize {
        size_of::<Queued>() + self.bytes.len() + self.ends.len() * size_of::<usize>()
    }
}

/// Whether a queued command may touch shards of which its words do not tell.
fn needs_gate(row: &Row, words: &[&[u8]]) -> bool {
    match row.run {
        Run::Keys(_) => uses_hidden_keys(row, words),
        Run::Keyspace(_) | Run::Script(_) | Run::Node(_) => true,
        Run::Local(_) | Run::Wait(_) | Run::PubSub(_) | Run::Transaction(_) | Run::Container => {
            false
        }
    }
}

/// The row and the words of a queued command.
pub(crate) type Command<'a> = (&'static Row, SmallVec<[&'a [u8]; 8]>);

/// What a connection has queued since MULTI.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    queued: Vec<Queued>,
    bytes: usize,
    /// A command was refused: EXEC will refuse the whole.
    aborted: bool,
    /// Commands that were queued before.
    dropped: usize,
    /// The flags that any of the calls has, and those that all have, as they were when they were queued; also of those that
    /// were dropped.
    flags: Option<(Flags, Flags)>,
}

impl Transaction {
    /// Queues a command that has these flags.
    ///
    /// # Errors
    ///
    /// There are too many bytes in the queue already.
    pub(crate) fn push(
        &mut self,
        row: &'static Row,
        flags: Flags,
        args: &[&[u8]],
    ) -> Result<(), CmdError> {
        let queued = Queued::new(row, args);
        if self.bytes + queued.memory() > QUEUED_BYTES_MAX {
            return Err(CmdError::TransactionTooLarge);
        }
        self.bytes += queued.memory();
        self.queued.push(queued);
        let (any, all) = self.flags.unwrap_or((flags, flags));
        self.flags = Some((any.or(flags), all.and(flags)));
        Ok(())
    }

    /// Whether something in it needs the connection it came from.
    fn stays(&self) -> bool {
        let here =
            |one: &Queued| matches!(one.row.run, Run::Node(it) if it != NodeCommand::Migrate);
        self.queued.iter().any(here)
    }

    /// What is queued.
    pub(crate) fn commands(&self) -> Vec<Command<'_>> {
        self.queued
            .iter()
            .map(|queued| (queued.row, queued.words()))
            .collect()
    }
}

impl Session {
    /// Commands queued since MULTI; `None` outside of a transaction.
    pub fn queued(&self) -> Option<usize> {
        let transaction = self.transaction.as_ref()?;
        Some(transaction.dropped + transaction.queued.len())
    }

    /// Bytes that queued commands hold.
    pub fn queued_bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, |queue| queue.bytes)
    }

    /// A command was refused; the transaction, if there is one, cannot run any more.
    #[inline]
    pub(crate) fn abort(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.aborted = true;
            transaction.dropped += transaction.queued.len();
            transaction.queued = Vec::new();
            transaction.bytes = 0;
        }
    }

    /// The flags that any call has that was queued, and those that all have; `None` when none was.
    pub(crate) fn queued_flags(&self) -> Option<(Flags, Flags)> {
        self.transaction.as_ref()?.flags
    }
}

/// Commands that run at once, also in a transaction.
fn is_immediate(row: &Row) -> bool {
    match row.run {
        Run::Transaction(command) => command != TransactionCommand::Unwatch,
        _ => matches!(row.name, "QUIT" | "RESET"),
    }
}

impl Engine {
    /// Queues a command of a connection that is in a transaction. `None`: it is one that runs at once.
    pub(crate) fn queue(
        &self,
        row: &'static Row,
        session: &mut Session,
        args: &[&[u8]],
    ) -> Option<Result<Reply, CmdError>> {
        if is_immediate(row) {
            return None;
        }
        let transaction = session.transaction.as_mut()?;
        if !transaction.aborted
            && let Err(error) = transaction.push(row, self.flags_of(row, args), args)
        {
            session.abort();
            return Some(Err(error));
        }
        Some(Ok(Reply::Simple("QUEUED")))
    }

    /// Runs one of the commands about transactions.
    pub(crate) fn run_transaction(
        &self,
        command: TransactionCommand,
        session: &mut Session,
        call: &Call<'_>,
        out: &mut ReplyBuf,
        node: &mut dyn Node,
        outcome: &mut Outcome,
    ) -> Result<Reply, CmdError> {
        match command {
            TransactionCommand::Multi if session.transaction.is_some() => {
                Err(CmdError::NestedMulti)
            }
            TransactionCommand::Multi => {
                session.transaction = Some(Box::default());
                Ok(Reply::Ok)
            }
            TransactionCommand::Discard => {
                session
                    .transaction
                    .take()
                    .ok_or(CmdError::DiscardWithoutMulti)?;
                self.unwatch(session);
                Ok(Reply::Ok)
            }
            TransactionCommand::Watch if session.transaction.is_some() => {
                Err(CmdError::WatchInMulti)
            }
            TransactionCommand::Watch => Ok(self.watch(session, call)?.unwrap_or_else(|| {
                *outcome = Outcome::TryAgain;
                Reply::Written
            })),
            TransactionCommand::Unwatch => {
                self.unwatch(session);
                Ok(Reply::Ok)
            }
            TransactionCommand::Exec => self.exec(session, call.now, out, node, outcome),
        }
    }

    /// EXEC was refused by the gate: the transaction is over.
    #[cold]
    pub(crate) fn refuse_exec(&self, session: &mut Session, error: &CmdError) -> CmdError {
        session.transaction = None;
        self.unwatch(session);
        let line = error.to_line();
        let why = line.strip_prefix(b"ERR ").unwrap_or(&line);
        CmdError::line([b"EXECABORT Transaction discarded because of: ", why].concat())
    }

    fn exec(
        &self,
        session: &mut Session,
        now: Timestamp,
        out: &mut ReplyBuf,
        node: &mut dyn Node,
        outcome: &mut Outcome,
    ) -> Result<Reply, CmdError> {
        let transaction = session
            .transaction
            .take()
            .ok_or(CmdError::ExecWithoutMulti)?;
        if transaction.aborted {
            self.unwatch(session);
            return Err(CmdError::ExecAborted);
        }
        let commands = transaction.commands();
        let loads =
            |(row, _): &Command<'_>| matches!(row.run, Run::Script(it) if changes_functions(it));
        // Before anything is locked. What is recorded at the end is not to come behind what others load meanwhile.
        let orders = commands.iter().any(loads);
        let order = orders.then(|| self.hold_order_of(session));
        let Some(mut held) = (match order {
            Some(None) => None,
            _ => self.lock_ready(session, &commands, now),
        }) else {
            drop(commands);
            session.transaction = Some(transaction);
            *outcome = Outcome::TryAgain;
            return Ok(Reply::Written);
        };
        if !session.watches.is_empty() && !self.conclude_watches(session, &mut held, now) {
            self.settle(&mut held, now);
            return Ok(Reply::NullArray);
        }
        let started = Clock::monotone();
        let last = session.last;
        out.array(commands.len());
        for (row, words) in &commands {
            let mark = out.len();
            self.run_queued(row, words, session, now, &mut held, out, node, outcome);
            // Its reply is not the client's, who is answered with an array.
            if let Some(error) = out.bytes()[mark..].strip_prefix(b"-") {
                node.count_error(error);
            }
        }
        session.last = last;
        self.settle_since(&mut held, now, started);
        Ok(Reply::Written)
    }

    /// Whether EXEC would run a command that may be long, and none that needs the connection it came from.
    pub(crate) fn transaction_is_long(&self, session: &Session, now: Timestamp) -> bool {
        let Some(transaction) = &session.transaction else {
            return false;
        };
        !transaction.stays()
            && transaction.queued.iter().any(|one| {
                let words = one.words();
                match one.row.run {
                    Run::Script(command) => {
                        crate::script::may_be_long(self, command, &words)
                            || self.may_meet_kept(one.row, &words)
                    }
                    _ => self.is_elsewhere(one.row, session, &words, now),
                }
            })
    }

    /// Whether a long command holds what the transaction needs.
    pub(crate) fn transaction_waits(&self, session: &Session) -> bool {
        let mut watched = ShardList::new();
        Engine::add_watched(session, &mut watched);
        watched.iter().any(|&index| self.shards.is_kept(index))
            || session.transaction.as_ref().is_some_and(|transaction| {
                let stays = transaction.stays();
                transaction.queued.iter().any(|queued| {
                    let (row, words) = (queued.row, queued.words());
                    self.waits_for_kept(row, &words)
                        || stays && self.may_meet_kept(row, &words)
                        || self.shards.is_gate_kept() && needs_gate(row, &words)
                })
            })
    }

    /// The shards of a transaction that does not have to wait for a snapshot to read a large value; `None`: it was put off.
    fn lock_ready<'e>(
        &'e self,
        session: &Session,
        commands: &[Command<'_>],
        now: Timestamp,
    ) -> Option<LockSet<'e>> {
        let mut held = self.lock_transaction(session, commands)?;
        let waits = commands.iter().any(|(row, words)| {
            matches!(row.run, Run::Keys(_))
                && self.waits_for_loans(row, session, words, now, &mut held)
        });
        (!waits).then_some(held)
    }

    /// The shards of a transaction; `None`: it was put off.
    pub(crate) fn lock_transaction(
        &self,
        session: &Session,
        commands: &[Command<'_>],
    ) -> Option<LockSet<'_>> {
        let mut wanted = ShardList::new();
        Engine::add_watched(session, &mut wanted);
        let mut known = true;
        for (row, words) in commands {
            if matches!(row.run, Run::Keys(_)) {
                // A call whose keys cannot be found fails when it runs.
                wanted.extend(self.shards_of(row, words).unwrap_or_default());
            }
            known &= !needs_gate(row, words);
        }
        wanted.sort_unstable();
        wanted.dedup();
        if known {
            return self.lock_set_of(session, &wanted);
        }
        // What names all that it needs may run beside long commands.
        let alone = commands.iter().any(|(row, words)| match row.run {
            Run::Keyspace(_) => true,
            Run::Node(command) => looks_at_all(command),
            Run::Script(command) => {
                runs_script(command) && crate::script::needs_gate(self, command, words)
            }
            _ => needs_gate(row, words),
        });
        self.lock_gate_of(session, &wanted, || alone)
    }

    /// Runs one queued command and writes its reply.
    #[allow(clippy::too_many_arguments, reason = "all that a command works with")]
    pub(crate) fn run_queued<'e>(
        &'e self,
        row: &'static Row,
        words: &'e [&'e [u8]],
        session: &mut Session,
        now: Timestamp,
        held: &mut LockSet<'e>,
        out: &mut ReplyBuf,
        node: &mut dyn Node,
        outcome: &mut Outcome,
    ) {
        let counters = self.counters.row(row);
        session.last = Some(row);
        // As outside of a transaction, INFO does not tell of itself.
        let is_late = matches!(row.run, Run::Node(_));
        let sampled = !is_late && counters.called();
        let times = is_late || sampled || self.observer.times(row, words.len());
        let started = times.then(Clock::monotone);
        let mark = out.len();
        let applied = session.origin.is_applied();
        if !applied && !self.access.is_unrestricted(session) && !self.access.refresh(session) {
            // The rules may have changed since the command was queued.
            let permit = UserPermit::of_exec(&self.access, session, now);
            if let Err(denied) = permit.check(row, words) {
                return fail(&denied.to_exec_error(), mark, counters, out);
            }
        }
        let caller = match applied {
            true => None,
            false => self.access.caller(row, session, now),
        };
        let view = gate::GateView {
            authenticated: session.authenticated || self.access.is_open(),
            origin: session.origin,
            ..gate::GateView::open()
        };
        let call = Call {
            row,
            args: words,
            db: session.db,
            now,
            origin: session.origin,
            may_block: false,
            client: session.id,
            long: Long::Here,
            caller,
            out_of_memory: session.out_of_memory,
            no_touch: session.no_touch && row.name != "TOUCH",
        };
        if self.monitors.is_active() && row.flags.contains(Flags::SKIP_MONITOR) {
            self.monitors
                .show_script(row, session.db, &node.source(), words);
        }
        let result = gate::check(row, words, &view)
            .and_then(|()| self.run_queued_kind(&call, session, held, out, node, outcome));
        write_result(result, row, mark, counters, out);
        if let Some(started) = started {
            let nanos = elapsed(started);
            counters.took_one_of(is_late, sampled, nanos);
            self.observer.took(row, Some(session), words, nanos, now);
        }
        let sizes = (request_len(words), out.len() - mark);
        self.exchanged(session, words, sizes, now);
        self.show(row, session, words, node);
    }

    /// Calls what runs a queued command.
    fn run_queued_kind<'e>(
        &'e self,
        call: &Call<'e>,
        session: &mut Session,
        held: &mut LockSet<'e>,
        out: &mut ReplyBuf,
        node: &mut dyn Node,
        outcome: &mut Outcome,
    ) -> Result<Reply, CmdError> {
        match call.row.run {
            Run::Keys(handler) => self.run_held(handler, call, held, out),
            Run::Keyspace(handler) => {
                let walk = &mut LockedWalk::new(self, held, call);
                self.run_walk(handler, call, walk, out)
            }
            // The transaction may have subscribed.
            Run::Local(_)
                if call.row.name == "PING"
                    && call.args.len() <= 2
                    && session.subscriptions > 0
                    && session.protocol == Protocol::Resp2 =>
            {
                pong(call.args, out);
                Ok(Reply::Written)
            }
            Run::Local(handler) | Run::Wait(handler) => {
                self.run_walk(handler, call, &mut NoWalk, out)
            }
            Run::PubSub(command) => {
                let result = self.pubsub.run(command, call.args, out);
                self.record_call(call, result.is_ok());
                result
            }
            Run::Script(command) => {
                let around = Around {
                    held: Some(held),
                    host: Host { node, session },
                };
                let result = crate::script::run(self, command, call, out, around);
                self.record_call(call, result.is_ok());
                result
            }
            Run::Node(command) => while_held(held, || {
                node.run(
                    command,
                    NodeCx {
                        engine: self,
                        row: call.row,
                        args: call.cursor(&self.seed),
                        session,
                        out,
                        now: call.now,
                        in_transaction: true,
                        outcome,
                    },
                )
            }),
            // Only UNWATCH is queued, and EXEC has forgotten all keys.
            Run::Transaction(_) => Ok(Reply::Ok),
            Run::Container => Err(CmdError::Syntax),
        }
    }
}
