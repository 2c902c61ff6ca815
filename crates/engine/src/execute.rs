//! The executor: every command of every origin passes here.

use tollgate_commands::{
    Again, Args, CmdError, Cx, Effects, Flags, FunctionCommand, Group, Handler, NodeCommand,
    Origin, Reply, Row, Run, ScriptCommand, ShardSet, TransactionCommand, gate::Restrictions,
    uses_hidden_keys,
};
use tollgate_keyspace::Key;
use tollgate_limiter::Timestamp;
use tollgate_net::clock::Clock;
use tollgate_wire::resp::{Protocol, ReplyBuf};

use crate::call::{Call, Long};
use crate::cell::{Cell, Cells, One};
use crate::lock::Guard;
use crate::script::{Around, Host};
use crate::shards::LockSet;
use crate::stats::RowCounters;
use crate::walk::{EngineWalk, NoWalk};
use crate::{Engine, Node, NodeCx, Outcome, Plan, Session};

impl Engine {
    /// Runs one command and writes exactly one reply to `out`. `args[0]` is the command's name; an empty list is
    /// not a command and must not be passed.
    pub fn execute(
        &self,
        session: &mut Session,
        args: &[&[u8]],
        now: Timestamp,
        out: &mut ReplyBuf,
        node: &mut dyn Node,
    ) -> Outcome {
        self.execute_planned(&self.plan(args), session, args, now, out, node)
    }

    /// As [`Engine::execute`], for a command that [`Engine::plan`] has looked at.
    pub fn execute_planned(
        &self,
        plan: &Plan<'_>,
        session: &mut Session,
        args: &[&[u8]],
        now: Timestamp,
        out: &mut ReplyBuf,
        node: &mut dyn Node,
    ) -> Outcome {
        let started = session.is_worker.then(Clock::monotone);
        let outcome = self.execute_checked(plan, session, args, now, out, node);
        if self.listeners.has_put_off() {
            // The clock stood still for what was long, and not for those who wait.
            self.serve_later(started.map_or(now, |started| passed_since(now, started)));
        }
        outcome
    }

    #[inline]
    fn execute_checked(
        &self,
        plan: &Plan<'_>,
        session: &mut Session,
        args: &[&[u8]],
        now: Timestamp,
        out: &mut ReplyBuf,
        node: &mut dyn Node,
    ) -> Outcome {
        let Some(row) = plan.row else {
            return unknown(self, session, args, out);
        };
        session.last = Some(row);
        let counters = self.counters.row(row);
        if let Some((handler, key)) = self.passes(plan, row, session, args.len()) {
            session.out_of_memory = false;
            let call = Call::of_client(row, args, session, now);
            return self.run_keys_timed(handler, &call, Some(key), counters, session, out);
        }
        self.execute_asking(plan, row, session, args, now, out, node)
    }

    /// Runs a command after asking all that could stand in its way.
    #[allow(clippy::too_many_arguments, reason = "the executor's own second half")]
    fn execute_asking(
        &self,
        plan: &Plan<'_>,
        row: &'static Row,
        session: &mut Session,
        args: &[&[u8]],
        now: Timestamp,
        out: &mut ReplyBuf,
        node: &mut dyn Node,
    ) -> Outcome {
        let counters = self.counters.row(row);
        if let Err(error) = self.pass_gate(row, session, args, now) {
            counters.rejected();
            if row.group == Group::RateLimit && matches!(error, CmdError::OutOfMemory) {
                self.memory.refuse_limiter();
            }
            self.refused(row, session, args, &error, node).write(out);
            return Outcome::Continue;
        }
        if (session.subscriptions > 0 || session.only_listens())
            && answered_for_listener(self, row, session, args, out, node)
        {
            return Outcome::Continue;
        }
        if self.pause.is_active() && self.is_paused(row, session, args) {
            return Outcome::TryAgain;
        }
        if self.restrictions().contains(Restrictions::CROWDED)
            && self.is_crowded_out(row, session, args)
        {
            return Outcome::TryAgain;
        }
        if session.transaction.is_some()
            && let Some(queued) = self.queue(row, session, args)
        {
            match queued {
                Ok(reply) => reply.write(out),
                Err(error) => error.write(out),
            }
            return Outcome::Continue;
        }
        if self.shards.are_kept() && self.is_put_off(row, session, args) {
            return Outcome::TryAgain;
        }
        if row.flags.contains(Flags::BLOCKING) {
            let outcome = self.run_waiting(row, session, args, now, out);
            if outcome != Outcome::TryAgain {
                self.show(row, session, args, node);
            }
            return outcome;
        }
        if let Run::Keys(handler) = row.run
            && !(plan.key.is_none() && self.is_elsewhere(row, session, args, now))
        {
            let call = Call::of_client(row, args, session, now);
            let key = plan.key.as_ref();
            let outcome = self.run_keys_asked(handler, &call, key, counters, session, out);
            if outcome != Outcome::TryAgain {
                self.show(row, session, args, node);
            }
            return outcome;
        }
        if matches!(row.run, Run::Keys(_)) {
            return Outcome::Elsewhere;
        }
        self.run_other(row, session, args, now, out, node, counters)
    }

