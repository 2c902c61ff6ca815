//! The header fields of the call before.
//!
//! A client names the same fields for each of its calls, most of them by their places in the table. What a block says follows
//! from its bytes and the table, so as long as neither changes it is read once.

use super::{Head, Want};

/// Longest block that is kept, in bytes.
const BLOCK_MAX: usize = 128;

/// A block, and what it says.
#[derive(Debug, Default)]
pub(super) struct Known {
    block: Vec<u8>,
    /// Changes of the table before it was read.
    changes: u64,
    call: Option<(Head, Want)>,
}

impl Known {
    /// What `block` says where the table has changed so often.
    pub(super) fn get(&self, block: &[u8], changes: u64) -> Option<&(Head, Want)> {
        let known = self.call.as_ref()?;
        (self.changes == changes && self.block == block).then_some(known)
    }

    /// Keeps what a block says that did not change the table.
    pub(super) fn keep(&mut self, block: &[u8], changes: u64, call: &(Head, Want)) {
        self.call = None;
        if block.len() <= BLOCK_MAX {
            self.block.clear();
            self.block.extend_from_slice(block);
            self.changes = changes;
            self.call = Some(call.clone());
        }
    }
}
