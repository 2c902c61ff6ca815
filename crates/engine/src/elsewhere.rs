//! Keeping threads that serve connections free: which commands are run elsewhere, and which are put off because a long
//! command holds what they need.

use tollgate_commands::{
    ClusterCommand, Flags, NodeCommand, Row, Run, ScriptCommand, TransactionCommand, keys_of,
    uses_hidden_keys,
};
use tollgate_keyspace::{DbIndex, ValueRef};
use tollgate_limiter::Timestamp;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;

use crate::cell::Cells;
use crate::execute::changes_functions;
use crate::shards::{LockSet, unless};
use crate::waiter::Mail;
use crate::{Engine, Session};

/// Steps of a command that a thread which serves connections does itself; a few tenths of a millisecond.
const STEPS_MAX: usize = 4_096;

/// Bytes of a string that cost as much as an element of a collection.
const BYTES_PER_STEP: usize = 256;

/// Cells of LCS' table that cost as much.
const CELLS_PER_STEP: usize = 64;

/// Commands that look at, or free, the whole of a data set.
const WHOLE: &[&str] = &["KEYS", "FLUSHALL", "FLUSHDB"];

impl Session {
    /// The record with which a long command of this connection runs on a thread for such commands. A transaction goes
    /// along: what is run there is its EXEC.
    pub fn for_worker(&mut self) -> Session {
        let mut session = Session::new(self.id, self.authenticated);
        session.db = self.db;
        session.protocol = self.protocol;
        session.user.clone_from(&self.user);
        // What it shows of itself, so that it does not seem to have changed.
        session.name.clone_from(&self.name);
        session.lib_name.clone_from(&self.lib_name);
        session.lib_version.clone_from(&self.lib_version);
        session.no_evict = self.no_evict;
        session.client.clone_from(&self.client);
        session.no_touch = self.no_touch;
        session.reads_replicas = self.reads_replicas;
        session.follows_redirects = self.follows_redirects;
        session.is_worker = true;
        if self.transaction.is_some() {
            session.transaction = self.transaction.take();
            session.watches = self.watches.clone();
        }
        session
    }

    /// Lets commands that may be long be run elsewhere: they end with [`crate::Outcome::Elsewhere`].
    pub fn allow_moves(&mut self) {
        self.may_move = true;
    }
}

impl Engine {
    /// Whether the command is known to be one for another thread before it is looked at more closely.
    #[inline]
    pub(crate) fn is_elsewhere(
        &self,
        row: &Row,
        session: &Session,
        args: &[&[u8]],
        now: Timestamp,
    ) -> bool {
        if !session.may_move {
            return false;
        }
        match row.run {
            Run::Keys(_) => {
                let is_bulky = row.flags.contains(Flags::BULKY);
                is_bulky && self.steps_of(row, session.db, args, now) > STEPS_MAX
                    || self.may_meet_kept(row, args)
            }
            Run::Transaction(TransactionCommand::Exec) => self.transaction_is_long(session, now),
            // It waits for another server.
            Run::Node(NodeCommand::Migrate) => true,
            Run::Node(NodeCommand::Debug) => args
                .get(1)
                .is_some_and(|word| word.eq_ignore_ascii_case(b"LOADAOF")),
            Run::Node(NodeCommand::Cluster(command)) => {
                keeps_slots(command) || (counts_slots(command) && self.deep.load(Ordering::Relaxed))
            }
            Run::Keyspace(_) => WHOLE.contains(&row.name) && self.deep.load(Ordering::Relaxed),
            // A transaction that changes functions may wait for a long command, and others who do for that transaction.
            Run::Script(command) => changes_functions(command),
            _ => false,
        }
    }

    /// Whether the command may come to need what a long command holds: it does not name all that it looks at.
    pub(crate) fn may_meet_kept(&self, row: &Row, args: &[&[u8]]) -> bool {
        self.shards.are_kept()
            && match row.run {
                Run::Keys(_) => uses_hidden_keys(row, args),
                Run::Script(command) => {
                    runs_script(command) && crate::script::needs_gate(self, command, args)
                }
                _ => false,
            }
    }

