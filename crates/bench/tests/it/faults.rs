//! Broken targets, on real sockets.

use std::sync::atomic::AtomicBool;

use tollgate_bench::load::address::{Address, Endpoint};
use tollgate_bench::load::keys::Spreading;
use tollgate_bench::load::live::Live;
use tollgate_bench::load::open::{self, Outcome, Own, Plan};
use tollgate_bench::load::open_loop::Bounds;
use tollgate_bench::load::schedule::Arrivals;
use tollgate_bench::load::workload::{Ask, Rule, Workload};
use tollgate_bench::os::proc::cpu_ns;

use crate::fake::{Behaviour, FakeServer};

const MS: u64 = 1_000_000;

fn plan() -> Plan {
    Plan {
        arrivals: Arrivals::Poisson,
        rate: 2_000.0,
        length_ns: 200 * MS,
        spreading: Spreading::Uniform,
        seed: 1,
        bounds: Bounds {
            connections: 4,
            depth: 8,
            deadline_ns: 30_000 * MS,
            backlog_limit: 10_000,
        },
        later: Vec::new(),
        clients: None,
        own: Own::default(),
    }
}

fn run(endpoint: &Endpoint) -> Result<Outcome, String> {
    run_watching(endpoint, &Live::default())
}

fn run_watching(endpoint: &Endpoint, live: &Live) -> Result<Outcome, String> {
    run_plan(&plan(), endpoint, live)
}

fn run_plan(plan: &Plan, endpoint: &Endpoint, live: &Live) -> Result<Outcome, String> {
    let rule = Rule {
        limit: 10,
        window_s: 60,
    };
    let workload = Workload::render(
        &Ask::Evalsha {
            sha: "a".repeat(40),
            rule,
        },
        "k",
        5,
    );
    open::run(plan, &workload, endpoint, &AtomicBool::new(false), live)
}

fn against(behaviour: Behaviour) -> Outcome {
    let server = FakeServer::start(behaviour);
    run(&server.endpoint()).unwrap()
}

#[test]
fn a_right_limiter_is_measured_whole() {
    let outcome = against(Behaviour::Limiter { surplus: 0 });
    let tally = &outcome.tally;
    assert_eq!(
        (tally.planned, tally.sent, tally.completed),
        (400, 400, 400)
    );
    assert_eq!(tally.allowed, 50, "5 keys with a limit of 10");
    assert_eq!((outcome.cut_short, tally.lag.len()), (None, 400));
    let key = tally.keys[3];
    assert_eq!((key.admitted, key.unknown()), (10, 0));
    assert!(key.last_received_ns > key.first_sent_ns);
}

#[test]
fn connecting_is_no_part_of_what_a_watched_process_used() {
    let server = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    // Generator and server are in this process, which therefore also connects.
    let me = std::process::id();
    let before = cpu_ns(me).unwrap();
    let outcome = run_watching(&server.endpoint(), &Live::watching(vec![me])).unwrap();
    let around = cpu_ns(me).unwrap() - before;
    let watched = outcome.cpu_ns_of(&[me]).unwrap();
    assert!(0 < watched && watched < around, "{watched} of {around}");
    let unwatched = against(Behaviour::Limiter { surplus: 0 });
    assert!(unwatched.watched_cpu_ns.is_empty());
}

#[test]
fn a_refused_connection_is_said_plainly() {
    let port = tollgate_testkit::process::free_port().unwrap();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let error = run(&Endpoint::plain(Address::Tcp(address))).unwrap_err();
    assert!(
        error.contains(&address.to_string()) && error.contains("refused"),
        "{error}"
    );
}

#[test]
fn a_server_that_dies_keeps_what_was_measured() {
    let outcome = against(Behaviour::DiesAfter(100));
    let tally = &outcome.tally;
    assert!(
        outcome
            .cut_short
            .as_deref()
            .is_some_and(|why| why.contains("all connections were lost")),
        "{outcome:?}"
    );
    assert!((50..=104).contains(&tally.allowed), "{}", tally.allowed);
    assert_eq!(
        tally.planned, 400,
        "what could not be asked any more is planned"
    );
    assert_eq!(
        tally.allowed + tally.refused + tally.unsent + tally.timeout,
        400,
        "and counted as failed"
    );
    assert!(
        outcome.schedule_counted,
        "so its rates are those of the whole schedule"
    );
}

#[test]
fn a_reset_is_a_lost_connection_and_said_so() {
    let outcome = against(Behaviour::Resets);
    let tally = &outcome.tally;
    assert!(
        outcome
            .cut_short
            .as_deref()
            .is_some_and(|why| why.contains("reset")),
        "{:?}",
        outcome.cut_short
    );
    assert_eq!((tally.planned, tally.allowed + tally.denied), (400, 0));
    assert!(tally.refused > 0 && tally.protocol == 0);
}

#[test]
fn garbage_is_a_protocol_failure_with_its_first_bytes() {
    let outcome = against(Behaviour::Garbage);
    assert!(outcome.tally.protocol > 0 && outcome.tally.allowed == 0);
    let said = outcome.tally.first_error.unwrap();
    assert!(
        said.contains("not a valid reply") && said.contains("HTTP/1.1"),
        "{said}"
    );
}

#[test]
fn silence_is_timeouts() {
    let server = FakeServer::start(Behaviour::Hangs);
    let mut plan = plan();
    plan.bounds.deadline_ns = 500 * MS;
    let outcome = run_plan(&plan, &server.endpoint(), &Live::default()).unwrap();
    let tally = &outcome.tally;
    assert_eq!(tally.completed, 0);
    assert_eq!(tally.timeout + tally.unsent, 400);
    assert_eq!(
        tally.timeout, 32,
        "4 connections x 8 requests were on the wire"
    );
    assert_eq!(outcome.cut_short, None);
}

#[test]
fn error_replies_are_store_errors_and_quoted() {
    let tally = against(Behaviour::Errors).tally;
    assert_eq!((tally.store_error, tally.allowed), (400, 0));
    assert!(tally.first_error.unwrap().contains("OOM"));
}

#[test]
fn an_interrupt_takes_open_requests_out_of_the_count() {
    let server = FakeServer::start(Behaviour::Hangs);
    let rule = Rule {
        limit: 10,
        window_s: 60,
    };
    let workload = Workload::render(
        &Ask::Evalsha {
            sha: "a".repeat(40),
            rule,
        },
        "k",
        5,
    );
    let outcome = open::run(
        &plan(),
        &workload,
        &server.endpoint(),
        &AtomicBool::new(true),
        &Live::default(),
    )
    .unwrap();
    assert_eq!(outcome.cut_short.as_deref(), Some("interrupted"));
    assert_eq!((outcome.tally.timeout, outcome.tally.sent), (0, 0));
}
