//! FUNCTION and FCALL.

use std::collections::HashSet;
use std::sync::Arc;

use tollgate_commands::gate::Busy;
use tollgate_commands::{CmdError, FunctionCommand, Reply};
use tollgate_containers::{glob, number};
use tollgate_keyspace::DbIndex;
use tollgate_persist::rdb::{dump_libraries, read_libraries};
use tollgate_wire::resp::ReplyBuf;

use super::super::prove::Facts;
use super::super::vm::{self, Compiled, Vm};
use super::super::{Around, Invocation, execute, no_memory};
use super::library::{ENGINE, Found, FunctionInfo, Library, Table, metadata, next_id};
use crate::Engine;
use crate::call::Call;

/// What FUNCTION RESTORE does with the libraries that are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Restore {
    Flush,
    Append,
    Replace,
}

/// Runs a sub-command of FUNCTION.
pub(in super::super) fn run(
    engine: &Engine,
    command: FunctionCommand,
    call: &Call<'_>,
    out: &mut ReplyBuf,
) -> Result<Reply, CmdError> {
    let words = &call.args[2..];
    match command {
        FunctionCommand::Load => load(engine, words, out),
        FunctionCommand::Delete => delete(engine, words[0]),
        FunctionCommand::Flush => flush(engine, call.args),
        FunctionCommand::List => list(engine, words, out),
        FunctionCommand::Dump => {
            out.bulk(&engine.dump_functions());
            Ok(Reply::Written)
        }
        FunctionCommand::Restore => restore(engine, call.args),
        FunctionCommand::Kill => engine.scripts.long.kill(Busy::Function).map(|()| Reply::Ok),
        FunctionCommand::Stats => stats(engine, out),
    }
}

/// FCALL and FCALL_RO.
pub(in super::super) fn call<'e>(
    engine: &'e Engine,
    call: &Call<'e>,
    db: DbIndex,
    read_only: bool,
    out: &mut ReplyBuf,
    around: Around<'_, 'e>,
) -> Result<Reply, CmdError> {
    let found = engine
        .functions
        .find(call.args[1])
        .ok_or_else(|| CmdError::err("Function not found"))?;
    if number::parse_i64(call.args[2]).is_none() {
        return Err(CmdError::err("Bad number of keys provided"));
    }
    let name = super::super::Name::from_slice(&found.info().name);
    let place = found.place(&engine.costs);
    let invocation = Invocation::of(call, db, read_only, name, place)?;
    let compiled = vm::with_vm(|vm| function(vm, engine, &found)).ok_or_else(no_memory)??;
    let invocation = Invocation {
        by_arguments: true,
        ..invocation
    };
    execute(engine, &compiled, invocation, out, around)
}

/// The function, compiled on this thread.
fn function(vm: &mut Vm, engine: &Engine, found: &Found) -> Result<Compiled, CmdError> {
    let seen = (engine.scripts.seen().0, engine.functions.generation());
    vm.forget_libraries(seen, || {
        engine
            .functions
            .with(|table| table.libraries().map(|library| library.id).collect())
    });
    let library = &found.owner;
    if vm.function(library.id, found.at).is_none() {
        compile_again(vm, engine, library)?;
    }
    let function = vm
        .function(library.id, found.at)
        .ok_or_else(|| CmdError::err("Function not found"))?;
    Ok(Compiled {
        function,
        flags: found.info().flags,
        facts: Facts::default(),
        seen: vm::UNSEEN,
    })
}

/// Compiles a library that another thread has loaded.
fn compile_again(vm: &mut Vm, engine: &Engine, library: &Library) -> Result<(), CmdError> {
    let at = metadata(&library.code)?.code_at;
    let mut registered = vm
        .load(engine, &library.code[at..], false)
        .map_err(CmdError::err)?;
    let mut functions = Vec::with_capacity(library.functions.len());
    for known in &library.functions {
        // The code sees nothing that could change, so it registers what it did before.
        let Some(place) = registered
            .iter()
            .position(|(info, _)| info.name == known.name)
        else {
            vm.release(registered.into_iter().map(|(_, function)| function));
            vm.release(functions.into_iter());
            return Err(CmdError::err("Function not found"));
        };
        functions.push(registered.swap_remove(place).1);
    }
    vm.release(registered.into_iter().map(|(_, function)| function));
    vm.keep_library(library.id, functions);
    Ok(())
}