    /// About how much work a command is, by the sizes of the values that it names. What others have locked counts as
    /// nothing.
    fn steps_of(&self, row: &Row, db: DbIndex, args: &[&[u8]], now: Timestamp) -> usize {
        let Ok(positions) = keys_of(row, args) else {
            return 0;
        };
        let sizes = positions.iter().map(|&at| {
            let key = self.seed.key(args[at as usize]);
            let index = key.shard(self.shards.count());
            let cell = self.shards.try_lock(index)?;
            let found = cell.look(db, key, now.millis())?;
            Some(match found.value() {
                ValueRef::Object(object) => (object.len(), 0),
                ValueRef::Bytes(bytes) => (0, bytes.len()),
                _ => (0, 0),
            })
        });
        let sizes = sizes.flatten();
        match row.name {
            "LCS" => {
                let cells = sizes.map(|(_, bytes)| bytes).fold(1, usize::saturating_mul);
                cells / CELLS_PER_STEP
            }
            // The smallest one decides.
            "SINTER" | "SINTERCARD" | "SINTERSTORE" | "ZINTER" | "ZINTERCARD" | "ZINTERSTORE" => {
                let smallest = sizes.map(|(elements, _)| elements).min();
                smallest.unwrap_or(0).saturating_mul(positions.len())
            }
            _ => sizes.fold(0, |all: usize, (elements, bytes)| {
                all.saturating_add(elements + bytes / BYTES_PER_STEP)
            }),
        }
    }

    /// Whether the command would have to wait for a long one; its connection is told when to try again.
    #[cold]
    pub(crate) fn is_put_off(&self, row: &Row, session: &Session, args: &[&[u8]]) -> bool {
        let Some(mail) = &session.mail else {
            return false;
        };
        let waits = match row.run {
            Run::Transaction(TransactionCommand::Exec) => self.transaction_waits(session),
            _ => self.waits_for_kept(row, args),
        };
        waits && self.shards.put_off(mail)
    }

    /// Locks for a command of a connection: by `patient` where waiting for a long command is nobody's loss, else by `lock`,
    /// which gives `None` once a long command holds what is wanted. `None`: the connection is told when to try again.
    #[inline]
    pub(crate) fn lock_or_put_off<T>(
        &self,
        mail: Option<&Arc<dyn Mail>>,
        patient: impl FnOnce() -> T,
        lock: impl Fn() -> Option<T>,
    ) -> Option<T> {
        let Some(mail) = mail else {
            return Some(patient());
        };
        loop {
            let locked = lock();
            if locked.is_some() || self.shards.put_off(mail) {
                return locked;
            }
        }
    }

    /// Locks the shards in `wanted` for a command of a connection, or puts it off.
    pub(crate) fn lock_set_of(&self, session: &Session, wanted: &[usize]) -> Option<LockSet<'_>> {
        let patient = || match session.is_worker {
            true => self.shards.keep_set(wanted),
            false => self.shards.lock_set(wanted),
        };
        self.lock_or_put_off(session.mail.as_ref(), patient, || {
            self.shards.lock_set_unless_kept(wanted)
        })
    }

    /// Enters the gate and locks the shards in `wanted` for a command of a connection that may come to need others, or puts
    /// it off. `alone`: it is one that must not meet what long commands hold.
    pub(crate) fn lock_gate_of(
        &self,
        session: &Session,
        wanted: &[usize],
        alone: impl Fn() -> bool,
    ) -> Option<LockSet<'_>> {
        let patient = || {
            if session.is_worker {
                return self.shards.keep_gate_with(wanted);
            }
            let mut held = self.shards.lock_gate();
            held.extend(wanted);
            held
        };
        self.lock_or_put_off(session.mail.as_ref(), patient, || {
            let mut held = match alone() {
                true => self.shards.lock_gate_alone()?,
                false => self.shards.lock_gate_unless_kept()?,
            };
            let all = wanted.iter().all(|&one| held.acquire_unless_kept(one));
            all.then_some(held)
        })
    }

    /// Holds the order of changes to functions for a command of a connection, or puts it off: who holds it may wait for a
    /// long command.
    pub(crate) fn hold_order_of(&self, session: &Session) -> Option<MutexGuard<'_, ()>> {
        let patient = || self.functions.hold_order();
        self.lock_or_put_off(session.mail.as_ref(), patient, || {
            unless(|| self.is_kept(), || self.functions.try_hold_order())
        })
    }

    /// Whether a long command holds what this one needs.
    pub(crate) fn waits_for_kept(&self, row: &Row, args: &[&[u8]]) -> bool {
        let needs_kept = || {
            self.shards_of(row, args)
                .is_ok_and(|wanted| wanted.iter().any(|&index| self.shards.is_kept(index)))
        };
        match row.run {
            Run::Keys(_) => {
                needs_kept() || (self.shards.is_gate_kept() && uses_hidden_keys(row, args))
            }
            Run::Transaction(TransactionCommand::Watch) => needs_kept(),
            Run::Script(command) => {
                runs_script(command)
                    && (needs_kept()
                        || (self.shards.is_gate_kept()
                            && crate::script::needs_gate(self, command, args)))
            }
            Run::Node(NodeCommand::Migrate) => needs_kept(),
            Run::Node(command) => looks_at_all(command),
            _ => false,
        }
    }
}

