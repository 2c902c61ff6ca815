//! `redis.call` and `redis.pcall`: the executor as scripts see it.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tollgate_commands::{
    Args, CmdError, Flags, Group, NodeCommand, Origin, Reply, Row, Run as Runs, gate,
};
use tollgate_containers::number;
use tollgate_keyspace::DbIndex;
use tollgate_limiter::Timestamp;
use tollgate_net::clock::Clock;

use super::api::REPL_ALL;
use super::lua::*;
use super::{Run, to_lua, vm};
use crate::call::{Call, Long};
use crate::cell::{Cells, OneOf};
use crate::cluster::error_in_script;
use crate::execute::elapsed;
use crate::held::while_held;
use crate::journal::for_chosen;
use crate::walk::{LockedWalk, NoWalk};
use crate::{NodeCx, Outcome};

/// Arguments handled without allocation.
const INLINE_ARGS: usize = 16;

/// Text of a number argument.
type NumberText = ([u8; 32], u8);

/// `redis.call(...)`: an error reply is raised.
///
/// # Safety
///
/// Called by Lua during a run.
pub(super) unsafe extern "C-unwind" fn call(l: *mut lua_State) -> c_int {
    // SAFETY: nothing in this frame needs dropping when the error is raised.
    unsafe {
        if perform(l) {
            return 1;
        }
        lua_error(l)
    }
}

/// `redis.pcall(...)`: an error reply is returned.
///
/// # Safety
///
/// Called by Lua during a run.
pub(super) unsafe extern "C-unwind" fn pcall(l: *mut lua_State) -> c_int {
    // SAFETY: as `call`.
    unsafe { perform(l) };
    1
}

/// Runs the command and pushes its reply; false when that is an error.
#[inline]
unsafe fn perform(l: *mut lua_State) -> bool {
    // SAFETY: the run is borrowed twice, one after the other: for the command, which calls no interface function that
    // can raise, and to read what it wrote, by pointer, since pushing may raise.
    unsafe {
        let run = vm::current();
        match dispatch(l, run) {
            Reply::Int(n) => lua_pushnumber(l, n as f64),
            Reply::Null if run.reply.protocol() == tollgate_wire::resp::Protocol::Resp2 => {
                lua_pushboolean(l, 0)
            }
            reply => {
                reply.write(&mut run.reply);
                let bytes: *const [u8] = run.reply.bytes();
                to_lua::push_reply(l, &*bytes);
                let failed = (&(*bytes))[0] == b'-';
                vm::current().reply.clear();
                return !failed;
            }
        }
        true
    }
}

/// Runs the command on the stack. Errors are written to `run.reply` as replies.
unsafe fn dispatch(l: *mut lua_State, run: &mut Run<'_>) -> Reply {
    run.reply.clear();
    // SAFETY: the arguments stay on the stack while they are used.
    let result = unsafe {
        with_args(l, |args| match run.repl {
            REPL_ALL => run.perform(args),
            chosen => for_chosen(chosen, || run.perform(args)),
        })
    };
    match result {
        Ok(reply) => reply,
        Err(error) => {
            run.reply.clear();
            error.write(&mut run.reply);
            run.note_error();
            Reply::Written
        }
    }
}

/// Hands the arguments on the stack to `f` as bytes.
///
/// # Safety
///
/// Called from a function that Lua called.
#[inline]
pub(super) unsafe fn with_args<R>(
    l: *mut lua_State,
    f: impl FnOnce(&[&[u8]]) -> Result<R, CmdError>,
) -> Result<R, CmdError> {
    // SAFETY: none of the interface functions used here raises; strings stay on the stack.
    unsafe {
        let count = lua_gettop(l);
        if count == 0 {
            return Err(CmdError::err(
                "Please specify at least one argument for this redis lib call",
            ));
        }
        let mut few: [&[u8]; INLINE_ARGS] = [b""; INLINE_ARGS];
        if let Some(words) = few.get_mut(..count as usize) {
            let mut strings = 0;
            for (at, word) in words.iter_mut().enumerate() {
                let Some(text) = string_at(l, at as c_int + 1) else {
                    break;
                };
                *word = text;
                strings += 1;
            }
            if strings == count {
                return f(words);
            }
        }
        with_mixed_args(l, count, f)
    }
}

/// As [`with_args`], for arguments of which some are numbers, or many.
unsafe fn with_mixed_args<R>(
    l: *mut lua_State,
    count: c_int,
    f: impl FnOnce(&[&[u8]]) -> Result<R, CmdError>,
) -> Result<R, CmdError> {
    // SAFETY: as in `with_args`.
    unsafe {
        let mut numbers: SmallVec<[NumberText; 4]> = SmallVec::new();
        for index in 1..=count {
            match lua_type(l, index) {
                LUA_TSTRING => {}
                LUA_TNUMBER => numbers.push(number_text(lua_tonumber(l, index))),
                _ => {
                    return Err(CmdError::err(
                        "Lua redis lib command arguments must be strings or integers",
                    ));
                }
            }
        }
        let mut next_number = numbers.iter();
        let args: SmallVec<[&[u8]; INLINE_ARGS]> = (1..=count)
            .map(|index| {
                string_at(l, index).unwrap_or_else(|| {
                    let (text, len) = next_number.next().expect("one text for each number");
                    &text[..usize::from(*len)]
                })
            })
            .collect();
        f(&args)
    }
}