/// Compiles a new library here. Its functions stay if it is put into the table before the next call of one.
fn compile(engine: &Engine, code: &[u8], limited: bool) -> Result<Arc<Library>, CmdError> {
    let about = metadata(code)?;
    let id = next_id();
    let infos = vm::with_vm(|vm| {
        let registered = vm.load(engine, &code[about.code_at..], limited)?;
        let (infos, functions): (Vec<FunctionInfo>, Vec<i32>) = registered.into_iter().unzip();
        vm.keep_library(id, functions);
        Ok::<_, Vec<u8>>(infos)
    });
    // Libraries may come one after the other.
    vm::shrink();
    let infos = infos.ok_or_else(no_memory)?.map_err(CmdError::err)?;
    let empty = infos.is_empty();
    if empty {
        return Err(CmdError::err("No functions registered"));
    }
    Ok(Arc::new(Library {
        id,
        name: about.name.into(),
        code: code.into(),
        functions: infos,
    }))
}

fn library_exists(name: &[u8]) -> CmdError {
    CmdError::err([b"Library '", name, b"' already exists"].concat())
}

/// `FUNCTION LOAD [REPLACE] code`.
fn load(engine: &Engine, words: &[&[u8]], out: &mut ReplyBuf) -> Result<Reply, CmdError> {
    let Some((code, options)) = words.split_last() else {
        return Err(CmdError::err("Function code is missing"));
    };
    for option in options {
        if !option.eq_ignore_ascii_case(b"REPLACE") {
            return Err(CmdError::err([b"Unknown option given: ", *option].concat()));
        }
    }
    let replace = !options.is_empty();
    let name = metadata(code)?.name;
    let exists = |table: &Table| !replace && table.named(&name).is_some();
    if engine.functions.with(exists) {
        return Err(library_exists(&name));
    }
    let library = compile(engine, code, true)?;
    engine.functions.change(|table| {
        if exists(table) {
            return Err(library_exists(&name));
        }
        table.insert(library)
    })?;
    engine.counters.changed(1);
    out.bulk(&name);
    Ok(Reply::Written)
}

fn delete(engine: &Engine, name: &[u8]) -> Result<Reply, CmdError> {
    engine.functions.change(|table| {
        table
            .remove(name)
            .then_some(Reply::Ok)
            .ok_or_else(|| CmdError::err("Library not found"))
    })?;
    engine.counters.changed(1);
    Ok(Reply::Ok)
}

/// `FUNCTION FLUSH [ASYNC | SYNC]`.
fn flush(engine: &Engine, words: &[&[u8]]) -> Result<Reply, CmdError> {
    match &words[2..] {
        [] => {}
        [mode] if mode.eq_ignore_ascii_case(b"SYNC") || mode.eq_ignore_ascii_case(b"ASYNC") => {}
        [_] => {
            return Err(CmdError::err(
                "FUNCTION FLUSH only supports SYNC|ASYNC option",
            ));
        }
        _ => return Err(CmdError::subcommand_syntax(words)),
    }
    engine.functions.change(|table| {
        *table = Table::default();
        Ok(())
    })?;
    engine.counters.changed(1);
    Ok(Reply::Ok)
}

/// `FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]`.
fn list(engine: &Engine, words: &[&[u8]], out: &mut ReplyBuf) -> Result<Reply, CmdError> {
    let (mut pattern, mut with_code) = (None, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if !with_code && word.eq_ignore_ascii_case(b"WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && word.eq_ignore_ascii_case(b"LIBRARYNAME") {
            let given = words
                .next()
                .ok_or_else(|| CmdError::err("library name argument was not given"))?;
            pattern = Some(*given);
        } else {
            return Err(CmdError::err([b"Unknown argument ", *word].concat()));
        }
    }
    engine.functions.with(|table| {
        let fits = |library: &&Arc<Library>| {
            pattern.is_none_or(|pattern| glob::matches(pattern, &library.name, true))
        };
        out.array(table.libraries().filter(fits).count());
        for library in table.libraries().filter(fits) {
            write_library(library, with_code, out);
        }
    });
    Ok(Reply::Written)
}

fn write_library(library: &Library, with_code: bool, out: &mut ReplyBuf) {
    out.map(if with_code { 4 } else { 3 });
    out.bulk(b"library_name");
    out.bulk(&library.name);
    out.bulk(b"engine");
    out.bulk(ENGINE);
    out.bulk(b"functions");
    out.array(library.functions.len());
    for function in &library.functions {
        out.map(3);
        out.bulk(b"name");
        out.bulk(&function.name);
        out.bulk(b"description");
        match &function.description {
            Some(text) => out.bulk(text),
            None => out.null(),
        }
        out.bulk(b"flags");
        out.set(function.flags.names().count());
        for name in function.flags.names() {
            out.simple(name);
        }
    }
    if with_code {
        out.bulk(b"library_code");
        out.bulk(&library.code);
    }
}

