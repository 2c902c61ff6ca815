//! Spans of calls, as a collector of OpenTelemetry gets them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use prost::Message;
use tollgate_rls::{Environment, RlsConfig, TraceConfig, TraceProtocol};
use tollgate_testkit::{PATIENCE, Server, eventually, peers};
use tollgate_wire::trace::any_value::Value;
use tollgate_wire::trace::{ExportRequest, KeyValue, STATUS_ERROR, Span, SpanKind};

use crate::health::{CHECK, HealthRequest, HealthResponse};
use crate::support::{Client, Service, descriptor, http_request, request};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// What other systems have noted of the trace.
const STATE: &str = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE";
const TRACE: [u8; 16] = [
    0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36,
];
const RPC: &str = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// A collector over HTTP, which answers with a status.
struct Collector {
    addr: SocketAddr,
    got: Arc<Mutex<Vec<ExportRequest>>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Collector {
    /// Answers the first requests with these statuses, all others with 200.
    fn start(first: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("an address");
        let got: Arc<Mutex<Vec<ExportRequest>>> = Arc::default();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let (taken, seen) = (got.clone(), heads.clone());
        std::thread::spawn(move || {
            let mut statuses = first.iter();
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
                let mut writer = stream;
                while let Some((head, body)) = read_request(&mut reader) {
                    let status = statuses.next().unwrap_or(&"200 OK");
                    let body = match head.contains("content-encoding: gzip") {
                        true => unpacked(&body),
                        false => body,
                    };
                    seen.lock().expect("not poisoned").push(head);
                    if status.starts_with("200") {
                        let request = ExportRequest::decode(&body[..]).expect("a request");
                        taken.lock().expect("not poisoned").push(request);
                    }
                    let answer =
                        format!("HTTP/1.1 {status}\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n");
                    if writer.write_all(answer.as_bytes()).is_err() {
                        break;
                    }
                }
            }
        });
        Self { addr, got, heads }
    }

    fn config(&self) -> TraceConfig {
        TraceConfig {
            protocol: TraceProtocol::Http,
            endpoint: format!("http://{}/v1/traces", self.addr),
            headers: vec![("x-team".to_owned(), "a b".to_owned())],
            gzip: false,
            timeout: PATIENCE,
            tls_authority: None,
            tls_own: None,
            resource: vec![("service.name".to_owned(), "limits".to_owned())],
            sampling: 1.0,
            queue: 2_048,
            batch: 512,
            interval: Duration::from_millis(10),
        }
    }

    /// The spans, once there are so many.
    fn spans(&self, count: usize) -> Vec<Span> {
        let all = || -> Vec<Span> {
            let got = self.got.lock().expect("not poisoned");
            let resources = got.iter().flat_map(|request| &request.resource_spans);
            let scopes = resources.flat_map(|resource| &resource.scope_spans);
            scopes.flat_map(|scope| scope.spans.clone()).collect()
        };
        let deadline = Instant::now() + PATIENCE;
        while all().len() < count {
            assert!(Instant::now() < deadline, "{:?}", all());
            std::thread::sleep(Duration::from_millis(5));
        }
        all()
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = text.trim().parse().expect("a number");
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn unpacked(body: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    let read = GzDecoder::new(body).read_to_end(&mut message);
    read.expect("packed by gzip");
    message
}

fn text_of<'a>(span: &'a Span, name: &str) -> Option<&'a Value> {
    let found = span.attributes.iter().find(|pair| pair.key == name)?;
    found.value.as_ref()?.value.as_ref()
}

fn has(span: &Span, name: &str, value: impl Into<Value>) -> bool {
    span.attributes.contains(&KeyValue::new(name, value))
}

fn service(change: impl FnOnce(&mut RlsConfig)) -> Service {
    Service::with_config(change)
}

