//! One Lua state per thread: its memory, its compiled functions, and the protected call of a script.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_int, c_void};
use std::hash::{BuildHasherDefault, Hasher};
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tollgate_net::clock::Clock;
use tollgate_wire::resp::ReplyBuf;

use super::api::fail;
use super::functions::{self, FunctionInfo};
use super::lua::*;
use super::memory::Memory;
use super::pace;
use super::prove::Facts;
use super::sandbox::{self, Slot, TAME_WORDS_MAX, Upvalue};
use super::sha1::Hex;
use super::shebang::ScriptFlags;
use super::{Run, to_resp};
use crate::Engine;

/// Bytes that one thread's scripts may hold; then the script that asks for more fails and the state starts afresh.
const MEMORY_MAX: usize = 256 << 20;

/// Bytes that a state may keep for what scripts to come may need, unless it uses as much as [`USED_PART`] of what it holds.
const KEPT_MAX: usize = 16 << 20;
const USED_PART: usize = 4;

/// What the states of all threads take: those of scripts alone, and those that hold functions of libraries.
static ALL_BYTES: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// How often SCRIPT FLUSH has been run in this process.
static FLUSHES: AtomicU64 = AtomicU64::new(0);

/// Bytes by which a state may differ from what was last told of it: threads are not to meet at one word for each script.
const TOLD_BYTES: usize = 4 << 10;

/// Instructions between two looks at the clock.
pub(super) const HOOK_INSTRUCTIONS: c_int = 100_000;

/// Compiled scripts kept per thread; beyond, all are compiled again when next used.
const COMPILED_MAX: usize = 2_000;

/// The error of a script that was ended: it ran out of its time, or the server is stopping.
const KILLED: &[u8] = b"Script ended by the server: it ran for too long, or the server is stopping";

/// The error of a script that SCRIPT KILL or FUNCTION KILL has ended.
const KILLED_BY_COMMAND: &[u8] = b"Script killed by user with SCRIPT KILL...";

/// Longest argument that stays in a table that is used again, bytes: longer ones are not kept alive by it.
const KEPT_WORD_MAX: usize = 1_024;

/// A digest is its own hash: its first bytes.
#[derive(Default)]
struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // The length prefix of the slice comes as `write_length_prefix` or as a short write: mix, do not replace.
        for chunk in bytes.chunks(8).take(2) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }
}

/// A script compiled on this thread, and what must be known to run it. Holds nothing that threads share, so that
/// finding it touches no memory of theirs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compiled {
    /// Registry reference of the function.
    pub(super) function: c_int,
    /// What it says of itself.
    pub(super) flags: ScriptFlags,
    /// What its source proves.
    pub(super) facts: Facts,
    /// Engine and generation of its script cache in which the script was last seen.
    pub(super) seen: (u64, u64),
}

impl Compiled {
    /// What its source proves in a store. Where commands have other names, it says nothing about which commands it runs.
    pub(super) fn facts_in(&self, engine: &Engine) -> Facts {
        match engine.has_own_names() {
            true => self.facts,
            false => Facts {
                declared_only: false,
                brief: false,
                ..self.facts
            },
        }
    }
}

/// No engine has seen the script yet.
pub(super) const UNSEEN: (u64, u64) = (0, 0);

/// The Lua state of one thread.
pub(super) struct Vm {
    lua: *mut lua_State,
    /// Owned by `lua`'s allocator; boxed so that its address stays.
    memory: Box<Memory>,
    /// Its part of [`ALL_BYTES`].
    told: usize,
    /// Which of the two that is a part of.
    told_as: usize,
    /// [`FLUSHES`] when it was made.
    flushes: u64,
    compiled: HashMap<Hex, Compiled, BuildHasherDefault<DigestHasher>>,
    /// Taken by a run and given back, so that its buffer is reused.
    pub(super) scratch: ReplyBuf,
    filled: Filled,
    /// By the number of the library, the registry references of its functions in their order.
    libraries: HashMap<u64, Vec<c_int>>,
    /// Engine and generation of its libraries when those that had left were last dropped here.
    libraries_seen: (u64, u64),
}

