//! The libraries of functions, shared by all threads.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock};
use tollgate_commands::CmdError;
use tollgate_wire::resp::split_line;

use super::super::shebang::ScriptFlags;
use crate::costs::{Costs, Place};

/// Bytes of the code of all libraries together.
pub(crate) const LIBRARY_BYTES_MAX: usize = 256 << 20;

/// The name of the one engine, as replies have it.
pub(super) const ENGINE: &[u8] = b"LUA";

pub(super) const BAD_NAME: &str = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// One function of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunctionInfo {
    pub(crate) name: Box<[u8]>,
    pub(crate) description: Option<Box<[u8]>>,
    pub(crate) flags: ScriptFlags,
}

/// A library that was loaded. Each thread that calls one of its functions compiles it there.
#[derive(Debug)]
pub(crate) struct Library {
    /// Unique in this process: a library that replaces another one has another number.
    pub(crate) id: u64,
    pub(crate) name: Box<[u8]>,
    /// The whole text, its first line included.
    pub(crate) code: Arc<[u8]>,
    /// In the order in which they were registered.
    pub(crate) functions: Vec<FunctionInfo>,
}

/// A function that may be called.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) owner: Arc<Library>,
    /// Its place in [`Library::functions`].
    pub(crate) at: usize,
}

impl Found {
    /// What its calls are remembered by. A library that replaces another one has to earn its trust anew.
    pub(crate) fn place(&self, costs: &Costs) -> Place {
        costs.place(&self.owner.id.to_le_bytes(), &self.info().name)
    }

    pub(crate) fn info(&self) -> &FunctionInfo {
        &self.owner.functions[self.at]
    }
}

/// What the first line of a library says, and where the code begins: at the line break, so that lines keep their numbers.
pub(super) struct Metadata {
    pub(super) name: Vec<u8>,
    pub(super) code_at: usize,
}

/// Reads the first line: `#!lua name=mylib`.
pub(super) fn metadata(code: &[u8]) -> Result<Metadata, CmdError> {
    if !code.starts_with(b"#!") {
        return Err(CmdError::err("Missing library metadata"));
    }
    let invalid = || CmdError::err("Invalid library metadata");
    let end = code
        .iter()
        .position(|&byte| byte == b'\n')
        .ok_or_else(invalid)?;
    let mut words: Vec<Vec<u8>> = Vec::new();
    split_line(&code[..end], |word| words.push(word.to_vec())).map_err(|_| invalid())?;
    let mut words = words.into_iter();
    let engine = words.next().ok_or_else(invalid)?.split_off(2);
    let mut name = None;
    for word in words {
        if word.len() < 5 || !word[..5].eq_ignore_ascii_case(b"name=") {
            return Err(CmdError::err(
                [b"Invalid metadata value given: ", &word[..]].concat(),
            ));
        }
        if name.replace(word[5..].to_vec()).is_some() {
            return Err(CmdError::err(
                "Invalid metadata value, name argument was given multiple times",
            ));
        }
    }
    let name = name.ok_or_else(|| CmdError::err("Library name was not given"))?;
    check_name(&name)?;
    if !engine.eq_ignore_ascii_case(ENGINE) {
        return Err(CmdError::err(
            [b"Engine '", &engine[..], b"' not found"].concat(),
        ));
    }
    Ok(Metadata { name, code_at: end })
}

/// Refuses a name of a library or function that is not one word of letters, digits and underscores.
pub(super) fn check_name(name: &[u8]) -> Result<(), CmdError> {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if !name.is_empty() && name.iter().all(fits) {
        Ok(())
    } else {
        Err(CmdError::err(BAD_NAME))
    }
}

fn function_exists(name: &[u8]) -> CmdError {
    CmdError::err([b"Function ", name, b" already exists"].concat())
}

/// Libraries by their names, and functions by theirs, which differ by more than the case of letters.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    libraries: BTreeMap<Box<[u8]>, Arc<Library>>,
    functions: HashMap<Vec<u8>, Found>,
    bytes: usize,
}

impl Table {
    pub(super) fn named(&self, name: &[u8]) -> Option<&Arc<Library>> {
        self.libraries.get(name)
    }

    /// By name.
    pub(super) fn libraries(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.libraries.values()
    }

    fn function(&self, name: &[u8]) -> Option<&Found> {
        self.functions.get(&name.to_ascii_lowercase())
    }