/// `FUNCTION RESTORE payload [FLUSH | APPEND | REPLACE]`.
fn restore(engine: &Engine, words: &[&[u8]]) -> Result<Reply, CmdError> {
    let (payload, policy) = match &words[2..] {
        [payload] => (payload, Restore::Append),
        [payload, word] => {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let policy = if is("APPEND") {
                Restore::Append
            } else if is("REPLACE") {
                Restore::Replace
            } else if is("FLUSH") {
                Restore::Flush
            } else {
                return Err(CmdError::err(
                    "Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
                ));
            };
            (payload, policy)
        }
        _ => return Err(CmdError::subcommand_syntax(words)),
    };
    let codes = read_libraries(payload).map_err(|error| CmdError::err(error.to_string()))?;
    engine.restore_functions(&codes, policy)?;
    engine.counters.changed(1);
    Ok(Reply::Ok)
}

/// FUNCTION STATS.
fn stats(engine: &Engine, out: &mut ReplyBuf) -> Result<Reply, CmdError> {
    let running = engine.scripts.long.longest();
    if running
        .as_ref()
        .is_some_and(|running| running.kind == Busy::Script)
    {
        return Err(CmdError::BusyScript);
    }
    out.map(2);
    out.bulk(b"running_script");
    match running {
        None => out.null(),
        Some(running) => {
            out.map(3);
            out.bulk(b"name");
            out.bulk(&running.name);
            out.bulk(b"command");
            out.array(running.command.len());
            for word in &running.command {
                out.bulk(word);
            }
            out.bulk(b"duration_ms");
            let now = tollgate_net::clock::Clock::monotone();
            out.int(running.ran(now) / 1_000_000);
        }
    }
    let (libraries, functions) = engine.functions.size();
    out.bulk(b"engines");
    out.map(1);
    out.bulk(ENGINE);
    out.map(2);
    out.bulk(b"libraries_count");
    out.int(libraries as i64);
    out.bulk(b"functions_count");
    out.int(functions as i64);
    Ok(Reply::Written)
}

impl Engine {
    /// The code of all libraries of functions, by the name of the library: what a snapshot keeps of them.
    pub fn function_codes(&self) -> Vec<Arc<[u8]>> {
        self.functions.with(|table| {
            table
                .libraries()
                .map(|library| Arc::clone(&library.code))
                .collect()
        })
    }

    /// FUNCTION DUMP.
    pub(crate) fn dump_functions(&self) -> Vec<u8> {
        let codes = self.function_codes();
        dump_libraries(codes.iter().map(|code| &code[..]))
    }

    /// Adds the libraries of this code, as a snapshot that is loaded does; `merge`: also over those that are there.
    ///
    /// # Errors
    ///
    /// A library does not compile or is there already, or two have functions of the same name; nothing has changed then.
    pub(crate) fn load_functions(&self, codes: &[Vec<u8>], merge: bool) -> Result<(), CmdError> {
        let policy = match merge {
            true => Restore::Replace,
            false => Restore::Append,
        };
        self.restore_functions(codes, policy)
    }

    /// Forgets all libraries.
    pub fn forget_functions(&self) {
        // Emptying cannot fail.
        let emptied = self.functions.change(|table| {
            *table = Table::default();
            Ok(())
        });
        debug_assert!(emptied.is_ok());
    }

    fn restore_functions(&self, codes: &[Vec<u8>], policy: Restore) -> Result<(), CmdError> {
        let mut restored = Table::default();
        for code in codes {
            let name = metadata(code)?.name;
            if restored.named(&name).is_some() {
                return Err(library_exists(&name));
            }
            restored.insert(compile(self, code, false)?)?;
        }
        self.functions.change(|table| {
            if policy == Restore::Flush {
                *table = restored;
                return Ok(());
            }
            let replaced: HashSet<&[u8]> = restored
                .libraries()
                .map(|library| &*library.name)
                .filter(|name| table.named(name).is_some())
                .collect();
            if policy == Restore::Append
                && let Some(name) = replaced.iter().min()
            {
                return Err(CmdError::err(
                    [b"Library ", *name, b" already exists"].concat(),
                ));
            }
            // All old ones leave before the first new one comes: functions may have moved between them.
            for name in replaced {
                table.remove(name);
            }
            for library in restored.libraries() {
                table.insert(Arc::clone(library))?;
            }
            Ok(())
        })
    }
}
