//! Rules from a management server: what both make of them, and what both tell it.

use tollgate_wire::rls::RateLimitRequest;
use tollgate_wire::rls::rate_limit_response::Code;
use tollgate_wire::xds::{
    Any, RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitReplace,
};

use super::decisions::of_rules;
use super::pair::{Pair, Store, redis};
use super::program::{Ground, Kind, Program, is_there, wait_for};
use crate::management::Management;
use crate::support::{descriptor, request};
use crate::tls::Files;

const GOOD: &str = "ratelimit.service.config_load_success";
const BAD: &str = "ratelimit.service.config_load_error";

/// What both are told beside the address; the name tells them apart there.
fn env(addr: &str) -> Vec<(&str, &str)> {
    vec![
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("CONFIG_GRPC_XDS_SERVER_URL", addr),
        ("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "100ms"),
        ("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "100ms"),
        ("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "200ms"),
        ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
    ]
}

fn limit(unit: i32, requests_per_unit: u32) -> RateLimitPolicy {
    RateLimitPolicy {
        unit,
        requests_per_unit,
        ..RateLimitPolicy::default()
    }
}

fn rule(key: &str, rate_limit: RateLimitPolicy) -> RateLimitDescriptor {
    RateLimitDescriptor {
        key: key.to_owned(),
        rate_limit: Some(rate_limit),
        ..RateLimitDescriptor::default()
    }
}

fn config(domain: &str, descriptors: Vec<RateLimitDescriptor>) -> RateLimitConfig {
    RateLimitConfig {
        name: format!("{domain}-config"),
        domain: domain.to_owned(),
        descriptors,
    }
}

/// The rules of a listener as Envoy Gateway makes them, and what else messages can say.
fn rich() -> Vec<RateLimitConfig> {
    let route = "httproute/default/limited/rule/0/match/0";
    let matched = |value: &str, within| RateLimitDescriptor {
        key: "rule-0-match-0".to_owned(),
        value: value.to_owned(),
        descriptors: within,
        ..RateLimitDescriptor::default()
    };
    let of_route = RateLimitDescriptor {
        key: route.to_owned(),
        value: route.to_owned(),
        descriptors: vec![
            matched("rule-0-match-0", vec![rule("remote_address", limit(7, 3))]),
            RateLimitDescriptor {
                shadow_mode: true,
                ..rule("shadow", limit(5, 1))
            },
        ],
        ..RateLimitDescriptor::default()
    };
    let named = RateLimitPolicy {
        name: "named".to_owned(),
        ..limit(5, 9)
    };
    let replacing = RateLimitPolicy {
        replaces: vec![RateLimitReplace {
            name: "named".to_owned(),
        }],
        ..limit(6, 4)
    };
    let unlimited = RateLimitPolicy {
        unlimited: true,
        ..RateLimitPolicy::default()
    };
    vec![
        config("default/eg/http", vec![of_route]),
        config(
            "test",
            vec![
                rule("named", named),
                rule("replacing", replacing),
                rule("free", unlimited),
                rule("never", limit(7, 0)),
                RateLimitDescriptor {
                    value: "files*".to_owned(),
                    detailed_metric: true,
                    ..rule("star", limit(6, 2))
                },
            ],
        ),
    ]
}

fn requests() -> Vec<RateLimitRequest> {
    let route = "httproute/default/limited/rule/0/match/0";
    let of_route = format!("{route}={route}");
    let gateway = |entries: &[&str]| RateLimitRequest {
        domain: "default/eg/http".to_owned(),
        ..request(vec![descriptor(entries)])
    };
    let mut all = vec![
        gateway(&[&of_route, "shadow=x"]),
        gateway(&[&of_route, "rule-0-match-0=rule-0-match-0"]),
        gateway(&["other=1"]),
        RateLimitRequest {
            domain: "nobody".to_owned(),
            ..request(vec![descriptor(&["k=v"])])
        },
        request(vec![descriptor(&["named=1"]), descriptor(&["replacing=1"])]),
        request(vec![descriptor(&["named=1"]), descriptor(&["free=1"])]),
        request(vec![descriptor(&["never=1"])]),
    ];
    for address in ["remote_address=10.0.0.1", "remote_address=10.0.0.2"] {
        all.push(gateway(&[
            &of_route,
            "rule-0-match-0=rule-0-match-0",
            address,
        ]));
    }
    for value in ["star=files1", "star=files2", "star=other"] {
        all.push(request(vec![descriptor(&[value])]));
    }
    all
}

/// What one of the two said of a response, once it has.
fn answer(server: &Management, node: &str, number: usize) -> (String, Option<String>) {
    let heard = server.wait_for("answer", |heard| {
        let nonce = &heard.request.response_nonce;
        let of = nonce.rsplit('/').next().and_then(|of| of.parse().ok());
        heard.node() == node && of == Some(number)
    });
    let (version, _, why) = heard.said();
    (version, why)
}

struct Both {
    pair: Pair,
    server: Management,
    _ground: Ground,
}

impl Both {
    async fn start(test: &str, store: Store) -> Option<Self> {
        let server = Management::start();
        let addr = server.addr().to_string();
        let ground = Ground::new(&[]);
        let env = env(&addr);
        let pair = Pair::start_each(test, store, &ground, &env, |kind| {
            let node = match kind {
                Kind::Original => "original",
                Kind::Ours => "ours",
            };
            ("CONFIG_GRPC_XDS_NODE_ID", node)
        });
        Some(Self {
            pair: pair.await?,
            server,
            _ground: ground,
        })
    }

    /// What both answered to what was given, which must be the same.
    fn answered(&self, number: usize) -> (String, Option<String>) {
        let [original, ours] = ["original", "ours"].map(|node| answer(&self.server, node, number));
        assert_eq!(ours, original, "ours, and the original's");
        ours
    }

    fn counted(&self, name: &str, value: u64) {
        for program in self.pair.both() {
            wait_for(name, || {
                let seen = |seen: &super::statsd::Received| seen.counters.get(name).copied();
                program.statsd.look(seen) == Some(value)
            });
        }
    }

    /// Rules are in force there when they are handed over, which an acknowledgement does not wait for.
    fn wait_for_rules(&self, lines: usize) {
        for program in self.pair.both() {
            wait_for("rules", || {
                program.debug_text("/rlconfig").lines().count() == lines
            });
        }
    }
}

#[tokio::test]
async fn rules_of_a_management_server_are_those_of_the_original() {
    let test = "rules_of_a_management_server_are_those_of_the_original";
    let Some(mut both) = Both::start(test, Store::SharedKeys).await else {
        return;
    };
    let early = both.pair.refused(&requests()[0]).await;
    assert_eq!(early, "no rate limit configuration loaded");
    both.server.give("one", &rich());
    assert_eq!(both.answered(1), ("one".to_owned(), None));
    both.wait_for_rules(7);
    let [original, ours] = both.pair.both().map(|program| {
        let text = program.debug_text("/rlconfig");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    });
    assert_eq!(ours, original);
    let mut denied = 0;
    for _ in 0..5 {
        for request in requests() {
            let response = both.pair.ask(&request).await;
            denied += usize::from(response.overall_code() == Code::OverLimit);
        }
    }
    assert!(denied > 10, "{denied}");
    both.counted(GOOD, 1);
    both.pair.compare_counters(of_rules);
    // No rules at all are rules, too.
    both.server.give("two", &[]);
    assert_eq!(both.answered(2), ("two".to_owned(), None));
    both.wait_for_rules(0);
    for request in requests() {
        let response = both.pair.ask(&request).await;
        assert_eq!(response.overall_code(), Code::Ok);
    }
    both.counted(GOOD, 2);
}

#[tokio::test]
async fn rules_that_are_not_valid_are_refused_in_the_words_of_the_original() {
    let test = "rules_that_are_not_valid_are_refused_in_the_words_of_the_original";
    let Some(mut both) = Both::start(test, Store::Embedded).await else {
        return;
    };
    let good = config("test", vec![rule("k", limit(6, 5))]);
    both.server.give("first", std::slice::from_ref(&good));
    assert_eq!(both.answered(1), ("first".to_owned(), None));
    both.wait_for_rules(1);
    let with = |policy: RateLimitPolicy| vec![config("d", vec![rule("k", policy)])];
    let named = |name: &str, replaced: &str| RateLimitPolicy {
        name: name.to_owned(),
        replaces: vec![RateLimitReplace {
            name: replaced.to_owned(),
        }],
        ..limit(1, 1)
    };
    let unlimited = |unit| RateLimitPolicy {
        unlimited: true,
        ..limit(unit, 0)
    };
    let nested = RateLimitDescriptor {
        descriptors: vec![rule("b", limit(1, 1)), rule("b", limit(1, 1))],
        ..rule("a", limit(1, 1))
    };
    let mut number = 1;
    let mut bad = 0;
    for (configs, passes) in [
        (vec![RateLimitConfig::default()], false),
        (vec![config("", Vec::new())], false),
        (vec![good.clone(), good.clone()], false),
        (vec![config("d", vec![rule("", limit(1, 1))])], false),
        (vec![config("d", vec![nested])], false),
        (with(limit(0, 1)), false),
        (with(limit(99, 1)), false),
        (with(RateLimitPolicy::default()), false),
        (with(unlimited(1)), false),
        (with(unlimited(0)), true),
        (with(unlimited(99)), true),
        (with(named("x", "")), false),
        (with(named("x", "x")), false),
        (with(named("x", "y")), true),
        (vec![config("d", Vec::new())], true),
    ] {
        number += 1;
        bad += u64::from(!passes);
        let version = format!("version {number}");
        both.server.give(&version, &configs);
        let (has, why) = both.answered(number);
        assert_eq!(
            (has == version, why.is_none()),
            (passes, passes),
            "{configs:?}: {why:?}"
        );
    }
    both.counted(BAD, bad);
    both.counted(GOOD, 5);
    both.server.give("last", &[good]);
    assert_eq!(both.answered(number + 1), ("last".to_owned(), None));
    both.wait_for_rules(1);
    // Its library words these as it likes; ours counts them as errors.
    for (type_url, value) in [
        (
            "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            &b""[..],
        ),
        (tollgate_wire::xds::RATE_LIMIT_CONFIG, b"\xff"),
    ] {
        number += 1;
        let resource = Any {
            type_url: type_url.to_owned(),
            value: value.to_vec(),
        };
        both.server.give_any("undecodable", vec![resource]);
        let [original, ours] = ["original", "ours"].map(|node| {
            let (version, why) = answer(&both.server, node, number + 1);
            assert_eq!(version, "last");
            why.expect("refused").replace('\u{a0}', " ")
        });
        assert!(
            ours.starts_with(&original),
            "{ours}, and the original's {original}"
        );
    }
    let asked = request(vec![descriptor(&["k=1"])]);
    assert!(
        both.pair.ask(&asked).await.statuses[0]
            .current_limit
            .is_some()
    );
}

/// Streams that end, a server that goes away and comes back: the rules stay, and both say what they have.
#[tokio::test]
async fn a_server_that_comes_and_goes_is_followed_as_by_the_original() {
    let test = "a_server_that_comes_and_goes_is_followed_as_by_the_original";
    let Some(mut both) = Both::start(test, Store::Embedded).await else {
        return;
    };
    let with = |requests| [config("test", vec![rule("k", limit(6, requests))])];
    let asked = request(vec![descriptor(&["k=1"])]);
    both.server.give("one", &with(5));
    both.answered(1);
    both.wait_for_rules(1);
    both.server.cut();
    for node in ["original", "ours"] {
        let again = both.server.wait_for("second stream", |heard| {
            heard.node() == node && heard.stream > 1
        });
        assert_eq!(again.request.version_info, "one");
    }
    both.server.give("two", &with(6));
    assert_eq!(both.answered(2), ("two".to_owned(), None));
    let addr = both.server.addr();
    both.server = Management::start();
    both.pair.ask(&asked).await;
    both.server = Management::start_at(addr, None);
    both.server.give("three", &with(7));
    assert_eq!(both.answered(1), ("three".to_owned(), None));
    both.counted(GOOD, 3);
    let status = &both.pair.ask(&asked).await.statuses[0];
    let limit = status.current_limit.as_ref().expect("a limit");
    assert_eq!(limit.requests_per_unit, 7);
}

/// The same certificates pass with both, and the same name.
#[test]
fn tls_to_a_management_server_is_that_of_the_original() {
    let test = "tls_to_a_management_server_is_that_of_the_original";
    let Some(store) = redis(test).filter(|_| is_there(test)) else {
        return;
    };
    let files = Files::new();
    files.sign("own", "service", false);
    let path = |name, kind| files.path(name, kind).display().to_string();
    let (ca, cert, key) = (
        path("server", "ca"),
        path("own", "cert"),
        path("own", "key"),
    );
    let redis = store.addr().to_string();
    for (shown, name, passes) in [
        (true, Some("localhost"), true),
        (false, Some("localhost"), false),
        (true, None, false),
        (true, Some("elsewhere"), false),
    ] {
        let acceptor = crate::xds::acceptor(&files, Some("own"));
        let any = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 0));
        let server = Management::start_at(any, Some(acceptor));
        let addr = server.addr().to_string();
        server.give("one", &[config("test", vec![rule("k", limit(6, 5))])]);
        for kind in [Kind::Original, Kind::Ours] {
            let node = format!("{kind:?}");
            let mut given = env(&addr);
            given.extend([
                ("CONFIG_GRPC_XDS_NODE_ID", &*node),
                ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
                ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", &*ca),
                ("BACKEND_TYPE", "redis"),
                ("REDIS_SOCKET_TYPE", "tcp"),
                ("REDIS_URL", &*redis),
            ]);
            if shown {
                given.push(("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", &*cert));
                given.push(("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", &*key));
            }
            given.extend(name.map(|name| ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", name)));
            let ground = Ground::new(&[]);
            let program = Program::start(kind, &ground, &given);
            if passes {
                let heard = server.wait_for("request", |heard| heard.node() == node);
                assert_eq!(heard.authority, "localhost", "{kind:?}");
                assert_eq!(answer(&server, &node, 1).1, None);
                continue;
            }
            let trouble = match kind {
                Kind::Original => "Dialing xDS Management Server",
                Kind::Ours => "no rules from",
            };
            wait_for("word of the trouble", || program.log().contains(trouble));
            assert!(server.heard().is_empty(), "{kind:?} {shown} {name:?}");
        }
    }
}
