//! Scripts: EVAL and its relatives, in Lua 5.1 with the interface of Redis 7.0.
//!
//! Each thread has one Lua state ([`vm`]) with the functions it has compiled; which scripts EVALSHA finds is shared by
//! all threads ([`cache`]). A script runs on the thread of its client with the shards of its declared keys locked, and
//! its commands take the executor's way ([`call`]). One that may touch other keys, as far as its source tells
//! ([`prove`]), enters the gate of the lock rule first and locks further shards when it comes to them; all stay locked
//! to its end, so that it is atomic. Its time stands still; a long one is told by TIME that it goes on.

mod api;
mod base;
#[cfg(test)]
mod beside;
mod bit;
mod cache;
mod call;
mod cjson;
mod cmsgpack;
mod functions;
mod lexer;
mod lua;
mod memory;
mod pace;
mod pattern;
mod prove;
mod running;
mod sandbox;
mod sha1;
mod shebang;
mod structs;
mod tables;
mod to_lua;
mod to_resp;
mod vm;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tollgate_commands::gate::{Busy, Restrictions};
use tollgate_commands::{CmdError, Flags, FunctionCommand, Reply, ScriptCommand};
use tollgate_containers::number;
use tollgate_keyspace::DbIndex;
use tollgate_limiter::Timestamp;
use tollgate_wire::resp::{Protocol, ReplyBuf};

pub(crate) use cache::{Script, Scripts};
pub(crate) use functions::Functions;

use crate::access::Caller;
use crate::call::{Call, Long};
use crate::costs::{Place, Stopwatch};
use crate::keys::ShardList;
use crate::shards::LockSet;
use crate::snapshot::is_walked;
use crate::{Engine, Node, Session};
use running::Running;
pub use sha1::sha1;
use sha1::{HEX_LEN, Hex, sha1_hex};
use shebang::ScriptFlags;
use vm::{Compiled, Vm};
pub use vm::{flushes as script_flushes, give_up_flushed, keeps_flushed};

/// The version of Redis whose commands and scripts this program follows.
pub const REDIS_VERSION: &str = "7.0.15";

/// [`REDIS_VERSION`] as `redis.REDIS_VERSION_NUM` has it.
const REDIS_VERSION_NUMBER: u32 = 0x0007_000F;

/// What a script is called: a digest, or the name of a function.
type Name = SmallVec<[u8; HEX_LEN]>;

/// Answers the commands of the server, such as INFO, for the connection that runs the script.
pub(crate) struct Host<'n> {
    pub(crate) node: &'n mut dyn Node,
    pub(crate) session: &'n mut Session,
}

/// What surrounds a call of a script.
pub(crate) struct Around<'h, 'e> {
    /// The shards of the transaction that runs it, which holds the gate.
    pub(crate) held: Option<&'h mut LockSet<'e>>,
    pub(crate) host: Host<'h>,
}

/// One execution of a script: what the functions that Lua calls back work with.
struct Run<'e> {
    engine: &'e Engine,
    locks: LockSet<'e>,
    keys: &'e [&'e [u8]],
    argv: &'e [&'e [u8]],
    /// The digest, or the name of the function.
    name: Name,
    /// Keys and arguments are given to a function, not set as KEYS and ARGV.
    by_arguments: bool,
    db: DbIndex,
    now: Timestamp,
    read_only: bool,
    /// Number of the connection that runs it.
    client: u64,
    /// Whose user may run the script's commands; none when it may run all.
    caller: Option<Arc<Caller>>,
    /// Points to the [`Host`] of the run, which lives as long as it.
    host: NonNull<Host<'static>>,
    /// Memory is short: it may not begin to use more.
    out_of_memory: bool,
    /// What it looks at does not count as used.
    no_touch: bool,
    /// Another server has run it, so nothing is refused.
    applied: bool,
    /// On a node of a cluster: its keys may be of several slots.
    crosses_slots: bool,
    /// On a node of a cluster: the slot of its keys, once it has any.
    slot: Option<u16>,
    /// A command that may write has been run.
    wrote: bool,
    /// Who is to have what it does, as `redis.set_repl` says.
    repl: u8,
    /// The script was ended by the hook.
    killed: bool,
    /// The code of the last error of one of its commands, with the `-`.
    last_error: Option<Box<[u8]>>,
    /// The words of the command that runs it.
    command: &'e [&'e [u8]],
    /// Its entry among those that take long, made when the hook first looks: scripts that end before have none.
    running: Option<Arc<Running>>,
    /// The reply of the last command; its protocol is what `redis.setresp` chose.
    reply: ReplyBuf,
    /// Where libraries put text together.
    text: Vec<u8>,
}