/// What the tables that tame scripts get as KEYS and ARGV hold.
#[derive(Default)]
struct Filled {
    /// The names KEYS and ARGV stand for them now.
    bound: bool,
    keys: usize,
    argv: usize,
}

thread_local! {
    static VM: RefCell<Option<Vm>> = const { RefCell::new(None) };
    /// The run in progress on this thread, for the functions that Lua calls back.
    static RUN: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
}

/// Runs `f` with this thread's state, made on first use. The state stays until [`shrink`].
///
/// Returns `None` when there is no memory for a state.
pub(super) fn with_vm<R>(f: impl FnOnce(&mut Vm) -> R) -> Option<R> {
    VM.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Vm::new();
        }
        slot.as_mut().map(f)
    })
}

/// Gives up this thread's state if what it keeps takes much memory. To be called when a command of scripts is over: what
/// was compiled for it is a number that another state gives to something else.
pub(super) fn shrink() {
    VM.with_borrow_mut(|slot| {
        let Some(vm) = slot else { return };
        if vm.memory.used() > MEMORY_MAX / 2 {
            // SAFETY: the state is live and nothing runs on it.
            unsafe { lua_gc(vm.lua, LUA_GCCOLLECT, 0) };
            if vm.memory.used() > MEMORY_MAX / 2 {
                *slot = None;
                return;
            }
        }
        if vm.keeps_much() && vm.libraries.is_empty() {
            *slot = None;
            return;
        }
        vm.tell_size();
    });
}

/// Says that states made before now need not be kept.
pub(super) fn note_flush() {
    FLUSHES.fetch_add(1, Ordering::Relaxed);
}

/// How often SCRIPT FLUSH has been run in this process.
pub fn flushes() -> u64 {
    FLUSHES.load(Ordering::Relaxed)
}

/// Whether this thread keeps a Lua state although SCRIPT FLUSH was run since it was made, and no library keeps variables
/// there.
pub fn keeps_flushed() -> bool {
    VM.with_borrow(|slot| slot.as_ref().is_some_and(Vm::is_flushed))
}

/// Gives up the Lua state of this thread, on which nothing runs, if [`keeps_flushed`].
pub fn give_up_flushed() {
    VM.with_borrow_mut(|slot| slot.take_if(|vm| vm.is_flushed()));
}

/// Bytes of all Lua states of the process, about, as they were when a command of scripts was last over on each thread:
/// those of scripts alone, and those that hold functions of libraries too.
pub(super) fn all_bytes() -> [usize; 2] {
    [0, 1].map(|kind: usize| ALL_BYTES[kind].load(Ordering::Relaxed))
}

/// The run in progress on this thread.
///
/// # Safety
///
/// Called from a function that Lua called, which only happens during [`Vm::call`]; the reference is not kept, and no
/// other one lives.
pub(super) unsafe fn current<'a>() -> &'a mut Run<'a> {
    // SAFETY: `Vm::call` set the pointer to a live run that nobody else uses until the call returns.
    unsafe { &mut *RUN.get().cast() }
}

impl Vm {
    fn new() -> Option<Vm> {
        let mut memory = Box::new(Memory::new(MEMORY_MAX));
        let context: *mut Memory = &mut *memory;
        // SAFETY: `allocate` follows the contract of `lua_Alloc`, and `memory` lives as long as the state.
        let lua = unsafe { lua_newstate(allocate, context.cast()) };
        if lua.is_null() {
            return None;
        }
        memory.set_state(lua);
        let vm = Vm {
            lua,
            memory,
            told: 0,
            told_as: 0,
            flushes: flushes(),
            compiled: HashMap::default(),
            scratch: ReplyBuf::default(),
            filled: Filled::default(),
            libraries: HashMap::new(),
            libraries_seen: UNSEEN,
        };
        // SAFETY: a fresh state; `build` runs in protected mode.
        unsafe {
            if lua_cpcall(lua, sandbox::build, ptr::null_mut()) != LUA_OK {
                return None;
            }
            set_hook(lua);
        }
        Some(vm)
    }

