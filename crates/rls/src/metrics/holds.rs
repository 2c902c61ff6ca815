//! What became of requests about units that are held under a name.

use std::fmt::Write as _;

use super::{Counter, Metrics, ThreadMetrics, text::head};

/// What is asked to be done with the units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldRequest {
    Reserve,
    Commit,
    Cancel,
    Release,
}

impl HoldRequest {
    const ALL: [Self; 4] = [Self::Reserve, Self::Commit, Self::Cancel, Self::Release];

    const fn name(self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::Commit => "commit",
            Self::Cancel => "cancel",
            Self::Release => "release",
        }
    }
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was done.
    Done,
    /// The units are not there to be reserved.
    Denied,
    /// Nothing is held under the name.
    NotFound,
    /// It was no request that can be answered.
    Invalid,
    /// Refused early.
    Shed,
    /// The backend failed, or no rules are loaded.
    Error,
}

impl Outcome {
    const ALL: [Self; 6] = [
        Self::Done,
        Self::Denied,
        Self::NotFound,
        Self::Invalid,
        Self::Shed,
        Self::Error,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Denied => "denied",
            Self::NotFound => "not_found",
            Self::Invalid => "invalid",
            Self::Shed => "shed",
            Self::Error => "error",
        }
    }
}

/// One thread's share.
#[derive(Debug, Default)]
pub(super) struct HoldRequests([[Counter; Outcome::ALL.len()]; HoldRequest::ALL.len()]);

impl ThreadMetrics {
    /// Counts a request about held units.
    pub(crate) fn hold_request(&self, kind: HoldRequest, done: Outcome) {
        let own = &self.all.own[self.thread];
        own.hold_requests.0[kind as usize][done as usize].add(1);
    }
}

impl Metrics {
    pub(super) fn write_hold_requests(&self, text: &mut String) {
        let name = "tollgate_hold_requests_total";
        let help = "Requests about reservations and leases, by operation and result.";
        head(text, name, help, "counter");
        for kind in HoldRequest::ALL {
            for done in Outcome::ALL {
                let shares = self
                    .own
                    .iter()
                    .map(|own| own.hold_requests.0[kind as usize][done as usize].get());
                let count = shares.fold(0, u64::wrapping_add);
                let (operation, result) = (kind.name(), done.name());
                // Writing into a String cannot fail.
                writeln!(
                    text,
                    "{name}{{operation=\"{operation}\",result=\"{result}\"}} {count}"
                )
                .ok();
            }
        }
    }
}
