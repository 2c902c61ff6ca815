//! Metrics as text: for Prometheus, and as lines of name and value.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::{BUCKETS_US, Event, KINDS, Metrics, OTHER};
use crate::backend::LocalCache;

/// What a kind of a rule's counters says, for Prometheus.
const HELP: [&str; KINDS.len()] = [
    "Hits of requests.",
    "Hits over the limit.",
    "Hits that passed with little left.",
    "Hits that passed.",
    "Hits that a rule in shadow mode would have refused.",
    "Hits over the limit that were refused without asking the store.",
];

/// Labels of a rule's series: domain, and the first two steps of its path.
type Labels = (String, Option<String>, Option<String>);

impl Metrics {
    /// Every series of rules by its name, with its domain.
    fn by_name(&self) -> Vec<(String, String, [u64; KINDS.len()])> {
        let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = series
            .iter()
            .map(|(name, series)| (name.to_string(), series.domain.to_string(), series.totals()))
            .collect();
        drop(series);
        let other = self.other.totals();
        if other != [0; KINDS.len()] {
            all.push((OTHER.to_owned(), OTHER.to_owned(), other));
        }
        all.sort();
        all
    }

    /// In the text form that Prometheus reads.
    pub(crate) fn prometheus(&self) -> String {
        let mut text = String::new();
        // Deeper steps have no label, as with the peer; what is alike without them is added up.
        let mut labelled: BTreeMap<Labels, [u64; KINDS.len()]> = BTreeMap::new();
        for (name, domain, totals) in self.by_name() {
            let sums = labelled.entry(labels(&name, &domain)).or_default();
            for (sum, more) in sums.iter_mut().zip(totals) {
                *sum = sum.wrapping_add(more);
            }
        }
        for (kind, help) in KINDS.iter().zip(HELP) {
            let name = format!("ratelimit_service_rate_limit_{kind}");
            head(&mut text, &name, help, "counter");
            let index = KINDS.iter().position(|known| known == kind).unwrap_or(0);
            for ((domain, key1, key2), totals) in &labelled {
                let mut labels = format!("domain=\"{}\"", escaped(domain));
                for (label, key) in [("key1", key1), ("key2", key2)] {
                    if let Some(key) = key {
                        write!(labels, ",{label}=\"{}\"", escaped(key)).ok();
                    }
                }
                writeln!(text, "{name}{{{labels}}} {}", totals[index]).ok();
            }
        }
        self.write_events(&mut text);
        self.write_hold_requests(&mut text);
        self.write_times(&mut text);
        text.push_str(&self.loads.to_string());
        self.facts.write(&mut text);
        text
    }

    fn write_events(&self, text: &mut String) {
        let mut family = |name: &str, help: &str, kind: &str, rows: &[(&str, u64)]| {
            head(text, name, help, kind);
            for (labels, value) in rows {
                // Writing into a String cannot fail.
                writeln!(text, "{name}{labels} {value}").ok();
            }
        };
        family(
            "ratelimit_service_total_requests",
            "Requests for decisions.",
            "counter",
            &[(
                "{grpc_method=\"ShouldRateLimit\"}",
                self.event(Event::Request),
            )],
        );
        family(
            "ratelimit_service_should_rate_limit_error",
            "Requests without a decision.",
            "counter",
            &[
                (
                    "{err_type=\"redis_error\"}",
                    self.event(Event::BackendError),
                ),
                (
                    "{err_type=\"service_error\"}",
                    self.event(Event::ServiceError),
                ),
            ],
        );
        family(
            "ratelimit_service_rate_limit_domain_not_found",
            "Descriptors for domains without rules.",
            "counter",
            &[("", self.event(Event::DomainNotFound))],
        );
        family(
            "ratelimit_service_global_shadow_mode",
            "Requests that pass only because all rules are in shadow mode.",
            "counter",
            &[("", self.event(Event::GlobalShadow))],
        );
        family(
            "tollgate_requests_shed_total",
            "Requests refused early, by reason.",
            "counter",
            &[
                ("{reason=\"deadline\"}", self.event(Event::ShedDeadline)),
                ("{reason=\"overload\"}", self.event(Event::ShedOverload)),
                ("{reason=\"queue\"}", self.event(Event::ShedQueue)),
            ],
        );
        let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
        let count = series.len() as u64;
        drop(series);
        family(
            "tollgate_metric_series",
            "Metric series of rules; at most 4096, further ones are counted in the domain other.",
            "gauge",
            &[("", count)],
        );
        family(
            "tollgate_serving",
            "1 when the service is healthy and should receive requests.",
            "gauge",
            &[("", u64::from(self.health.is_serving()))],
        );
    }