    fn is_flushed(&self) -> bool {
        self.flushes != flushes() && self.libraries.is_empty()
    }

    /// Whether nearly all that the state holds is free, and much.
    fn keeps_much(&self) -> bool {
        let held = self.memory.held();
        held > KEPT_MAX && self.memory.used() < held / USED_PART
    }

    /// Corrects [`ALL_BYTES`], unless little has changed.
    fn tell_size(&mut self) {
        let used = self.memory.held();
        let kind = usize::from(!self.libraries.is_empty());
        if kind != self.told_as || used.abs_diff(self.told) >= TOLD_BYTES {
            ALL_BYTES[self.told_as].fetch_sub(self.told, Ordering::Relaxed);
            ALL_BYTES[kind].fetch_add(used, Ordering::Relaxed);
            (self.told, self.told_as) = (used, kind);
        }
    }

    /// Runs the code of a library here; what it registers, with registry references. The error is a text.
    pub(super) fn load(
        &mut self,
        engine: &Engine,
        code: &[u8],
        limited: bool,
    ) -> Result<Vec<(FunctionInfo, c_int)>, Vec<u8>> {
        // SAFETY: the state is live and nothing runs on it, since `self` is borrowed for change.
        unsafe { functions::load::load(self.lua, engine, code, limited) }
    }

    /// Keeps the functions that [`Vm::load`] has given.
    pub(super) fn keep_library(&mut self, id: u64, functions: Vec<c_int>) {
        self.libraries.insert(id, functions);
    }

    /// Drops references of [`Vm::load`].
    pub(super) fn release(&mut self, functions: impl Iterator<Item = c_int>) {
        for function in functions {
            // SAFETY: the reference came from `luaL_ref` and nobody keeps it.
            unsafe { luaL_unref(self.lua, LUA_REGISTRYINDEX, function) };
        }
    }

    /// The function at that place of a library that was compiled here.
    pub(super) fn function(&self, library: u64, at: usize) -> Option<c_int> {
        self.libraries.get(&library)?.get(at).copied()
    }

    /// Drops the functions of libraries that have left, if any has since the last call.
    pub(super) fn forget_libraries(
        &mut self,
        seen: (u64, u64),
        live: impl FnOnce() -> HashSet<u64>,
    ) {
        if self.libraries_seen == seen {
            return;
        }
        let live = live();
        let dead: Vec<Vec<c_int>> = self
            .libraries
            .extract_if(|id, _| !live.contains(id))
            .map(|(_, functions)| functions)
            .collect();
        self.release(dead.into_iter().flatten());
        self.libraries_seen = seen;
    }

    /// A script that was compiled here, if `seen` says that the cache is as it was then or `still_there` finds it.
    pub(super) fn compiled(
        &mut self,
        sha: &Hex,
        seen: (u64, u64),
        still_there: impl FnOnce() -> bool,
    ) -> Option<Compiled> {
        let found = self.compiled.get_mut(sha)?;
        if found.seen != seen {
            if !still_there() {
                return None;
            }
            found.seen = seen;
        }
        Some(*found)
    }

