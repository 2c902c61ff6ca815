//! The page of the variables of envoyproxy/ratelimit.

use std::fmt::Write as _;

use tollgate_rls::{Effect, VARIABLES};
use tollgate_testkit::repo_root;

/// What the page says before its tables.
const SHARING: &str = "
## Sharing counters with a running fleet

With `--counter-keys envoy` (or `TOLLGATE_COUNTER_KEYS=envoy`) and a Redis at `--backend` or `REDIS_URL`, Tollgate uses the counters
of envoyproxy/ratelimit itself: the key is `CACHE_KEY_PREFIX`, `domain_key_value_…_` and the start of the window, and each
request sends `INCRBY` and `EXPIRE` for each limit, in one pipeline. A fleet of envoyproxy/ratelimit and Tollgate then count in the
same keys: all of them share each limit, and services can be replaced one at a time. The guarantees are those of envoyproxy/ratelimit:

* Of a limit of L at most L units pass in a window over all services, as long as Redis keeps the keys and the clocks of the services
  agree; each service derives windows from its own clock.
* A denied request counts too, and each limit counts separately, even when another one denies: it is not all or nothing.
  `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT` reads first and then counts only what is over; others may count between the two steps.
* `is_negative_hits` lowers a counter, never below 0, and always passes. It is the only operation that needs a script.
* Values that contain underscores are ambiguous, so that two descriptors may share a counter.
* Rules that these counters cannot express are refused when they are loaded, with file and line (`tollgate check --counter-keys envoy`
  reports them beforehand): other algorithms and periods, several `limits`, `concurrency`, `inherit`, `hot_key`. Reservations are refused
  when they are requested.
* In metrics the hits of a request that crosses its limit are split as there: those that still fitted do not count as over the limit.

## Rules from a management server

With `CONFIG_TYPE=GRPC_XDS_SOTW` rules come from an xDS management server such as Envoy Gateway: resources of the type
`ratelimit.config.ratelimit.v3.RateLimitConfig`, over the stream of the aggregated discovery service, all of them in each response.

* Valid rules are in force before the response is acknowledged. If one resource is invalid, the whole response is rejected,
  with the reason in the words of envoyproxy/ratelimit; the previous rules stay in force, and `config_load_error` counts it.
* While no server can be reached, the rules stay in force as well. The service retries at the intervals below and tells the server which version it
  accepted last. The log has one line when trouble begins and one when it is over.
* Until the first rules arrive, requests are errors. With `FORCE_START_WITHOUT_INITIAL_CONFIG` the service is healthy meanwhile, unless
  `HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED` is true as well; without it, it is not. A response without resources is valid, too: everything
  passes then.
* `quota_mode` and `metadata` of descriptors take effect if the server sets them.

## Local cache

`LOCAL_CACHE_SIZE_IN_BYTES` lets each service remember limits that are exhausted, so that the store is not asked about them again. With
`--counter-keys envoy` a limit is remembered until its window ends, as in envoyproxy/ratelimit; with Tollgate's own counters, for as long as the store said
to wait, for requests of at least that cost. The cache applies to every rule without a `hot_key` of its own; concurrency limits and reservations always
ask the store. Nothing passes that the store would refuse. For the other limits of such a request the store is not asked, and what they have left is
reported as an estimate. Units given back early through another service (`is_negative_hits`, a cancelled reservation) or by the
store's own commands are noticed only when the cached denial ends.

The size bounds the keys and what is remembered of them; at least the newest half is kept. Sizes below 524,288 count as 524,288,
as there. Hits refused by the cache count in `over_limit` and in `over_limit_with_local_cache`; `ratelimit.localcache.*`
(`ratelimit_localcache_*` for Prometheus) show how full it is, without `averageAccessTime`.

## Traces

With `TRACING_ENABLED=true` each decision has a span, with a child span for what the backend does; they are sent to an OpenTelemetry
collector. The parent comes from the `traceparent` header (W3C Trace Context), with what `tracestate` says, in gRPC metadata as in HTTP. The span
is named after its method, `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit` or `POST /json`, and has the `domain`,
the descriptors with their values (`ratelimit.descriptors`), the decision (`ratelimit.overall_code`) and the status.

Spans are created only for sampled calls, queued within a bound and sent by a thread of their own: no answer waits for them.
`tollgate_trace_spans_dropped_total` counts those that did not fit into the queue, `tollgate_trace_spans_failed_total` those that the
collector did not accept, `tollgate_trace_spans_sent_total` the others. Requests that are refused because the service is overloaded have
no span, because no work is done for them; `tollgate_requests_shed_total` counts them. Streams (`Health/Watch`, reflection) have none either.

## Failover

Replicas of Redis follow their master with a delay. When a Sentinel or a cluster promotes one, what the old master had counted but
not yet sent is lost, and that many units may pass again: at most what was admitted in the last moments before the failure, in
practice a few milliseconds. When a Sentinel is told to fail over while the old master is healthy (`SENTINEL FAILOVER`), the old master goes on counting
for about a second, until Sentinels announce the new one. Services listen to all Sentinels named in their URL, let
requests wait from the word that a replica is promoted until it is (for 50 ms at most), and go on with it: what was on its way to the old master at that moment
is lost there, and no request. While there is no master, `on_error` of a rule decides its requests. On a cluster, a request whose answer was lost may be sent again and count twice: that admits fewer requests, never more.

`--backend-wait-replicas N` loses nothing: what admits a request is answered only when N replicas have it, by one `WAIT` for all requests
that a connection carries at the time. With as many as there are, no request too many passes through a failover, whichever replica is promoted.
It costs the way to the replicas and back, and where fewer than N have it within half of `backend-timeout`, `on_error` decides, though the store has counted: fewer pass, never more
(with `open` or `local`, as many as those say). Set `min-replicas-to-write` on the store as well, so that it refuses at once while a replica is away. It is not for clusters, whose
client library reconnects unseen, and not for the store of the service's own process, which ends with it.
";

/// `docs/envoy-ratelimit.md` is made of the table.
#[test]
fn the_page_is_that_of_the_table() {
    let mut page = String::from(
        "# Environment variables of envoyproxy/ratelimit\n\n\
         Made by `TOLLGATE_REGENERATE=1 cargo test -p tollgate-rls environment`; do not edit.\n\n\
         If `RUNTIME_ROOT` or `RUNTIME_SUBDIRECTORY` says where the rules are, or `CONFIG_TYPE=GRPC_XDS_SOTW` that a management\n\
         server supplies them, and `--rules` is not given, `tollgate serve` starts the way envoyproxy/ratelimit does: on its ports, with these\n\
         variables. One line of the log names the variables that are set but have no effect. The store in this process then takes a free\n\
         port, unless `--port` names one, because 6379 may be your Redis. With `--rules` the settings of [settings.md](settings.md) apply instead,\n\
         and of these variables only those that say so. [deploy/README.md](../deploy/README.md#in-place-of-envoyproxyratelimit) has the\n\
         migration steps for docker-compose, Istio, Contour and Envoy Gateway.\n",
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
