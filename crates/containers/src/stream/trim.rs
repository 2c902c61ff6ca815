//! Removing entries from the front.

use super::{Log, StreamId};

/// Which entries stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// The last so many.
    MaxLen(u64),
    /// Those from this ID on.
    MinId(StreamId),
}

/// How entries are removed from the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trimming {
    /// Which stay.
    pub keep: Trim,
    /// Only whole nodes go, so that more entries may stay.
    pub approximate: bool,
    /// Most entries to remove in whole nodes; 0 = any number.
    pub limit: u64,
}

impl Trimming {
    /// Whether all of a node of `live` entries whose last ID is `last` goes, of `len` entries in all.
    fn takes_node(&self, len: u64, live: u64, last: Option<StreamId>) -> bool {
        match self.keep {
            Trim::MaxLen(most) => len - live >= most,
            Trim::MinId(least) => last < Some(least),
        }
    }

    /// Whether an entry of that ID, the first of `len`, stays, and so all that follow.
    fn keeps(&self, len: u64, id: StreamId) -> bool {
        match self.keep {
            Trim::MaxLen(most) => len <= most,
            Trim::MinId(least) => id >= least,
        }
    }
}

/// Removes entries, of those that are due all or the ones of which `may_go` says so; how many.
pub(super) fn trim(
    log: &mut Log,
    how: &Trimming,
    mut may_go: Option<&mut dyn FnMut(StreamId) -> bool>,
) -> u64 {
    let mut removed = 0;
    // How long the log would be if all entries so far that are due had gone.
    let mut len = log.state.len;
    let mut from = StreamId::MIN;
    while let Some((&first, node)) = log.nodes.range(from..).next() {
        if matches!(how.keep, Trim::MaxLen(most) if len <= most) {
            break;
        }
        let live = node.head().live as u64;
        if how.limit > 0 && removed + live > how.limit {
            break;
        }
        let whole = how.takes_node(len, live, node.last_id(first));
        if !whole && how.approximate {
            break;
        }
        let due = Due { how, len, whole };
        let gone = match &mut may_go {
            None if whole => live,
            filter => due.take_entries(log, first, filter),
        };
        removed += gone;
        log.state.len -= gone;
        if whole && gone == live {
            log.remove_node(first);
        }
        len -= live;
        let Some(next) = first.next().filter(|_| whole) else {
            break;
        };
        from = next;
    }
    if removed > 0 || log.state.len == 0 {
        log.find_first();
    }
    removed
}

/// What is due in one node.
struct Due<'h> {
    how: &'h Trimming,
    /// Entries before it went.
    len: u64,
    /// All of the node.
    whole: bool,
}

impl Due<'_> {
    /// Marks the entries that go; how many.
    fn take_entries(
        &self,
        log: &mut Log,
        first: StreamId,
        may_go: &mut Option<&mut dyn FnMut(StreamId) -> bool>,
    ) -> u64 {
        let Some(node) = log.nodes.get(&first) else {
            return 0;
        };
        let mut len = self.len;
        let mut places = Vec::new();
        let head = node.head();
        let mut at = node.first_entry(&head);
        while let Some((placed, next)) = node.entry(first, &head, at) {
            let id = placed.entry.id();
            if !self.whole && self.how.keeps(len, id) {
                break;
            }
            at = next;
            if placed.deleted {
                continue;
            }
            len -= 1;
            if may_go.as_mut().is_none_or(|may_go| may_go(id)) {
                places.push(placed.at);
            }
        }
        log.mark_deleted(first, &places);
        places.len() as u64
    }
}