    /// As [`Engine::run_keys_timed`], for commands that came the long way.
    #[inline(never)]
    fn run_keys_asked(
        &self,
        handler: Handler,
        call: &Call<'_>,
        key: Option<&Key<'_>>,
        counters: RowCounters<'_>,
        session: &Session,
        out: &mut ReplyBuf,
    ) -> Outcome {
        self.run_keys_timed(handler, call, key, counters, session, out)
    }

    /// [`Engine::run_keys`], timed where that is wanted.
    // Always inlined, into the short way and the long one.
    #[inline(always)]
    fn run_keys_timed(
        &self,
        handler: Handler,
        call: &Call<'_>,
        key: Option<&Key<'_>>,
        counters: RowCounters<'_>,
        session: &Session,
        out: &mut ReplyBuf,
    ) -> Outcome {
        let sampled = counters.called();
        let started =
            (sampled || self.observer.times(call.row, call.args.len())).then(Clock::monotone);
        let outcome = self.run_keys(handler, call, key, counters, session, out);
        if outcome == Outcome::TryAgain {
            counters.put_off();
            return outcome;
        }
        if let Some(started) = started {
            let nanos = elapsed(started);
            if sampled {
                counters.took_sampled(nanos);
            }
            self.observer
                .took(call.row, Some(session), call.args, nanos, call.now);
        }
        outcome
    }

    /// Shows a command that a client has run to those who monitor.
    #[inline]
    pub(crate) fn show(&self, row: &Row, session: &Session, args: &[&[u8]], node: &dyn Node) {
        if self.monitors.is_active() && session.origin != Origin::Replay {
            self.monitors.show(row, session.db, &node.source(), args);
        }
    }

    /// Commands that are not about a few keys. Those that may be long are always timed.
    #[allow(clippy::too_many_arguments, reason = "the executor's own second half")]
    fn run_other(
        &self,
        row: &'static Row,
        session: &mut Session,
        args: &[&[u8]],
        now: Timestamp,
        out: &mut ReplyBuf,
        node: &mut dyn Node,
        counters: RowCounters<'_>,
    ) -> Outcome {
        if self.is_elsewhere(row, session, args, now) {
            return Outcome::Elsewhere;
        }
        // Others are counted with their time when they are done, so that INFO does not tell of itself.
        let short = !session.is_worker
            && matches!(row.run, Run::Local(_) | Run::Script(_) | Run::PubSub(_));
        let sampled = short && counters.called();
        let timed = sampled || !short || self.observer.times(row, args.len());
        let started = timed.then(Clock::monotone);
        let mark = out.len();
        let mut outcome = Outcome::Continue;
        let caller = self.access.caller(row, session, now);
        let mut call = Call::of_client(row, args, session, now);
        call.caller = caller;
        let elsewhere = std::cell::Cell::new(false);
        if session.may_move {
            call.long = Long::Elsewhere(&elsewhere);
        }
        if self.monitors.is_active()
            && row.flags.contains(Flags::SKIP_MONITOR)
            && !session.is_worker
        {
            // Scripts come before their commands, also those that are then run elsewhere.
            self.monitors
                .show_script(row, session.db, &node.source(), args);
        }
        if matches!(row.run, Run::Wait(_)) {
            let outcome = self.run_waiting(row, session, args, now, out);
            self.show(row, session, args, node);
            return outcome;
        }
        let result = self.run_kind(&call, session, out, node, &mut outcome);
        if elsewhere.get() {
            return Outcome::Elsewhere;
        }
        if outcome == Outcome::TryAgain {
            out.truncate(mark);
            return outcome;
        }
        write_result(result, row, mark, counters, out);
        if let Some(started) = started {
            let nanos = elapsed(started);
            counters.took_one_of(!short, sampled, nanos);
            self.observer.took(row, Some(session), args, nanos, now);
        }
        self.show(row, session, args, node);
        outcome
    }

