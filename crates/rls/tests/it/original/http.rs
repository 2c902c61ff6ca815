//! `/json`, `/healthcheck`, the debug port, and health over gRPC.

use serde_json::Value;
use tonic::Code;

use super::decisions::ground;
use super::pair::{Pair, Store};
use super::program::{Ground, Kind, Program, is_there, wait_for};
use crate::health::{CHECK, HealthRequest, HealthResponse};
use crate::support::{Client, http_exchange};

/// A request for `five` of a value, with more beside its entries.
fn five(value: usize, more: &str) -> String {
    format!(
        r#"{{"domain":"test","descriptors":[{{"entries":[{{"key":"five","value":"{value}"}}]{more}}}]}}"#
    )
}

/// What stands beside the entries of a descriptor, rightly or not.
const BESIDE: &[&str] = &[
    "",
    r#","hitsAddend":"2""#,
    r#","hitsAddend":2"#,
    r#","hits_addend":"2""#,
    r#","hitsAddend":null"#,
    r#","hitsAddend":0"#,
    r#","hitsAddend":-1"#,
    r#","hitsAddend":"-1""#,
    r#","hitsAddend":2.0"#,
    r#","hitsAddend":2.5"#,
    r#","hitsAddend":"2.0""#,
    r#","hitsAddend":"1e1""#,
    r#","hitsAddend":1e0"#,
    r#","hitsAddend":" 2""#,
    r#","hitsAddend":"02""#,
    r#","hitsAddend":"+2""#,
    r#","hitsAddend":{"value":2}"#,
    r#","hitsAddend":"""#,
    r#","hitsAddend":1,"hitsAddend":1"#,
    r#","hitsAddend":1,"hits_addend":1"#,
    r#","limit":{"requestsPerUnit":3,"unit":"YEAR"}"#,
    r#","limit":{"requests_per_unit":"3","unit":6}"#,
    r#","limit":{"requestsPerUnit":3,"unit":"WEEK"}"#,
    r#","limit":{"requestsPerUnit":3,"unit":"year"}"#,
    r#","limit":{"requestsPerUnit":4294967296,"unit":"YEAR"}"#,
    r#","limit":null"#,
    r#","entries":[]"#,
    r#","unknown":1"#,
    "}",
];

/// Whole bodies, rightly or not.
const BODIES: &[&str] = &[
    "",
    "{",
    "{}",
    "null",
    "[]",
    r#"{"domian":"test"}"#,
    r#"{"@type":"x"}"#,
    r#"{"domain":"test"}"#,
    r#"{"domain":"test","descriptors":[]}"#,
    r#"{"domain":"test","descriptors":[{}]}"#,
    r#"{"domain":"test","descriptors":[null]}"#,
    r#"{"domain":"test","descriptors":[{"entries":[{"key":"five"}]}]}"#,
    r#"{"domain":"test","descriptors":[{"entries":[{"key":"five","value":null}]}]}"#,
    r#"{"domain":"test","descriptors":[{"entries":[{"key":"five","value":5}]}]}"#,
    r#"{"domain":"t\u0065st","descriptors":[{"entries":[{"key":"five","value":"\ud83d\ude00"}]}]}"#,
    r#"{"domain":"test","descriptors":[{"entries":[{"key":"five","value":"\ud83d"}]}]}"#,
    r#"{"domain":"test","descriptors":[{"entries":[{"key":"open"}]},{"entries":[{"key":"none"}]}]}"#,
    r#"{"domain":"test","hitsAddend":"3","descriptors":[{"entries":[{"key":"five","value":"x"}]}]} "#,
    r#"{"domain":"test","descriptors":[{"entries":[{"key":"five","value":"x"}]}]} x"#,
];

/// A response without its times, and in one form: Go puts spaces where it likes.
fn plain(body: &str) -> Value {
    let mut all: Value = serde_json::from_str(body).expect("JSON");
    for status in all["statuses"].as_array_mut().into_iter().flatten() {
        if let Some(reset) = status.get_mut("durationUntilReset") {
            let secs = reset.as_str().and_then(|text| text.strip_suffix('s'));
            let secs = secs.and_then(|secs| secs.parse::<u64>().ok());
            assert!(secs.is_some_and(|secs| secs > 0), "{body}");
            *reset = Value::Null;
        }
    }
    all
}

