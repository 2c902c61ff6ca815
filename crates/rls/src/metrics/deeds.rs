//! What became of requests about units that are held under a name.

use std::fmt::Write as _;

use super::{Counter, Metrics, ThreadMetrics, text::head};

/// What is asked to be done with the units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Reserve,
    Commit,
    Cancel,
    Release,
}

impl Deed {
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
pub(super) struct Deeds([[Counter; Outcome::ALL.len()]; Deed::ALL.len()]);

impl ThreadMetrics {
    /// Counts a request about held units.
    pub(crate) fn deed(&self, deed: Deed, done: Outcome) {
        let own = &self.all.own[self.thread];
        own.deeds.0[deed as usize][done as usize].add(1);
    }
}

impl Metrics {
    pub(super) fn write_deeds(&self, text: &mut String) {
        let name = "tollgate_hold_requests_total";
        let help =
            "Requests about units held under a name, by what was asked and what became of it.";
        head(text, name, help, "counter");
        for deed in Deed::ALL {
            for done in Outcome::ALL {
                let shares = self
                    .own
                    .iter()
                    .map(|own| own.deeds.0[deed as usize][done as usize].get());
                let count = shares.fold(0, u64::wrapping_add);
                let (deed, result) = (deed.name(), done.name());
                // Writing into a String cannot fail.
                writeln!(
                    text,
                    "{name}{{deed=\"{deed}\",result=\"{result}\"}} {count}"
                )
                .ok();
            }
        }
    }
}