/// A call's span is part of what its metadata says, and the backend's step part of it.
#[tokio::test]
async fn a_call_and_what_the_backend_does_are_told() {
    let collector = Collector::start(&[]);
    let service = service(|config| config.traces = Some(collector.config()));
    let mut client = service.client().await;
    client.metadata("traceparent", PARENT);
    client.metadata("tracestate", STATE);
    let asked = request(vec![descriptor(&["ten=traced"])]);
    client.ask(asked).await.expect("answered");
    let spans = collector.spans(2);
    let call = spans.iter().find(|span| span.name == RPC).expect("a call");
    let step = spans.iter().find(|span| span.name != RPC).expect("a step");
    assert_eq!(call.trace_id, TRACE);
    assert_eq!([&*call.trace_state, &step.trace_state], [STATE; 2]);
    assert_eq!(
        call.parent_span_id,
        [0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]
    );
    assert_eq!(call.kind(), SpanKind::Server);
    assert!(has(call, "domain", "test") && has(call, "rpc.grpc.status_code", 0));
    assert!(has(call, "ratelimit.overall_code", "OK"), "{call:?}");
    assert!(
        has(call, "ratelimit.descriptors", vec!["ten=traced".to_owned()]),
        "{call:?}"
    );
    assert!(call.status.is_none());
    assert_eq!(
        (&*step.name, step.kind()),
        ("Backend Decision", SpanKind::Internal)
    );
    assert_eq!(
        (&step.trace_id, &step.parent_span_id),
        (&call.trace_id, &call.span_id)
    );
    assert!(step.start_time_unix_nano >= call.start_time_unix_nano);
    let head = collector.heads.lock().expect("not poisoned")[0].clone();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(
        head.contains("x-team: a b\r\n")
            && head.contains("content-type: application/x-protobuf\r\n")
    );
    let got = collector.got.lock().expect("not poisoned")[0].clone();
    let resource = got.resource_spans[0].resource.clone().expect("a resource");
    assert_eq!(
        resource.attributes,
        [KeyValue::new("service.name", "limits")]
    );
}

#[tokio::test]
async fn requests_over_http_are_told() {
    let collector = Collector::start(&[]);
    let service = service(|config| config.traces = Some(collector.config()));
    let addr = service.server().http_addr().expect("TCP");
    let post = |path: &str, body: &str| {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nTraceParent: {PARENT}\r\nTraceState: {STATE}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        http_request(addr, head.as_bytes(), body.as_bytes()).0
    };
    let body = r#"{"domain":"test","descriptors":[{"entries":[{"key":"ten","value":"h"}]}]}"#;
    assert_eq!(post("/json", body), 200);
    assert_eq!(post("/v1/decide", body), 200);
    assert_eq!(post("/json", "{"), 400);
    let spans = collector.spans(5);
    let called = |name: &'static str| spans.iter().filter(move |span| span.name == name);
    assert_eq!(called("POST /json").count(), 2);
    assert_eq!(called("Backend Decision").count(), 2);
    for span in called("POST /json").chain(called("POST /v1/decide")) {
        assert_eq!(
            (&span.trace_id[..], &*span.trace_state),
            (&TRACE[..], STATE)
        );
    }
    assert!(called("POST /json").any(|span| has(span, "http.response.status_code", 400)));
    let decided = called("POST /v1/decide").next().expect("one");
    assert!(has(decided, "http.response.status_code", 200) && has(decided, "domain", "test"));
}

#[tokio::test]
async fn checks_of_health_are_told() {
    let collector = Collector::start(&[]);
    let service = service(|config| config.traces = Some(collector.config()));
    let mut client = service.client().await;
    client.metadata("traceparent", PARENT);
    let asked = |service: &str| HealthRequest {
        service: service.to_owned(),
    };
    let healthy: Result<HealthResponse, _> = client.call(CHECK, asked("ratelimit")).await;
    healthy.expect("it serves");
    let unknown: Result<HealthResponse, _> = client.call(CHECK, asked("other")).await;
    unknown.expect_err("there is none");
    let spans = collector.spans(2);
    for (span, code) in spans.iter().zip([0, 5]) {
        assert_eq!(
            (&*span.name, &span.trace_id[..]),
            ("grpc.health.v1.Health/Check", &TRACE[..])
        );
        assert!(has(span, "rpc.method", "Check"), "{span:?}");
        assert!(has(span, "rpc.grpc.status_code", code), "{span:?}");
    }
}