/// Commands of the server that count or write what all shards hold.
pub(crate) fn looks_at_all(command: NodeCommand) -> bool {
    matches!(
        command,
        NodeCommand::Debug
            | NodeCommand::ReplicaOf
            | NodeCommand::Save
            | NodeCommand::BgRewriteAof
            | NodeCommand::BgSave
            | NodeCommand::Cluster(
                ClusterCommand::CountKeysInSlot
                    | ClusterCommand::FlushSlots
                    | ClusterCommand::GetKeysInSlot
                    | ClusterCommand::Reset
                    | ClusterCommand::SlotStats
            )
    )
}

/// Commands that write the file of a cluster's node, and so wait for a disk.
fn keeps_slots(command: ClusterCommand) -> bool {
    matches!(
        command,
        ClusterCommand::AddSlots
            | ClusterCommand::AddSlotsRange
            | ClusterCommand::BumpEpoch
            | ClusterCommand::DelSlots
            | ClusterCommand::DelSlotsRange
            | ClusterCommand::FlushSlots
            | ClusterCommand::Reset
            | ClusterCommand::SaveConfig
            | ClusterCommand::SetConfigEpoch
            | ClusterCommand::SetSlot
    )
}

/// Commands that look at all keys for their slots.
fn counts_slots(command: ClusterCommand) -> bool {
    matches!(
        command,
        ClusterCommand::CountKeysInSlot | ClusterCommand::GetKeysInSlot | ClusterCommand::SlotStats
    )
}

