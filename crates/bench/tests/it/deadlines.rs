//! Callers over gRPC say how long they wait, and take back what has no answer by then: without that a service cannot shed
//! what nobody waits for, and an overload or a recovery would be measured under a load that no client makes.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tollgate_bench::load::keys::Spreading;
use tollgate_bench::record::SearchGoal;
use tollgate_bench::run::capacity::CapacitySettings;
use tollgate_bench::run::console::Console;
use tollgate_bench::run::plan::{KeyPlan, Ladder, RunPlan};
use tollgate_bench::run::recovery::{ClientVariant, RecoverySettings};
use tollgate_bench::run::session::{Job, Session};
use tollgate_bench::target::url::TargetUrl;
use tollgate_bench::target::{Service, Target};

use crate::fake_grpc::{Manners, service};

/// Length of a step, and of each phase of a recovery run. What is heard does not depend on it.
const SHORT: Duration = Duration::from_millis(100);
/// Runs until a busy machine has let through what must be seen.
const RUNS_MAX: u32 = 200;

fn plan(deadline: Duration) -> RunPlan {
    RunPlan {
        scenarios: vec![KeyPlan::custom(1, Spreading::Single)],
        ladder: Ladder::Fixed(vec![200.0]),
        step: Some(SHORT),
        warmup: Duration::ZERO,
        grpc_connections: 2,
        grpc_streams: 4,
        deadline,
        ..crate::session::plan()
    }
}

fn run(address: SocketAddr, plan: &RunPlan, job: &Job) {
    let (mut console, stop) = (Console::silent(), AtomicBool::new(false));
    let mut session = Session::new(plan, &mut console, &stop);
    let url = TargetUrl::parse(&format!("fake=grpc://{address}")).unwrap();
    let service = Service::attach(&url).unwrap();
    session.add(Target::Service(Box::new(service)));
    session.run_job(job, &mut |_, _| {});
}

fn words(text: &[&str]) -> BTreeSet<String> {
    text.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_recovery_run_says_the_deadline_of_each_variant() {
    let (address, heard) = service(Manners::Fine);
    let plan = plan(Duration::from_secs(1));
    let goal = SearchGoal::named("slo", &plan.profile).unwrap();
    let variant = |deadline: Option<u64>| ClientVariant {
        retries: 0,
        deadline: deadline.map(Duration::from_millis),
    };
    let settings = RecoverySettings {
        phases: [SHORT; 3],
        knee_rps: Some(100.0),
        search: CapacitySettings {
            goals: vec![SearchGoal {
                final_trial_s: SHORT.as_secs_f64(),
                ..goal
            }],
            rough_trial: SHORT,
            trials_max: 1,
            budget: SHORT,
        },
        variants: vec![variant(Some(700)), variant(None)],
        backoff: SHORT,
        good_stretch: SHORT,
    };
    run(address, &plan, &Job::Recovery(settings));
    let heard = heard.lock().unwrap();
    // The plain rows have the deadline of the plan; who waits as long as it takes says nothing.
    assert_eq!(heard.timeouts, words(&["", "1000m", "700m"]));
}

#[test]
fn what_has_no_answer_by_the_deadline_is_taken_back() {
    let (address, heard) = service(Manners::Silent(3));
    let plan = plan(Duration::from_millis(30));
    for _ in 0..RUNS_MAX {
        run(address, &plan, &Job::Ladder);
        if heard.lock().unwrap().taken_back > 0 {
            break;
        }
    }
    let heard = heard.lock().unwrap();
    assert_eq!(heard.timeouts, words(&["30m"]));
    // Eight places would soon be taken for good by calls without an answer.
    assert!(heard.taken_back > 0, "{} calls", heard.calls);
}
