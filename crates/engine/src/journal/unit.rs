//! What the command, transaction or script at hand has done so far: appended to the journal as a whole, before the shards
//! that it holds are released.

use std::cell::{Cell, RefCell};
use std::thread::LocalKey;

use tollgate_keyspace::DbIndex;
use tollgate_wire::resp::write_command;

use super::{BLOCK, GATHERS, Journal, OWES, State};

/// Capacity that stays for the next unit.
const KEPT: usize = 64 * 1024;

/// Who is to have a command: a set of those below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Audience(u8);

impl Audience {
    /// Nobody.
    pub(super) const NONE: Audience = Audience(0);
    /// Replicas.
    pub(super) const REPLICAS: Audience = Audience(1);
    /// The append-only file, and the one behind the base that is being written.
    pub(super) const LOG: Audience = Audience(2);
    /// All.
    pub(super) const ALL: Audience = Audience(1 | 2);

    pub(super) fn and(self, other: Audience) -> Audience {
        Audience(self.0 & other.0)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn has(self, other: Audience) -> bool {
        self.0 & other.0 != 0
    }
}

/// One command of a unit.
#[derive(Clone, Copy)]
struct Part {
    db: DbIndex,
    /// Where it ends.
    end: usize,
    audience: Audience,
}

/// Commands of one unit, encoded.
#[derive(Default)]
pub(super) struct Unit {
    parts: Vec<Part>,
    bytes: Vec<u8>,
}

thread_local! {
    static UNIT: RefCell<Unit> = RefCell::default();
    static AUDIENCE: Cell<Audience> = const { Cell::new(Audience::ALL) };
    /// Who is to have what the script at hand does, by its own word.
    static CHOSEN: Cell<Audience> = const { Cell::new(Audience::ALL) };
}

/// Adds a command to the unit of this thread.
pub(super) fn add(db: DbIndex, words: &[&[u8]]) {
    add_for(AUDIENCE.get().and(CHOSEN.get()), db, words);
}

/// Adds that something has gone by itself: that is nothing a script does.
pub(super) fn add_gone(db: DbIndex, words: &[&[u8]]) {
    add_for(AUDIENCE.get(), db, words);
}

fn add_for(audience: Audience, db: DbIndex, words: &[&[u8]]) {
    if audience.is_empty() {
        return;
    }
    UNIT.with_borrow_mut(|unit| {
        write_command(&mut unit.bytes, words);
        unit.parts.push(Part {
            db,
            end: unit.bytes.len(),
            audience,
        });
    });
}

/// Runs `f`, in which commands that are added are for those of `audience` who are wanted already.
pub(super) fn for_audience<R>(audience: Audience, f: impl FnOnce() -> R) -> R {
    let before = AUDIENCE.get();
    let _restore = Restore(&AUDIENCE, before);
    AUDIENCE.set(audience.and(before));
    f()
}

/// Runs `f`, a command of a script that has chosen by `redis.set_repl` who is to have it: 1 the append-only file, 2
/// replicas, 3 both, 0 nobody.
pub(crate) fn for_chosen<R>(chosen: u8, f: impl FnOnce() -> R) -> R {
    let log = if chosen & 1 == 0 { 0 } else { Audience::LOG.0 };
    let replicas = if chosen & 2 == 0 {
        0
    } else {
        Audience::REPLICAS.0
    };
    let _restore = Restore(&CHOSEN, CHOSEN.get());
    CHOSEN.set(Audience(log | replicas));
    f()
}

/// Puts back what an audience was, however the scope ends.
struct Restore(&'static LocalKey<Cell<Audience>>, Audience);

impl Drop for Restore {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

impl Journal {
    /// Appends the unit of this thread. `together`: several commands are a transaction; without it they are single ones,
    /// as keys that were found expired are.
    pub(crate) fn conclude(&self, together: bool) {
        UNIT.with_borrow_mut(|unit| {
            if unit.parts.is_empty() {
                return;
            }
            let mut state = self.state.lock();
            if state.records() {
                let State {
                    db,
                    gathered,
                    offset,
                    ..
                } = &mut *state;
                let before = gathered.len();
                unit.write(Audience::REPLICAS, db, together, gathered);
                *offset += (gathered.len() - before) as u64;
                if GATHERS.get() && state.gathered.len() < BLOCK {
                    OWES.set(true);
                } else {
                    state.send();
                }
            }
            self.log.take(&mut state.log, unit, together);
            unit.clear();
        });
    }
}

impl Unit {
    /// Adds what `audience` is to have.
    pub(super) fn write(
        &self,
        audience: Audience,
        selected: &mut Option<DbIndex>,
        together: bool,
        out: &mut Vec<u8>,
    ) {
        let mut select = |db: DbIndex, out: &mut Vec<u8>| {
            if selected.replace(db) != Some(db) {
                write_command(out, &[b"SELECT", db.get().to_string().as_bytes()]);
            }
        };
        let wanted = |part: &&Part| part.audience.has(audience);
        let mut parts = self.parts.iter().filter(wanted);
        let first = parts.next();
        let several = first.filter(|_| together && parts.next().is_some());
        if let Some(first) = several {
            select(first.db, out);
            write_command(out, &[b"MULTI"]);
        }
        let mut start = 0;
        for part in &self.parts {
            if part.audience.has(audience) {
                select(part.db, out);
                out.extend_from_slice(&self.bytes[start..part.end]);
            }
            start = part.end;
        }
        if several.is_some() {
            write_command(out, &[b"EXEC"]);
        }
    }

    fn clear(&mut self) {
        self.parts.clear();
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
            unit.write(Audience::REPLICAS, &mut selected, together, &mut out);
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
            unit.parts.push(Part {
                db: DbIndex::new(db).expect("a database"),
                end: unit.bytes.len(),
                audience: Audience::REPLICAS,
            });
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
    #[test]
    fn each_audience_has_what_is_for_it() {
        let mut unit = Unit::default();
        for audience in [Audience::ALL, Audience::LOG, Audience::LOG] {
            write_command(&mut unit.bytes, &[b"c"]);
            unit.parts.push(Part {
                db: DbIndex::ZERO,
                end: unit.bytes.len(),
                audience,
            });
        }
        let count = |audience| {
            let mut out = Vec::new();
            unit.write(audience, &mut Some(DbIndex::ZERO), true, &mut out);
            let text = String::from_utf8(out).expect("text");
            (text.matches("c\r\n").count(), text.contains("MULTI"))
        };
        assert_eq!(count(Audience::REPLICAS), (1, false));
        assert_eq!(count(Audience::LOG), (3, true));
    }
}