pub(crate) fn runs_script(command: ScriptCommand) -> bool {
    matches!(
        command,
        ScriptCommand::Eval
            | ScriptCommand::EvalRo
            | ScriptCommand::EvalSha
            | ScriptCommand::EvalShaRo
            | ScriptCommand::Fcall
            | ScriptCommand::FcallRo
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::call::Call;
    use crate::session::tests::NoNode;
    use crate::shards::LockSet;
    use crate::waiter::Mail;
    use crate::walk::EngineWalk;
    use crate::{EngineConfig, Outcome};
    use tollgate_testkit::{PATIENCE, eventually};
    use tollgate_wire::resp::ReplyBuf;

    const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000);

    #[derive(Debug, Default)]
    struct Called(AtomicUsize);

    impl Mail for Called {
        fn answer(&self, _: Vec<u8>) {}
        fn dismiss(&self, _: Vec<u8>) {}
        fn try_again(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        fn is_gone(&self) -> bool {
            false
        }
    }

    fn run(engine: &Engine, session: &mut Session, command: &str) -> (Outcome, Vec<u8>) {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let mut out = ReplyBuf::default();
        let outcome = engine.execute(session, &words, NOW, &mut out, &mut NoNode);
        (outcome, out.bytes().to_vec())
    }

    /// Runs the last of `commands` while something else has what `lock` locks, and turns out to be long only then. The
    /// command is to let go of its thread at once, and to run when it is tried again.
    #[track_caller]
    fn lets_go(commands: &[&str], lock: impl for<'e> Fn(&'e Engine) -> LockSet<'e>) {
        lets_go_beside(commands, |_| None, lock);
    }

    /// The same while the order of changes to functions is held too, if `order` does so.
    #[track_caller]
    fn lets_go_beside(
        commands: &[&str],
        order: impl for<'e> Fn(&'e Engine) -> Option<MutexGuard<'e, ()>>,
        lock: impl for<'e> Fn(&'e Engine) -> LockSet<'e>,
    ) {
        let engine = Engine::new(EngineConfig {
            shards: 16,
            ..EngineConfig::default()
        });
        let called = Arc::new(Called::default());
        let mut session = Session::new(1, true);
        session.mail = Some(called.clone());
        session.allow_moves();
        let (last, before) = commands.split_last().expect("there is a command");
        for command in before {
            assert_eq!(run(&engine, &mut session, command).0, Outcome::Continue);
        }
        let order = order(&engine);
        let mut long = lock(&engine);
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            let engine = &engine;
            scope.spawn(move || {
                let ran = run(engine, &mut session, last);
                tell.send((ran, session)).expect("the test waits");
            });
            // Time enough for it to come to the lock.
            thread::sleep(Duration::from_millis(20));
            long.keep();
            let outcome = told.recv_timeout(PATIENCE);
            drop((long, order));
            let Ok(((outcome, reply), mut session)) = outcome else {
                panic!("{last} waits");
            };
            assert!(reply.is_empty(), "{last} was not run");
            if outcome == Outcome::Elsewhere {
                return;
            }
            assert_eq!(outcome, Outcome::TryAgain, "{last}");
            assert_eq!(called.0.load(Ordering::SeqCst), 1);
            let (outcome, reply) = run(engine, &mut session, last);
            assert!(
                outcome == Outcome::Wait || !reply.is_empty() && reply[0] != b'-',
                "{last}: {outcome:?} {}",
                reply.escape_ascii()
            );
            let name = last.split(' ').next().expect("it has a name");
            let calls = engine.stats().by_command;
            let calls = calls.iter().find(|stats| stats.row.name == name);
            assert_eq!(calls.map(|stats| stats.calls), Some(1), "{last}");
        });
    }

    #[test]
    fn who_walks_waits_elsewhere_for_long_commands() {
        let engine = Engine::new(EngineConfig {
            shards: 16,
            ..EngineConfig::default()
        });
        let commands = [
            "DBSIZE",
            "FLUSHALL",
            "SWAPDB 0 1",
            "KEYS *",
            "SCAN 0",
            "RL.TOP",
        ];
        let mut session = Session::new(1, true);
        session.mail = Some(Arc::new(Called::default()));
        let mut moving = Session::new(2, true);
        moving.allow_moves();
        // There may always be one long command or another.
        let long = engine.shards.keep_set(&[15]);
        for command in commands {
            let (outcome, reply) = run(&engine, &mut moving, command);
            assert_eq!(outcome, Outcome::Elsewhere, "{command}");
            assert!(reply.is_empty());
            let (outcome, _) = run(&engine, &mut session, command);
            assert_eq!(outcome, Outcome::TryAgain, "{command}");
        }
        drop(long);
        for command in commands {
            let (outcome, _) = run(&engine, &mut moving, command);
            assert_eq!(outcome, Outcome::Continue, "{command}");
        }
        // Nothing long begins while one walks on a thread that serves connections.
        let words: [&[u8]; 1] = [b"DBSIZE"];
        let row = engine.find(&words).expect("there is such a command");
        let call = Call::of_client(row, &words, &moving, NOW);
        let walk = EngineWalk::new(&engine, &call, session.mail.as_ref()).expect("it may walk");
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                drop(engine.shards.keep_set(&[3]));
                tell.send(()).expect("the test waits");
            });
            thread::sleep(Duration::from_millis(20));
            assert!(told.try_recv().is_err() && !engine.shards.is_kept(3));
            drop(walk);
            told.recv().expect("it goes on");
        });
    }

    fn shard_of<'e>(engine: &'e Engine, key: &[u8]) -> LockSet<'e> {
        let shard = engine.seed.key(key).shard(engine.shards.count());
        engine.shards.lock_set(&[shard])
    }

    #[test]
    fn a_command_does_not_wait_for_a_long_one_that_begins_meanwhile() {
        for commands in [
            &["GET held"][..],
            &["SET held x"],
            &["MGET other held third"],
            &["MSET other x held y third z"],
            &["BLPOP held 0"],
            &["BLMPOP 0 2 other held LEFT"],
            &["WATCH other held"],
            &["MULTI", "SET other x", "SET held x", "EXEC"],
            &["WATCH held", "MULTI", "EXEC"],
            &["EVAL return{redis.call('GET',KEYS[1])} 1 held"],
        ] {
            lets_go(commands, |engine| shard_of(engine, b"held"));
        }
    }

    #[test]
    fn nor_for_one_that_is_inside_the_gate() {
        for commands in [
            &["FLUSHALL"][..],
            &["SWAPDB 0 1"],
            &["SORT list BY w*"],
            &["MULTI", "DBSIZE", "EXEC"],
            &["EVAL return{redis.call('GET',ARGV[1])} 0 key"],
        ] {
            lets_go(commands, |engine| engine.shards.lock_gate());
        }
    }

    /// Who waits for a long command on a worker holds nothing that others want meanwhile.
    #[test]
    fn who_waits_elsewhere_holds_up_nobody() {
        for command in [
            "FLUSHALL",
            "SWAPDB 0 1",
            "EVAL return{redis.call('GET',ARGV[1])} 2 held other key",
        ] {
            let engine = Engine::new(EngineConfig {
                shards: 16,
                ..EngineConfig::default()
            });
            let mut long = shard_of(&engine, b"held");
            long.keep();
            let (tell, told) = mpsc::channel();
            thread::scope(|scope| {
                let engine = &engine;
                scope.spawn(move || {
                    let mut session = Session::new(1, true);
                    session.is_worker = true;
                    let ran = run(engine, &mut session, command);
                    tell.send(ran).expect("the test waits");
                });
                eventually("it has begun", || engine.shards.is_gate_kept());
                // Time enough for it to come to the lock.
                thread::sleep(Duration::from_millis(20));
                // It may be on its way there.
                let free = |index: &usize| engine.shards.try_lock(*index).is_some();
                eventually(command, || (0..16).filter(free).count() == 15);
                assert!(told.try_recv().is_err(), "{command} waits");
                drop(long);
                let (_, reply) = told.recv().expect("it goes on");
                assert!(!reply.starts_with(b"-"), "{command}");
            });
        }
    }

    #[test]
    fn nor_for_who_changes_functions_and_waits_for_one() {
        for commands in [
            &["MULTI", "FUNCTION FLUSH", "EXEC"][..],
            &["MULTI", "SELECT 1", "FUNCTION FLUSH", "EXEC"],
        ] {
            lets_go_beside(
                commands,
                |engine| Some(engine.functions.hold_order()),
                |engine| shard_of(engine, b"held"),
            );
        }
    }

    #[test]
    fn a_long_command_and_who_may_wait_for_any_shard_keep_out_of_each_others_way() {
        let engine = Engine::new(EngineConfig {
            shards: 16,
            ..EngineConfig::default()
        });
        let shards = &engine.shards;
        let long = shards.keep_set(&[3]);
        assert!(shards.is_kept(3) && shards.lock_gate_alone().is_none());
        drop(long);
        assert!(!shards.are_kept() && !shards.is_kept(3));
        let inside = shards.lock_gate_alone().expect("nothing long runs");
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let long = shards.keep_set(&[3]);
                tell.send(()).expect("the test waits");
                drop(long);
            });
            thread::sleep(Duration::from_millis(20));
            assert!(told.try_recv().is_err() && !shards.is_kept(3));
            drop(inside);
            told.recv().expect("it goes on");
        });
    }
}