/// Bytes that the Lua states of all threads hold, about: those of scripts alone, and those with functions.
pub(crate) fn states_bytes() -> [usize; 2] {
    vm::all_bytes()
}

/// Runs one of the script commands.
pub(crate) fn run<'e>(
    engine: &'e Engine,
    command: ScriptCommand,
    call: &Call<'e>,
    out: &mut ReplyBuf,
    around: Around<'_, 'e>,
) -> Result<Reply, CmdError> {
    let result = answer(engine, command, call, out, around);
    vm::shrink();
    result
}

fn answer<'e>(
    engine: &'e Engine,
    command: ScriptCommand,
    call: &Call<'e>,
    out: &mut ReplyBuf,
    around: Around<'_, 'e>,
) -> Result<Reply, CmdError> {
    let words = call.args;
    match command {
        ScriptCommand::Eval => eval(engine, call, call.db, false, out, around),
        ScriptCommand::EvalRo => eval(engine, call, call.db, true, out, around),
        ScriptCommand::EvalSha => eval_sha(engine, call, call.db, false, out, around),
        ScriptCommand::EvalShaRo => eval_sha(engine, call, call.db, true, out, around),
        ScriptCommand::ScriptLoad => {
            let sha = sha1_hex(words[2]);
            load(engine, words[2], sha, true)?;
            out.bulk(&sha);
            Ok(Reply::Written)
        }
        ScriptCommand::ScriptExists => {
            out.array(words.len() - 2);
            for word in &words[2..] {
                let found = hex(word).is_some_and(|sha| engine.scripts.contains(&sha));
                out.int(i64::from(found));
            }
            Ok(Reply::Written)
        }
        ScriptCommand::ScriptFlush => {
            let mode = words.get(2).copied().unwrap_or(b"SYNC");
            if words.len() > 3
                || !(mode.eq_ignore_ascii_case(b"SYNC") || mode.eq_ignore_ascii_case(b"ASYNC"))
            {
                return Err(CmdError::BadScriptFlushMode);
            }
            engine.scripts.flush();
            vm::note_flush();
            Ok(Reply::Ok)
        }
        ScriptCommand::ScriptKill => engine.scripts.long.kill(Busy::Script).map(|()| Reply::Ok),
        ScriptCommand::ScriptDebug => debug(words[2]),
        ScriptCommand::Function(command) => functions::commands::run(engine, command, call, out),
        ScriptCommand::Fcall => {
            functions::commands::call(engine, call, call.db, false, out, around)
        }
        ScriptCommand::FcallRo => {
            functions::commands::call(engine, call, call.db, true, out, around)
        }
    }
}

/// SCRIPT DEBUG: there is no debugger, so it can only be left off.
fn debug(mode: &[u8]) -> Result<Reply, CmdError> {
    if mode.eq_ignore_ascii_case(b"NO") {
        return Ok(Reply::Ok);
    }
    Err(
        if mode.eq_ignore_ascii_case(b"YES") || mode.eq_ignore_ascii_case(b"SYNC") {
            CmdError::err("This server has no script debugger")
        } else {
            CmdError::err("Use SCRIPT DEBUG YES/SYNC/NO")
        },
    )
}

/// A digest in any case.
fn hex(word: &[u8]) -> Option<Hex> {
    let mut sha: Hex = word.try_into().ok()?;
    sha.make_ascii_lowercase();
    Some(sha)
}

const _: () = assert!(HEX_LEN == 40, "clients send 40 digits");

