//! Whole runs against running servers.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tollgate_bench::load::keys::Spreading;
use tollgate_bench::load::operation::Op;
use tollgate_bench::load::schedule::Arrivals;
use tollgate_bench::load::tally::Verdict;
use tollgate_bench::load::workload::{Rule, Workload};
use tollgate_bench::record::{Grade, Profile, RunRecord, SearchGoal, Step};
use tollgate_bench::run::attribution::Watching;
use tollgate_bench::run::capacity::CapacitySettings;
use tollgate_bench::run::console::Console;
use tollgate_bench::run::order::Order;
use tollgate_bench::run::plan::{KeyPlan, Ladder, RunPlan};
use tollgate_bench::run::session::{Job, Session};
use tollgate_bench::target::client::Client;
use tollgate_bench::target::program::Program;
use tollgate_bench::target::url::TargetUrl;
use tollgate_bench::target::{Store, Target};
use tollgate_testkit::{PATIENCE, Server, peers};

use crate::fake::{Behaviour, FakeServer};

/// A deadline that what is never answered shall miss.
const BRIEF: Duration = Duration::from_millis(500);

pub(crate) fn plan() -> RunPlan {
    RunPlan {
        scenarios: vec![KeyPlan::custom(4, Spreading::Uniform)],
        ladder: Ladder::Fixed(vec![1_000.0, 2_000.0]),
        step: Some(Duration::from_millis(200)),
        warmup: Duration::from_millis(20),
        steady: None,
        order: None,
        pause: Duration::ZERO,
        arrivals: Arrivals::Poisson,
        connections: 4,
        depth: 8,
        grpc_connections: 1,
        grpc_streams: 1,
        http_pipeline: 1,
        // What comes too late on a busy machine counts all the same.
        deadline: PATIENCE,
        window_s: 60,
        seed: 42,
        profile: Profile::store(),
        generator_core: None,
        target_core: None,
        calibrate: false,
        key_prefix: String::new(),
        watching: Watching::default(),
        spin: None,
        sampling: None,
    }
}

fn run(plan: &RunPlan, servers: &[&FakeServer]) -> RunRecord {
    let mut console = Console::silent();
    let stop = AtomicBool::new(false);
    let mut session = Session::new(plan, &mut console, &stop);
    for (number, server) in servers.iter().enumerate() {
        let mut url = TargetUrl::parse(&server.url()).unwrap();
        url.name = format!("fake-{number}");
        session.add(Target::Store(Box::new(Store::attach(&url).unwrap())));
    }
    session.run(&mut |_, _| {})
}

#[test]
fn a_repeated_rate_has_a_schedule_of_its_own_and_all_systems_the_same() {
    let fakes = [0, 1].map(|_| FakeServer::start(Behaviour::Limiter { surplus: 0 }));
    let plan = RunPlan {
        scenarios: vec![KeyPlan::custom(100, Spreading::Uniform)],
        ladder: Ladder::Fixed(vec![1_000.0; 3]),
        ..plan()
    };
    let record = run(&plan, &[&fakes[0], &fakes[1]]);
    // Which keys are asked how often decides how many requests their limits admit.
    let admitted = |cell: usize| -> Vec<u64> {
        let steps = record.cells[cell].steps.iter();
        steps
            .map(|step| step.accuracy.as_ref().unwrap().admitted)
            .collect()
    };
    assert_eq!(admitted(0).len(), 3, "{record:?}");
    assert_eq!(admitted(0), admitted(1));
    let first = admitted(0)[0];
    assert!(admitted(0).iter().any(|other| *other != first), "{first}");
}

#[test]
fn a_system_given_up_in_one_scenario_is_not_shown_again_for_the_others() {
    let fake = FakeServer::start(Behaviour::OtherShape);
    let plan = RunPlan {
        scenarios: vec![
            KeyPlan::custom(4, Spreading::Uniform),
            KeyPlan::custom(8, Spreading::Uniform),
        ],
        ..plan()
    };
    let (mut console, stop) = (Console::silent(), AtomicBool::new(false));
    let mut session = Session::new(&plan, &mut console, &stop);
    let url = TargetUrl::parse(&fake.url()).unwrap();
    session.add(Target::Store(Box::new(Store::attach(&url).unwrap())));
    let mut shown = Vec::new();
    let record = session.run(&mut |now, _| shown.push(now.cells.len()));
    assert_eq!(shown, [1], "{:?}", record.events);
}

