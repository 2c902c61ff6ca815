//! The service's own interface over HTTP.

use serde_json::{Value, json};
use tollgate_testkit::process::free_port;
use tollgate_testkit::{Server, peers};

use crate::support::{RULES, Service, http_request, run_python_client};

fn check(pairs: &[(&str, &str)], hits: u64) -> Value {
    let entries: Vec<Value> = pairs
        .iter()
        .map(|(key, value)| json!({"key": key, "value": value}))
        .collect();
    json!({"domain": "test", "descriptors": [{"entries": entries, "hitsAddend": hits}]})
}

/// Status, head in lower case, and the body as JSON.
fn post(service: &Service, path: &str, body: &Value) -> (u16, String, Value) {
    let (status, head, body) = service.http_with_head("POST", path, &body.to_string());
    let body = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
    (status, head, body)
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn a_check_passes_or_is_a_problem_that_names_the_policy() {
    let service = Service::embedded();
    let one = check(&[("one", "v1")], 1);
    let (status, head, verdict) = post(&service, "/v1/decide", &one);
    assert_eq!((status, &verdict["code"]), (200, &json!("ok")), "{verdict}");
    assert_eq!(header(&head, "content-type"), Some("application/json"));
    assert_eq!(
        header(&head, "ratelimit-policy"),
        Some("\"one-per-year\";q=1;w=31536000")
    );
    assert!(
        header(&head, "ratelimit").is_some_and(|text| text.starts_with("\"one-per-year\";r=0;t="))
    );
    assert_eq!(header(&head, "retry-after"), None);

    let (status, head, denied) = post(&service, "/v1/decide", &one);
    assert_eq!((status, &denied["code"]), (429, &json!("over_limit")));
    assert_eq!(
        header(&head, "content-type"),
        Some("application/problem+json")
    );
    assert_eq!(
        denied["type"],
        "https://iana.org/assignments/http-problem-types#quota-exceeded"
    );
    assert_eq!(denied["violated-policies"], json!(["one-per-year"]));
    assert_eq!(denied["limits"][0]["algorithm"], "fixed-window-epoch");
    let wait_ms = denied["retry_after_ms"].as_u64().expect("a time");
    let retry_after: u64 = header(&head, "retry-after")
        .expect("it may come back")
        .parse()
        .expect("seconds");
    // Rounded up: whoever waits as long as it is told finds the window renewed.
    assert_eq!(retry_after, wait_ms.div_ceil(1_000));
}

/// A client that is told to come back for what can never pass would ask for ever.
#[test]
fn what_can_never_pass_has_a_code_of_its_own() {
    let service = Service::embedded();
    let (status, head, denied) = post(&service, "/v1/decide", &check(&[("ten", "never")], 11));
    assert_eq!((status, &denied["code"]), (429, &json!("never_possible")));
    assert_eq!(denied["retry_after_ms"], -1);
    assert_eq!(header(&head, "retry-after"), None);
    assert_eq!(header(&head, "x-ratelimit-code"), Some("never_possible"));
    let (status, head, _) = post(&service, "/v1/decide", &check(&[("ten", "never")], 10));
    assert_eq!(header(&head, "x-ratelimit-code"), None);
    assert_eq!(status, 200);
}

#[test]
fn headers_are_written_as_the_request_wants_them() {
    let service = Service::embedded();
    for (form, present, absent) in [
        ("draft-11", "ratelimit-policy", "ratelimit-limit"),
        ("draft-06", "ratelimit-limit", "x-ratelimit-limit"),
        ("x-ratelimit", "x-ratelimit-limit", "ratelimit-limit"),
        ("x-ratelimit-epoch", "x-ratelimit-reset", "ratelimit-reset"),
        ("none", "content-type", "ratelimit"),
    ] {
        let mut body = check(&[("hundred", "form")], 1);
        body["headers"] = json!(form);
        let (status, head, _) = post(&service, "/v1/decide", &body);
        assert_eq!(status, 200);
        assert!(header(&head, present).is_some(), "{form}: {head}");
        assert!(header(&head, absent).is_none(), "{form}: {head}");
    }
    let mut body = check(&[("hundred", "form")], 1);
    body["headers"] = json!("draft-99");
    let (status, _, problem) = post(&service, "/v1/decide", &body);
    assert_eq!(status, 400);
    assert!(
        problem["detail"]
            .as_str()
            .is_some_and(|text| text.contains("draft-11, draft-06")),
        "{problem}"
    );
}

/// As GitHub has it: the second at which the window ends.
#[test]
fn a_reset_may_be_told_as_a_date() {
    let service = Service::embedded();
    let now = || {
        let since = std::time::UNIX_EPOCH.elapsed();
        since.expect("after 1970").as_secs()
    };
    let mut body = check(&[("hundred", "date")], 1);
    body["headers"] = json!("x-ratelimit-epoch");
    let before = now();
    let (status, head, reply) = post(&service, "/v1/decide", &body);
    assert_eq!(status, 200);
    let window = reply["limits"][0]["window_ms"].as_u64().expect("a number") / 1_000;
    let told: u64 = header(&head, "x-ratelimit-reset")
        .and_then(|text| text.parse().ok())
        .expect("a date");
    let ends = |now: u64| now - now % window + window;
    // A busy machine may hold the request up between two looks at the clock.
    let range = ends(before) - 300..=ends(now()) + 1;
    assert!(range.contains(&told), "{told} {range:?}");
    assert_eq!(header(&head, "x-ratelimit-limit"), Some("100"));
    assert_eq!(header(&head, "x-ratelimit-remaining"), Some("99"));
}

#[test]
fn many_checks_have_a_result_each() {
    let service = Service::embedded();
    let checks = json!({"checks": [
        check(&[("ten", "many")], 4),
        check(&[("none", "x")], 1),
        {"domain": "", "descriptors": []},
        check(&[("ten", "many")], 4),
        check(&[("ten", "many")], 4),
    ]});
    let (status, _, reply) = post(&service, "/v1/decide", &checks);
    assert_eq!(status, 200);
    let results = reply["results"].as_array().expect("a list");
    let codes: Vec<Value> = results
        .iter()
        .map(|result| result["code"].clone())
        .collect();
    assert_eq!(
        Value::Array(codes),
        json!(["ok", "never_possible", null, "ok", "over_limit"])
    );
    assert_eq!(results[2]["status"], 400);
    let (status, _, _) = post(&service, "/v1/decide", &json!({"checks": []}));
    assert_eq!(status, 400);
    let many = vec![check(&[("ten", "x")], 1); 101];
    let (status, _, _) = post(&service, "/v1/decide", &json!({ "checks": many }));
    assert_eq!(status, 400);
}

#[test]
fn an_explanation_takes_nothing_and_says_why() {
    let service = Service::embedded();
    let ask = |pairs: &[(&str, &str)]| {
        let (status, _, reply) = post(&service, "/v1/explain", &check(pairs, 3));
        assert_eq!(status, 200, "{reply}");
        reply
    };
    for _ in 0..3 {
        let reply = ask(&[("ten", "why")]);
        assert_eq!(reply["allowed"], true);
        let found = &reply["descriptors"][0];
        assert_eq!(found["matched"], true);
        assert_eq!(found["steps"][0]["rule"], "ten");
        assert_eq!(found["steps"][0]["reason"], "the rule takes any value");
        assert_eq!(found["limits"][0]["remaining"], 10);
    }
    let reply = ask(&[("hundred", "x"), ("team", "a")]);
    assert_eq!(reply["descriptors"][0]["matched"], false);
    assert_eq!(
        reply["descriptors"][0]["reason"],
        "entry 2 of 2 matches no rule"
    );
    let reply = ask(&[("ten", "x"), ("deeper", "y")]);
    assert_eq!(
        reply["descriptors"][0]["reason"],
        "the rules end before entry 2 of 2: a rule counts only for descriptors as deep as itself"
    );
    let reply = ask(&[("shared", "files-of-bob")]);
    assert_eq!(reply["descriptors"][0]["steps"][0]["rule"], "shared_files*");
    assert_eq!(reply["allowed"], false, "3 hits on a limit of 2: {reply}");
    let (_, _, reply) = post(
        &service,
        "/v1/explain",
        &json!({"domain": "other", "descriptors": [{"entries": [{"key": "a", "value": "b"}]}]}),
    );
    assert_eq!(
        reply["descriptors"][0]["reason"],
        "no rules for domain 'other'"
    );
}

#[test]
fn every_error_is_a_problem_with_the_right_status() {
    let service = Service::embedded();
    let addr = service.server().http_addr().expect("TCP");
    let long = format!("{{\"domain\":\"{}\"}}", "x".repeat(2 << 20));
    let good = check(&[("ten", "x")], 1).to_string();
    for (method, path, kind, body, want) in [
        ("GET", "/v1/decide", "application/json", "", 405),
        ("DELETE", "/metrics", "application/json", "", 405),
        ("GET", "/v2/decide", "application/json", "", 404),
        (
            "POST",
            "/v1/decide",
            "application/x-www-form-urlencoded",
            "a=b",
            415,
        ),
        ("POST", "/v1/decide", "application/json", "{", 400),
        ("POST", "/v1/decide", "application/json", "[]", 400),
        (
            "POST",
            "/v1/decide",
            "application/json",
            "{\"domian\":1}",
            400,
        ),
        ("POST", "/v1/explain", "application/json", "{}", 400),
        ("POST", "/v1/decide", "application/json", &long, 413),
        (
            "POST",
            "/v1/decide",
            "Application/JSON; charset=utf-8",
            &good,
            200,
        ),
    ] {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let (status, head, reply) = http_request(addr, head.as_bytes(), body.as_bytes());
        assert_eq!(status, want, "{method} {path} {reply}");
        if status >= 400 {
            assert_eq!(
                header(&head, "content-type"),
                Some("application/problem+json")
            );
            let problem: Value = serde_json::from_str(&reply).expect("a problem");
            assert_eq!(problem["status"], want);
            assert!(
                problem["detail"]
                    .as_str()
                    .is_some_and(|text| !text.is_empty())
            );
        }
        assert_eq!(header(&head, "allow").is_some(), want == 405, "{head}");
    }
}

#[test]
fn a_backend_that_is_down_is_reduced_capacity() {
    let url = format!("redis://127.0.0.1:{}", free_port().expect("a free port"));
    let service = Service::remote(&url);
    let (status, _, problem) = post(&service, "/v1/decide", &check(&[("ten", "x")], 1));
    assert_eq!(status, 503);
    assert_eq!(
        problem["type"],
        "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
    );
}

/// The document is valid, every path of it is there, and answers are as it says.
#[test]
fn the_openapi_document_holds() {
    run_python_client("rls_openapi.py", &with_jobs());
}

/// Units are held under a name, and what the actual cost leaves of them comes back, once.
#[test]
fn a_reservation_is_committed_or_cancelled_once() {
    check_reservations(&Service::embedded());
}

#[test]
fn a_reservation_on_redis_is_the_same() {
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        return peers::skip("reservations", "redis-server");
    };
    let url = format!("redis://{}", redis.addr());
    check_reservations(&Service::remote(&url));
}