fn eval<'e>(
    engine: &'e Engine,
    call: &Call<'e>,
    db: DbIndex,
    read_only: bool,
    out: &mut ReplyBuf,
    around: Around<'_, 'e>,
) -> Result<Reply, CmdError> {
    let body = call.args[1];
    let sha = sha1_hex(body);
    let invocation = Invocation::of_digest(call, db, read_only, &sha)?;
    let compiled = match find(engine, &sha) {
        Some(found) => found,
        None => load(engine, body, sha, false)?,
    };
    execute(engine, &compiled, invocation, out, around)
}

fn eval_sha<'e>(
    engine: &'e Engine,
    call: &Call<'e>,
    db: DbIndex,
    read_only: bool,
    out: &mut ReplyBuf,
    around: Around<'_, 'e>,
) -> Result<Reply, CmdError> {
    let sha = hex(call.args[1]).ok_or(CmdError::NoScript)?;
    let invocation = Invocation::of_digest(call, db, read_only, &sha)?;
    let compiled = find(engine, &sha).ok_or(CmdError::NoScript)?;
    execute(engine, &compiled, invocation, out, around)
}

/// Some of the words of a command.
type Words<'a> = &'a [&'a [u8]];

/// The keys and the other arguments of `EVAL body numkeys key... arg...`.
fn split<'a>(words: &'a [&'a [u8]]) -> Result<(Words<'a>, Words<'a>), CmdError> {
    let count = number::parse_i64(words[2]).ok_or(CmdError::NotAnInteger)?;
    let rest = &words[3..];
    if count > rest.len() as i64 {
        return Err(CmdError::TooManyKeys);
    }
    let count = usize::try_from(count).map_err(|_| CmdError::NegativeKeyCount)?;
    Ok(rest.split_at(count))
}

/// The script of that digest, compiled on this thread.
fn find(engine: &Engine, sha: &Hex) -> Option<Compiled> {
    let seen = engine.scripts.seen();
    vm::with_vm(|vm| {
        if let Some(found) = vm.compiled(sha, seen, || engine.scripts.contains(sha)) {
            return Some(found);
        }
        let script = engine.scripts.get(sha)?;
        // It compiled when it was loaded; only lack of memory can fail it now.
        compile(vm, &script).ok()
    })?
}

/// The same, for who asks about the script and does not run it.
fn look_at(engine: &Engine, sha: &Hex) -> Option<Compiled> {
    let found = find(engine, sha);
    vm::shrink();
    found
}

/// Compiles a script on this thread and remembers it there.
fn compile(vm: &mut Vm, script: &Script) -> Result<Compiled, CmdError> {
    let header = shebang::parse(&script.body)?;
    let source = &script.body[header.len..];
    let facts = prove::analyse(source);
    let function = vm.compile(source, facts.tame).map_err(|message| {
        CmdError::err([b"Error compiling script (new function): ", &message[..]].concat())
    })?;
    let compiled = Compiled {
        function,
        flags: header.flags,
        facts,
        seen: vm::UNSEEN,
    };
    vm.remember(script.sha, compiled);
    Ok(compiled)
}

/// Compiles a script and puts it into the cache.
fn load(engine: &Engine, body: &[u8], sha: Hex, keep: bool) -> Result<Compiled, CmdError> {
    let script = Arc::new(Script {
        sha,
        body: body.into(),
    });
    let compiled = match find(engine, &sha) {
        Some(found) => found,
        None => vm::with_vm(|vm| compile(vm, &script)).ok_or_else(no_memory)??,
    };
    if engine.scripts.insert(&script, keep) {
        Ok(compiled)
    } else {
        Err(CmdError::err(
            "The script cache is full; SCRIPT FLUSH empties it",
        ))
    }
}

fn no_memory() -> CmdError {
    CmdError::err("There is no memory for another script state")
}

/// What one call of a script brings.
struct Invocation<'a> {
    /// The digest, or the name of the function.
    name: Name,
    /// Under which its cost is remembered.
    place: Place,
    long: Long<'a>,
    by_arguments: bool,
    /// The words of the command.
    command: &'a [&'a [u8]],
    keys: &'a [&'a [u8]],
    argv: &'a [&'a [u8]],
    db: DbIndex,
    now: Timestamp,
    read_only: bool,
    client: u64,
    caller: Option<Arc<Caller>>,
    out_of_memory: bool,
    /// What it looks at does not count as used.
    no_touch: bool,
    /// Another server has run it, so nothing is refused.
    applied: bool,
}

