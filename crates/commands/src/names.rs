//! Names that commands answer to in one server, where they are not those of the table.

use std::collections::HashMap;

use crate::table::by_full_name;
use crate::table::{find_sub, unknown};
use crate::{CmdError, Row, find, lookup, resolve, rows};

/// What `rename-command` of redis.conf changes: commands with another name, or with none. Sub-commands keep theirs.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// By the name in lower case: the command that has this name now, or `None` for a name that was taken from its command.
    changed: HashMap<Vec<u8>, Option<&'static Row>>,
}

impl Names {
    /// Gives the command that is called `name` now the name `new`; it has none if that is empty.
    ///
    /// # Errors
    ///
    /// There is no such command, or another one is called `new`: Redis' words.
    pub fn rename(&mut self, name: &[u8], new: &[u8]) -> Result<(), &'static str> {
        let row = self
            .lookup(name)
            .ok_or("No such command in rename-command")?;
        let before = self.changed.insert(name.to_ascii_lowercase(), None);
        if new.is_empty() {
            return Ok(());
        }
        if self.lookup(new).is_some() {
            match before {
                Some(before) => self.changed.insert(name.to_ascii_lowercase(), before),
                None => self.changed.remove(&name.to_ascii_lowercase()),
            };
            return Err("Target command name already exists");
        }
        self.changed.insert(new.to_ascii_lowercase(), Some(row));
        Ok(())
    }

    /// Whether every command has its own name.
    pub(crate) fn are_own(&self) -> bool {
        self.changed.is_empty()
    }

    /// Whether anything calls the command; sub-commands are not asked about.
    fn has(&self, row: &'static Row) -> bool {
        let own = row.name.to_ascii_lowercase();
        let given = |other: &Option<&'static Row>| other.is_some_and(|it| std::ptr::eq(it, row));
        !self.changed.contains_key(own.as_bytes()) || self.changed.values().any(given)
    }

    fn lookup(&self, name: &[u8]) -> Option<&'static Row> {
        match self.changed.get(&name.to_ascii_lowercase()) {
            Some(row) => *row,
            None => lookup(name),
        }
    }

    /// As [`find`], by these names.
    pub fn find(&self, words: &[&[u8]]) -> Option<&'static Row> {
        find_sub(self.lookup(words.first()?)?, words)
    }

    /// As [`resolve`], by these names.
    ///
    /// # Errors
    ///
    /// The reply for a command or sub-command that does not exist.
    pub fn resolve(&self, words: &[&[u8]]) -> Result<&'static Row, CmdError> {
        let row = words.first().and_then(|name| self.lookup(name));
        row.and_then(|row| find_sub(row, words))
            .ok_or_else(|| unknown(row, words))
    }

    /// As [`resolve`](Self::resolve); what no command here is called may be a command's own name. Journals are read so:
    /// what a server adds by itself has the names of the table.
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve).
    pub fn resolve_any(&self, words: &[&[u8]]) -> Result<&'static Row, CmdError> {
        match self.resolve(words) {
            Ok(row) => Ok(row),
            Err(error) => find(words).ok_or(error),
        }
    }
}

/// Every command that can be called, without sub-commands.
pub(crate) fn rows_by(names: Option<&Names>) -> impl Iterator<Item = &'static Row> {
    rows().filter(move |row| names.is_none_or(|names| names.has(row)))
}

/// The command or (as `client|kill`) sub-command that is called so, in any case.
pub fn by_full_name_of(names: Option<&Names>, name: &[u8]) -> Option<&'static Row> {
    let Some(names) = names else {
        return by_full_name(name);
    };
    match name.iter().position(|&byte| byte == b'|') {
        None => names.lookup(name),
        Some(bar) => names.lookup(&name[..bar])?.sub(&name[bar + 1..]),
    }
}

/// The command that runs `words`.
///
/// # Errors
///
/// The reply for a command or sub-command that does not exist.
pub(crate) fn resolve_by(names: Option<&Names>, words: &[&[u8]]) -> Result<&'static Row, CmdError> {
    match names {
        None => resolve(words),
        Some(names) => names.resolve(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &Names, words: &[&str]) -> Option<&'static str> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        names.find(&words).map(|row| row.name)
    }

    #[test]
    fn commands_answer_to_their_new_names_only() {
        let mut names = Names::default();
        assert!(names.are_own());
        names.rename(b"get", b"Fetch").unwrap();
        names.rename(b"FLUSHALL", b"").unwrap();
        names.rename(b"client", b"conn").unwrap();
        assert!(!names.are_own());
        assert_eq!(found(&names, &["FETCH", "k"]), Some("GET"));
        assert_eq!(found(&names, &["GET", "k"]), None);
        assert_eq!(found(&names, &["flushall"]), None);
        assert_eq!(found(&names, &["SET", "k", "v"]), Some("SET"));
        assert_eq!(found(&names, &["conn", "kill"]), Some("CLIENT|KILL"));
        assert!(names.resolve(&[b"get", b"k"]).is_err());
        assert_eq!(names.resolve_any(&[b"get", b"k"]).unwrap().name, "GET");
        // A name that is free again may be given to another command, and a command renamed twice.
        names.rename(b"SET", b"get").unwrap();
        names.rename(b"fetch", b"take").unwrap();
        assert_eq!(found(&names, &["get", "k", "v"]), Some("SET"));
        assert_eq!(found(&names, &["take", "k"]), Some("GET"));
    }

    #[test]
    fn commands_are_listed_and_asked_for_by_what_calls_them() {
        let mut names = Names::default();
        names.rename(b"get", b"Fetch").unwrap();
        names.rename(b"flushall", b"").unwrap();
        names.rename(b"client", b"conn").unwrap();
        let name = |word: &[u8]| by_full_name_of(Some(&names), word).map(|row| row.name);
        assert_eq!(name(b"FETCH"), Some("GET"));
        assert_eq!(name(b"get"), None);
        assert_eq!(name(b"conn|kill"), Some("CLIENT|KILL"));
        assert_eq!(name(b"client|kill"), None);
        assert_eq!(rows_by(Some(&names)).count(), rows().count() - 1);
        assert!(rows_by(Some(&names)).any(|row| row.name == "GET"));
        assert!(!rows_by(Some(&names)).any(|row| row.name == "FLUSHALL"));
    }

    #[test]
    fn what_cannot_be_renamed_stays() {
        let mut names = Names::default();
        assert_eq!(
            names.rename(b"nosuch", b"x"),
            Err("No such command in rename-command")
        );
        assert_eq!(
            names.rename(b"get", b"SET"),
            Err("Target command name already exists")
        );
        assert_eq!(found(&names, &["get", "k"]), Some("GET"));
        assert!(names.are_own());
    }
}
