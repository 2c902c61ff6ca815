//! The page of the variables of envoyproxy/ratelimit.

use std::fmt::Write as _;

use tollgate_rls::{Effect, VARIABLES};
use tollgate_testkit::repo_root;

/// What the page says before its tables.
const SHARING: &str = "
## Sharing counters with a running fleet

With `--counter-keys envoy` (or `TOLLGATE_COUNTER_KEYS=envoy`) and a Redis behind `--backend` or at `REDIS_URL`, counters are those
of envoyproxy/ratelimit itself: the key is `CACHE_KEY_PREFIX`, `domain_key_value_…_` and the start of the window, and each
request sends `INCRBY` and `EXPIRE` for each limit, in one pipeline. A fleet of envoyproxy/ratelimit and Tollgate then count in the
same keys: a limit is that of all together, and services can be replaced one at a time. What holds is what holds there:

* Of a limit of L at most L units pass in a window, whoever asks, as long as Redis keeps the keys and the clocks of all services
  agree; windows are those of each service's own clock.
* A denied request counts too, and each limit counts for itself, also when another one denies: it is not all or nothing.
  `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT` reads first and then counts only what is over; between the two others may count.
* `is_negative_hits` lowers a counter, never below 0, and passes always. It is the one thing that is a script.
* Texts with underscores are not told apart, so that two descriptors may share a counter.
* Rules that these counters cannot hold are refused when they are loaded, with file and line (`tollgate check --counter-keys envoy`
  tells beforehand): other algorithms and periods, several `limits`, `concurrency`, `inherit`, `hot_key`. Reservations are refused
  when they are asked for.
* In metrics the hits of a request that crosses its limit are split as there: those that there was room for are not over.

## Rules from a management server

With `CONFIG_TYPE=GRPC_XDS_SOTW` rules come from a management server of xDS, as Envoy Gateway is one: resources of the type
`ratelimit.config.ratelimit.v3.RateLimitConfig`, over the stream of the aggregated discovery service, all of them with each response.

* Rules that are valid are in force before the response is acknowledged. If one resource is not valid, the whole response is refused,
  with the reason in the words of envoyproxy/ratelimit; the rules before stay, and `config_load_error` counts it.
* While no server can be reached the rules stay, too. It is tried again at the intervals below, and told the version that was taken
  last. The log has a line when trouble begins, and one when it is over.
* Before the first rules requests are errors. With `FORCE_START_WITHOUT_INITIAL_CONFIG` the service is healthy meanwhile, unless
  `HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED` is true as well; without it, it is not. No resources at all are rules, too: everything
  passes then.
* `quota_mode` and `metadata` of descriptors count where the server gives them.

## Local cache

`LOCAL_CACHE_SIZE_IN_BYTES` lets each service remember limits that are over, so that the store is not asked about them again: with
`--counter-keys envoy` until the window ends, as there, and with counters of our own for the wait that the store told, for whatever
weighs as much. It holds for every rule without a `hot_key` of its own; places in use (`concurrency`) and reservations are always
asked for. Nothing passes that the store would refuse. What the other limits of
such a request have left is not asked for, and told as an estimate. What comes back before its time by way of another service
(`is_negative_hits`, a reservation that is cancelled) or of the store's own commands is found when what is remembered is over.

The bytes bound keys and what is remembered of them, of which the newest half at least is kept; fewer than 524,288 count as so many,
as there. Hits that were refused so count in `over_limit` and in `over_limit_with_local_cache`; `ratelimit.localcache.*`
(`ratelimit_localcache_*` for Prometheus) tell how full it is, without `averageAccessTime`.

## Traces

With `TRACING_ENABLED=true` each decision has a span, and what the backend does for it another within it; a collector of OpenTelemetry
gets them. What a call is part of comes from the header `traceparent` (W3C Trace Context), of gRPC's metadata as of HTTP's. The span
is called after its method, `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit` or `POST /json`, and tells the `domain`,
the descriptors with their values (`ratelimit.descriptors`), what was decided (`ratelimit.overall_code`) and the status.

Spans are made for the calls that are sampled alone, queued within a bound and sent by a thread of their own: no answer waits for them.
`tollgate_trace_spans_dropped_total` counts those that there was no room for, `tollgate_trace_spans_failed_total` those that the
collector did not take, `tollgate_trace_spans_sent_total` the others. Requests that are refused because the service is overloaded have
none: no work is done for them; `tollgate_requests_shed_total` counts them. Streams (`Health/Watch`, reflection) have none either.

## Failover

Replicas of Redis follow their master with a delay. When a Sentinel or a cluster promotes one, what the old master counted and had
not sent yet is lost, and as many units may pass once more: at most what was admitted in the last moments before the failure, in
practice some milliseconds. Where a Sentinel is told to do so while the old master is well (`SENTINEL FAILOVER`), that goes on counting
for about a second; services go with the new one as soon as a Sentinel names it, and no request is lost by that. While there is no master, requests are what `on_error` of their rule says. On a cluster a request whose
answer was lost may be sent again, and count twice: fewer pass then, never more.
";

/// `docs/envoy-ratelimit.md` is made of the table.
#[test]
fn the_page_is_that_of_the_table() {
    let mut page = String::from(
        "# Environment variables of envoyproxy/ratelimit\n\n\
         Made by `TOLLGATE_REGENERATE=1 cargo test -p tollgate-rls environment`; do not edit.\n\n\
         Where `RUNTIME_ROOT` or `RUNTIME_SUBDIRECTORY` says where the rules are, or `CONFIG_TYPE=GRPC_XDS_SOTW` that a management\n\
         server gives them, and `--rules` does not, `tollgate serve` starts as envoyproxy/ratelimit does: on its ports, with these\n\
         variables. A variable that is given and does nothing is named in one line of the log. The store of this process takes a free port\n\
         then, unless `--port` names one: 6379 may be your Redis'. With `--rules` the settings of [settings.md](settings.md) count instead,\n\
         and of these variables only those that say so. [deploy/README.md](../deploy/README.md#in-place-of-envoyproxyratelimit) has the steps\n\
         of a change for docker-compose, Istio, Contour and Envoy Gateway.\n",
    );
    page.push_str(SHARING);
    for (group, rows) in VARIABLES {
        write!(
            page,
            "\n## {group}\n\n| variable | default | here |\n|---|---|---|\n"
        )
        .expect("a String");
        for row in *rows {
            let default = match row.default {
                "" => String::new(),
                text => format!("`{text}`"),
            };
            let effect = match row.effect {
                Effect::Used(what) => what.to_owned(),
                Effect::Ignored(why) => format!("ignored: {why}"),
            };
            writeln!(page, "| `{}` | {default} | {effect} |", row.name).expect("a String");
        }
    }
    let path = repo_root().join("docs/envoy-ratelimit.md");
    if std::env::var_os("TOLLGATE_REGENERATE").is_some() {
        std::fs::write(&path, &page).expect("the repository is writable");
    }
    let there = std::fs::read_to_string(&path).expect("the page is there");
    assert!(
        there == page,
        "docs/envoy-ratelimit.md is out of date: TOLLGATE_REGENERATE=1 cargo test -p tollgate-rls environment"
    );
}