#[test]
fn filling_the_keys_is_no_part_of_a_step() {
    let Some(server) = Server::redis(&[]).unwrap() else {
        return peers::skip("filling_the_keys_is_no_part_of_a_step", "redis-server");
    };
    let url = TargetUrl::parse(&format!("redis://{}", server.addr())).unwrap();
    let mut store = Store::attach(&url).unwrap();
    let refused = store.choose(&["get".parse().unwrap()]).unwrap();
    assert!(refused.is_empty(), "{refused:?}");
    let (plan, mut console) = (plan(), Console::silent());
    let stop = AtomicBool::new(false);
    let mut session = Session::new(&plan, &mut console, &stop);
    session.add(Target::Store(Box::new(store)));
    let record = session.run(&mut |_, _| {});
    for step in &record.cells[0].steps {
        let store = step.attribution.as_ref().and_then(|a| a.store.as_ref());
        let commands = store.unwrap().commands.iter();
        let names: Vec<&str> = commands.map(|command| command.name.as_str()).collect();
        // What is counted between the readings is what processor time per request is taken from.
        assert!(
            names.contains(&"get") && !names.contains(&"set"),
            "{names:?}"
        );
    }
}

#[test]
fn an_exact_limiter_is_judged_exact() {
    let server = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let record = run(&plan(), &[&server]);
    assert!(record.complete, "{:?}", record.partial_reason);
    assert_eq!(record.cells.len(), 1);
    let cell = &record.cells[0];
    assert_eq!(
        (cell.steps.len(), cell.operation.name.as_str()),
        (2, "evalsha")
    );
    let accuracy = cell.accuracy.as_ref().unwrap();
    assert!(
        accuracy.never_over() && accuracy.under_admission_percent == 0.0,
        "{accuracy:?}"
    );
    for step in &cell.steps {
        assert!(
            step.allowed > 0 && step.denied > 0,
            "both answers occur: {} {}",
            step.allowed,
            step.denied
        );
        assert_eq!(
            step.planned,
            step.allowed + step.denied + step.failures.total()
        );
    }
}

#[test]
fn one_surplus_admission_per_key_is_caught() {
    let server = FakeServer::start(Behaviour::Limiter { surplus: 1 });
    let record = run(&plan(), &[&server]);
    for step in &record.cells[0].steps {
        let accuracy = step.accuracy.as_ref().unwrap();
        assert!(!accuracy.never_over(), "{accuracy:?}");
        assert_eq!(accuracy.admitted, accuracy.allowed_max + accuracy.keys);
    }
}

/// Every step of a run against a limiter that misbehaves.
fn judged(behaviour: Behaviour) -> Vec<Step> {
    let server = FakeServer::start(behaviour);
    let plan = RunPlan {
        scenarios: vec![KeyPlan::custom(1, Spreading::Single)],
        ladder: Ladder::Fixed(vec![2_000.0]),
        ..plan()
    };
    let mut record = run(&plan, &[&server]);
    assert!(record.complete, "{:?}", record.partial_reason);
    record.cells.remove(0).steps
}

#[test]
fn planted_faults_of_limiters_are_found() {
    // 400 requests over one key with a limit of 200.
    for step in judged(Behaviour::SurplusPercent(1)) {
        let found = step.accuracy.unwrap();
        assert_eq!((found.over_admitted, found.under_admitted), (2, 0));
        assert_eq!(step.validity.grade, Grade::Invalid);
        let reasons = step.validity.reasons.join("; ");
        assert!(reasons.contains("speed does not count"), "{reasons}");
    }
    for step in judged(Behaviour::BeginsAnew(250)) {
        let found = step.accuracy.unwrap();
        assert!(found.over_admitted > 100, "{found:?}");
        assert!(found.worst_window_of_limit().unwrap() > 1.5);
    }
    for step in judged(Behaviour::DoubleCharge) {
        let found = step.accuracy.unwrap();
        assert_eq!((found.over_admitted, found.under_admitted), (0, 100));
        assert!(step.validity.grade >= Grade::Indicative);
    }
    for step in judged(Behaviour::Limiter { surplus: 0 }) {
        let found = step.accuracy.unwrap();
        assert_eq!((found.over_admitted, found.under_admitted), (0, 0));
        assert_eq!(found.exact.unwrap().decisions, found.offered);
    }
}