/// Who calls decides whether a call has a span; where it does not say, a share has one.
#[tokio::test]
async fn calls_are_sampled_as_their_callers_are() {
    let collector = Collector::start(&[]);
    let service = service(|config| {
        let traces = collector.config();
        config.traces = Some(TraceConfig {
            sampling: 0.0,
            ..traces
        });
    });
    let mut client = service.client().await;
    let asked = || request(vec![descriptor(&["ten=share"])]);
    client.ask(asked()).await.expect("answered");
    client.metadata("traceparent", &PARENT.replace("-01", "-00"));
    client.ask(asked()).await.expect("answered");
    client.metadata("traceparent", PARENT);
    client.ask(asked()).await.expect("answered");
    let spans = collector.spans(2);
    assert_eq!(spans.len(), 2, "{spans:?}");
    assert!(spans.iter().all(|span| span.trace_id == TRACE));
}

#[tokio::test]
async fn spans_are_sent_again_where_the_collector_asks_for_it() {
    let collector = Collector::start(&["503 Service Unavailable", "429 Too Many Requests"]);
    let service = service(|config| config.traces = Some(collector.config()));
    let mut client = service.client().await;
    let asked = request(vec![descriptor(&["ten=again"])]);
    client.ask(asked).await.expect("answered");
    collector.spans(2);
    // More where the spans did not all go at once.
    assert!(collector.heads.lock().expect("not poisoned").len() >= 3);
}

/// Answers never wait for the collector. What it does not take has a bound, and is counted.
#[tokio::test]
async fn a_collector_that_is_not_there_costs_spans_and_no_answers() {
    // It is connected to, and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    let collector = Collector::start(&["400 Bad Request"]);
    let service = service(|config| {
        config.traces = Some(TraceConfig {
            endpoint: format!("http://{addr}/v1/traces"),
            queue: 10,
            batch: 5,
            interval: Duration::from_millis(1),
            ..collector.config()
        });
    });
    let mut client = service.client().await;
    for _ in 0..100 {
        let asked = request(vec![descriptor(&["ten=away"])]);
        client.ask(asked).await.expect("answered");
    }
    let dropped = || -> u64 {
        let (_, text) = service.http("GET", "/metrics", "");
        let dropped = text
            .lines()
            .find_map(|line| line.strip_prefix("tollgate_trace_spans_dropped_total "));
        dropped.expect("counted").parse().expect("a number")
    };
    // Of 200 at most those wait that there is room for, and those under way. The last span may come after its answer.
    eventually("spans are dropped", || dropped() >= 185);
    assert!(dropped() < 200, "{}", dropped());
    drop(listener);
}

/// What a store elsewhere did is told, and what it failed with.
#[tokio::test]
async fn a_store_elsewhere_is_told_of() {
    let test = "a_store_elsewhere_is_told_of";
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        return peers::skip(test, "redis-server");
    };
    let collector = Collector::start(&[]);
    let url = format!("redis://{}", redis.addr());
    let rules = "domain: test\ndescriptors:\n  - key: ten\n    rate_limit: {unit: hour, requests_per_unit: 10}\n";
    let service = Service::on_store(&url, rules, |config| {
        config.traces = Some(collector.config());
    });
    let mut client: Client = service.client().await;
    let asked = || request(vec![descriptor(&["ten=far"])]);
    client.ask(asked()).await.expect("answered");
    let steps = |spans: &[Span]| -> Vec<Span> {
        let steps = spans.iter().filter(|span| span.name == "Backend Decision");
        steps.cloned().collect()
    };
    let [step] = &steps(&collector.spans(2))[..] else {
        panic!("one step")
    };
    assert_eq!(step.kind(), SpanKind::Client);
    assert!(has(step, "ratelimit.backend", "remote") && step.status.is_none());
    drop(redis);
    client.ask(asked()).await.expect_err("no store");
    let spans = collector.spans(4);
    let failed = steps(&spans)[1].status.clone().expect("it failed");
    assert_eq!(failed.code, STATUS_ERROR);
    let calls: Vec<&Span> = spans.iter().filter(|span| span.name == RPC).collect();
    assert!(has(calls[1], "rpc.grpc.status_code", 14), "{:?}", calls[1]);
    assert!(calls[1].status.is_some() && text_of(calls[1], "domain").is_some());
}

