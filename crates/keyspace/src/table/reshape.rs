//! Growing and shrinking: how buckets are divided and joined, and how their cells are freed.

use super::Table;
use super::pending::places;
use crate::bucket::{BLOCK, CAPACITY, Form, HeadMut};
use crate::directory::NONE;
use crate::key::Seed;
use crate::record::{RECORD, Slot};
use crate::slab::{CellSize, Slab};

/// Two neighbours are joined when they have at most this many records together: well below the capacity, so that
/// buckets are not joined and divided in turn.
const JOIN_MAX: usize = 40;

impl Table {
    /// A block more, which the heads can note.
    pub(super) fn new_block(&mut self) -> u32 {
        let block = self.blocks.push();
        if !self.heads.size().holds(block) {
            self.widen();
        }
        block
    }

    /// Gives all heads the form that can note any block.
    #[cold]
    fn widen(&mut self) {
        let mut wide = Slab::new(Form::Wide);
        for bucket in 0..self.heads.len() {
            let cell = wide.push();
            // SAFETY: a cell of that form, which nobody else knows yet.
            let mut head = unsafe { HeadMut::new(wide.cell(cell), Form::Wide) };
            head.copy_from(self.head(bucket));
        }
        self.heads = wide;
    }

    /// Frees a block that no bucket uses any more: the last block takes its number.
    pub(super) fn free_block(&mut self, seed: &Seed, block: u32) {
        let last = self.blocks.len() - 1;
        if block != last {
            // SAFETY: blocks in use begin with an initialised record.
            let hash = unsafe { Slot::new(self.blocks.cell(last)).bucket_hash(seed) };
            let owner = std::iter::once(self.directory.bucket(hash))
                .filter(|&bucket| bucket != NONE)
                .chain(self.spilled.iter().copied())
                .find_map(|bucket| {
                    let at = self.head(bucket).blocks().position(|b| b == last)?;
                    Some((bucket, at))
                });
            let (bucket, at) =
                owner.expect("a block in use belongs to the bucket of its records' hash");
            self.head_mut(bucket).set_block(at * BLOCK, block);
            // SAFETY: two different cells.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.blocks.cell(last),
                    self.blocks.cell(block),
                    BLOCK * RECORD,
                );
            }
        }
        self.blocks.pop();
    }

    /// Frees a bucket without records that is not in the directory any more: the last bucket takes its number.
    fn free_bucket(&mut self, seed: &Seed, bucket: u32) {
        let last = self.heads.len() - 1;
        self.bucket_leaves(bucket);
        if bucket != last {
            // SAFETY: buckets in use have a record.
            let hash = unsafe { self.slot(last, 0).bucket_hash(seed) };
            if self.directory.bucket(hash) == last {
                let run = self.directory.run(self.directory.index(hash));
                self.directory.fill(run, bucket);
            } else {
                self.spilled
                    .iter_mut()
                    .filter(|spilled| **spilled == last)
                    .for_each(|spilled| *spilled = bucket);
            }
            // SAFETY: two different cells.
            unsafe {
                let (from, to) = (self.heads.cell(last), self.heads.cell(bucket));
                std::ptr::copy_nonoverlapping(from, to, self.heads.size().bytes());
            }
        }
        self.heads.pop();
        self.records_moved_back();
    }

    /// Records may now lie behind the sweep that did not meet them.
    fn records_moved_back(&mut self) {
        self.sweep.met = self.sweep.met.min(self.sweep.soonest);
    }

    /// Gives memory back after removals from a bucket; `hash` is that of a record it had.
    pub(super) fn settle(&mut self, seed: &Seed, bucket: u32, hash: u32) {
        if self.len == 0 {
            *self = Self::new();
            return;
        }
        let count = self.count(bucket);
        if self.spilled.contains(&bucket) {
            if count == 0 {
                self.spilled.retain(|&spilled| spilled != bucket);
                self.free_bucket(seed, bucket);
            }
        } else if count == 0 {
            self.directory
                .fill(self.directory.run(self.directory.index(hash)), NONE);
            self.free_bucket(seed, bucket);
        } else if count.is_multiple_of(BLOCK) && count <= JOIN_MAX / 2 {
            self.join(seed, bucket);
        }
        self.shrink_directory();
    }

    fn shrink_directory(&mut self) {
        if self.directory.len() > self.len {
            if self.halving_pause > 0 {
                self.halving_pause -= 1;
            } else if !self.directory.halve() {
                self.halving_pause = self.directory.len() / 4;
            }
        }
    }

    /// Divides a full bucket by the next bit of its hashes; false if the directory cannot tell the parts apart.
    pub(super) fn divide(&mut self, seed: &Seed, hash: u32, bucket: u32) -> bool {
        let mut run = self.directory.run(self.directory.index(hash));
        if run.len() == 1 {
            if !self.directory.double(self.heads.len()) {
                return false;
            }
            run = self.directory.run(self.directory.index(hash));
        }
        let middle = run.start + run.len() / 2;
        let contents = Contents::of(self, &[bucket]);
        let moving = contents.select(|slot| {
            // SAFETY: copies of initialised records.
            self.directory.index(unsafe { slot.bucket_hash(seed) }) >= middle
        });
        match moving.count_ones() as usize {
            0 => self.directory.fill(middle..run.end, NONE),
            CAPACITY => self.directory.fill(run.start..middle, NONE),
            _ => {
                let taken = self.taken_of(bucket);
                let new = self.new_bucket();
                self.directory.fill(middle..run.end, new);
                let mut spare = contents.blocks.clone();
                self.refill(bucket, &contents, !moving, &mut spare);
                self.refill(new, &contents, moving, &mut spare);
                self.records_gathered(bucket, taken, !moving);
                self.records_gathered(new, taken, moving);
                debug_assert!(
                    spare.is_empty(),
                    "two parts of 64 records have no fewer blocks"
                );
            }
        }
        true
    }

    /// Joins a bucket with its neighbour if both are small.
    fn join(&mut self, seed: &Seed, bucket: u32) {
        // SAFETY: the bucket has a record.
        let hash = unsafe { self.slot(bucket, 0).bucket_hash(seed) };
        let run = self.directory.run(self.directory.index(hash));
        let Some(sibling) = self.directory.sibling(&run) else {
            return;
        };
        let other = self.directory.at(sibling.start);
        if self.directory.run(sibling.start).len() < sibling.len() {
            return;
        }
        if other == NONE {
            self.directory.fill(sibling, bucket);
            return;
        }
        if self.count(bucket) + self.count(other) > JOIN_MAX {
            return;
        }
        let (first, second) = (self.count(bucket), self.count(other));
        let taken = self.taken_of(bucket) | self.taken_of(other) << first;
        let contents = Contents::of(self, &[bucket, other]);
        self.directory.fill(sibling, bucket);
        let mut spare = contents.blocks.clone();
        self.refill(bucket, &contents, u64::MAX, &mut spare);
        self.records_gathered(bucket, taken, places(first + second));
        // At most one: the last blocks of both had room for the other's records.
        spare.sort_unstable();
        while let Some(block) = spare.pop() {
            self.free_block(seed, block);
        }
        self.free_bucket(seed, other);
        self.records_moved_back();
    }

    /// Fills a bucket anew with the selected contents, in blocks from `spare` as long as there are some.
    fn refill(&mut self, bucket: u32, contents: &Contents, selected: u64, spare: &mut Blocks) {
        self.head_mut(bucket).clear();
        let mut index = 0;
        for (from, &tag) in contents.tags.iter().enumerate() {
            if selected >> from & 1 == 0 {
                continue;
            }
            if index % BLOCK == 0 {
                let block = spare.pop().unwrap_or_else(|| self.new_block());
                self.head_mut(bucket).set_block(index, block);
            }
            let target = self.place(self.head(bucket), index);
            // SAFETY: a copy of a record moves into a place of this table; each copy moves once.
            unsafe { target.copy_from(contents.slot(from)) };
            self.head_mut(bucket).set_tag(index, tag);
            index += 1;
        }
    }
}