/// Places that a decision took come back by the name it gave.
#[test]
fn a_lease_of_a_decision_is_released() {
    let service = with_jobs();
    let jobs = || post(&service, "/v1/decide", &check(&[("jobs", "a")], 1));
    let (status, _, first) = jobs();
    assert_eq!(status, 200, "{first}");
    let lease = first["lease"].as_str().expect("places have a name");
    assert_eq!(jobs().0, 200);
    let (status, _, denied) = jobs();
    assert_eq!(status, 429, "{denied}");
    assert!(denied.get("lease").is_none(), "{denied}");
    let mut release = check(&[("jobs", "a")], 1);
    release["id"] = json!(lease);
    let (status, _, released) = post(&service, "/v1/release", &release);
    assert_eq!((status, &released["released"]), (200, &json!(1)));
    // The place is free once, and giving it back again frees no other.
    assert_eq!(post(&service, "/v1/release", &release).0, 404);
    assert_eq!(jobs().0, 200);
    assert_eq!(jobs().0, 429);
}

/// A request that names one counter several times holds as much of it, and gives it all back.
#[test]
fn what_is_named_twice_is_held_twice() {
    name_twice(&with_jobs());
}

#[test]
fn what_is_named_twice_on_redis_is_the_same() {
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        return peers::skip("what_is_named_twice", "redis-server");
    };
    let rules = format!("{RULES}{JOBS}");
    let url = format!("redis://{}", redis.addr());
    name_twice(&Service::remote_with(&url, &rules));
}