#[tokio::test]
async fn json_is_that_of_the_original() {
    let test = "json_is_that_of_the_original";
    let ground = ground();
    let Some(pair) = Pair::start(test, Store::Embedded, &ground, &[]).await else {
        return;
    };
    let beside = BESIDE.iter().enumerate();
    let mut bodies: Vec<String> = beside.map(|(value, more)| five(value, more)).collect();
    bodies.extend(BODIES.iter().map(|body| (*body).to_owned()));
    for body in &bodies {
        let replies = pair
            .both()
            .map(|program| http_exchange(program.http, "POST", "/json", body));
        let [original, ours] = replies;
        assert_eq!(ours.0, original.0, "{body}: {} and {}", ours.2, original.2);
        match original.0 {
            400 => {
                // Ours says why.
                assert_eq!(original.2, "Bad Request\n");
                assert!(ours.2.starts_with("Bad Request: "), "{}", ours.2);
            }
            _ => {
                assert_eq!(plain(&ours.2), plain(&original.2), "{body}");
                for head in [&original.1, &ours.1] {
                    assert!(head.contains("content-type: application/json"), "{head}");
                }
            }
        }
    }
    // No method is asked for.
    for method in ["GET", "PUT", "DELETE"] {
        let body = five(0, "");
        let replies = pair
            .both()
            .map(|program| http_exchange(program.http, method, "/json", &body));
        assert_eq!(replies[0].0, replies[1].0, "{method}");
        assert_eq!(plain(&replies[0].2), plain(&replies[1].2));
    }
}

#[tokio::test]
async fn the_debug_port_prints_the_rules_of_the_original() {
    let test = "the_debug_port_prints_the_rules_of_the_original";
    let ground = ground();
    let Some(pair) = Pair::start(test, Store::Embedded, &ground, &[]).await else {
        return;
    };
    let lines = |program: &Program, path: &str| {
        // The original sends them in any order.
        let mut lines: Vec<String> = program
            .debug_text(path)
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    };
    let [original, ours] = pair.both().map(|program| lines(program, "/rlconfig"));
    assert!(original.len() > 30, "{original:?}");
    assert_eq!(ours, original);
    // What there is to look at has the same names, but for Go's own.
    let [original, ours] = pair.both().map(|program| lines(program, "/"));
    let of_go = |line: &&String| !line.starts_with("/debug/pprof/");
    for line in original.iter().filter(of_go) {
        assert!(ours.contains(line), "{line} {ours:?}");
    }
}

/// `grpc.health.v1` and `/healthcheck`, before there are rules and after.
#[tokio::test]
async fn health_is_that_of_the_original() {
    let test = "health_is_that_of_the_original";
    if !is_there(test) {
        return;
    }
    let Some(store) = super::pair::redis(test) else {
        return;
    };
    let addr = store.addr().to_string();
    let env = [
        ("BACKEND_TYPE", "redis"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("REDIS_URL", &*addr),
        ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
        ("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "true"),
    ];
    let ground = Ground::new(&[]);
    let programs =
        [Kind::Original, Kind::Ours].map(|kind| Program::start_unready(kind, &ground, &env));
    let ask = async |program: &Program, service: &str| {
        let mut client = Client::connect(program.grpc).await;
        let asked = HealthRequest {
            service: service.to_owned(),
        };
        let answer = client.call::<_, HealthResponse>(CHECK, asked).await;
        answer.map_err(|status| (status.code(), status.message().to_owned()))
    };
    for program in &programs {
        assert!(!program.is_healthy());
        let status = ask(program, "ratelimit").await.expect("it is known").status;
        assert_eq!(status, 2);
    }
    ground.write("rules.yaml", super::decisions::RULES);
    for program in &programs {
        wait_for("health", || program.is_healthy());
        for service in ["", "ratelimit"] {
            let status = ask(program, service).await.expect("it is known").status;
            assert_eq!(status, 1, "{service}");
        }
    }
    let mut said = Vec::new();
    for program in &programs {
        said.push(ask(program, "other").await.expect_err("there is no such"));
    }
    assert_eq!(said[0], said[1]);
    assert_eq!(said[0].0, Code::NotFound);
}