    /// Compiles `body`; a `tame` one works with the real tables of globals and libraries. The error is Lua's message.
    pub(super) fn compile(&mut self, body: &[u8], tame: bool) -> Result<c_int, Vec<u8>> {
        // SAFETY: the state is live and its stack empty; loading runs in protected mode, and so does `luaL_ref` below,
        // whose only failure is memory for one more table slot.
        unsafe {
            let status = luaL_loadbuffer(
                self.lua,
                body.as_ptr().cast(),
                body.len(),
                c"@user_script".as_ptr(),
            );
            if status != LUA_OK {
                let message = string_at(self.lua, -1)
                    .unwrap_or(b"not enough memory")
                    .to_vec();
                lua_settop(self.lua, 0);
                return Err(message);
            }
            if tame {
                lua_rawgeti(self.lua, LUA_REGISTRYINDEX, Slot::Fast as _);
                lua_setfenv(self.lua, -2);
            }
            let mut function: c_int = 0;
            lua_pushcfunction(self.lua, keep);
            lua_insert(self.lua, 1);
            lua_pushlightuserdata(self.lua, ptr::from_mut(&mut function).cast());
            let status = lua_pcall(self.lua, 2, 0, 0);
            lua_settop(self.lua, 0);
            if status == LUA_OK {
                Ok(function)
            } else {
                Err(b"not enough memory".to_vec())
            }
        }
    }

    /// Remembers a compiled script.
    pub(super) fn remember(&mut self, sha: Hex, compiled: Compiled) {
        if self.compiled.len() >= COMPILED_MAX {
            for (_, old) in self.compiled.drain() {
                // SAFETY: the reference came from `luaL_ref` and is dropped from the map; releasing allocates nothing
                // that could raise, since the slot of the free list exists since the first reference.
                unsafe { luaL_unref(self.lua, LUA_REGISTRYINDEX, old.function) };
            }
        }
        if let Some(old) = self.compiled.insert(sha, compiled) {
            // SAFETY: as above.
            unsafe { luaL_unref(self.lua, LUA_REGISTRYINDEX, old.function) };
        }
    }

    /// Calls a compiled function; one reply is written to `out`.
    pub(super) fn call(&mut self, compiled: &Compiled, run: &mut Run<'_>, out: &mut ReplyBuf) {
        let mark = out.len();
        let mut job = Job {
            function: compiled.function,
            tame: compiled.facts.tame,
            by_arguments: run.by_arguments,
            filled: &mut self.filled,
            run: ptr::from_mut(run).cast(),
            out,
        };
        RUN.set(job.run);
        pace::begin();
        // SAFETY: the state is live and its stack empty. `enter` gets the only pointer to `job`, whose referents outlive
        // the call; `RUN` is cleared before they can go away.
        let (status, message) = unsafe {
            lua_rawgeti(self.lua, LUA_REGISTRYINDEX, Slot::Enter as _);
            lua_pushlightuserdata(self.lua, ptr::from_mut(&mut job).cast());
            let status = lua_pcall(self.lua, 1, 0, 0);
            let message = if status == LUA_OK {
                None
            } else {
                string_at(self.lua, -1).map(<[u8]>::to_vec)
            };
            lua_settop(self.lua, 0);
            (status, message)
        };
        RUN.set(ptr::null_mut());
        if run.killed {
            // SAFETY: the hook of `kill` is replaced by the usual one.
            unsafe { set_hook(self.lua) };
        }
        if status != LUA_OK {
            out.truncate(mark);
            let mut line = b"ERR Error running script, ".to_vec();
            line.extend_from_slice(&message.unwrap_or_else(|| b"execution failure".to_vec()));
            out.error_bytes(&line);
        }
    }
}

#[cfg(test)]
impl Vm {
    /// Names of the globals of tame scripts.
    pub(super) fn global_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        // SAFETY: the state is live and its stack empty; names are read and not converted.
        unsafe {
            lua_rawgeti(self.lua, LUA_REGISTRYINDEX, Slot::Fast as _);
            lua_pushnil(self.lua);
            while lua_next(self.lua, 1) != 0 {
                let name = string_at(self.lua, -2).expect("globals have names");
                names.push(String::from_utf8_lossy(name).into_owned());
                lua_settop(self.lua, -2);
            }
            lua_settop(self.lua, 0);
        }
        names
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        ALL_BYTES[self.told_as].fetch_sub(self.told, Ordering::Relaxed);
        // SAFETY: the state is live, nothing runs on it, and nobody uses it afterwards.
        unsafe { lua_close(self.lua) };
    }
}