fn name_twice(service: &Service) {
    let entry = |key: &str| json!({"entries": [{"key": key, "value": "twice"}]});
    let asked = |keys: &[&str]| {
        let descriptors: Vec<Value> = keys.iter().map(|key| entry(key)).collect();
        json!({"domain": "test", "descriptors": descriptors})
    };
    let with_id = |keys: &[&str], id: &Value| {
        let mut body = asked(keys);
        body["id"] = id.clone();
        body
    };
    let decide = |keys: &[&str]| post(service, "/v1/decide", &asked(keys));
    let twice = ["jobs", "ten", "jobs"];
    let (status, _, first) = decide(&twice);
    assert_eq!(status, 200, "{first}");
    assert_eq!(decide(&["jobs"]).0, 429);
    let release = with_id(&twice, &first["lease"]);
    let (_, _, released) = post(service, "/v1/release", &release);
    assert_eq!(released["released"], json!(2), "{released}");
    // Two are free, and not three for one.
    assert_eq!(decide(&["jobs"]).0, 200);
    assert_eq!(decide(&twice).0, 429);
    assert_eq!(decide(&["jobs"]).0, 200);
    assert_eq!(decide(&["jobs"]).0, 429);

    let left = || {
        let (_, _, told) = post(service, "/v1/explain", &asked(&["ten"]));
        told["descriptors"][0]["limits"][0]["remaining"].clone()
    };
    assert_eq!(left(), json!(9));
    let held = with_id(&["ten", "ten"], &json!("both"));
    for _ in 0..2 {
        assert_eq!(post(service, "/v1/reserve", &held).0, 200);
        assert_eq!(left(), json!(7));
    }
    assert_eq!(post(service, "/v1/cancel", &held).0, 200);
    assert_eq!(left(), json!(9));
}

