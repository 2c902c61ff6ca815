//! What the server asks of the program's allocator, which it does not know.

use crate::workers::Workers;
use std::sync::OnceLock;

/// Resident memory beyond the data that may lie free, whatever their size.
const SPARE: u64 = 64 << 20;

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// Sets what gives free memory back to the system: that of the calling thread, and what others have no use for. The first
/// to ask stays; without it none is given back but by the allocator itself.
pub fn give_back_with(give_back: fn()) {
    GIVE_BACK.get_or_init(|| give_back);
}

/// Whether much of `resident` memory is not taken by `data`, both in bytes.
fn is_much_free(resident: u64, data: u64) -> bool {
    resident > data + data / 4 + SPARE
}

/// Gives back what is free when that is much, beside the threads that serve connections: it takes milliseconds for each
/// GiB. The allocator itself does so only when it is asked for memory, so not after a FLUSHALL with little to do.
pub(crate) fn give_back_when_much(resident: u64, data: u64, workers: &Workers) {
    if is_much_free(resident, data)
        && let Some(give_back) = GIVE_BACK.get()
    {
        // Without a worker it is tried again at the next look.
        workers.run(*give_back).ok();
    }
}

/// Gives back what is free of this thread's memory.
pub(crate) fn give_back() {
    if let Some(give_back) = GIVE_BACK.get() {
        give_back();
    }
}

/// Commands between two looks, above which clients are not held up to give back what a load has left.
const FEW_COMMANDS: u64 = 1_000;
/// Bytes that are worth it.
const WORTH: u64 = 8 << 20;
/// Data up to which event loops give back unasked, for a thread looks at all memory that it has allocated: milliseconds for
/// each GiB.
const LITTLE_DATA: u64 = 1 << 30;

/// What a load leaves behind: buffers that are kept for the next one, and what each thread's allocator keeps.
#[derive(Debug, Default)]
pub(crate) struct Leavings {
    /// Commands ever run at the last look.
    commands: u64,
    /// Resident memory beyond the data that stays whatever is given back; `None` before the first look, which finds what a start
    /// takes.
    stays: Option<u64>,
    /// What was there at the last look was to be given back.
    asked: bool,
}

impl Leavings {
    /// Whether the event loops are to give back what they keep: when memory has grown without the data, once, and as soon as
    /// clients want little.
    pub(crate) fn are_many(&mut self, resident: u64, data: u64, commands: u64) -> bool {
        let is_calm =
            commands.wrapping_sub(std::mem::replace(&mut self.commands, commands)) <= FEW_COMMANDS;
        let beyond = resident.saturating_sub(data);
        let stays = match self.stays {
            Some(stays) if !std::mem::take(&mut self.asked) => stays.min(beyond),
            _ => beyond,
        };
        self.stays = Some(stays);
        self.asked = is_calm && beyond > stays + WORTH && data <= LITTLE_DATA;
        self.asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_data_and_a_spare_may_lie_free() {
        const GIB: u64 = 1 << 30;
        assert!(!is_much_free(SPARE, 0));
        assert!(is_much_free(SPARE + 1, 0));
        assert!(!is_much_free(GIB + GIB / 4, GIB));
        assert!(is_much_free(GIB + GIB / 2, GIB));
    }

    #[test]
    fn what_a_load_has_left_is_given_back_once_it_is_over() {
        const MIB: u64 = 1 << 20;
        let mut leavings = Leavings::default();
        let mut commands = 0;
        let mut look = |resident: u64, data: u64, more: u64| {
            commands += more;
            leavings.are_many(resident * MIB, data * MIB, commands)
        };
        assert!(!look(20, 0, 0), "what a start takes");
        assert!(!look(90, 0, FEW_COMMANDS + 1), "under load");
        assert!(look(90, 0, 10));
        assert!(!look(40, 0, 10), "the rest stays");
        assert!(!look(45, 0, 10) && look(49, 0, 10) && !look(30, 0, 10));
        assert!(look(40, 0, 10) && !look(20, 0, 10), "less may stay");
        assert!(!look(1_020, 1_000, 10), "it is all data");
        assert!(!look(4_000, 2_000, 10), "so much data takes long");
    }
}
