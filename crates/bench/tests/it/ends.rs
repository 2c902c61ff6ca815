//! Targets that end connections: the generator opens others and goes on, and no request gets lost on the way.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tollgate_bench::load::address::{Address, Endpoint};
use tollgate_bench::load::http::HttpAsk;
use tollgate_bench::load::keys::Spreading;
use tollgate_bench::load::live::Live;
use tollgate_bench::load::open::{self, Outcome, Own, Plan};
use tollgate_bench::load::open_loop::Bounds;
use tollgate_bench::load::schedule::Arrivals;
use tollgate_bench::load::workload::{Ask, Rule, Workload};
use tollgate_bench::record::{RunRecord, Step};
use tollgate_bench::run::console::Console;
use tollgate_bench::run::plan::{KeyPlan, Ladder, RunPlan};
use tollgate_bench::run::session::{Job, Session};
use tollgate_bench::target::url::TargetUrl;
use tollgate_bench::target::{Service, Target};

use crate::fake::http_request;
use crate::fake_grpc::{Manners, service};

const MS: u64 = 1_000_000;
const REQUESTS: u64 = 60;

/// How a server ends a connection behind an answer.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It says so.
    Told,
    /// It closes it.
    Silent,
}

/// A server for one connection after the other that ends each behind `answers` answers.
fn http_server(answers: u64, end: End) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // An answer that the system holds back is lost where the connection ends with requests unread.
            stream.set_nodelay(true).unwrap();
            let mut writer = stream.try_clone().unwrap();
            let mut reader = BufReader::new(stream);
            for number in 1..=answers {
                if http_request(&mut reader).is_none() {
                    break;
                }
                let close = match end {
                    End::Told if number == answers => "connection: close\r\n",
                    _ => "",
                };
                let answer = format!("HTTP/1.1 200 OK\r\n{close}content-length: 0\r\n\r\n");
                if writer.write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    address
}

/// All requests are due at about once, over one connection.
fn http(address: SocketAddr, depth: usize) -> Outcome {
    let plan = Plan {
        arrivals: Arrivals::Constant,
        rate: 60_000.0,
        length_ns: MS,
        spreading: Spreading::Single,
        seed: 1,
        bounds: Bounds {
            connections: 1,
            depth,
            deadline_ns: 60_000 * MS,
            backlog_limit: 1_000,
        },
        later: Vec::new(),
        clients: None,
        own: Own::default(),
    };
    let rule = Rule {
        limit: 10,
        window_s: 60,
    };
    let ask = HttpAsk::new("t", "/", None, &[], Some("{}")).unwrap();
    let workload = Workload::render(&Ask::Http(Box::new(ask), rule), "k", 1);
    let endpoint = Endpoint::plain(Address::Tcp(address));
    let stop = AtomicBool::new(false);
    open::run(&plan, &workload, &endpoint, &stop, &Live::default()).unwrap()
}

#[test]
fn requests_behind_the_last_answer_of_an_http_connection_go_over_a_new_one() {
    for (depth, end) in [
        (1, End::Told),
        (8, End::Told),
        (1, End::Silent),
        (8, End::Silent),
    ] {
        let outcome = http(http_server(5, end), depth);
        let tally = &outcome.tally;
        let counted = (tally.planned, tally.allowed, tally.refused, tally.sent);
        assert_eq!(
            counted,
            (REQUESTS, REQUESTS, 0, REQUESTS),
            "{end:?}, {depth}"
        );
        assert_eq!(outcome.cut_short, None);
        let told = "connections that the server ended and that were opened anew: ";
        let anew = outcome
            .notes
            .iter()
            .find_map(|note| note.strip_prefix(told));
        let anew: u64 = anew.unwrap().parse().unwrap();
        // The last end may come after the last answer.
        assert!(anew >= 11, "{anew}");
        if matches!(end, End::Told) {
            assert_eq!(tally.keys[0].unknown(), 0, "the server took none of them");
        }
    }
}

#[test]
fn a_server_that_never_answers_is_not_asked_for_ever() {
    let outcome = http(http_server(0, End::Silent), 8);
    let tally = &outcome.tally;
    assert_eq!((tally.allowed, tally.refused), (0, REQUESTS));
    assert!(outcome.cut_short.is_some());
}

/// What one connection with eight streams brought.
fn grpc(manners: Manners) -> (Step, u64) {
    let (address, heard) = service(manners);
    let plan = RunPlan {
        scenarios: vec![KeyPlan::custom(1, Spreading::Single)],
        ladder: Ladder::Fixed(vec![3_000.0]),
        step: Some(Duration::from_millis(100)),
        warmup: Duration::ZERO,
        grpc_connections: 1,
        grpc_streams: 8,
        ..crate::session::plan()
    };
    let (mut console, stop) = (Console::silent(), AtomicBool::new(false));
    let mut session = Session::new(&plan, &mut console, &stop);
    let url = TargetUrl::parse(&format!("fake=grpc://{address}")).unwrap();
    session.add(Target::Service(Box::new(Service::attach(&url).unwrap())));
    let mut record: Option<RunRecord> = None;
    session.run_job(&Job::Ladder, &mut |now, _| record = Some(now.clone()));
    let step = record.unwrap().cells[0].steps[0].clone();
    let connections = heard.lock().unwrap().connections;
    (step, connections)
}

#[test]
fn calls_that_a_leaving_grpc_service_has_not_taken_go_over_another_connection() {
    for manners in [Manners::Leaves(7), Manners::LeavesSlowly(7)] {
        let (step, connections) = grpc(manners);
        assert!(step.planned > 200, "{step:?}");
        assert_eq!(
            (step.allowed, step.failures.total()),
            (step.planned, 0),
            "{manners:?}: {:?}",
            step.notes
        );
        assert!(connections > step.planned / 7, "{connections}");
    }
}

#[test]
fn calls_of_a_grpc_connection_that_is_closed_are_refused_and_the_next_go_on() {
    let (step, connections) = grpc(Manners::Closes(7));
    assert_eq!(
        step.allowed + step.failures.refused,
        step.planned,
        "{:?}",
        step.failures
    );
    assert!(step.allowed >= connections / 2, "{}", step.allowed);
    assert!(connections > 3 && step.allowed > 20, "{connections}");
}

#[test]
fn a_grpc_service_that_takes_nothing_is_given_up_with_its_words() {
    let (step, connections) = grpc(Manners::TakesNone);
    assert_eq!((step.allowed, step.failures.refused), (0, step.planned));
    assert!(connections < 20, "{connections}");
    let said = step.notes.iter().any(|note| note.contains("GOAWAY"));
    assert!(said, "{:?}", step.notes);
}