const JOBS: &str = "  - key: jobs\n    rate_limit: {concurrency: 2, lease: 10h}\n";

/// The shared rules, and two places of each job.
fn with_jobs() -> Service {
    Service::with_config(|config| {
        let rules = format!("{RULES}{JOBS}");
        std::fs::write(config.rules_dir.join("rules.yaml"), rules).expect("the folder is ours");
    })
}

fn check_reservations(service: &Service) {
    let left = || {
        let (_, _, reply) = post(service, "/v1/explain", &check(&[("ten", "held")], 0));
        reply["descriptors"][0]["limits"][0]["remaining"].clone()
    };
    let with = |id: &str, key: &str, value: u64| {
        let mut body = check(&[("ten", "held")], 6);
        body["id"] = json!(id);
        if !key.is_empty() {
            body[key] = json!(value);
        }
        body
    };
    let (status, head, reserved) = post(service, "/v1/reserve", &with("a", "ttl_ms", 3_600_000));
    let told = header(&head, "ratelimit").expect("what is left");
    assert!(told.contains(";r=4;"), "{head}");
    assert_eq!((status, &reserved["id"]), (200, &json!("a")), "{reserved}");
    assert_eq!(left(), json!(4));
    let (status, head, denied) = post(service, "/v1/reserve", &with("b", "", 0));
    assert_eq!(
        (status, &denied["code"]),
        (429, &json!("over_limit")),
        "{denied}"
    );
    for name in ["ratelimit", "ratelimit-policy", "retry-after"] {
        assert!(header(&head, name).is_some(), "{head}");
    }
    let (status, _, ended) = post(service, "/v1/commit", &with("a", "actual", 2));
    assert_eq!(status, 200, "{ended}");
    assert_eq!(ended["limits"][0]["released"], 4);
    assert_eq!(left(), json!(8));
    let (_, _, again) = post(service, "/v1/commit", &with("a", "actual", 2));
    assert_eq!(again["limits"][0]["before"], true, "{again}");
    assert_eq!(left(), json!(8));
    let (status, _, _) = post(service, "/v1/reserve", &with("c", "", 0));
    assert_eq!(status, 200);
    let (status, _, _) = post(service, "/v1/cancel", &with("c", "", 0));
    assert_eq!((status, left()), (200, json!(8)));
    for (path, body, want) in [
        ("/v1/commit", with("unknown", "actual", 1), 404),
        ("/v1/release", with("unknown", "", 0), 404),
        ("/v1/commit", with("a", "", 0), 400),
        ("/v1/cancel", with("a", "ttl_ms", 1), 400),
        ("/v1/reserve", with("d", "ttl_ms", 0), 400),
        ("/v1/reserve", with("", "", 0), 400),
        ("/v1/release", check(&[("ten", "held")], 1), 400),
    ] {
        let (status, _, reply) = post(service, path, &body);
        assert_eq!(status, want, "{path} {body}: {reply}");
    }
    let metrics = service.http("GET", "/metrics", "").1;
    for (operation, result, count) in [
        ("reserve", "done", 2),
        ("reserve", "denied", 1),
        ("reserve", "invalid", 2),
        ("commit", "done", 2),
        ("commit", "not_found", 1),
        ("commit", "invalid", 1),
        ("cancel", "done", 1),
        ("cancel", "invalid", 1),
        ("release", "not_found", 1),
        ("release", "invalid", 1),
        ("release", "error", 0),
    ] {
        let name = "tollgate_hold_requests_total";
        let line = format!("{name}{{operation=\"{operation}\",result=\"{result}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
}

/// What a store that is away makes of requests about units that it holds.
#[test]
fn what_cannot_be_done_with_units_is_counted() {
    let port = tollgate_testkit::process::free_port().expect("a port");
    let service = Service::remote_with(&format!("redis://127.0.0.1:{port}"), RULES);
    let mut body = check(&[("ten", "held")], 6);
    body["id"] = json!("a");
    for operation in ["reserve", "commit", "cancel"] {
        let mut body = body.clone();
        if operation == "commit" {
            body["actual"] = json!(1);
        }
        let (status, _, reply) = post(&service, &format!("/v1/{operation}"), &body);
        assert_eq!(status, 503, "{reply}");
        let metrics = service.http("GET", "/metrics", "").1;
        let line = format!(
            "tollgate_hold_requests_total{{operation=\"{operation}\",result=\"error\"}} 1\n"
        );
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
}

/// A reservation that quotas refuse holds nothing.
#[test]
fn what_quotas_deny_is_not_reserved() {
    let service = Service::embedded();
    let descriptor = |key: &str, value: &str| json!({"entries": [{"key": key, "value": value}]});
    let quota = json!({"domain": "test", "descriptors": [descriptor("quota", "q")]});
    for _ in 0..2 {
        assert_eq!(post(&service, "/v1/decide", &quota).0, 200);
    }
    let both = |more: Value| {
        let mut body = json!({
            "domain": "test",
            "descriptors": [descriptor("ten", "r"), descriptor("quota", "q")]
        });
        for (name, value) in more.as_object().expect("a map") {
            body[name] = value.clone();
        }
        body
    };
    assert_eq!(post(&service, "/v1/decide", &both(json!({}))).0, 429);
    let (status, _, denied) = post(&service, "/v1/reserve", &both(json!({"id": "a"})));
    assert_eq!(status, 429, "{denied}");
    assert_eq!(denied["limits"][0]["remaining"], json!(10), "{denied}");
    let (_, _, explained) = post(&service, "/v1/explain", &check(&[("ten", "r")], 1));
    let left = &explained["descriptors"][0]["limits"][0]["remaining"];
    assert_eq!(left, &json!(10), "{explained}");
    let (status, _, _) = post(&service, "/v1/cancel", &both(json!({"id": "a"})));
    assert_eq!(status, 404);
}
