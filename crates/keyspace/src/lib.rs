//! The table of keys: entries, values, expiry, scan cursors, versions.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod access;
mod bucket;
mod cas;
mod directory;
mod due;
mod entry;
mod item;
mod key;
mod object;
mod prefetch;
mod record;
mod shard;
mod slab;
mod slot;
mod table;
mod tally;
mod value;

pub use access::Access;
pub use cas::CasNumbers;
pub use entry::{EntryMut, EntryRef, ObjectMut, StrMut};
pub use item::Mark;
pub use key::{DATABASES, DbIndex, Key, Seed, firsts};
pub use object::Object;
pub use prefetch::{Ahead, look_ahead, prefetch_lines};
pub use shard::{ExpireProgress, Expired, ExpiredFields, Heir, Leftover, Loan, Shard, ShardStats};
pub use slot::{SLOTS, slot_of};
pub use table::{Order, Victim};
pub use value::{Encoding, Graves, TypeName, Value, ValueRef};