    /// Takes a library out; false when there is none of that name.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let Some(old) = self.libraries.remove(name) else {
            return false;
        };
        for function in &old.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        self.bytes -= old.code.len();
        true
    }

    /// Adds a library, in the place of the one of its name if there is one. Changes nothing when another library has a
    /// function of the same name.
    pub(super) fn insert(&mut self, library: Arc<Library>) -> Result<(), CmdError> {
        for function in &library.functions {
            if let Some(found) = self.function(&function.name)
                && found.owner.name != library.name
            {
                return Err(function_exists(&function.name));
            }
        }
        let replaced = self
            .named(&library.name)
            .map_or(0, |library| library.code.len());
        if self.bytes - replaced + library.code.len() > LIBRARY_BYTES_MAX {
            return Err(CmdError::err(
                "There is no room for another library; FUNCTION DELETE and FUNCTION FLUSH make some",
            ));
        }
        self.remove(&library.name);
        for (at, function) in library.functions.iter().enumerate() {
            let found = Found {
                owner: Arc::clone(&library),
                at,
            };
            let name = function.name.to_ascii_lowercase();
            self.functions.insert(name, found);
        }
        self.bytes += library.code.len();
        self.libraries.insert(library.name.clone(), library);
        Ok(())
    }
}

/// The libraries of an engine.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    table: RwLock<Table>,
    /// Grows whenever a library leaves, so that threads forget what they have compiled of it.
    generation: AtomicU64,
    order: Mutex<()>,
}

impl Functions {
    /// Held by whoever changes libraries until the change is recorded, and by whoever begins a
    /// snapshot: so that no library is both in it and in what is recorded behind it. Taken before any shard.
    pub(crate) fn hold_order(&self) -> MutexGuard<'_, ()> {
        self.order.lock()
    }

    /// The same for whoever has shards, unless somebody else holds it.
    pub(crate) fn try_hold_order(&self) -> Option<MutexGuard<'_, ()>> {
        self.order.try_lock()
    }

    /// The function of that name, in whatever case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Found> {
        self.table.read().function(name).cloned()
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Looks at all libraries.
    pub(super) fn with<R>(&self, f: impl FnOnce(&Table) -> R) -> R {
        f(&self.table.read())
    }

    /// Changes the libraries: all of it or, after an error, nothing.
    pub(super) fn change<R>(
        &self,
        f: impl FnOnce(&mut Table) -> Result<R, CmdError>,
    ) -> Result<R, CmdError> {
        let mut table = self.table.write();
        let mut next = table.clone();
        let result = f(&mut next)?;
        *table = next;
        self.generation.fetch_add(1, Ordering::Release);
        Ok(result)
    }

    /// Numbers of libraries and functions.
    pub(crate) fn size(&self) -> (usize, usize) {
        let table = self.table.read();
        (table.libraries.len(), table.functions.len())
    }
}

/// A number for a library that was compiled.
pub(super) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str, functions: &[&str]) -> Arc<Library> {
        let functions = functions
            .iter()
            .map(|name| FunctionInfo {
                name: name.as_bytes().into(),
                description: None,
                flags: ScriptFlags::NONE,
            })
            .collect();
        Arc::new(Library {
            id: next_id(),
            name: name.as_bytes().into(),
            code: name.as_bytes().into(),
            functions,
        })
    }

    #[test]
    fn functions_of_different_libraries_differ_in_more_than_case() {
        let functions = Functions::default();
        let add = |library| functions.change(|table| table.insert(library));
        add(library("one", &["f", "g"])).unwrap();
        let error = add(library("two", &["h", "G"])).unwrap_err();
        assert_eq!(error.to_string(), "ERR Function G already exists");
        assert_eq!(functions.size(), (1, 2));
        assert!(functions.find(b"h").is_none());
        add(library("one", &["G", "i"])).unwrap();
        assert_eq!(functions.size(), (1, 2));
        assert!(functions.find(b"f").is_none());
        assert_eq!(functions.find(b"g").unwrap().info().name[..], *b"G");
    }

    #[test]
    fn a_change_that_fails_changes_nothing() {
        let functions = Functions::default();
        let before = functions.generation();
        let result: Result<(), _> = functions.change(|table| {
            table.insert(library("one", &["f"]))?;
            Err(CmdError::err("no"))
        });
        assert!(result.is_err());
        assert_eq!((functions.size(), functions.generation()), ((0, 0), before));
    }
}
