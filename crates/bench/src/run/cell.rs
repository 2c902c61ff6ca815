//! What a cell of the record says before and after its steps: what is asked, and whether the answers were right.

use super::plan::{KeyPlan, RunPlan};
use crate::load::tally::Tally;
use crate::load::workload::{Ask, Rule};
use crate::oracle::{self, Promise, Seen, Windows};
use crate::record::{Accuracy, Cell, Operation};
use crate::target::service::WINDOW_S;
use crate::target::{Target, Way};

/// Most bytes of requests that are rendered before a step.
const RENDERED_MAX: u64 = 1 << 30;

/// Refuses operations that cannot be asked of so many keys.
pub(super) fn check_keys(ask: Option<&Ask>, keys: u32) -> Result<(), String> {
    let Some(ask) = ask else { return Ok(()) };
    if let Ask::Plain(plain) = ask
        && let Some(most) = plain.keys_max.filter(|most| keys > *most)
    {
        return Err(format!(
            "{} reads long values, which are written to {most} keys at most: give --keys {most} or fewer",
            plain.title
        ));
    }
    let mut one = Vec::new();
    ask.write(&mut one, b"a-prefix:1000000");
    let bytes = one.len() as u64 * u64::from(keys);
    if bytes > RENDERED_MAX {
        return Err(format!(
            "the requests of {keys} keys would take {} MiB: give fewer keys or a shorter request",
            bytes >> 20
        ));
    }
    Ok(())
}

/// What a target is asked in `way`.
pub(super) fn operation(plan: &RunPlan, target: &Target, way: Way) -> Operation {
    let window_s = if way.is_service() {
        WINDOW_S
    } else {
        plan.window_s
    };
    let rule = Rule { limit: 0, window_s };
    match target.ask(way, rule) {
        Some(ask) => Operation {
            name: ask.name().into(),
            title: ask.title().into(),
            like_for_like: matches!(way, Way::Script | Way::Op(_))
                && matches!(target, Target::Store(_)),
            algorithm: ask.algorithm().into(),
            limit: None,
            window_ms: ask.rule().map(|_| window_s * 1000),
        },
        None => Operation {
            name: "grpc-rls".into(),
            title: "gRPC ShouldRateLimit".into(),
            like_for_like: false,
            algorithm: "fixed-window".into(),
            limit: None,
            window_ms: Some(WINDOW_S * 1000),
        },
    }
}

/// How limits are chosen by default.
const NOTE: &str = "the limit of each step is near half of what its most wanted key is offered, so that both allowed \
                    and denied answers occur";
/// What a closed loop cannot show.
pub(super) const CLOSED_NOTE: &str = "closed loop: a connection asks again only when it has been answered, so a stall of the target \
                    delays the questions instead of the answers (coordinated omission); latencies must not be \
                    compared with those of an open loop";

/// A cell without steps.
pub(super) fn empty(plan: &RunPlan, scenario: &KeyPlan, target: &Target, way: Way) -> Cell {
    let mut notes = vec![match scenario.admit {
        Some(ratio) => format!(
            "the limit of each step is the one that comes nearest to admitting {}% of what is offered",
            ratio * 100.0
        ),
        None => NOTE.into(),
    }];
    if plan.is_closed() {
        notes.push(CLOSED_NOTE.into());
    }
    Cell {
        target: target.record().name.clone(),
        scenario: scenario.record(),
        operation: operation(plan, target, way),
        load: plan.load(way, scenario),
        notes,
        admit_ratio: scenario.admit,
        ..Cell::default()
    }
}

/// How the requests of a step were made.
pub(super) struct Asked<'a> {
    pub(super) way: Way,
    pub(super) rule: Rule,
    /// Whether the target reads the clock of this machine.
    pub(super) same_clock: bool,
    pub(super) prefix: &'a str,
}

/// The oracle's judgement of a step.
pub(super) fn accuracy(
    scenario: &KeyPlan,
    operation: &Operation,
    asked: &Asked<'_>,
    tally: &Tally,
) -> Option<Accuracy> {
    let algorithm = operation.algorithm.as_str();
    // The rules of a service count in windows of the calendar, which are known only where its clock is.
    let name = match (asked.way, algorithm) {
        (Way::Grpc | Way::Http, "fixed-window") => "fixed-window-epoch",
        (_, name) => name,
    };
    let unix_at_zero_ns = tally
        .decisions
        .unix_at_zero_ns()
        .filter(|_| asked.same_clock);
    let last_ns = tally.keys.iter().map(|key| key.last_received_ns).max();
    let promise = Promise {
        algorithm,
        rule: asked.rule,
        windows: Windows::named(name, asked.rule, unix_at_zero_ns, last_ns.unwrap_or(0))?,
    };
    let seen = Seen {
        keys: &tally.keys,
        decisions: &tally.decisions,
        spreading: scenario.spreading,
        prefix: asked.prefix,
    };
    oracle::judge(&promise, &seen)
}

/// A target and how it is asked, for the progress line.
pub(super) fn describe(target: &Target, way: Way) -> String {
    let name = &target.record().name;
    match target.ask(
        way,
        Rule {
            limit: 1,
            window_s: 1,
        },
    ) {
        Some(ask) => format!("{name} {}", ask.title()),
        None => format!("{name} gRPC"),
    }
}