    /// Calls what runs a command that is not about a few keys.
    fn run_kind(
        &self,
        call: &Call<'_>,
        session: &mut Session,
        out: &mut ReplyBuf,
        node: &mut dyn Node,
        outcome: &mut Outcome,
    ) -> Result<Reply, CmdError> {
        match call.row.run {
            Run::Keys(_) | Run::Wait(_) => unreachable!("these take other paths"),
            Run::Keyspace(handler) => {
                let Some(mut walk) = EngineWalk::new(self, call, session.mail.as_ref()) else {
                    *outcome = Outcome::TryAgain;
                    return Ok(Reply::Written);
                };
                let result = self.run_walk(handler, call, &mut walk, out);
                if walk.is_refused() {
                    *outcome = Outcome::TryAgain;
                }
                result
            }
            Run::Local(handler) => self.run_walk(handler, call, &mut NoWalk, out),
            Run::Script(command) => {
                let _order = changes_functions(command).then(|| self.functions.hold_order());
                let host = Host { node, session };
                let around = Around { held: None, host };
                let result = crate::script::run(self, command, call, out, around);
                self.record_call(call, result.is_ok());
                self.conclude();
                result
            }
            Run::Transaction(command) => {
                self.run_transaction(command, session, call, out, node, outcome)
            }
            Run::Node(command) => node.run(
                command,
                NodeCx {
                    engine: self,
                    row: call.row,
                    args: call.cursor(&self.seed),
                    session,
                    out,
                    now: call.now,
                    in_transaction: false,
                    outcome,
                },
            ),
            Run::PubSub(command) => {
                let result = self.pubsub.run(command, call.args, out);
                self.record_call(call, result.is_ok());
                self.conclude();
                result
            }
            // A container called without a sub-command: its arity is at least two words, so the gate has answered.
            Run::Container => Err(CmdError::Syntax),
        }
    }

    /// Locks the shards of the keys, runs the handler, commits, and writes the reply; or puts it off.
    // As for `run_keys_timed`.
    #[inline(always)]
    fn run_keys(
        &self,
        handler: Handler,
        call: &Call<'_>,
        key: Option<&Key<'_>>,
        counters: RowCounters<'_>,
        session: &Session,
        out: &mut ReplyBuf,
    ) -> Outcome {
        let mark = out.len();
        let result = if let Some(key) = key {
            let index = key.shard(self.shards.count());
            let Some(mut cell) = self.lock_of(session, index) else {
                return Outcome::TryAgain;
            };
            if cell.is_walked() && self.waits_for_loan(call.row, session, key, call.now, &mut cell)
            {
                return Outcome::TryAgain;
            }
            if self.is_unheard(&cell, call) {
                let effects = &mut Effects::new();
                self.run_alone(handler, call, key, index, &mut cell, effects, out)
            } else if self.is_only_recorded(&cell, call) {
                self.run_recorded(handler, call, key, index, &mut cell, out)
            } else {
                self.run_heard(handler, call, key, index, &mut cell, out)
            }
        } else {
            match self.run_many(handler, call, session, out) {
                Some(result) => result,
                None => return Outcome::TryAgain,
            }
        };
        match result {
            Ok(reply) => reply.write(out),
            Err(error) => fail(&error, mark, counters, out),
        }
        Outcome::Continue
    }

