//! Rate limit rules: YAML, matching of descriptors, verdicts.
//!
//! Pure: the texts of the rule files, or a management server's messages, come in, a [`Ruleset`] comes out. For each request
//! [`Ruleset::resolve`] finds the limits that apply and the counters they use, a backend decides them, and
//! [`Resolved::verdict`] turns the decisions into the response. Rules, matching and response are those of
//! envoyproxy/ratelimit; where a key and value joined by `_` would be ambiguous there (`a` + `b_c` against
//! `a_b` + `c`), pairs are told apart here.
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod bound;
mod describe;
mod dump;
mod envoy_keys;
mod explain;
mod found;
mod headers;
mod hot_key;
mod inherit;
mod limits;
mod load;
mod messages;
mod metadata;
mod metric;
mod modes;
mod outcome;
mod pattern;
mod period;
mod resolve;
mod ruleset;
mod unit;
mod verdict;
mod yaml;

pub use bound::{Fallback, MAX_LIMITS, OnError};
pub use dump::Described;
pub use explain::{Step, Trace};
pub use headers::{Header, HeaderForm, Retry, Standing};
pub use hot_key::{HotKey, MAX_BATCH, MAX_ONE_IN, MAX_SERVICES, MAX_SHARDS};
pub use inherit::{Inherit, Predecessor};
pub use load::{LoadOptions, MAX_MISTAKES, RuleError};
pub use metric::{Hits, Provenance};
pub use modes::{HeaderNames, Modes, truth};
pub use outcome::{Counting, Outcome, retry_of, standings};
pub use resolve::{LimitCheck, MAX_DESCRIPTORS, RequestError, Resolved, Role};
pub use ruleset::Ruleset;
pub use unit::Unit;
pub use yaml::{MAX_DEPTH, MAX_FILE_LEN, MAX_NODES, MAX_TEXT, MAX_TEXT_LEN};