impl<'a> Invocation<'a> {
    /// What EVAL and its like ask of the script with this digest.
    fn of_digest(
        call: &Call<'a>,
        db: DbIndex,
        read_only: bool,
        sha: &Hex,
    ) -> Result<Invocation<'a>, CmdError> {
        let (name, place) = (Name::from_slice(sha), Place::of_digest(sha));
        Invocation::of(call, db, read_only, name, place)
    }

    /// What a command of the form `EVAL what numkeys key... arg...` asks for.
    fn of(
        call: &Call<'a>,
        db: DbIndex,
        read_only: bool,
        name: Name,
        place: Place,
    ) -> Result<Invocation<'a>, CmdError> {
        let (keys, argv) = split(call.args)?;
        Ok(Invocation {
            name,
            place,
            long: call.long,
            by_arguments: false,
            command: call.args,
            keys,
            argv,
            db,
            now: call.now,
            read_only,
            client: call.client,
            caller: call.caller.clone(),
            out_of_memory: call.out_of_memory,
            no_touch: call.no_touch,
            applied: call.origin.is_applied(),
        })
    }
}

/// Whether a call of a script or function needs the gate, as far as this thread knows.
pub(crate) fn needs_gate(engine: &Engine, command: ScriptCommand, words: &[&[u8]]) -> bool {
    let sha = match command {
        ScriptCommand::Eval | ScriptCommand::EvalRo => Some(sha1_hex(words[1])),
        ScriptCommand::EvalSha | ScriptCommand::EvalShaRo => hex(words[1]),
        _ => None,
    };
    // A script that is not there is an error, for which nobody waits.
    let known = sha.is_some();
    let found = sha.and_then(|sha| look_at(engine, &sha));
    match (command, found) {
        (_, Some(compiled)) => !compiled.facts_in(engine).declared_only,
        (ScriptCommand::EvalSha | ScriptCommand::EvalShaRo, None) => false,
        (ScriptCommand::Eval | ScriptCommand::EvalRo, None) => known,
        _ => true,
    }
}

/// Whether a call of a script or function is to be expected to be long, as far as this thread knows.
pub(crate) fn may_be_long(engine: &Engine, command: ScriptCommand, words: &[&[u8]]) -> bool {
    let sha = match command {
        ScriptCommand::Eval | ScriptCommand::EvalRo => Some(sha1_hex(words[1])),
        ScriptCommand::EvalSha | ScriptCommand::EvalShaRo => hex(words[1]),
        ScriptCommand::Fcall | ScriptCommand::FcallRo => {
            return engine.functions.find(words[1]).is_some_and(|found| {
                let place = found.place(&engine.costs);
                !engine.costs.is_trusted(place)
            });
        }
        ScriptCommand::Function(command) => {
            return matches!(command, FunctionCommand::Load | FunctionCommand::Restore);
        }
        _ => None,
    };
    let Some(sha) = sha else {
        return false;
    };
    match look_at(engine, &sha) {
        Some(compiled) => {
            !compiled.facts_in(engine).brief && !engine.costs.is_trusted(Place::of_digest(&sha))
        }
        // EVALSHA of a script that is not there is an error.
        None => {
            matches!(command, ScriptCommand::Eval | ScriptCommand::EvalRo)
                && !(engine.has_own_names() && prove::analyse(words[1]).brief)
        }
    }
}