    /// Locks one shard for a command of a connection, or puts it off.
    #[inline]
    fn lock_of(&self, session: &Session, index: usize) -> Option<Guard<'_, Cell>> {
        match self.shards.lock_unless_kept(index) {
            None => self.lock_kept(session, index),
            cell => cell,
        }
    }

    #[cold]
    fn lock_kept(&self, session: &Session, index: usize) -> Option<Guard<'_, Cell>> {
        let patient = || self.shards.lock(index);
        self.lock_or_put_off(session.mail.as_ref(), patient, || {
            self.shards.lock_unless_kept(index)
        })
    }

    /// Runs a handler whose keys all live in one locked shard; `keys` as for [`Args::with_keys`].
    #[inline]
    pub(crate) fn run_one<H: Cells>(
        &self,
        handler: Handler,
        call: &Call<'_>,
        keys: &[Key<'_>],
        held: &mut H,
        out: &mut ReplyBuf,
    ) -> Result<Reply, CmdError> {
        let args = call.cursor(&self.seed).with_keys(keys);
        self.run_on(handler, call, args, held, out, &mut None)
    }

    /// `None`: it was put off.
    #[inline(never)]
    fn run_many(
        &self,
        handler: Handler,
        call: &Call<'_>,
        session: &Session,
        out: &mut ReplyBuf,
    ) -> Option<Result<Reply, CmdError>> {
        let mut keys = match self.keys_in(call.row, call.args) {
            Ok(keys) => keys,
            Err(error) => return Some(Err(error)),
        };
        let wanted = self.shards_of_keys(&keys);
        let ahead = self.is_deep();
        let mut held = if uses_hidden_keys(call.row, call.args) {
            self.lock_gate_of(session, &wanted, || true)?
        } else if let [index] = wanted[..]
            && !session.is_worker
        {
            let mut cell = self.lock_of(session, index)?;
            let mut held = One::new(index, &mut cell, &self.shards);
            if self.waits_for_loans(call.row, session, call.args, call.now, &mut held) {
                return None;
            }
            let result = self.run_one(handler, call, &keys, &mut held, out);
            self.settle(&mut held, call.now);
            return Some(result);
        } else {
            if ahead {
                wanted.iter().for_each(|&index| self.shards.prefetch(index));
            }
            self.lock_set_of(session, &wanted)?
        };
        if ahead {
            self.look_ahead_of(call, &mut keys, &held);
        }
        if self.waits_for_loans(call.row, session, call.args, call.now, &mut held) {
            return None;
        }
        let args = call.cursor(&self.seed).with_keys(&keys);
        let result = self.run_on(handler, call, args, &mut held, out, &mut None);
        self.settle(&mut held, call.now);
        Some(result)
    }

    /// Runs a handler in a transaction or a script, whose shards the caller holds; further ones are locked as the lock
    /// rule allows.
    pub(crate) fn run_held(
        &self,
        handler: Handler,
        call: &Call<'_>,
        held: &mut LockSet<'_>,
        out: &mut ReplyBuf,
    ) -> Result<Reply, CmdError> {
        let args = call.cursor(&self.seed);
        self.run_on(handler, call, args, held, out, &mut None)
    }

    /// Runs a command that may have to wait, and parks it if it has.
    #[cold]
    fn run_waiting(
        &self,
        row: &'static Row,
        session: &mut Session,
        args: &[&[u8]],
        now: Timestamp,
        out: &mut ReplyBuf,
    ) -> Outcome {
        let counters = self.counters.row(row);
        let sampled = counters.called();
        let started = (sampled || self.observer.times(row, args.len())).then(Clock::monotone);
        let mark = out.len();
        let mut call = Call::of_client(row, args, session, now);
        let mail = session.mail.clone();
        call.may_block = mail.is_some();
        let mut held = self.shards.lock_none();
        let mut again = None;
        let result = match row.run {
            Run::Keys(handler) => match self.shards_of(row, args) {
                Ok(wanted) => {
                    let Some(locked) = self.lock_set_of(session, &wanted) else {
                        counters.put_off();
                        return Outcome::TryAgain;
                    };
                    held = locked;
                    if self.waits_for_loans(row, session, args, now, &mut held) {
                        counters.put_off();
                        return Outcome::TryAgain;
                    }
                    let args = call.cursor(&self.seed);
                    self.run_on(handler, &call, args, &mut held, out, &mut again)
                }
                Err(error) => Err(error),
            },
            Run::Wait(handler) => self.run_walk(handler, &call, &mut NoWalk, out),
            _ => unreachable!("commands that wait have keys or need none"),
        };
        let mut outcome = Outcome::Continue;
        match (result, mail) {
            (Ok(Reply::Block { deadline_ms }), Some(mail)) => {
                self.park(session, &mail, &call, again, deadline_ms, &mut held);
                if matches!(row.run, Run::Wait(_)) {
                    self.wait_for_replicas(&call);
                }
                outcome = Outcome::Wait;
            }
            (Ok(reply), _) => reply.write(out),
            (Err(error), _) => fail(&error, mark, counters, out),
        }
        self.settle(&mut held, now);
        if let Some(started) = started {
            let nanos = elapsed(started);
            if sampled {
                counters.took_sampled(nanos);
            }
            if matches!(outcome, Outcome::Continue) {
                self.observer.took(row, Some(session), args, nanos, now);
            }
        }
        outcome
    }

    /// The one place where a handler that locks shards is called and its effects are committed, the shards still locked.
    /// `again` is set to how a command that must wait is run again, if it says so.
    #[inline]
    pub(crate) fn run_on<H: Cells + ?Sized>(
        &self,
        handler: Handler,
        call: &Call<'_>,
        args: Args<'_>,
        held: &mut H,
        out: &mut ReplyBuf,
        again: &mut Option<Again>,
    ) -> Result<Reply, CmdError> {
        let mut effects = Effects::new();
        let mark = out.len();
        let result = self.handle(handler, call, args, held, out, again, &mut effects);
        self.commit(&effects, held, call);
        if effects.is_listening() && self.listeners.journals() {
            self.record_done(call, &effects, held, &result, &out.bytes()[mark..]);
        }
        result
    }

    /// The second half of [`Engine::run_on`]: who listens is told, what was read is remembered, and memory is counted.
    #[inline]
    pub(crate) fn commit<H: Cells + ?Sized>(
        &self,
        effects: &Effects,
        held: &mut H,
        call: &Call<'_>,
    ) {
        self.count(effects);
        if effects.is_listening() {
            self.announce_as_named(call.args, held);
            self.announce(effects, held, call.client);
            if self.listeners.notes_own() && !call.origin.is_applied() {
                self.note_own(effects, held);
            }
            // After what the command itself has found expired, before anybody else can change what it has read.
            if self.listeners.tracking() && call.row.flags.contains(Flags::READONLY) {
                self.tracking.remember(call.client, call.row, call.args);
            }
        }
        if self.listeners.limits_memory() {
            self.count_held(held);
        }
    }

    /// The first half of [`Engine::run_on`]: the handler is called, and what it changes is noted in `effects`.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "all that a handler works with")]
    pub(crate) fn handle<H: Cells + ?Sized>(
        &self,
        handler: Handler,
        call: &Call<'_>,
        args: Args<'_>,
        held: &mut H,
        out: &mut ReplyBuf,
        again: &mut Option<Again>,
        effects: &mut Effects,
    ) -> Result<Reply, CmdError> {
        effects.set_listening(held.is_heard() || self.listeners.any());
        if call.no_touch {
            held.each(&mut |_, cell| cell.set_quiet(true));
        }
        let applied = call.origin.is_applied();
        if applied {
            held.each(&mut |_, cell| cell.set_timeless(true));
        }
        let mut cx = Cx {
            shards: held.shard_set(self.shards.count()),
            walk: &mut NoWalk,
            seed: &self.seed,
            db: call.db,
            now: call.now,
            out,
            effects,
            rng: &mut crate::walk::random(call.now),
            limits: &self.limits,
            origin: call.origin,
            may_block: call.may_block,
            replicas: 0,
            synced: None,
            retry_as: None,
        };
        let result = handler(&mut cx, args);
        if call.may_block {
            *again = cx.retry_as;
        }
        if call.no_touch {
            held.each(&mut |_, cell| cell.set_quiet(false));
        }
        if applied {
            held.each(&mut |_, cell| cell.set_timeless(false));
        }
        let discarded = effects.take_discarded();
        if !discarded.is_empty() {
            self.garbage.add(discarded);
        }
        result
    }

    /// Runs a handler that has no shard locked.
    pub(crate) fn run_walk(
        &self,
        handler: Handler,
        call: &Call<'_>,
        walk: &mut dyn tollgate_commands::Walk,
        out: &mut ReplyBuf,
    ) -> Result<Reply, CmdError> {
        let mut effects = Effects::new();
        let mut cx = Cx {
            shards: ShardSet::none(self.shards.count()),
            walk,
            seed: &self.seed,
            db: call.db,
            now: call.now,
            out,
            effects: &mut effects,
            rng: &mut crate::walk::random(call.now),
            limits: &self.limits,
            origin: call.origin,
            may_block: call.may_block,
            replicas: 0,
            synced: None,
            retry_as: None,
        };
        if matches!(call.row.run, Run::Wait(_)) {
            if self.restrictions().contains(Restrictions::REPLICA) {
                return Err(CmdError::WaitOnReplica);
            }
            cx.replicas = self.journal.acknowledged_for(call.client);
            cx.synced = self.journal.synced_for(call.client);
        }
        let result = handler(&mut cx, call.cursor(&self.seed));
        self.count(&effects);
        if result.is_ok() && call.row.name == "FLUSHALL" {
            self.flushed_all();
        }
        // As in Redis, those who track are told also when nothing was there.
        if result.is_ok() && matches!(call.row.name, "FLUSHALL" | "FLUSHDB") {
            self.announce_flushed();
        }
        result
    }

    /// Counts the changes of a command.
    #[inline]
    pub(crate) fn count(&self, effects: &Effects) {
        if effects.dirty() > 0 {
            self.counters.changed(effects.dirty());
        }
    }
}