#[test]
fn a_death_ends_one_ladder_and_not_the_other() {
    let (dying, healthy) = (
        FakeServer::start(Behaviour::DiesAfter(300)),
        FakeServer::start(Behaviour::Limiter { surplus: 0 }),
    );
    let record = run(&plan(), &[&dying, &healthy]);
    assert!(!record.complete && record.partial_reason.is_some());
    assert_eq!(record.events.len(), 1);
    assert_eq!(record.events[0].target.as_deref(), Some("fake-0"));
    let [first, second] = &record.cells[..] else {
        panic!("two cells")
    };
    assert!(
        !first.complete && !first.steps.is_empty(),
        "what was measured is kept"
    );
    assert!(second.complete && second.steps.len() == 2);
}

#[test]
fn a_search_waits_until_the_target_is_well_again() {
    let server = FakeServer::start(Behaviour::SulksAbove(200));
    let plan = RunPlan {
        ladder: Ladder::Fixed(vec![300.0, 6_000.0]),
        deadline: BRIEF,
        ..plan()
    };
    let goal = SearchGoal {
        exceed_ratio: 0.5,
        final_trial_s: 0.3,
        duration_sum_s: 0.9,
        width: 0.3,
        ..SearchGoal::named("slo", &plan.profile).unwrap()
    };
    let settings = CapacitySettings {
        goals: vec![goal],
        rough_trial: Duration::from_millis(300),
        trials_max: 4,
        budget: Duration::from_secs(60),
    };
    let mut console = Console::silent();
    let stop = AtomicBool::new(false);
    let mut session = Session::new(&plan, &mut console, &stop);
    let url = TargetUrl::parse(&server.url()).unwrap();
    session.add(Target::Store(Box::new(Store::attach(&url).unwrap())));
    let record = session.run_job(&Job::Capacity(settings), &mut |_, _| {});
    let cell = &record.cells[0];
    let found = cell.capacity.as_ref().unwrap();
    let believed = found.trials.iter().filter(|trial| trial.counted);
    if believed.filter(|trial| !trial.held()).count() == 0 {
        // A machine on which the generator is always late shows no trial that was too much.
        return;
    }
    let Some(wait) = found.waits.first() else {
        // Nor does a look tell anything there.
        assert_ne!(record.validity.grade, Grade::Valid, "{found:?}");
        return;
    };
    assert!(wait.after_rps > 300.0 && !wait.restarted, "{wait:?}");
    let said = cell
        .notes
        .iter()
        .any(|note| note.starts_with("not well at once after"));
    assert!(said, "{:?}", cell.notes);
}

#[test]
fn a_store_that_was_started_here_is_started_anew_with_its_scripts() {
    let Some(program) = Program::from_name("redis-server").filter(|p| p.locate().is_some()) else {
        return peers::skip(
            "a_store_that_was_started_here_is_started_anew_with_its_scripts",
            "redis-server",
        );
    };
    let mut target = Target::Store(Box::new(Store::start(program, 1, None).unwrap()));
    let ops: Vec<Op> = ["script", "evalsha:gcra", "get"]
        .map(|name| name.parse().unwrap())
        .into();
    assert_eq!(target.choose(&ops).unwrap(), []);
    let (before, address) = (target.pids(), target.endpoint().address.to_string());
    let set = |target: &Target, words: &[&[u8]]| {
        let mut client = Client::connect(target.endpoint()).unwrap();
        client.ask(words).unwrap()
    };
    set(&target, &[b"SET", b"k", b"v"]);
    target.restart().expect("it was started here").unwrap();
    assert_ne!(target.pids(), before);
    assert_eq!(target.endpoint().address.to_string(), address);
    let there = set(&target, &[b"EXISTS", b"k"]);
    assert_eq!(there.as_int(), Some(0));
    // The scripts are there: asked by their names, they decide.
    let rule = Rule {
        limit: 5,
        window_s: 60,
    };
    for way in target.ways() {
        let ask = target.ask(way, rule).unwrap();
        let workload = Workload::render(&ask, "again:", 1);
        let mut client = Client::connect(target.endpoint()).unwrap();
        let frame = client.ask_rendered(workload.request(0)).unwrap();
        let verdict = workload.verdict(&frame);
        assert_ne!(
            verdict,
            Verdict::Error,
            "{}",
            String::from_utf8_lossy(&frame)
        );
    }
    let url = TargetUrl::parse(&format!("redis://{address}")).unwrap();
    let mut attached = Target::Store(Box::new(Store::attach(&url).unwrap()));
    assert!(attached.restart().is_none(), "somebody else's");
}

