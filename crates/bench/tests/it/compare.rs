//! The paired comparison against two fake servers.

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Instant;

use tollgate_bench::cli::{CompareArgs, Pins, StoredCompareArgs};
use tollgate_bench::compare;
use tollgate_bench::record::CompareRecord;
use tollgate_bench::report::{Lang, compare_markdown};
use tollgate_bench::run::console::Console;
use tollgate_testkit::PATIENCE;

use crate::fake::{Behaviour, FakeServer, http_request};

fn args(a: &FakeServer, b: &FakeServer) -> CompareArgs {
    CompareArgs {
        a: a.url().replace("fake=", "a="),
        b: b.url().replace("fake=", "b="),
        loads: Vec::new(),
        depth: vec![1, 4],
        connections: 2,
        slices: 3,
        slice_ms: 100,
        deadline_ms: 20,
        keys: 10,
        records: 1_000,
        server_args: Vec::new(),
        threads: 1,
        seed: 1,
        pin: Some(Pins {
            generator: None,
            target: None,
        }),
        out: PathBuf::from("results"),
        i_own_this_target: false,
        given: Vec::new(),
        stored: StoredCompareArgs::default(),
    }
}

fn run(args: &CompareArgs) -> Result<CompareRecord, String> {
    compare::run(args, &mut Console::silent())
}

/// A whole run whose slices all have an answer: on a busy machine there may be one in which a thread got no turn, so they become
/// longer.
fn answered(args: &CompareArgs) -> CompareRecord {
    let deadline = Instant::now() + PATIENCE;
    let mut args = args.clone();
    loop {
        let record = run(&args).unwrap();
        let mut pairs = record.rows.iter().flat_map(|row| &row.pairs);
        let all = pairs.all(|pair| pair.a.throughput_rps > 0.0 && pair.b.throughput_rps > 0.0);
        if record.complete && all || Instant::now() > deadline {
            return record;
        }
        args.slice_ms = (args.slice_ms * 2).min(10_000);
    }
}

#[test]
fn every_load_gets_its_pairs_in_alternating_order() {
    let (a, b) = (
        FakeServer::start(Behaviour::Limiter { surplus: 0 }),
        FakeServer::start(Behaviour::Limiter { surplus: 0 }),
    );
    let record = answered(&args(&a, &b));
    assert!(record.complete, "{:?}", record.partial_reason);
    assert_eq!((record.a.name.as_str(), record.b.name.as_str()), ("a", "b"));
    // Five loads at two depths, and two loads on one connection; memory only where asked for.
    assert_eq!(record.rows.len(), 12);
    assert!(record.memory.is_empty());
    for row in &record.rows {
        let order: Vec<bool> = row.pairs.iter().map(|pair| pair.a_first).collect();
        assert_eq!(order, [true, false, true], "{}", row.title);
        assert_eq!(row.ratios.throughput_a_over_b.unwrap().n, 3);
        for pair in &row.pairs {
            assert!(pair.a.throughput_rps > 0.0 && pair.a.failures == 0);
            assert!(
                pair.a.server_cpu_us_per_op.is_none(),
                "a fake tells no process id"
            );
        }
    }
}

#[test]
fn a_server_that_dies_leaves_the_rounds_before_it() {
    let (a, b) = (
        FakeServer::start(Behaviour::Limiter { surplus: 0 }),
        FakeServer::start(Behaviour::DiesAfter(2_000)),
    );
    let mut args = args(&a, &b);
    args.loads = vec!["script".into()];
    args.slices = 1_000;
    let record = run(&args).unwrap();
    assert!(!record.complete);
    let reason = record.partial_reason.unwrap();
    assert!(reason.starts_with("b: "), "{reason}");
    assert_eq!(record.rows.len(), 2);
}

#[test]
fn a_refused_server_and_an_unknown_name_are_errors() {
    let server = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let mut wrong = args(&server, &server);
    wrong.b = "no-such-server".into();
    assert!(run(&wrong).unwrap_err().contains("neither a URL nor"));
    wrong.b = "redis://192.0.2.1:6379".into();
    assert!(run(&wrong).unwrap_err().contains("--i-own-this-target"));
    let mut unknown = args(&server, &server);
    unknown.loads = vec!["none".into()];
    assert!(run(&unknown).unwrap_err().contains("not a load"));
    let mut idle = args(&server, &server);
    idle.server_args = vec!["a=--threads 2".parse().unwrap()];
    let why = run(&idle).unwrap_err();
    assert!(why.contains("no server is started here"), "{why}");
}

#[test]
fn a_server_that_stands_still_for_a_script_is_found() {
    let (a, b) = (
        FakeServer::start(Behaviour::Limiter { surplus: 0 }),
        FakeServer::start(Behaviour::StandsStill),
    );
    let mut args = args(&a, &b);
    args.loads = vec!["beside".into()];
    args.slices = 1;
    let record = run(&args).unwrap();
    assert!(record.complete, "{:?}", record.partial_reason);
    let [row] = record.rows.as_slice() else {
        panic!("{:?}", record.rows);
    };
    // The script takes a second, less where the trial before it was slow, and most GETs come due meanwhile.
    let [pair] = row.pairs.as_slice() else {
        panic!("{:?}", row.pairs);
    };
    assert!(pair.b.latency_p99_us.unwrap() > 50e3, "{pair:?}");
    assert_eq!((pair.a.failures, pair.b.failures), (0, 0));
    assert_eq!(row.notes.len(), 1, "{:?}", row.notes);
    let page = compare_markdown(&record, Lang::En);
    let line = format!("- {}: {}.", row.title, row.notes[0]);
    assert!(page.contains(&line), "{page}");
}

/// An HTTP server on threads of this process that allows everything.
fn http_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_all(&stream));
        }
    });
    format!("http://{address}/json")
}

/// Answers each request on a connection until its end.
fn answer_all(mut stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        http_request(&mut reader)?;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            .ok()?;
    }
}

#[test]
fn services_get_pairs_of_the_same_load_and_their_processes_are_found() {
    let server = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let mut args = args(&server, &server);
    (args.a, args.b) = (
        format!("a={}", http_server()),
        format!("b={}", http_server()),
    );
    args.loads = vec!["decide".into()];
    args.slices = 2;
    let record = answered(&args);
    assert!(record.complete, "{:?}", record.partial_reason);
    assert_eq!(record.rows.len(), 1);
    let row = &record.rows[0];
    assert!(row.title.contains("HTTP POST /json"), "{}", row.title);
    assert_eq!((row.connections, row.pairs.len()), (50, 2));
    for pair in &row.pairs {
        assert!(pair.a.throughput_rps > 0.0 && pair.b.throughput_rps > 0.0);
        // Both listen in this process.
        let found = std::path::Path::new("/proc/net/tcp").exists();
        assert_eq!(pair.a.server_cpu_us_per_op.is_some(), found);
    }
    args.b = "grpc://127.0.0.1:1".into();
    assert!(run(&args).unwrap_err().contains("like with like"));
    args.b = server.url();
    assert!(run(&args).unwrap_err().contains("a store with a store"));
    args.b = "http://192.0.2.1/json".into();
    assert!(run(&args).unwrap_err().contains("--i-own-this-target"));
}