/// Whether the command may change the libraries of functions.
pub(crate) fn changes_functions(command: ScriptCommand) -> bool {
    matches!(
        command,
        ScriptCommand::Function(
            FunctionCommand::Load
                | FunctionCommand::Delete
                | FunctionCommand::Flush
                | FunctionCommand::Restore
        )
    )
}

/// There is no such command.
#[cold]
fn unknown(engine: &Engine, session: &mut Session, args: &[&[u8]], out: &mut ReplyBuf) -> Outcome {
    session.abort();
    session.last = None;
    if let Err(error) = engine.resolve(args) {
        error.write(out);
    }
    Outcome::Continue
}

pub(crate) fn is_exec(row: &Row) -> bool {
    matches!(row.run, Run::Transaction(TransactionCommand::Exec))
}

/// A RESP2 connection with subscriptions cannot tell replies from messages, so it may only change its subscriptions, ask
/// for a sign of life, and end. One that monitors, or follows as a replica, may not touch keys. True when the command has been answered here.
#[cold]
fn answered_for_listener(
    engine: &Engine,
    row: &'static Row,
    session: &mut Session,
    args: &[&[u8]],
    out: &mut ReplyBuf,
    node: &dyn Node,
) -> bool {
    let counters = engine.counters.row(row);
    if session.subscriptions == 0 || session.protocol != Protocol::Resp2 {
        let keys = Flags::WRITE.or(Flags::READONLY).or(Flags::MAY_REPLICATE);
        if !session.only_listens() || !row.flags.intersects(keys) {
            return false;
        }
        counters.rejected();
        CmdError::KeysForReplica.write(out);
        return true;
    }
    match row.run {
        Run::Node(
            NodeCommand::Subscribe
            | NodeCommand::Unsubscribe
            | NodeCommand::PSubscribe
            | NodeCommand::PUnsubscribe
            | NodeCommand::SSubscribe
            | NodeCommand::SUnsubscribe
            | NodeCommand::Quit
            | NodeCommand::Reset,
        ) => return false,
        _ if row.name == "PING" => {
            if args.len() > 2 {
                return false;
            }
            counters.called();
            pong(args, out);
            engine.show(row, session, args, node);
        }
        _ => {
            counters.rejected();
            let error = CmdError::not_when_subscribed(row.name);
            let error = engine.refused(row, session, args, &error, node);
            error.write(out);
        }
    }
    true
}

