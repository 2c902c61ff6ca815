//! What came of a replay.

use std::collections::HashMap;
use std::fmt;

use chrono::DateTime;
use serde::Serialize;
use tollgate_limiter::Timestamp;

use super::recording::{LeftOut, Recording};
use super::suiting::Suiting;

/// Requests that a comparison names.
const NAMED_REQUESTS: usize = 5;

/// What rules would have done to recorded requests.
#[derive(Clone, Debug, Serialize)]
pub struct Replay {
    /// How many there were.
    pub requests: u64,
    /// Time of the first, RFC 3339.
    pub first: String,
    /// Time of the last.
    pub last: String,
    /// Those that were denied.
    pub denied: u64,
    /// Lines that were no requests.
    pub left_out: LeftOut,
    /// What each limit that applied to some request did, by the name of its rule.
    pub limits: Vec<LimitReport>,
    /// Which were denied, in the order of their times.
    #[serde(skip)]
    verdicts: Vec<bool>,
}

/// What one limit would have done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitReport {
    /// Its domain and rule, joined by dots; empty for limits that requests bring themselves.
    pub rule: String,
    /// Its name in the rules, where it has one.
    pub name: String,
    /// How it counts.
    pub algorithm: &'static str,
    /// Units per window, or places in use at the same time.
    pub limit: u64,
    /// It limits what is in use at the same time.
    #[serde(skip)]
    pub(super) places: bool,
    /// Most units at one instant, where that differs from the limit by its algorithm.
    pub burst: Option<u64>,
    /// Its window, in words; of places in use how long a lease lasts.
    pub window: String,
    /// The same in milliseconds; `None` for one of the calendar.
    pub window_ms: Option<u64>,
    /// It denies nothing, it only tells.
    pub shadow: bool,
    /// Requests that it applied to.
    pub requests: u64,
    /// Those that were over it.
    pub over: u64,
    /// Counters of those requests.
    pub keys: u64,
    /// Counters that were over it at some time.
    pub keys_over: u64,
    /// The counters that were over it most often.
    pub most_denied: Vec<MostDenied>,
    /// What other limits would have denied, if each had been the only one.
    pub suiting: Vec<Suiting>,
}

/// A counter of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MostDenied {
    /// What it counts: `key=value` of a descriptor.
    pub key: String,
    /// Requests that were over the limit.
    pub over: u64,
    /// All requests.
    pub requests: u64,
}

/// What other rules would have done to the same requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Requests that these rules deny and the others do not.
    pub newly_denied: u64,
    /// Requests that the others deny and these do not.
    pub newly_allowed: u64,
    /// The requests that are newly denied most often, and how often.
    pub most_newly_denied: Vec<(String, u64)>,
}

impl Replay {
    pub(super) fn new(
        recording: &Recording<'_>,
        verdicts: Vec<bool>,
        limits: Vec<LimitReport>,
    ) -> Self {
        let time = |event: Option<&super::recording::Event>| {
            event.map_or_else(String::new, |event| rfc3339(event.at))
        };
        Self {
            requests: verdicts.len() as u64,
            first: time(recording.events().first()),
            last: time(recording.events().last()),
            denied: verdicts.iter().filter(|denied| **denied).count() as u64,
            left_out: recording.left_out().clone(),
            limits,
            verdicts,
        }
    }

    /// An object of JSON of all this, in lines, with what differs from other rules.
    pub fn json(&self, difference: Option<&Difference>) -> String {
        let whole = Whole {
            replay: self,
            difference,
        };
        let text = serde_json::to_string_pretty(&whole).expect("all keys are texts");
        format!("{text}\n")
    }

    /// Percentage of the requests that were denied.
    pub fn denied_percent(&self) -> f64 {
        percent(self.denied, self.requests)
    }

