//! What keeps the service from starting, in words for the one who started it.

use std::net::TcpListener;

use tollgate_engine::{Engine, EngineConfig, Handle};
use tollgate_rls::{Backend, RlsConfig, RlsServer};
use tollgate_testkit::process::temp_dir;

use crate::support::{RULES, config, system_clock};

fn error(files: &[(&str, &[u8])], change: impl FnOnce(&mut RlsConfig)) -> String {
    let dir = temp_dir().expect("a temporary folder");
    for (name, text) in files {
        std::fs::write(dir.join(name), text).expect("the folder is ours");
    }
    let mut config = config(dir.clone(), Backend::Embedded);
    change(&mut config);
    let store = Handle::new(Engine::new(EngineConfig::default()));
    let started = RlsServer::start(config, Some(store), system_clock);
    let text = started.expect_err("it must not start").to_string();
    std::fs::remove_dir_all(&dir).expect("the folder is ours");
    text.replace(&format!("{}/", dir.display()), "")
}

#[test]
fn bad_rules_name_file_line_and_reason() {
    let bad =
        b"domain: a\ndescriptors:\n  - key: b\n    rate_limit: {unit: eon, requests_per_unit: 1}\n";
    assert_eq!(
        error(&[("a.yaml", RULES.as_bytes()), ("b.yaml", bad)], |_| {}),
        "b.yaml:4: invalid rate limit unit 'eon'"
    );
    assert_eq!(
        error(
            &[("a.yaml", b"domain: x"), ("b.yaml", b"\ndomain: x")],
            |_| {}
        ),
        "b.yaml:2: duplicate domain 'x' in config file"
    );
    assert!(error(&[("a.yaml", b"domain: [")], |_| {}).starts_with("a.yaml:"));
    assert!(
        error(&[("a.yaml", b"domain: \xff")], |_| {}).starts_with("cannot read rules a.yaml: ")
    );
}

#[test]
fn a_folder_without_rules_is_an_error() {
    assert!(error(&[("a.txt", b"domain: x")], |_| {}).starts_with("no rule files in "));
    let missing = error(&[], |config| config.rules_dir = "/no/such/folder".into());
    assert!(
        missing.starts_with("cannot read rules /no/such/folder: "),
        "{missing}"
    );
}

#[test]
fn a_port_in_use_names_the_address() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = taken.local_addr().expect("bound");
    let rules = [("a.yaml", RULES.as_bytes())];
    let grpc = error(&rules, |config| config.grpc_addr = addr);
    assert!(
        grpc.starts_with(&format!("cannot listen on {addr} for gRPC: ")),
        "{grpc}"
    );
    let http = error(&rules, |config| config.http_addr = addr);
    assert!(
        http.starts_with(&format!("cannot listen on {addr} for HTTP: ")),
        "{http}"
    );
}

#[test]
fn a_bad_backend_is_an_error() {
    let rules = [("a.yaml", RULES.as_bytes())];
    let bad = error(&rules, |config| {
        config.backend = Backend::Remote("localhost:6379".to_owned())
    });
    assert_eq!(
        bad,
        "backend localhost:6379: a backend is given as redis://host:port, unix:///path, redis+sentinel://host:port,host:port/master or redis+cluster://host:port,host:port; with rediss for redis over TLS"
    );
}

#[test]
fn the_embedded_backend_needs_a_store() {
    let dir = temp_dir().expect("a temporary folder");
    std::fs::write(dir.join("a.yaml"), RULES).expect("the folder is ours");
    let started = RlsServer::start(config(dir.clone(), Backend::Embedded), None, system_clock);
    assert_eq!(
        started.expect_err("no store").to_string(),
        "the embedded backend needs a store in this process"
    );
    std::fs::remove_dir_all(&dir).expect("the folder is ours");
}