/// The flags of a call that has those of its `row`: what its script or function says of itself takes their place where it
/// says anything. What is not known fails when it runs.
pub(crate) fn flags_of(
    engine: &Engine,
    command: ScriptCommand,
    words: &[&[u8]],
    row: Flags,
) -> Flags {
    // The call may be of any number of words yet.
    let Some(&what) = words.get(1) else {
        return row;
    };
    let said = match command {
        ScriptCommand::Eval | ScriptCommand::EvalRo => {
            shebang::parse(what).ok().map(|header| header.flags)
        }
        ScriptCommand::EvalSha | ScriptCommand::EvalShaRo => hex(what)
            .and_then(|sha| look_at(engine, &sha))
            .map(|compiled| compiled.flags),
        ScriptCommand::Fcall | ScriptCommand::FcallRo => {
            (engine.functions.find(what)).map(|found| found.info().flags)
        }
        _ => None,
    };
    said.map_or(row, |said| said.in_place_of(row))
}

impl Run<'_> {
    /// What it is to clients that wait for it.
    fn kind(&self) -> Busy {
        if self.by_arguments {
            Busy::Function
        } else {
            Busy::Script
        }
    }

    /// Its entry among the scripts that take long.
    fn running(&mut self) -> &Arc<Running> {
        let kind = self.kind();
        let (engine, name, command, wrote) = (self.engine, &self.name, self.command, self.wrote);
        self.running
            .get_or_insert_with(|| engine.scripts.long.enter(kind, name, command, wrote))
    }
}

/// Whether a script may be long, or come to need what a long command holds, so that no event loop is to run it.
fn is_for_others(engine: &Engine, facts: prove::Facts, place: Place) -> bool {
    !facts.brief && !engine.costs.is_trusted(place)
        || !facts.declared_only && engine.shards.are_kept()
}

/// Whether a script on a thread that serves connections would copy the large value of a key of its for a snapshot.
fn copies(engine: &Engine, call: &Invocation<'_>, locks: &mut LockSet<'_>) -> bool {
    if call.read_only || !is_walked(locks) {
        return false;
    }
    let keys: Vec<_> = call.keys.iter().map(|key| engine.seed.key(key)).collect();
    engine.lends(&keys, call.db, call.now, locks)
}

/// Locks and runs.
fn execute<'e>(
    engine: &'e Engine,
    compiled: &Compiled,
    call: Invocation<'e>,
    out: &mut ReplyBuf,
    mut around: Around<'_, 'e>,
) -> Result<Reply, CmdError> {
    may_run(engine, compiled.flags, &call)?;
    // What cannot be long is not timed.
    let facts = compiled.facts_in(engine);
    if is_for_others(engine, facts, call.place) && call.long.moves() {
        return Ok(Reply::Written);
    }
    let Some(mut locks) = lock(engine, facts.declared_only, &call, &around) else {
        return Ok(Reply::Written);
    };
    let ran = vm::with_vm(|vm| {
        let mut reply = std::mem::take(&mut vm.scratch);
        reply.clear();
        reply.set_protocol(Protocol::Resp2);
        cjson::reset();
        if let Some(held) = &mut around.held {
            std::mem::swap(*held, &mut locks);
        }
        let mut run = Run {
            engine,
            locks,
            keys: call.keys,
            argv: call.argv,
            name: call.name,
            by_arguments: call.by_arguments,
            db: call.db,
            now: call.now,
            read_only: call.read_only || compiled.flags.contains(ScriptFlags::NO_WRITES),
            client: call.client,
            caller: call.caller,
            host: NonNull::from(&mut around.host).cast(),
            out_of_memory: call.out_of_memory && !compiled.flags.contains(ScriptFlags::ALLOW_OOM),
            no_touch: call.no_touch,
            applied: call.applied,
            crosses_slots: compiled.flags.crosses_slots(),
            slot: engine.cluster.slot_of_first(call.keys),
            wrote: false,
            repl: api::REPL_ALL,
            killed: false,
            last_error: None,
            command: call.command,
            running: None,
            reply,
            text: Vec::new(),
        };
        let watch = (!facts.brief).then(|| Stopwatch::start(&engine.costs, call.place));
        let mark = out.len();
        vm.call(compiled, &mut run, out);
        run.conclude_errors(&out.bytes()[mark..]);
        if let Some(watch) = watch {
            engine.costs.took(call.place, watch.stop());
        }
        if let Some(running) = &run.running {
            engine.scripts.long.leave(running);
        }
        vm.scratch = run.reply;
        match around.held {
            Some(held) => *held = run.locks,
            None => settle(engine, &mut run.locks, run.running.as_deref(), call.now),
        }
    });
    ran.map(|()| Reply::Written).ok_or_else(no_memory)
}