    /// Where these rules decide otherwise than those of `other`, which replayed the same recording.
    pub fn difference(&self, other: &Replay, recording: &Recording<'_>) -> Difference {
        let mut newly_denied: HashMap<u32, u64> = HashMap::new();
        let mut newly_allowed = 0;
        let events = recording.events().iter();
        for (event, (now, before)) in events.zip(self.verdicts.iter().zip(&other.verdicts)) {
            match (now, before) {
                (true, false) => *newly_denied.entry(event.request).or_default() += 1,
                (false, true) => newly_allowed += 1,
                _ => {}
            }
        }
        let named = newly_denied.iter().map(|(&request, &times)| {
            let request = &recording.requests()[request as usize];
            let entries = request.descriptors.iter().flat_map(|one| &one.entries);
            let entries = entries.map(|entry| format!("{}={}", entry.key, entry.value));
            (entries.collect::<Vec<_>>().join(", "), times)
        });
        let mut most: Vec<(String, u64)> = named.collect();
        most.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
        most.truncate(NAMED_REQUESTS);
        Difference {
            newly_denied: newly_denied.values().sum(),
            newly_allowed,
            most_newly_denied: most,
        }
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    replay: &'a Replay,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<&'a Difference>,
}

fn rfc3339(at: Timestamp) -> String {
    let date = DateTime::from_timestamp_millis(at.millis());
    // The form of its debugging is that of RFC 3339.
    date.map_or_else(String::new, |date| format!("{date:?}"))
}

fn percent(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        _ => part as f64 * 100.0 / whole as f64,
    }
}

/// As many digits as tell small shares from none.
fn share(part: u64, whole: u64) -> String {
    match percent(part, whole) {
        _ if part == 0 => "0 %".to_owned(),
        percent if percent < 0.01 => "< 0.01 %".to_owned(),
        percent if percent < 10.0 => format!("{percent:.2} %"),
        percent => format!("{percent:.1} %"),
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            requests,
            first,
            last,
            denied,
            left_out,
            ..
        } = self;
        writeln!(f, "{requests} requests from {first} to {last}")?;
        left_out.fmt(f)?;
        writeln!(f, "denied: {denied} ({})", share(*denied, *requests))?;
        if self.limits.is_empty() {
            writeln!(f, "no limit applies to any of them")?;
        }
        self.limits.iter().try_for_each(|limit| limit.fmt(f))
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lines > 0 {
            writeln!(
                f,
                "lines left out: {}, such as {}",
                self.lines,
                self.first.join("; ")
            )?;
        }
        if self.without_descriptors > 0 {
            writeln!(f, "lines without descriptors: {}", self.without_descriptors)?;
        }
        Ok(())
    }
}

impl fmt::Display for LimitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match &*self.rule {
            "" => "given by requests",
            rule => rule,
        };
        write!(f, "\n{rule}")?;
        if !self.name.is_empty() {
            write!(f, " ({})", self.name)?;
        }
        match self.places {
            true => write!(f, ": {} at a time, each for {}", self.limit, self.window)?,
            false => write!(f, ": {} per {}", self.limit, self.window)?,
        }
        if let Some(burst) = self.burst.filter(|burst| *burst != self.limit) {
            write!(f, ", burst {burst}")?;
        }
        let shadow = if self.shadow { ", shadow mode" } else { "" };
        writeln!(f, ", {}{shadow}", self.algorithm)?;
        writeln!(
            f,
            "  over: {} of {} requests ({}), {} of {} keys ({})",
            self.over,
            self.requests,
            share(self.over, self.requests),
            self.keys_over,
            self.keys,
            share(self.keys_over, self.keys)
        )?;
        for MostDenied {
            key,
            over,
            requests,
        } in &self.most_denied
        {
            writeln!(f, "    {key}: {over} of {requests}")?;
        }
        if self.suiting.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "  {:>12}  {:>21}  {:>21}",
            "a limit of", "denies requests", "of keys"
        )?;
        for suiting in &self.suiting {
            let cell = |part, whole| format!("{part} {:>9}", format!("({})", share(part, whole)));
            writeln!(
                f,
                "  {:>12}  {:>21}  {:>21}{}",
                suiting.limit,
                cell(suiting.denied, self.requests),
                cell(suiting.keys_denied, self.keys),
                if suiting.in_force {
                    "  <- the rule's"
                } else {
                    ""
                }
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\ncompared with the other rules: {} newly denied, {} newly allowed",
            self.newly_denied, self.newly_allowed
        )?;
        let mut most = self.most_newly_denied.iter();
        most.try_for_each(|(request, times)| writeln!(f, "    {request}: {times} newly denied"))
    }
}