/// A number as Redis passes it to commands: an integer in digits, any other with 17 significant digits.
fn number_text(value: f64) -> NumberText {
    const EXACT: f64 = 1e17;
    let mut text = [0u8; 32];
    if value.abs() < EXACT && value.trunc() == value && !(value == 0.0 && value.is_sign_negative())
    {
        let mut digits = [0; number::I64_TEXT_LEN];
        let digits = number::write_i64(&mut digits, value as i64);
        text[..digits.len()].copy_from_slice(digits);
        return (text, digits.len() as u8);
    }
    // SAFETY: the buffer is longer than any `%.17g`, and the call writes at most its length.
    let len = unsafe {
        libc::snprintf(
            text.as_mut_ptr().cast(),
            text.len(),
            c"%.17g".as_ptr(),
            value,
        )
    };
    (text, u8::try_from(len).unwrap_or(0))
}

/// Where the code of an error ends: the word behind the `-`.
fn code(reply: &[u8]) -> &[u8] {
    let code = reply.split(|byte| matches!(byte, b' ' | b'\r'));
    code.into_iter().next().unwrap_or_default()
}

impl Run<'_> {
    /// The error in `reply` is counted, unless it becomes the reply of the script: it is kept until another one comes.
    #[cold]
    fn note_error(&mut self) {
        let code: Box<[u8]> = code(self.reply.bytes()).into();
        if let Some(before) = self.last_error.replace(code) {
            self.count_error(&before);
        }
    }

    fn count_error(&mut self, code: &[u8]) {
        // SAFETY: `execute` keeps the host alive and untouched until the run is over.
        let host = unsafe { self.host.as_mut() };
        host.node.count_error(&code[1..]);
    }

    /// The script is over: its last error is counted, unless `reply` passes it on and is counted itself.
    pub(super) fn conclude_errors(&mut self, reply: &[u8]) {
        if let Some(last) = self.last_error.take()
            && *last != *code(reply)
        {
            self.count_error(&last);
        }
    }
}