/// `keep(function, *mut c_int)`: stores a registry reference to the function.
unsafe extern "C-unwind" fn keep(l: *mut lua_State) -> c_int {
    // SAFETY: `Vm::compile` passes a function and a pointer to its own variable.
    unsafe {
        let slot: *mut c_int = lua_touserdata(l, 2).cast();
        lua_settop(l, 1);
        *slot = luaL_ref(l, LUA_REGISTRYINDEX);
        0
    }
}

/// # Safety
///
/// As `lua_Alloc` demands: `block` is null or came from here with `old` bytes.
unsafe extern "C" fn allocate(
    context: *mut c_void,
    block: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: `context` is the `Memory` of the state.
    unsafe {
        let memory = &mut *context.cast::<Memory>();
        memory
            .resize(block.cast(), if block.is_null() { 0 } else { old }, new)
            .cast()
    }
}

/// Sets the hook that looks at the clock.
///
/// # Safety
///
/// A live state.
pub(super) unsafe fn set_hook(l: *mut lua_State) {
    // SAFETY: as promised by the caller.
    unsafe { lua_sethook(l, Some(hook), LUA_MASKCOUNT, HOOK_INSTRUCTIONS) };
}

/// Has the hook called before the next instruction.
///
/// # Safety
///
/// A live state, at any moment: nothing is allocated.
#[cold]
pub(super) unsafe fn look_soon(l: *mut lua_State) {
    // SAFETY: as promised by the caller.
    unsafe {
        if lua_gethookmask(l) == LUA_MASKCOUNT {
            lua_sethook(l, lua_gethook(l), LUA_MASKCOUNT, 1);
        }
    }
}

/// What a hook does first: after [`look_soon`] it is to come as seldom as ever.
///
/// # Safety
///
/// Called from a hook that counts instructions.
pub(super) unsafe fn look_later(l: *mut lua_State) {
    // SAFETY: as promised by the caller.
    unsafe {
        if lua_gethookmask(l) == LUA_MASKCOUNT && lua_gethookcount(l) != HOOK_INSTRUCTIONS {
            lua_sethook(l, lua_gethook(l), LUA_MASKCOUNT, HOOK_INSTRUCTIONS);
        }
    }
}

/// What [`enter`] works on.
struct Job<'a> {
    function: c_int,
    tame: bool,
    /// Keys and arguments are given to a function, not set as KEYS and ARGV.
    by_arguments: bool,
    filled: &'a mut Filled,
    run: *mut c_void,
    out: &'a mut ReplyBuf,
}

