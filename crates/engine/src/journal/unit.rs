//! What the command, transaction or script at hand has done so far: appended to the journal as a whole, before the shards
//! that it holds are released.

use std::cell::RefCell;

use tollgate_keyspace::DbIndex;
use tollgate_wire::resp::write_command;

use super::Journal;

/// Capacity that stays for the next unit.
const KEPT: usize = 64 * 1024;

/// Commands of one unit, encoded.
#[derive(Default)]
pub(super) struct Unit {
    /// Database and end of each.
    ends: Vec<(DbIndex, usize)>,
    bytes: Vec<u8>,
}

thread_local! {
    static UNIT: RefCell<Unit> = RefCell::default();
}

/// Adds a command to the unit of this thread.
pub(super) fn add(db: DbIndex, words: &[&[u8]]) {
    UNIT.with_borrow_mut(|unit| {
        write_command(&mut unit.bytes, words);
        unit.ends.push((db, unit.bytes.len()));
    });
}

impl Journal {
    /// Appends the unit of this thread. `together`: several commands are a transaction; without it they are single ones,
    /// as keys that were found expired are.
    pub(crate) fn conclude(&self, together: bool) {
        UNIT.with_borrow_mut(|unit| {
            if unit.ends.is_empty() {
                return;
            }
            let mut state = self.lock();
            if state.open {
                let mut out = Vec::with_capacity(unit.bytes.len() + 32);
                unit.write(&mut state.db, together, &mut out);
                state.append(&out);
            }
            unit.clear();
        });
    }
}

impl Unit {
    fn write(&self, selected: &mut Option<DbIndex>, together: bool, out: &mut Vec<u8>) {
        let mut select = |db: DbIndex, out: &mut Vec<u8>| {
            if selected.replace(db) != Some(db) {
                write_command(out, &[b"SELECT", db.get().to_string().as_bytes()]);
            }
        };
        let several = together && self.ends.len() > 1;
        if several {
            select(self.ends[0].0, out);
            write_command(out, &[b"MULTI"]);
        }
        let mut start = 0;
        for &(db, end) in &self.ends {
            select(db, out);
            out.extend_from_slice(&self.bytes[start..end]);
            start = end;
        }
        if several {
            write_command(out, &[b"EXEC"]);
        }
    }

    fn clear(&mut self) {
        self.ends.clear();
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_commands_are_a_transaction_and_databases_are_selected_once() {
        let mut unit = Unit::default();
        let mut selected = None;
        let mut text = |unit: &Unit, together| {
            let mut out = Vec::new();
            unit.write(&mut selected, together, &mut out);
            let words: Vec<String> = String::from_utf8(out)
                .expect("text")
                .split("\r\n")
                .filter(|line| !line.starts_with(['*', '$']))
                .map(str::to_owned)
                .collect();
            words.join(" ").trim().to_owned()
        };
        let push = |unit: &mut Unit, db: usize, word: &[u8]| {
            write_command(&mut unit.bytes, &[word]);
            unit.ends
                .push((DbIndex::new(db).expect("a database"), unit.bytes.len()));
        };
        push(&mut unit, 1, b"a");
        assert_eq!(text(&unit, true), "SELECT 1 a");
        push(&mut unit, 2, b"b");
        assert_eq!(text(&unit, true), "MULTI a SELECT 2 b EXEC");
        assert_eq!(text(&unit, false), "SELECT 1 a SELECT 2 b");
        unit.clear();
        push(&mut unit, 2, b"c");
        assert_eq!(text(&unit, true), "c");
    }
}