/// Serves those who wait for what a script has changed; `long` if it has run for long.
fn settle(engine: &Engine, locks: &mut LockSet<'_>, long: Option<&Running>, now: Timestamp) {
    match long {
        Some(long) => engine.settle_since(locks, now, long.started()),
        None => engine.settle(locks, now),
    }
}

/// Whether what a script says of itself fits the way it is called, the memory there is, and the server's part in
/// replication.
fn may_run(engine: &Engine, flags: ScriptFlags, call: &Invocation<'_>) -> Result<(), CmdError> {
    if engine.scripts.stopping() {
        return Err(CmdError::err("The server is shutting down"));
    }
    if flags.contains(ScriptFlags::NO_CLUSTER) && engine.cluster.is_on() {
        return Err(CmdError::ScriptNotOnCluster);
    }
    let restrictions = match call.applied {
        true => Restrictions::NONE,
        false => engine.restrictions(),
    };
    let is_stale = restrictions.contains(Restrictions::STALE);
    if flags.contains(ScriptFlags::COMPATIBLE) {
        return match is_stale {
            true => Err(CmdError::MasterDown),
            false => Ok(()),
        };
    }
    if is_stale && !flags.contains(ScriptFlags::ALLOW_STALE) {
        return Err(CmdError::MasterDownForScript);
    }
    if flags.contains(ScriptFlags::NO_WRITES) {
        return Ok(());
    }
    if restrictions.contains(Restrictions::READ_ONLY) {
        return Err(CmdError::ReadOnlyReplicaForScript);
    }
    if restrictions.contains(Restrictions::UNSAVED) {
        return Err(CmdError::UnsavedScript);
    }
    if let Some(reason) = engine.log_error().filter(|_| !call.applied) {
        return Err(CmdError::log_failed_for_script(&reason));
    }
    if call.read_only {
        return Err(CmdError::err(
            "Can not execute a script with write flag using *_ro command.",
        ));
    }
    if !call.applied && engine.lacks_replicas.load(Ordering::Relaxed) {
        return Err(CmdError::NoReplicas);
    }
    if call.out_of_memory && !flags.contains(ScriptFlags::ALLOW_OOM) {
        return Err(CmdError::OutOfMemoryForScript);
    }
    Ok(())
}

/// The shards a script starts with; those of a transaction come to it later. `None`: the script is to run elsewhere, since a
/// long command has come to hold them, or it would copy what is large.
fn lock<'e>(
    engine: &'e Engine,
    declared_only: bool,
    call: &Invocation<'_>,
    around: &Around<'_, '_>,
) -> Option<LockSet<'e>> {
    if around.held.is_some() {
        return Some(engine.shards.lock_none());
    }
    let count = engine.shards.count();
    let mut wanted: ShardList = call
        .keys
        .iter()
        .map(|key| engine.seed.key(key).shard(count))
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    let shards = &engine.shards;
    if matches!(call.long, Long::Elsewhere(_)) {
        let mut locked = match declared_only {
            true => shards.lock_set_unless_kept(&wanted),
            false => shards.lock_gate_alone().map(|mut locks| {
                locks.extend(&wanted);
                locks
            }),
        };
        let copies = (locked.as_mut()).is_some_and(|locks| copies(engine, call, locks));
        if copies && call.long.moves() {
            return None;
        }
        if locked.is_some() || call.long.moves() {
            return locked;
        }
    }
    let is_worker = matches!(call.long, Long::Worker);
    if declared_only && is_worker {
        return Some(shards.keep_set(&wanted));
    }
    if declared_only {
        return Some(shards.lock_set(&wanted));
    }
    if is_worker {
        return Some(shards.keep_gate_with(&wanted));
    }
    let mut locks = shards.lock_gate();
    locks.extend(&wanted);
    Some(locks)
}