    fn write_times(&self, text: &mut String) {
        let name = "ratelimit_service_response_time_seconds";
        let method = "grpc_method=\"ShouldRateLimit\"";
        head(text, name, "Response time over gRPC.", "histogram");
        let mut count = 0_u64;
        for (bucket, end) in BUCKETS_US.iter().map(Some).chain([None]).enumerate() {
            let here = self.own.iter().map(|own| own.times[bucket].get());
            count = here.fold(count, u64::wrapping_add);
            let end = end.map_or("+Inf".to_owned(), |&us| (us as f64 / 1e6).to_string());
            writeln!(text, "{name}_bucket{{{method},le=\"{end}\"}} {count}").ok();
        }
        let sum = self.own.iter().map(|own| own.time_us.get());
        let sum = sum.fold(0, u64::wrapping_add) as f64 / 1e6;
        writeln!(text, "{name}_sum{{{method}}} {sum}").ok();
        writeln!(text, "{name}_count{{{method}}} {count}").ok();
    }

    /// Names and values, as statsd and the debug port have them.
    pub(crate) fn lines(&self) -> Vec<(String, u64)> {
        // What is alike in statsd's letters is added up: a name that came twice would go up and down.
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        let mut add = |name: &str, what: &str, more: u64| {
            let name = format!("ratelimit.service.rate_limit.{}.{what}", sanitised(name));
            let sum = sums.entry(name).or_default();
            *sum = sum.wrapping_add(more);
        };
        for (name, _, totals) in self.by_name() {
            for (kind, value) in KINDS.iter().zip(totals) {
                add(&name, kind, value);
            }
        }
        let unknown = self.unknown_domains.read();
        let unknown = unknown.unwrap_or_else(PoisonError::into_inner);
        for (domain, count) in &*unknown {
            add(domain, "domain_not_found", count.load(Ordering::Relaxed));
        }
        drop(unknown);
        let mut lines: Vec<(String, u64)> = sums.into_iter().collect();
        let (good, bad) = self.loads.counts();
        for (name, value) in [
            (
                "ratelimit.service.call.should_rate_limit.redis_error",
                self.event(Event::BackendError),
            ),
            (
                "ratelimit.service.call.should_rate_limit.service_error",
                self.event(Event::ServiceError),
            ),
            ("ratelimit.service.config_load_success", good),
            ("ratelimit.service.config_load_error", bad),
            (
                "ratelimit.service.global_shadow_mode",
                self.event(Event::GlobalShadow),
            ),
            (
                "ratelimit_server.ShouldRateLimit.total_requests",
                self.event(Event::Request),
            ),
            (
                "tollgate.requests_shed.deadline",
                self.event(Event::ShedDeadline),
            ),
            (
                "tollgate.requests_shed.overload",
                self.event(Event::ShedOverload),
            ),
            ("tollgate.requests_shed.queue", self.event(Event::ShedQueue)),
        ] {
            lines.push((name.to_owned(), value));
        }
        lines.extend(self.pool_lines(false));
        lines
    }

    /// The same of what goes up and down.
    pub(crate) fn gauges(&self) -> Vec<(String, u64)> {
        let cache = self.facts.local_cache();
        let gauges = cache.map(LocalCache::gauges).into_iter().flatten();
        gauges
            .map(|(name, value)| (format!("ratelimit.localcache.{name}"), value))
            .chain(self.pool_lines(true))
            .collect()
    }