/// Numbers of blocks that are about to be used again.
type Blocks = smallvec::SmallVec<[u32; CAPACITY / BLOCK + 1]>;

/// Copies of the records of one or two buckets while they move to others, with their tags, and the blocks they left.
struct Contents {
    tags: smallvec::SmallVec<[u8; CAPACITY]>,
    records: [std::mem::MaybeUninit<u8>; CAPACITY * RECORD],
    blocks: Blocks,
}

impl Contents {
    /// The buckets have at most [`CAPACITY`] records together.
    fn of(table: &Table, buckets: &[u32]) -> Self {
        let mut contents = Self {
            tags: smallvec::SmallVec::new(),
            records: [std::mem::MaybeUninit::uninit(); CAPACITY * RECORD],
            blocks: smallvec::SmallVec::new(),
        };
        for &bucket in buckets {
            let head = table.head(bucket);
            contents.blocks.extend(head.blocks());
            for index in 0..head.count() {
                let at = contents.tags.len();
                contents.tags.push(head.tag(index));
                assert!(at < CAPACITY, "a bucket's worth of records moves at once");
                // SAFETY: there is a record at `index`, and room for CAPACITY copies, of which this is the next.
                unsafe {
                    let copy = Slot::new(contents.records.as_mut_ptr().add(at * RECORD).cast());
                    copy.copy_from(table.place(head, index));
                }
            }
        }
        contents
    }

    /// A copy, to read only.
    fn slot(&self, at: usize) -> Slot {
        assert!(at < self.tags.len(), "no copy {at}");
        // SAFETY: `at` is below CAPACITY.
        unsafe { Slot::new(self.records.as_ptr().add(at * RECORD).cast_mut().cast()) }
    }

    /// Bit i is set if `picks` accepts the copy i.
    fn select(&self, picks: impl Fn(Slot) -> bool) -> u64 {
        (0..self.tags.len())
            .filter(|&at| picks(self.slot(at)))
            .fold(0, |mask, at| mask | 1 << at)
    }
}
