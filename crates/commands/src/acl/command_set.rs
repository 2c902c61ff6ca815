//! A set of commands and sub-commands, one bit for each row of the table.

use std::sync::LazyLock;

use crate::{Acl, Row, memcached, rows};

/// The rows with sub-commands behind their containers, and how to find the number of one.
struct Numbers {
    rows: Vec<&'static Row>,
    /// Addresses of the rows with their numbers, sorted.
    by_address: Vec<(usize, usize)>,
}

static NUMBERS: LazyLock<Numbers> = LazyLock::new(|| {
    let rows: Vec<&'static Row> = rows()
        .flat_map(|row| std::iter::once(row).chain(row.subs))
        .collect();
    let mut by_address: Vec<(usize, usize)> = rows
        .iter()
        .enumerate()
        .map(|(number, row)| (address(row), number))
        .collect();
    // What Memcached's clients ask is allowed as the command is under whose row it runs.
    for variant in memcached::variants() {
        let base = rows.iter().position(|row| std::ptr::eq(*row, variant.base));
        by_address.extend(base.map(|number| (address(&variant.row), number)));
    }
    by_address.sort_unstable();
    Numbers { rows, by_address }
});

fn address(row: &'static Row) -> usize {
    std::ptr::from_ref(row) as usize
}

/// The number of a row of the table.
///
/// # Panics
///
/// When the row is not of the table.
fn number(row: &'static Row) -> usize {
    let found = NUMBERS
        .by_address
        .binary_search_by_key(&address(row), |(address, _)| *address);
    NUMBERS.by_address[found.expect("every row is in the table")].1
}

/// Commands that a selector allows. Whether it also allows those of future versions shows in how it is described:
/// as everything but some, or as nothing but some.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandSet {
    bits: Box<[u64]>,
    future: bool,
}

impl CommandSet {
    /// No command.
    pub fn none() -> CommandSet {
        CommandSet {
            bits: vec![0; NUMBERS.rows.len().div_ceil(64)].into_boxed_slice(),
            future: false,
        }
    }

    /// Every command, those of future versions included.
    pub fn all() -> CommandSet {
        let mut set = CommandSet::none();
        set.bits.fill(u64::MAX);
        set.future = true;
        set
    }

    /// True when it began as every command.
    pub(crate) fn has_future(&self) -> bool {
        self.future
    }

    /// True when the command or sub-command of that row is in the set.
    pub fn contains(&self, row: &'static Row) -> bool {
        let number = number(row);
        self.bits[number / 64] >> (number % 64) & 1 == 1
    }

    /// Puts in or takes out one row, and with a container all its sub-commands.
    pub(super) fn set(&mut self, row: &'static Row, allow: bool) {
        self.set_one(number(row), allow);
        for sub in row.subs {
            self.set_one(number(sub), allow);
        }
    }

    fn set_one(&mut self, number: usize, allow: bool) {
        let bit = 1 << (number % 64);
        match allow {
            true => self.bits[number / 64] |= bit,
            false => self.bits[number / 64] &= !bit,
        }
    }

    /// Puts in or takes out every row of the category; a container brings its sub-commands along.
    pub(super) fn set_category(&mut self, category: Acl, allow: bool) {
        for row in every_row().filter(|row| row.acl.contains(category)) {
            self.set(row, allow);
        }
    }

    /// Rows of the category that are in the set, and that are not.
    pub(super) fn count(&self, category: Acl) -> (usize, usize) {
        let of_category = every_row().filter(|row| row.acl.contains(category));
        let (inside, outside): (Vec<_>, Vec<_>) = of_category.partition(|row| self.contains(row));
        (inside.len(), outside.len())
    }
}

/// Commands and sub-commands in the order of the table.
pub(super) fn every_row() -> impl Iterator<Item = &'static Row> {
    NUMBERS.rows.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup;

    #[test]
    fn a_container_brings_its_sub_commands() {
        let config = lookup(b"config").expect("CONFIG is in the table");
        let get = config.sub(b"get").expect("CONFIG GET is in the table");
        let mut set = CommandSet::none();
        set.set(config, true);
        assert!(set.contains(config) && set.contains(get));
        set.set(get, false);
        assert!(set.contains(config) && !set.contains(get));
    }

    #[test]
    fn categories_hold_what_their_rows_say() {
        let mut set = CommandSet::none();
        set.set_category(Acl::STRING, true);
        assert_eq!(set.count(Acl::STRING).1, 0);
        assert!(set.contains(lookup(b"get").expect("GET is in the table")));
        assert!(!set.contains(lookup(b"ping").expect("PING is in the table")));
        assert!(CommandSet::all().contains(lookup(b"ping").expect("PING is in the table")));
    }
}
