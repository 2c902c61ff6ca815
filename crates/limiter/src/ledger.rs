//! States of limiters that need more than a few bytes.

use crate::algorithms::LimiterState;
use crate::ban::Ban;
use crate::holds::Holds;
use crate::leases::Leases;
use crate::sliding_log::SlidingLog;
use crate::slot::Slot;

/// A limiter's state with a place on the heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ledger {
    /// Admitted requests, each with its time.
    Log(SlidingLog),
    /// What is in use at the same time.
    Leases(Box<Leases>),
    /// A limiter with reservations on it.
    Holds(Box<Holds>),
    /// A limiter that is banned for a time.
    Ban(Ban),
}

impl Ledger {
    /// Entries.
    pub fn len(&self) -> usize {
        match self {
            Self::Log(log) => log.hits().len(),
            Self::Leases(leases) => leases.len(),
            Self::Holds(holds) => holds.len(),
            Self::Ban(_) => 1,
        }
    }

    /// Whether it says nothing. A limiter on which no reservation is left still counts.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Holds(holds) => holds.is_empty() && holds.base.is_none(),
            _ => self.len() == 0,
        }
    }

    /// Bytes on the heap, about.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Log(log) => log.heap_bytes(),
            Self::Leases(leases) => size_of::<Leases>() + leases.heap_bytes(),
            Self::Holds(holds) => size_of::<Holds>() + holds.heap_bytes(),
            Self::Ban(ban) => {
                size_of::<Slot>()
                    + match &*ban.beneath {
                        Slot::Small(_) => 0,
                        Slot::Ledger(ledger, _) => ledger.heap_bytes(),
                    }
            }
        }
    }

    /// Name of the state's form, as `OBJECT ENCODING` reports it.
    pub const fn encoding(&self) -> &'static str {
        match self {
            Self::Log(_) => "sliding-log",
            Self::Leases(_) => "leases",
            Self::Holds(_) => "reservations",
            Self::Ban(_) => LimiterState::Banned.encoding(),
        }
    }
}