#[test]
fn a_silent_target_is_given_up() {
    let server = FakeServer::start(Behaviour::Hangs);
    let mut plan = plan();
    plan.warmup = Duration::ZERO;
    plan.deadline = BRIEF;
    let record = run(&plan, &[&server]);
    assert_eq!(record.cells[0].steps.len(), 1);
    assert!(
        record
            .partial_reason
            .as_deref()
            .is_some_and(|why| why.contains("not one answer"))
    );
    assert_eq!(record.cells[0].steps[0].goodput_rps, 0.0);
}

#[test]
fn an_interrupted_run_is_partial_and_not_an_error() {
    let server = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let plan = plan();
    let mut console = Console::silent();
    let stop = AtomicBool::new(true);
    let mut session = Session::new(&plan, &mut console, &stop);
    let url = TargetUrl::parse(&server.url()).unwrap();
    session.add(Target::Store(Box::new(Store::attach(&url).unwrap())));
    let record = session.run(&mut |_, _| {});
    assert_eq!(record.partial_reason.as_deref(), Some("interrupted"));
    assert_eq!(
        (record.events.len(), record.validity.grade),
        (0, Grade::Invalid)
    );
}

#[test]
fn a_closed_loop_takes_connections_as_its_rungs_and_says_so() {
    let server = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let mut plan = plan();
    plan.arrivals = Arrivals::Closed;
    plan.ladder = Ladder::Fixed(vec![1.0, 3.0]);
    plan.depth = 2;
    let record = run(&plan, &[&server]);
    assert!(record.complete, "{:?}", record.partial_reason);
    let cell = &record.cells[0];
    assert!(cell.load.closed_loop && cell.load.arrivals == "closed");
    assert!(
        cell.notes
            .iter()
            .any(|note| note.contains("coordinated omission"))
    );
    let connections: Vec<Option<u32>> = cell.steps.iter().map(|step| step.connections).collect();
    assert_eq!(connections, [Some(1), Some(3)]);
    for step in &cell.steps {
        assert!(step.completed > 0 && step.target_rps > 0.0);
        assert_eq!((step.planned, step.failures.total()), (step.completed, 0));
        let accuracy = step.accuracy.as_ref().expect("the script decides");
        assert!(accuracy.never_over(), "{accuracy:?}");
    }
}

#[test]
fn limits_admit_the_wanted_share() {
    let server = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let mut plan = plan();
    let keys = KeyPlan::custom(4, Spreading::Hot { share: 0.7, hot: 1 });
    plan.scenarios = [1.0, 0.5, 0.02]
        .map(|ratio| keys.clone().admitting(ratio))
        .to_vec();
    let record = run(&plan, &[&server]);
    let ratios: Vec<Option<f64>> = record.cells.iter().map(|cell| cell.admit_ratio).collect();
    assert_eq!(ratios, [Some(1.0), Some(0.5), Some(0.02)]);
    for step in record.cells.iter().flat_map(|cell| &cell.steps) {
        let admit = step.admit.expect("a share was asked for");
        assert!(
            (admit.expected_ratio - admit.wanted_ratio).abs() < 0.02,
            "{admit:?}"
        );
        assert_eq!(step.accuracy.as_ref().unwrap().limit, admit.limit);
        let seen = admit.seen_ratio.expect("answers came");
        assert!((seen - admit.expected_ratio).abs() < 1e-9, "{admit:?}");
    }
}

#[test]
fn rungs_run_in_the_order_asked_for_and_the_warm_up_is_recorded() {
    let server = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let mut plan = plan();
    plan.ladder = Ladder::Fixed(vec![1_000.0, 3_000.0, 2_000.0]);
    plan.step = Some(Duration::from_millis(50));
    plan.order = Some(Order::UpDown);
    plan.steady = Some(Duration::from_millis(1_000));
    let record = run(&plan, &[&server]);
    let cell = &record.cells[0];
    let rates: Vec<f64> = cell.steps.iter().map(|step| step.target_rps).collect();
    assert_eq!(rates, [1_000.0, 2_000.0, 3_000.0, 2_000.0, 1_000.0]);
    assert_eq!(cell.load.order.as_deref(), Some("updown"));
    assert_eq!(
        cell.load.warmup_rule.as_deref(),
        Some("steady, at most 1 s")
    );
    for step in &cell.steps {
        let warm_up = step.warm_up.as_ref().expect("recorded");
        assert!((1..=10).contains(&warm_up.buckets), "{warm_up:?}");
        assert_eq!(warm_up.steady, warm_up.reason.is_empty());
    }
}