/// PING of a connection that cannot tell replies from messages: it is answered with one.
#[cold]
pub(crate) fn pong(args: &[&[u8]], out: &mut ReplyBuf) {
    out.array(2);
    out.bulk(b"pong");
    out.bulk(args.get(1).copied().unwrap_or_default());
}

/// Replaces whatever the command wrote since `mark` by its error.
#[cold]
pub(crate) fn fail(error: &CmdError, mark: usize, counters: RowCounters<'_>, out: &mut ReplyBuf) {
    counters.failed();
    out.truncate(mark);
    error.write(out);
}

/// Writes the reply of a command that is not about a few keys, or its error in place of what it has written from `mark` on.
/// A script that replies with an error, its own or one of its commands, has failed, too.
pub(crate) fn write_result(
    result: Result<Reply, CmdError>,
    row: &Row,
    mark: usize,
    counters: RowCounters<'_>,
    out: &mut ReplyBuf,
) {
    match result {
        Ok(reply) => {
            reply.write(out);
            let is_error = out.bytes().get(mark) == Some(&b'-');
            if is_error && matches!(row.run, Run::Script(_)) {
                counters.failed();
            }
        }
        Err(error) => fail(&error, mark, counters, out),
    }
}

pub(crate) fn elapsed(started: i64) -> u64 {
    u64::try_from(Clock::monotone() - started).unwrap_or(0)
}

/// The time now, after something for which `now` stood still and that began at the monotone time `started`.
pub(crate) fn passed_since(now: Timestamp, started: i64) -> Timestamp {
    let passed = i64::try_from(elapsed(started)).unwrap_or(i64::MAX);
    Timestamp::from_nanos(now.nanos().saturating_add(passed))
}
