//! Options of the main run that say what is asked, and how.

use std::time::Duration;

use clap::Args;

use super::args::{LOAD, MEASURED, RESULTS};
use super::values;
use crate::load::operation::Op;
use crate::run::order::Order;
use crate::run::plan::Sampling;
use crate::target::service::HttpOptions;

/// What is asked, and how.
#[derive(Args, Clone, Debug, Default)]
pub struct LoadArgs {
    /// Operations asked of stores, each a ladder of its own: native, script, rl.take:ALGORITHM, cl.throttle, rl.throttle, throttle, gcra, increx, evalsha[:ALGORITHM], fcall[:ALGORITHM], get, set, incr, lpush, ...; cluster-hashtag and cluster-crossslot (stores are started as clusters of one node); of memcached: counter, get, set, incr, touch; comma separated [default: native,script]
    #[arg(long = "op", value_delimiter = ',', value_name = "NAMES", help_heading = MEASURED)]
    pub ops: Vec<Op>,
    /// Rates as multiples of that of a timed trace (--dist trace:FILE), 1 as it was recorded; comma separated, in place of --ladder
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS", conflicts_with = "ladder", value_parser = values::speed, help_heading = LOAD)]
    pub speed: Vec<f64>,
    /// Order of the rungs: up, down, shuffled (by the seed) or updown [default: as given]
    #[arg(long, help_heading = LOAD)]
    pub order: Option<Order>,
    /// Shares of the offered load that the limits are to admit, each with cells of its own; comma separated, such as 1.0,0.5,0.01 [default: both answers occur, no share is aimed at]
    #[arg(long, value_delimiter = ',', value_name = "RATIOS", value_parser = values::ratio, help_heading = MEASURED)]
    pub admit: Vec<f64>,
    /// Method of requests to http:// targets [default: POST with a body, else GET]
    #[arg(long, value_name = "METHOD", help_heading = MEASURED)]
    pub http_method: Option<String>,
    /// Header of requests to http:// targets; {key}, {limit} and {window} are filled in; repeatable
    #[arg(long = "http-header", value_name = "NAME: VALUE", value_parser = values::header, help_heading = MEASURED)]
    pub http_headers: Vec<(String, String)>,
    /// Body of requests to http:// targets; {key}, {limit} and {window} (seconds) are filled in [default for the path /json: a rate limit request under the rules of 'bench rules']
    #[arg(long, value_name = "TEXT", help_heading = MEASURED)]
    pub http_body: Option<String>,
    /// Requests that one connection to an http:// target may have unanswered
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_024), help_heading = LOAD)]
    pub http_pipeline: u32,
    /// Stay awake for the last TIME before a request is due: less lag, for a core that is always busy and that the target's part of the kernel may need; best where the generator has cores of its own [default: asleep until then; 100us without a TIME]
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "100us", value_parser = values::spin, help_heading = LOAD)]
    pub spin: Option<Duration>,
    /// Keep single requests in samples.raw, which tollgate bench raw prints as CSV: one in N of every step, at random [without N: all, up to about a million a step]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = values::sampling, help_heading = RESULTS)]
    pub raw: Option<Sampling>,
}

impl LoadArgs {
    /// What is said about requests over HTTP.
    #[must_use]
    pub(crate) fn http(&self) -> HttpOptions {
        HttpOptions {
            method: self.http_method.clone(),
            headers: self.http_headers.clone(),
            body: self.http_body.clone(),
        }
    }
}