impl Run<'_> {
    /// The time of a command: that at which the script began. Only TIME tells how late it is once the hook has looked at
    /// the script, so that one that waits by it comes to its end.
    fn now_of(&self, row: &Row) -> Timestamp {
        match &self.running {
            Some(running) if row.name == "TIME" => {
                let nanos = running.ran(Clock::monotone());
                self.now.plus(u64::try_from(nanos).unwrap_or(0))
            }
            _ => self.now,
        }
    }

    /// One command of the script: gate, lock, run.
    fn perform(&mut self, args: &[&[u8]]) -> Result<Reply, CmdError> {
        let found = self.engine.resolve(args);
        let row = found.map_err(|_| CmdError::UnknownFromScript)?;
        let counters = self.engine.counters.row(row);
        self.pass_gate(row, args)?;
        self.keep_slot(row, args)?;
        let sampled = counters.called();
        let observer = &self.engine.observer;
        let started = (sampled || observer.times(row, args.len())).then(Clock::monotone);
        if row.writes() {
            if let Some(running) = &self.running
                && !running.begin_write()
            {
                return Err(CmdError::err("The script was killed before it wrote"));
            }
            self.wrote = true;
        }
        let call = Call {
            row,
            args,
            db: self.db,
            now: self.now_of(row),
            origin: Origin::Script,
            may_block: false,
            client: self.client,
            long: Long::Here,
            caller: None,
            out_of_memory: false,
            no_touch: self.no_touch && row.name != "TOUCH",
        };
        if self.engine.listeners.tracking() && row.flags.contains(Flags::READONLY) {
            // As in Redis, a script that reads is taken to read all its keys.
            let keys = self.keys.iter().copied();
            self.engine.tracking.remember_keys(self.client, keys);
        }
        let result = self.run_row(&call);
        if let Some(started) = started {
            let nanos = elapsed(started);
            if sampled {
                counters.took_sampled(nanos);
            }
            observer.took(row, None, args, nanos, call.now);
        }
        if result.is_err() {
            counters.failed();
        }
        if self.engine.monitors.is_active() {
            self.engine.monitors.show(row, self.db, b"lua", args);
        }
        result
    }

    /// Asks the gate for a command of the script.
    #[inline]
    fn pass_gate(&self, row: &'static Row, args: &[&[u8]]) -> Result<(), CmdError> {
        let permit = self
            .caller
            .as_ref()
            .map(|caller| caller.permit(&self.engine.access, self.now));
        let log_error = self.engine.log_error();
        let view = gate::GateView {
            log_error: log_error.as_deref(),
            origin: Origin::Script,
            permit: permit.as_ref().map(|it| it as &dyn gate::Permit),
            read_only_script: self.read_only,
            lacks_replicas: !self.applied && self.engine.lacks_replicas.load(Ordering::Relaxed),
            restrictions: match self.applied {
                true => gate::Restrictions::NONE,
                false => self.engine.restrictions(),
            },
            all_from_scripts: self.engine.all_from_scripts.load(Ordering::Relaxed),
            out_of_memory: self.out_of_memory,
            script_wrote: self.wrote,
            ..gate::GateView::open()
        };
        if let Err(error) = gate::check(row, args, &view) {
            self.engine.counters.row(row).rejected();
            if row.group == Group::RateLimit && matches!(error, CmdError::OutOfMemory) {
                self.engine.memory.refuse_limiter();
            }
            return Err(error);
        }
        Ok(())
    }

    /// On a node of a cluster: keys must be served here, and be of one slot unless the script may use several.
    #[inline]
    fn keep_slot(&mut self, row: &'static Row, args: &[&[u8]]) -> Result<(), CmdError> {
        let cluster = &self.engine.cluster;
        if !cluster.is_on() || self.applied {
            return Ok(());
        }
        let slot = cluster
            .admit(row, args, row.writes())
            .map_err(|error| error_in_script(&error))?;
        let (Some(slot), false) = (slot, self.crosses_slots) else {
            return Ok(());
        };
        match *self.slot.get_or_insert(slot) == slot {
            true => Ok(()),
            false => Err(CmdError::ScriptCrossSlot),
        }
    }

    #[inline]
    fn run_row(&mut self, call: &Call<'_>) -> Result<Reply, CmdError> {
        let engine = self.engine;
        match call.row.run {
            Runs::Keys(handler) if call.row.has_one_first_key() => {
                let key = engine.seed.key(call.args[1]);
                let index = key.shard(engine.shards.count());
                self.locks
                    .acquire(index)
                    .then_some(())
                    .ok_or_else(undeclared)?;
                let mut held = OneOf {
                    index,
                    set: &mut self.locks,
                };
                engine.run_one(handler, call, &[key], &mut held, &mut self.reply)
            }
            Runs::Keys(handler) => {
                for index in engine.shards_of(call.row, call.args)? {
                    self.locks
                        .acquire(index)
                        .then_some(())
                        .ok_or_else(undeclared)?;
                }
                engine.run_held(handler, call, &mut self.locks, &mut self.reply)
            }
            Runs::Keyspace(handler) => {
                if !self.locks.has_gate() {
                    return Err(undeclared());
                }
                let mut walk = LockedWalk::new(engine, &mut self.locks, call);
                engine.run_walk(handler, call, &mut walk, &mut self.reply)
            }
            Runs::Local(handler) | Runs::Wait(handler) => {
                engine.run_walk(handler, call, &mut NoWalk, &mut self.reply)
            }
            Runs::PubSub(command) => {
                let result = engine.pubsub.run(command, call.args, &mut self.reply);
                engine.record_call(call, result.is_ok());
                result
            }
            // SELECT counts until the script ends.
            Runs::Node(NodeCommand::Select) => {
                let db = Args::new(call.args, 1, &engine.seed).database(engine.limits())?;
                if db != DbIndex::ZERO && engine.cluster.is_on() {
                    return Err(CmdError::NoSelectInCluster);
                }
                self.db = db;
                Ok(Reply::Ok)
            }
            Runs::Node(command) => self.ask_node(command, call),
            Runs::Script(_) | Runs::Transaction(_) | Runs::Container => {
                Err(CmdError::NotFromScript)
            }
        }
    }
}

impl Run<'_> {
    /// A command that the server answers. It may look at every shard, and finds those that the script holds.
    #[cold]
    fn ask_node(&mut self, command: NodeCommand, call: &Call<'_>) -> Result<Reply, CmdError> {
        if !self.locks.has_gate() {
            return Err(undeclared());
        }
        // SAFETY: `execute` keeps the host alive and untouched until the run is over, and nothing that is called from
        // here runs Lua code, which alone could come here again.
        let host = unsafe { self.host.as_mut() };
        let (engine, reply) = (self.engine, &mut self.reply);
        while_held(&mut self.locks, || {
            host.node.run(
                command,
                NodeCx {
                    engine,
                    row: call.row,
                    args: call.cursor(&engine.seed),
                    session: host.session,
                    out: reply,
                    now: call.now,
                    outcome: &mut Outcome::Continue,
                    in_transaction: true,
                },
            )
        })
    }
}

/// A script without the gate met a shard that is not locked and is taken: waiting could be for ever.
#[cold]
fn undeclared() -> CmdError {
    CmdError::err("Script used a key that it did not declare in KEYS")
}
