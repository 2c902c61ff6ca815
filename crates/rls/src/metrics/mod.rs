//! What the service counts: per rule, by the names of envoyproxy/ratelimit, and for itself.
//!
//! Each service thread has counters of its own, which it alone writes, so that counting costs no traffic between
//! processors; who reads adds them up. There are at most [`MAX_SERIES`] rules' series: what comes beyond is counted in one
//! called `other`, because values of requests can be part of names.

mod facts;
mod holds;
mod statsd;
mod text;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tollgate_policy::{Hits, Ruleset};

use crate::health::Health;
use crate::in_force::Loads;
use facts::Facts;
use holds::HoldRequests;
pub(crate) use holds::{HoldRequest, Outcome};

pub(crate) use statsd::send_forever;

/// Most series of rules.
pub(crate) const MAX_SERIES: usize = 4_096;
/// Most domains without rules that are counted by their names; requests choose those.
const MAX_UNKNOWN_DOMAINS: usize = 256;
/// Longest name of one, in bytes; what is longer is cut.
const MAX_DOMAIN: usize = 256;
/// Name for all that have no place of their own.
const OTHER: &str = "other";
/// Upper ends of the histogram of response times, in microseconds.
const BUCKETS_US: [u64; 14] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000,
];
/// What a series counts, as its names end.
const KINDS: [&str; 6] = [
    "total_hits",
    "over_limit",
    "near_limit",
    "within_limit",
    "shadow_mode",
    "over_limit_with_local_cache",
];
/// What a thread counts beside them.
const EVENTS: usize = Event::ALL.len();

/// Things that happen to requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A request for a decision came in.
    Request,
    /// The backend could not decide.
    BackendError,
    /// It was no request that can be answered.
    ServiceError,
    /// A descriptor for a domain without rules.
    DomainNotFound,
    /// Allowed only because all rules are in shadow mode.
    GlobalShadow,
    /// Refused early: its deadline had passed or would have.
    ShedDeadline,
    /// Refused early: work had piled up for longer than it should.
    ShedOverload,
    /// Refused early: too many wait for the backend already.
    ShedQueue,
}

impl Event {
    pub(crate) const ALL: [Self; 8] = [
        Self::Request,
        Self::BackendError,
        Self::ServiceError,
        Self::DomainNotFound,
        Self::GlobalShadow,
        Self::ShedDeadline,
        Self::ShedOverload,
        Self::ShedQueue,
    ];
}