    fn pool_lines(&self, gauges: bool) -> impl Iterator<Item = (String, u64)> {
        let numbers = self.facts.pools().into_iter();
        numbers
            .filter(move |number| number.is_gauge == gauges)
            .map(|number| (format!("ratelimit.{}", number.name), number.value))
    }

    /// How many responses took up to so many microseconds, and longer than the row before says. What took longer than the
    /// last row says is counted there.
    pub(crate) fn response_times(&self) -> Vec<(u64, u64)> {
        let count = |bucket: usize| {
            let all = self.own.iter().map(|own| own.times[bucket].get());
            all.fold(0, u64::wrapping_add)
        };
        let last = BUCKETS_US.len() - 1;
        let rows = BUCKETS_US.iter().enumerate();
        rows.map(|(bucket, &end_us)| match bucket == last {
            true => (end_us, count(bucket).wrapping_add(count(bucket + 1))),
            false => (end_us, count(bucket)),
        })
        .collect()
    }

    /// A line each.
    pub(crate) fn stats(&self) -> String {
        let mut lines = self.lines();
        lines.extend(self.gauges());
        lines
            .iter()
            .map(|(name, value)| format!("{name}: {value}\n"))
            .collect()
    }
}

pub(super) fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    // Writing into a String cannot fail.
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").ok();
}

fn labels(name: &str, domain: &str) -> Labels {
    let path = name
        .strip_prefix(domain)
        .and_then(|rest| rest.strip_prefix('.'))
        .unwrap_or_default();
    let path = sanitised(path);
    let mut steps = path.split('.').filter(|step| !step.is_empty());
    (
        domain.to_owned(),
        steps.next().map(str::to_owned),
        steps.next().map(str::to_owned),
    )
}

/// A name of statsd: `:` and `|` mean something there, and the dots of an IPv4 address begin no new step. An address is, as with
/// envoyproxy/ratelimit, any four numbers of up to three digits with dots between them, whatever stands around.
fn sanitised(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut at = 0;
    while let Some(letter) = name[at..].chars().next() {
        let len = address_len(&name.as_bytes()[at..]).unwrap_or(letter.len_utf8());
        for letter in name[at..at + len].chars() {
            out.push(match letter {
                ':' | '|' | '\n' | '\r' => '_',
                '.' if len > 1 => '_',
                letter => letter,
            });
        }
        at += len;
    }
    out
}

/// Length of the address that a text begins with. Every number takes as many digits as it can.
fn address_len(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    for number in 0..4 {
        if number > 0 {
            at += text[at..].starts_with(b".").then_some(1)?;
        }
        let digits = text[at..].iter().take(3);
        let digits = digits.take_while(|byte| byte.is_ascii_digit()).count();
        at += (digits > 0).then_some(digits)?;
    }
    Some(at)
}

/// A label's value, as Prometheus quotes it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_fit_for_statsd() {
        for (name, want) in [
            ("d.remote_address_10.0.0.1", "d.remote_address_10_0_0_1"),
            ("d.a_10.0.0.1.path", "d.a_10_0_0_1.path"),
            ("d.version_1.2", "d.version_1.2"),
            ("d.y.1.2.3.4.5", "d.y.1_2_3_4.5"),
            ("d.12345.1.2.3", "d.12345_1_2_3"),
            ("d.1.2.3.4567", "d.1_2_3_4567"),
            ("d.é.1..2.3.4", "d.é.1..2.3.4"),
            ("d.k_a:b|c", "d.k_a_b_c"),
        ] {
            assert_eq!(sanitised(name), want);
        }
    }

    #[test]
    fn labels_are_the_first_two_steps() {
        let of = |name: &str| labels(name, "my.domain");
        assert_eq!(
            of("my.domain.a_b.c.d"),
            ("my.domain".into(), Some("a_b".into()), Some("c".into()))
        );
        assert_eq!(escaped("a\"b\\c\n"), "a\\\"b\\\\c\\n");
    }
}
