//! Stores that were running before: what a run finds there stays, and what it writes goes.

use tollgate_testkit::Server;
use tollgate_testkit::process::free_port;
use tollgate_wire::resp::Value;

use crate::fake::{Behaviour, FakeServer};
use crate::json::{Folder, bench};

/// One short row, whatever the machine makes of it.
const SHORT: [&str; 11] = [
    "--ladder",
    "200",
    "--step",
    "100ms",
    "--scenario",
    "hundred-keys",
    "--no-calibrate",
    "--pin",
    "none",
    "--warmup",
    "0s",
];

fn keys(server: &Server) -> Vec<Vec<u8>> {
    let told = server.connect().unwrap().line("KEYS *").unwrap();
    let keys = told.as_array().unwrap().iter();
    keys.map(|key| key.as_bytes().unwrap().to_vec()).collect()
}

/// Runs the command; gives its exit code and what it said on standard error.
fn said(args: &[&str]) -> (i32, String) {
    let folder = Folder::new();
    let out = folder.path("results");
    let output = bench(&folder, &[args, &["--out", &out]].concat());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), text)
}

#[test]
fn a_run_leaves_what_it_found_and_nothing_else() {
    let server = Server::tollgate(&[]).unwrap();
    let url = format!("redis://{}", server.addr());
    let set = server.connect().unwrap().line("SET mine 1").unwrap();
    assert_eq!(set, Value::Simple(b"OK".to_vec()));
    let target = format!("x={url}");
    let run = ["--target", &target, "--op", "get,set,incr"];
    let (code, text) = said(&[&run[..], &SHORT].concat());
    assert!(matches!(code, 0 | 3), "{text}");
    assert!(
        text.contains("it holds 1 key already, which stays as it is"),
        "{text}"
    );
    assert_eq!(keys(&server), [b"mine"]);
    let loads = ["--loads", "get,incr,mset", "--keys", "50", "--slices", "1"];
    let short = ["--slice-ms", "20", "--connections", "2", "--pin", "none"];
    let (code, text) = said(&[&["compare", &url, &url][..], &loads, &short].concat());
    assert!(matches!(code, 0 | 3), "{text}");
    assert_eq!(keys(&server), [b"mine"]);
    let (code, text) = said(&[&run[..], &SHORT, &["--flush"]].concat());
    assert!(matches!(code, 0 | 3), "{text}");
    assert!(!text.contains("it holds"), "{text}");
    assert!(keys(&server).is_empty());
}

#[test]
fn a_run_tells_prometheus_what_it_does() {
    let fake = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let (url, port) = (fake.url(), free_port().unwrap().to_string());
    let run = ["--target", &url, "--metrics", &port];
    let (code, text) = said(&[&run[..], &SHORT].concat());
    assert!(matches!(code, 0 | 3), "{text}");
    let told = format!("figures for Prometheus: http://127.0.0.1:{port}/metrics");
    assert!(text.contains(&told), "{text}");
}

#[test]
fn what_cannot_be_told_apart_or_emptied_is_refused() {
    let server = Server::tollgate(&[]).unwrap();
    let target = format!("x=redis://{}", server.addr());
    let refused = |args: &[&str], why: &str| {
        let (code, text) = said(&[args, &SHORT].concat());
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(why), "{text}");
    };
    let twice = ["--target", &target, "--target", &target];
    refused(&twice, "two systems are called 'x'");
    refused(
        &["--flush", "--only", "tollgate"],
        "--flush is for stores at --target",
    );
}

#[test]
fn a_run_that_measured_nothing_leaves_the_latest_one() {
    let folder = Folder::new();
    let out = folder.path("results");
    let latest = || std::fs::read_link(folder.path("results/latest")).unwrap();
    let run = |target: &str| {
        let args = [&["--target", target, "--out", &out][..], &SHORT].concat();
        bench(&folder, &args)
    };
    let fake = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let output = run(&fake.url());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    let measured = latest();
    let closed = format!("redis://127.0.0.1:{}", free_port().unwrap());
    assert_eq!(run(&closed).status.code(), Some(1));
    assert_eq!(latest(), measured);
}