/// `enter(*mut Job)`: sets KEYS and ARGV, calls the script and writes its reply. Raises only for lack of memory.
///
/// # Safety
///
/// Called by [`Vm::call`].
pub(super) unsafe extern "C-unwind" fn enter(l: *mut lua_State) -> c_int {
    // SAFETY: the argument is the job of `Vm::call`; the run behind it is only borrowed while no Lua code runs, and what
    // is borrowed here needs no dropping.
    unsafe {
        let job: *mut Job<'_> = lua_touserdata(l, 1).cast();
        let run: *mut Run<'_> = (*job).run.cast();
        let (keys, argv) = ((*run).keys, (*run).argv);
        if (*job).by_arguments {
            lua_pushvalue(l, upvalue(Upvalue::Handler));
            lua_rawgeti_(l, LUA_REGISTRYINDEX, (*job).function);
            push_list(l, keys);
            push_list(l, argv);
            finish(l, lua_pcall(l, 2, 1, -4), job, run);
            return 0;
        }
        let small = |words: &[&[u8]]| {
            words.len() <= TAME_WORDS_MAX && words.iter().all(|word| word.len() <= KEPT_WORD_MAX)
        };
        if (*job).tame && small(keys) && small(argv) {
            let filled = &mut *(*job).filled;
            fill(l, Upvalue::Keys, keys, &mut filled.keys);
            fill(l, Upvalue::Argv, argv, &mut filled.argv);
            if !filled.bound {
                filled.bound = true;
                lua_pushvalue(l, upvalue(Upvalue::Keys));
                set_global(l, Upvalue::Fast, Upvalue::KeysName);
                lua_pushvalue(l, upvalue(Upvalue::Argv));
                set_global(l, Upvalue::Fast, Upvalue::ArgvName);
            }
        } else {
            let globals = if (*job).tame {
                Upvalue::Fast
            } else {
                Upvalue::Globals
            };
            if (*job).tame {
                let filled = &mut *(*job).filled;
                filled.bound = false;
            }
            push_list(l, keys);
            set_global(l, globals, Upvalue::KeysName);
            push_list(l, argv);
            set_global(l, globals, Upvalue::ArgvName);
        }
        lua_pushvalue(l, upvalue(Upvalue::Handler));
        lua_rawgeti_(l, LUA_REGISTRYINDEX, (*job).function);
        finish(l, lua_pcall(l, 0, 1, -2), job, run);
        0
    }
}

/// Writes the reply of a script that has ended with `status`.
unsafe fn finish(l: *mut lua_State, status: c_int, job: *mut Job<'_>, run: *mut Run<'_>) {
    // SAFETY: called by `enter`: both live, and no Lua code runs while they are borrowed.
    unsafe {
        if status == LUA_OK {
            to_resp::write_value(l, (*run).reply.protocol(), (*job).out);
        } else {
            to_resp::write_failure(l, &(&(*run).name)[..], (*job).out);
        }
    }
}

fn upvalue(which: Upvalue) -> c_int {
    lua_upvalueindex(which as c_int)
}

/// Pops a value and makes it the global of that name.
unsafe fn set_global(l: *mut lua_State, globals: Upvalue, name: Upvalue) {
    // SAFETY: the top is the value; the globals have the name already, so nothing is asked of their metatable.
    unsafe {
        lua_pushvalue(l, upvalue(name));
        lua_insert(l, -2);
        lua_rawset(l, upvalue(globals));
    }
}

/// Puts `words` into a table that held `count` others before.
unsafe fn fill(l: *mut lua_State, table: Upvalue, words: &[&[u8]], count: &mut usize) {
    // SAFETY: the upvalue is a table; two slots are free in a fresh frame.
    unsafe {
        lua_pushvalue(l, upvalue(table));
        for at in words.len()..*count {
            lua_pushnil(l);
            lua_rawseti_(l, -2, at as c_int + 1);
        }
        // Also right when the loop below is cut off by an error.
        *count = words.len().max(*count);
        for (at, word) in words.iter().enumerate() {
            push_bytes(l, word);
            lua_rawseti_(l, -2, at as c_int + 1);
        }
        *count = words.len();
        lua_settop(l, -2);
    }
}

/// Pushes a table of strings.
unsafe fn push_list(l: *mut lua_State, items: &[&[u8]]) {
    // SAFETY: three stack slots are free in a fresh frame.
    unsafe {
        lua_createtable(l, c_int::try_from(items.len()).unwrap_or(0), 0);
        for (at, item) in items.iter().enumerate() {
            push_bytes(l, item);
            lua_rawseti_(l, -2, at as c_int + 1);
        }
    }
}

