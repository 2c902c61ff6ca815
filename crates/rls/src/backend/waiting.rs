//! How many requests of a thread wait for a store.

use std::cell::Cell;

use super::BackendError;

/// Most requests of one thread that wait for the store at the same time; more fail at once.
const MAX_WAITING: usize = 4_096;

/// Counts them.
#[derive(Default)]
pub(super) struct Waiting(Cell<usize>);

/// One of them.
pub(super) struct Waits<'a>(&'a Cell<usize>);

impl Waiting {
    pub(super) fn enter(&self) -> Result<Waits<'_>, BackendError> {
        if self.0.get() >= MAX_WAITING {
            return Err(BackendError::new(format!(
                "{MAX_WAITING} requests already wait for the store"
            )));
        }
        self.0.set(self.0.get() + 1);
        Ok(Waits(&self.0))
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