/// A counter that one thread writes.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Counter {
    fn add(&self, more: u64) {
        let now = self.0.load(Ordering::Relaxed);
        self.0.store(now.wrapping_add(more), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One thread's share of a series; on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Share([Counter; KINDS.len()]);

/// The counters of one rule.
#[derive(Debug)]
struct Series {
    domain: Box<str>,
    shares: Box<[Share]>,
}

impl Series {
    fn new(domain: &str, threads: usize) -> Arc<Self> {
        Arc::new(Self {
            domain: domain.into(),
            shares: (0..threads).map(|_| Share::default()).collect(),
        })
    }

    fn add(&self, thread: usize, hits: &Hits<'_>) {
        let counts = [
            hits.total,
            hits.over,
            hits.near,
            hits.within,
            hits.shadow,
            hits.over_locally,
        ];
        for (counter, more) in self.shares[thread].0.iter().zip(counts) {
            if more > 0 {
                counter.add(more);
            }
        }
    }

    fn totals(&self) -> [u64; KINDS.len()] {
        std::array::from_fn(|kind| {
            let shares = self.shares.iter().map(|share| share.0[kind].get());
            shares.fold(0, u64::wrapping_add)
        })
    }
}

/// What one thread counts of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Own {
    events: [Counter; EVENTS],
    hold_requests: HoldRequests,
    /// Responses by time; the last place is for those slower than all.
    times: [Counter; BUCKETS_US.len() + 1],
    time_us: Counter,
}

/// All counters of the service.
#[derive(Debug)]
pub(crate) struct Metrics {
    series: RwLock<HashMap<Box<str>, Arc<Series>>>,
    other: Arc<Series>,
    /// Descriptors for domains without rules. Seldom, so that threads may share the counters.
    unknown_domains: RwLock<HashMap<Box<str>, AtomicU64>>,
    own: Box<[Own]>,
    loads: Arc<Loads>,
    health: Health,
    near_ratio: f32,
    /// What is looked at when somebody asks.
    pub(crate) facts: Facts,
}

/// The counters as one thread uses them.
pub(crate) struct ThreadMetrics {
    all: Arc<Metrics>,
    thread: usize,
    /// Series that this thread has met; as bounded as those of all.
    known: RefCell<HashMap<Box<str>, Arc<Series>, foldhash::fast::RandomState>>,
}

impl Metrics {
    pub(crate) fn new(threads: usize, loads: Arc<Loads>, health: Health, near_ratio: f32) -> Self {
        Self {
            series: RwLock::default(),
            other: Series::new("", threads),
            unknown_domains: RwLock::default(),
            own: (0..threads).map(|_| Own::default()).collect(),
            loads,
            health,
            near_ratio,
            facts: Facts::default(),
        }
    }

    /// Lets the series of rules be seen before their first request.
    pub(crate) fn announce(&self, rules: &Ruleset) {
        for limit in rules.describe() {
            if limit.is_series {
                self.find_or_make(&limit.domain, &limit.path);
            }
        }
    }

    /// `None` where there is no room for one more.
    fn find_or_make(&self, domain: &str, name: &str) -> Option<Arc<Series>> {
        let read = self.series.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = read.get(name) {
            return Some(found.clone());
        }
        if read.len() >= MAX_SERIES {
            return None;
        }
        drop(read);
        let mut write = self.series.write().unwrap_or_else(PoisonError::into_inner);
        if write.len() >= MAX_SERIES && !write.contains_key(name) {
            return None;
        }
        let made = write
            .entry(name.into())
            .or_insert_with(|| Series::new(domain, self.own.len()));
        Some(made.clone())
    }

    pub(crate) fn of_thread(self: &Arc<Self>, thread: usize) -> ThreadMetrics {
        ThreadMetrics {
            all: self.clone(),
            thread,
            known: RefCell::default(),
        }
    }

    fn count_unknown(&self, domain: &str, more: u64) {
        let domain = &domain[..domain.floor_char_boundary(MAX_DOMAIN)];
        let domains = &self.unknown_domains;
        let read = domains.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = read.get(domain) {
            count.fetch_add(more, Ordering::Relaxed);
            return;
        }
        drop(read);
        let mut write = domains.write().unwrap_or_else(PoisonError::into_inner);
        let name = match write.len() < MAX_UNKNOWN_DOMAINS {
            true => domain,
            false => OTHER,
        };
        let count = write.entry(name.into()).or_default();
        count.fetch_add(more, Ordering::Relaxed);
    }

    fn event(&self, event: Event) -> u64 {
        let all = self.own.iter().map(|own| own.events[event as usize].get());
        all.fold(0, u64::wrapping_add)
    }
}

impl ThreadMetrics {
    pub(crate) fn near_ratio(&self) -> f32 {
        self.all.near_ratio
    }

    /// Adds what a limit counted.
    pub(crate) fn hits(&self, domain: &str, hits: &Hits<'_>) {
        // Nothing is cloned: a count of uses that all threads share would go to and fro between their processors.
        if let Some(series) = self.known.borrow().get(&*hits.series) {
            return series.add(self.thread, hits);
        }
        self.meet(domain, &hits.series).add(self.thread, hits);
    }

    #[cold]
    fn meet(&self, domain: &str, name: &str) -> Arc<Series> {
        let Some(series) = self.all.find_or_make(domain, name) else {
            return self.all.other.clone();
        };
        self.known.borrow_mut().insert(name.into(), series.clone());
        series
    }

    /// Counts so many descriptors for a domain without rules.
    pub(crate) fn domain_not_found(&self, domain: &str, count: u64) {
        self.events(Event::DomainNotFound, count);
        self.all.count_unknown(domain, count);
    }

    pub(crate) fn event(&self, event: Event) {
        self.events(event, 1);
    }

    fn events(&self, event: Event, count: u64) {
        self.all.own[self.thread].events[event as usize].add(count);
    }

    /// Adds the time of `count` responses.
    pub(crate) fn response_time(&self, took: Duration, count: u64) {
        let own = &self.all.own[self.thread];
        let us = took.as_micros() as u64;
        let bucket = BUCKETS_US.partition_point(|&end| end < us);
        own.times[bucket].add(count);
        own.time_us.add(us.saturating_mul(count));
    }

    /// Everything, as Prometheus reads it.
    pub(crate) fn prometheus(&self) -> String {
        self.all.prometheus()
    }

    /// Everything, a line each.
    pub(crate) fn stats(&self) -> String {
        self.all.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::health::HealthNeeds;

    fn metrics() -> Arc<Metrics> {
        let loads = Arc::new(Loads::default());
        Arc::new(Metrics::new(
            2,
            loads,
            Health::new(&Ruleset::default(), HealthNeeds::default()),
            0.8,
        ))
    }

    #[test]
    fn names_that_are_alike_to_statsd_are_one_line() {
        let metrics = metrics();
        let thread = metrics.of_thread(0);
        for series in ["d.k_a:b", "d.k_a|b", "d.k_a_b"] {
            thread.hits("d", &hits(series));
        }
        thread.domain_not_found("x:y", 2);
        thread.domain_not_found("x|y", 3);
        let lines = metrics.lines();
        let of = |name: &str| {
            let name = format!("ratelimit.service.rate_limit.{name}");
            let same = lines.iter().filter(|(known, _)| *known == name);
            same.map(|(_, value)| *value).collect::<Vec<_>>()
        };
        assert_eq!(of("d.k_a_b.total_hits"), [9]);
        assert_eq!(of("x_y.domain_not_found"), [5]);
    }

    fn hits(series: &str) -> Hits<'_> {
        Hits {
            series: series.into(),
            total: 3,
            over: 1,
            near: 0,
            within: 2,
            shadow: 0,
            over_locally: 1,
        }
    }

    #[test]
    fn threads_count_apart_and_are_added_up() {
        let metrics = metrics();
        for thread in [0, 1, 1] {
            metrics.of_thread(thread).hits("d", &hits("d.a_b.c"));
            metrics.of_thread(thread).event(Event::Request);
        }
        let text = metrics.prometheus();
        for line in [
            "ratelimit_service_rate_limit_total_hits{domain=\"d\",key1=\"a_b\",key2=\"c\"} 9",
            "ratelimit_service_rate_limit_over_limit{domain=\"d\",key1=\"a_b\",key2=\"c\"} 3",
            "ratelimit_service_rate_limit_over_limit_with_local_cache{domain=\"d\",key1=\"a_b\",key2=\"c\"} 3",
            "ratelimit_service_total_requests{grpc_method=\"ShouldRateLimit\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let stats = metrics.stats();
        assert!(
            stats.contains("ratelimit.service.rate_limit.d.a_b.c.within_limit: 6\n"),
            "{stats}"
        );
    }

    /// Values of requests must not fill the memory.
    #[test]
    fn beyond_the_bound_there_is_one_series_for_all() {
        let metrics = metrics();
        let thread = metrics.of_thread(0);
        for number in 0..MAX_SERIES + 100 {
            thread.hits("d", &hits(&format!("d.user_{number}")));
        }
        assert_eq!(metrics.series.read().expect("whole").len(), MAX_SERIES);
        assert_eq!(thread.known.borrow().len(), MAX_SERIES);
        assert_eq!(metrics.other.totals()[0], 300);
        let text = metrics.prometheus();
        assert!(
            text.contains("ratelimit_service_rate_limit_total_hits{domain=\"other\"} 300"),
            "the last series is missing"
        );
        // Those that were there before still count.
        metrics.of_thread(1).hits("d", &hits("d.user_1"));
        assert_eq!(metrics.other.totals()[0], 300);
    }

    #[test]
    fn domains_without_rules_are_counted_by_name_within_a_bound() {
        let metrics = metrics();
        let thread = metrics.of_thread(0);
        for number in 0..2 * MAX_UNKNOWN_DOMAINS {
            thread.domain_not_found(&format!("domain{number}"), 1);
        }
        thread.domain_not_found("domain0", 1);
        thread.domain_not_found(&"é".repeat(MAX_DOMAIN), 1);
        let (first, rest) = (2, MAX_UNKNOWN_DOMAINS + 1);
        let stats = metrics.stats();
        for line in [
            format!("domain0.domain_not_found: {first}"),
            format!("{OTHER}.domain_not_found: {rest}"),
        ] {
            let line = format!("ratelimit.service.rate_limit.{line}\n");
            assert!(stats.contains(&line), "{line}{stats}");
        }
        let names = metrics.unknown_domains.read().expect("whole").len();
        assert_eq!(names, MAX_UNKNOWN_DOMAINS + 1);
    }

    #[test]
    fn response_times_fall_into_cumulative_buckets() {
        let metrics = metrics();
        let thread = metrics.of_thread(1);
        thread.response_time(Duration::from_micros(50), 2);
        thread.response_time(Duration::from_micros(51), 1);
        thread.response_time(Duration::from_secs(5), 1);
        let text = metrics.prometheus();
        for line in [
            "response_time_seconds_bucket{grpc_method=\"ShouldRateLimit\",le=\"0.00005\"} 2",
            "response_time_seconds_bucket{grpc_method=\"ShouldRateLimit\",le=\"0.0001\"} 3",
            "response_time_seconds_bucket{grpc_method=\"ShouldRateLimit\",le=\"1\"} 3",
            "response_time_seconds_bucket{grpc_method=\"ShouldRateLimit\",le=\"+Inf\"} 4",
            "response_time_seconds_sum{grpc_method=\"ShouldRateLimit\"} 5.000151",
            "response_time_seconds_count{grpc_method=\"ShouldRateLimit\"} 4",
        ] {
            assert!(
                text.contains(&format!("ratelimit_service_{line}\n")),
                "{line}\n{text}"
            );
        }
    }
}