/// Turns what was raised into a table with the place in the script: `{err, source, line}`.
///
/// # Safety
///
/// Called by Lua as the handler of a protected call, with what was raised.
pub(super) unsafe extern "C-unwind" fn error_handler(l: *mut lua_State) -> c_int {
    // SAFETY: `info` is filled by Lua before it is read; its strings live while the function is on the stack.
    unsafe {
        let mut info: lua_Debug = std::mem::zeroed();
        let mut found = lua_getstack(l, 1, &mut info) != 0;
        if found {
            lua_getinfo(l, c"nSl".as_ptr(), &mut info);
            if CStr::from_ptr(info.what) == c"C" {
                found = lua_getstack(l, 2, &mut info) != 0;
                if found {
                    lua_getinfo(l, c"nSl".as_ptr(), &mut info);
                }
            }
        }
        if lua_type(l, 1) != LUA_TTABLE {
            lua_createtable(l, 0, 3);
            push_bytes(l, b"ERR ");
            match lua_type(l, 1) {
                LUA_TSTRING | LUA_TNUMBER => lua_pushvalue(l, 1),
                LUA_TNIL => push_bytes(l, b"nil"),
                LUA_TBOOLEAN => push_bytes(
                    l,
                    if lua_toboolean(l, 1) != 0 {
                        b"true"
                    } else {
                        b"false"
                    },
                ),
                other => lua_pushstring_(l, lua_typename(l, other)),
            }
            lua_concat(l, 2);
            lua_setfield(l, -2, c"err".as_ptr());
        } else {
            lua_pushvalue(l, 1);
        }
        if found && luaL_getmetafield_(l, -1, c"__newindex".as_ptr()) == 0 {
            lua_pushstring_(l, info.source);
            lua_setfield(l, -2, c"source".as_ptr());
            lua_pushnumber(l, f64::from(info.currentline));
            lua_setfield(l, -2, c"line".as_ptr());
        }
        lua_pushvalue(l, 2);
        1
    }
}

/// The level of what must not be overlooked, as scripts number them.
const WARNING: u8 = 3;

/// Called every so many instructions: ends a script that has run for too long.
unsafe extern "C-unwind" fn hook(l: *mut lua_State, _info: *mut lua_Debug) {
    // SAFETY: called by Lua; nothing in this frame needs dropping.
    unsafe {
        look_later(l);
        if !look(l) {
            end(l)
        }
    }
}

/// Looks at what runs on this thread; false when it is to end: then every instruction of it raises from now on, so that it cannot
/// go on by catching the error.
///
/// # Safety
///
/// Called from a function that Lua called, which holds no reference to the run.
pub(super) unsafe fn look(l: *mut lua_State) -> bool {
    // SAFETY: the run, if there is one, is borrowed for this look.
    unsafe {
        if let Some(goes_on) = functions::load::look(l) {
            return goes_on;
        }
        if RUN.get().is_null() {
            return true;
        }
        let run = current();
        let now = Clock::monotone();
        let engine = run.engine;
        // Whoever needs what it holds need not wait on the spot.
        run.locks.keep();
        let running = run.running();
        let was_busy = engine.busy().is_some();
        let over = engine.scripts.long.look(running, now);
        if !was_busy && engine.busy().is_some() {
            engine.scripts.log(WARNING, &running.complaint(now));
            engine.shards.call_back();
        }
        if !running.is_killed() && !over && !engine.scripts.stopping() {
            return true;
        }
        run.killed = true;
        // Not at calls: the handler of the error that comes now is one.
        lua_sethook(l, Some(kill), LUA_MASKCOUNT, 1);
        false
    }
}

/// Raises the error of what [`look`] has ended.
///
/// # Safety
///
/// Called from a function that Lua called, with nothing in the frame that needs dropping.
pub(super) unsafe fn end(l: *mut lua_State) -> ! {
    // SAFETY: as promised by the caller; the run is borrowed for one look.
    unsafe {
        if functions::load::is_loading() {
            functions::load::time_out(l)
        }
        if current().running().is_killed() {
            fail(l, KILLED_BY_COMMAND)
        } else {
            raise(l, KILLED)
        }
    }
}

unsafe extern "C-unwind" fn kill(l: *mut lua_State, _info: *mut lua_Debug) {
    // SAFETY: hooks run only during a run; nothing in this frame needs dropping.
    unsafe { end(l) }
}