/// A collector over gRPC takes one request.
async fn take_call(listener: tokio::net::TcpListener) -> (http::HeaderMap, ExportRequest) {
    let (stream, _) = listener.accept().await.expect("a connection");
    let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
    let (request, mut respond) = connection.accept().await.expect("a call").expect("a call");
    let (head, mut body) = request.into_parts();
    assert_eq!(head.uri.path(), tollgate_wire::trace::EXPORT);
    tokio::spawn(async move { while connection.accept().await.is_some() {} });
    let mut bytes = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece.expect("a piece");
        body.flow_control()
            .release_capacity(piece.len())
            .expect("ours");
        bytes.extend_from_slice(&piece);
    }
    let answer = http::Response::builder().header("content-type", "application/grpc");
    let answer = answer.body(()).expect("an answer");
    let mut sending = respond.send_response(answer, false).expect("open");
    sending.send_data(vec![0; 5].into(), false).expect("open");
    let trailers = [("grpc-status", "0")].map(|(name, value)| {
        let name: http::HeaderName = name.parse().expect("a name");
        (name, http::HeaderValue::from_static(value))
    });
    sending
        .send_trailers(trailers.into_iter().collect())
        .expect("open");
    let message = match (bytes[0], head.headers.get("grpc-encoding")) {
        (0, None) => bytes[5..].to_vec(),
        (1, Some(encoding)) if encoding == "gzip" => unpacked(&bytes[5..]),
        other => panic!("{other:?}"),
    };
    let message = ExportRequest::decode(&message[..]).expect("a request");
    (head.headers, message)
}

/// As OTEL_EXPORTER_OTLP_COMPRESSION says.
#[tokio::test]
async fn spans_are_packed_where_that_is_wanted() {
    for gzip in [true, false] {
        let collector = Collector::start(&[]);
        let service = service(|config| {
            let traces = collector.config();
            config.traces = Some(TraceConfig { gzip, ..traces });
        });
        let mut client = service.client().await;
        let asked = request(vec![descriptor(&["ten=packed"])]);
        client.ask(asked).await.expect("answered");
        let spans = collector.spans(2);
        assert!(spans.iter().any(|span| span.name == RPC), "{spans:?}");
        let heads = collector.heads.lock().expect("not poisoned");
        assert_eq!(heads[0].contains("content-encoding: gzip\r\n"), gzip);
    }
}

#[tokio::test]
async fn spans_are_sent_over_grpc() {
    for gzip in [false, true] {
        sent_over_grpc(gzip).await;
    }
}

async fn sent_over_grpc(gzip: bool) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let addr = listener.local_addr().expect("an address");
    let taken = tokio::spawn(take_call(listener));
    let collector = Collector::start(&[]);
    let service = service(|config| {
        config.traces = Some(TraceConfig {
            protocol: TraceProtocol::Grpc,
            endpoint: format!("http://{addr}"),
            gzip,
            // Both spans of the call go together, whenever the second one is there.
            batch: 2,
            interval: Duration::from_secs(3_600),
            ..collector.config()
        });
    });
    let mut client = service.client().await;
    let asked = request(vec![descriptor(&["ten=grpc"])]);
    client.ask(asked).await.expect("answered");
    let (headers, message) = tokio::time::timeout(PATIENCE, taken)
        .await
        .expect("in time")
        .expect("a call");
    assert_eq!(headers.get("x-team").expect("given"), "a b");
    let spans = &message.resource_spans[0].scope_spans[0].spans;
    assert!(spans.iter().any(|span| span.name == RPC), "{spans:?}");
    let deadline = Instant::now() + PATIENCE;
    let is_counted = || {
        let (_, text) = service.http("GET", "/metrics", "");
        text.contains("tollgate_trace_spans_sent_total 2")
    };
    while !is_counted() {
        assert!(Instant::now() < deadline, "not counted");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The last spans are sent when the service ends.
#[tokio::test]
async fn the_end_of_the_service_sends_what_is_left() {
    let collector = Collector::start(&[]);
    let service = service(|config| {
        let traces = collector.config();
        config.traces = Some(TraceConfig {
            interval: Duration::from_secs(3_600),
            ..traces
        });
    });
    let mut client = service.client().await;
    let asked = request(vec![descriptor(&["ten=end"])]);
    client.ask(asked).await.expect("answered");
    drop(client);
    drop(service);
    assert_eq!(collector.spans(2).len(), 2);
}

#[test]
fn spans_are_sent_where_the_variables_say() {
    let traces = |given: &[(&str, &str)]| {
        let mut given = given.to_vec();
        given.push(("TRACING_ENABLED", "true"));
        let environment = Environment::new(|name: &str| {
            let found = given.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        environment
            .traces()
            .map(|traces| traces.expect("asked for"))
    };
    let config = traces(&[]).expect("valid");
    assert_eq!(
        (config.protocol, &*config.endpoint),
        (TraceProtocol::Http, "http://localhost:4318/v1/traces")
    );
    assert_eq!((config.queue, config.batch), (2_048, 512));
    for (given, packed) in [("gzip", true), ("none", false), ("", false)] {
        let config = traces(&[("OTEL_EXPORTER_OTLP_COMPRESSION", given)]).expect("valid");
        assert_eq!(config.gzip, packed, "{given}");
    }
    assert!(!config.gzip);
    assert_eq!(config.interval.as_secs(), 5);
    assert!((config.sampling - 1.0).abs() < 1e-9);
    let [name, instance] = &config.resource[..] else {
        panic!("{:?}", config.resource)
    };
    assert_eq!((&*name.0, &*name.1), ("service.name", "RateLimit"));
    assert_eq!(
        (&*instance.0, instance.1.len()),
        ("service.instance.id", 36)
    );
    let endpoint = |given: &[(&str, &str)]| traces(given).map(|traces| traces.endpoint);
    let (of_all, own) = (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    );
    let grpc = ("TRACING_EXPORTER_PROTOCOL", "grpc");
    for (given, wanted) in [
        (&[(of_all, "http://c:1/")][..], "http://c:1/v1/traces"),
        (&[(of_all, "https://c:1/p")], "https://c:1/p/v1/traces"),
        (
            &[(of_all, "http://c:1"), (own, "http://d:2/x")],
            "http://d:2/x",
        ),
        (&[grpc], "http://localhost:4317"),
        (&[grpc, (of_all, "http://c:1")], "http://c:1"),
        (&[grpc, (of_all, "c:1")], "https://c:1"),
        (
            &[
                grpc,
                (of_all, "c:1"),
                ("OTEL_EXPORTER_OTLP_INSECURE", "true"),
            ],
            "http://c:1",
        ),
    ] {
        assert_eq!(endpoint(given).as_deref(), Ok(wanted), "{given:?}");
    }
    let config = traces(&[
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=1, b=two%20words"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
        ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "/ca"),
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,zone=a"),
        ("TRACING_SERVICE_NAME", "limits"),
        ("TRACING_SERVICE_NAMESPACE", "edge"),
        ("TRACING_SERVICE_INSTANCE_ID", "7"),
        ("TRACING_SAMPLING_RATE", "1e-2"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "100"),
    ])
    .expect("valid");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(config.headers, [pair("a", "1"), pair("b", "two words")]);
    assert!(config.gzip);
    assert_eq!(config.timeout.as_millis(), 500);
    assert_eq!(config.tls_authority, Some("/ca".into()));
    assert_eq!((config.queue, config.batch), (100, 100));
    assert_eq!(
        config.resource,
        [
            pair("zone", "a"),
            pair("service.name", "limits"),
            pair("service.namespace", "edge"),
            pair("service.instance.id", "7"),
        ]
    );
    for (name, value) in [
        ("TRACING_EXPORTER_PROTOCOL", "zipkin"),
        ("TRACING_SAMPLING_RATE", "some"),
        (of_all, "c:1"),
        (of_all, "ftp://c"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "alone"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=%+1"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ("OTEL_RESOURCE_ATTRIBUTES", "=x"),
    ] {
        let error = traces(&[(name, value)]).expect_err(name);
        assert!(error.starts_with(name), "{error}");
    }
}
