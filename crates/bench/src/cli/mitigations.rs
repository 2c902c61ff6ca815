//! `bench mitigations`: options of the comparison of strategies for hot keys, and what it starts.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::args::RunArgs;
use super::command::own;
use super::gather::{FLEET_NAME, attach, boxed, service_threads};
use crate::os::interrupt;
use crate::record::MitigationsRecord;
use crate::run::mitigations::MitigationSettings;
use crate::run::plan::RunPlan;
use crate::run::session::Session;
use crate::target::fleet::SERVICES_MAX;
use crate::target::further;
use crate::target::program::Program;
use crate::target::service::Service;
use crate::target::strategy::{Strategy, rules_yaml};
use crate::target::url::{Protocol, TargetUrl};
use crate::target::{Arm, Fleet, Further};

/// The scenario unless another one is named.
const SCENARIO: &str = "hundred-keys-hot";
/// Length of a step unless `--step` gives one.
const STEP: Duration = Duration::from_secs(1);

/// Options of the comparison.
#[derive(Args, Debug)]
#[command(
    after_help = super::examples::MITIGATIONS,
    mut_arg("step", |arg| arg.help("Length of a step [default: 1s]")),
    mut_arg("scenario", |arg| arg.help("Scenarios, as for the main run; comma separated [default: hundred-keys-hot]")),
    mut_arg("ladder", |arg| arg.help("Offered rates of all strategies, the lowest of them in all rounds [default: half of what the slowest can do, then shares of what each can do]")),
    mut_arg("targets", |arg| arg.help("A further service with the rules of 'tollgate bench rules', held to its limits: NAME=grpc://HOST:PORT or NAME=http://HOST:PORT/PATH; repeatable")),
    mut_arg("only", |arg| arg.hide(true)),
    mut_arg("server_args", |arg| arg.help("Additional arguments for the store (by its name) or the services that share it (services=WORDS), such as 'services=--threads 2'; NAME=VALUE before the arguments sets environment variables; repeatable; recorded with their command lines")),
    mut_arg("order", |arg| arg.hide(true)),
    mut_arg("starts", |arg| arg.help("Fresh starts of all services and their store, the strategies in turn forwards and backwards; 5 or more for a claim")),
)]
pub struct MitigationsArgs {
    /// Strategies: exact, denial-cache, local:PERCENT, shards:NUMBER, write-behind:MILLISECONDS, probabilistic:ONE_IN, batch:SIZE, embedded (one service on its own store); comma separated [default: exact, denial-cache, local:25, shards:2, 4 and 8, write-behind:10, 50 and 100, probabilistic:2 and 10, batch:10, embedded]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub strategies: Vec<Strategy>,
    /// The store that the services share: redis-server, tollgate, valkey-server, dragonfly, keydb-server, garnet-server or a redis:// URL
    #[arg(long, default_value = "redis-server", value_name = "STORE")]
    pub store: String,
    /// Services that share it; connections are spread over them. A single one never admits too many
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=i64::from(SERVICES_MAX)))]
    pub services: u32,
    /// Steps of each strategy at the load that all are offered; costs are their medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Scenario and load, as for the main run
    #[command(flatten)]
    pub run: RunArgs,
}

impl MitigationsArgs {
    /// Fills in what is different from the main run.
    #[must_use]
    pub(crate) fn with_defaults(mut self) -> MitigationsArgs {
        let run = &mut self.run;
        if run.scenario.is_empty() && run.keys.is_none() && run.dist.is_none() {
            run.scenario = vec![SCENARIO.into()];
        }
        run.step.get_or_insert(STEP);
        if self.strategies.is_empty() {
            self.strategies = Strategy::DEFAULT.to_vec();
        }
        self
    }

    /// What to compare.
    pub(crate) fn settings(&self) -> Result<MitigationSettings, String> {
        if !self.run.only.is_empty() {
            return Err("--only names systems of the main run: give --strategies here".into());
        }
        if !self.run.load.ops.is_empty() {
            return Err("--op is for stores: services are asked for decisions".into());
        }
        for (at, strategy) in self.strategies.iter().enumerate() {
            if self.strategies[..at].contains(strategy) {
                return Err(format!("--strategies: {strategy} is named twice"));
            }
            if let Some(why) = strategy.refusal(self.services) {
                return Err(format!("--strategies: {why}"));
            }
        }
        if self.store.contains("://") {
            own(&TargetUrl::parse(&self.store)?, self.run.i_own_this_target)?;
        }
        Ok(MitigationSettings {
            strategies: self.strategies.clone(),
            store: self.store.clone(),
            services: self.services,
            rounds: self.rounds,
        })
    }
}

/// Starts the services and their store, and adds an arm for each strategy and each further service.
pub(super) fn gather_arms(
    args: &RunArgs,
    urls: &[TargetUrl],
    plan: &RunPlan,
    settings: &MitigationSettings,
    session: &mut Session<'_>,
) {
    let threads = service_threads(plan);
    let shared: Vec<Strategy> = settings
        .strategies
        .iter()
        .copied()
        .filter(|strategy| *strategy != Strategy::Embedded)
        .collect();
    let mut found = MitigationsRecord {
        services: settings.services,
        ..MitigationsRecord::default()
    };
    let mut fleet = None;
    let of_services = further::of(&args.server_args, &[FLEET_NAME]);
    if !shared.is_empty() {
        let count = settings.services;
        let core = plan.target_core;
        let of_store = Further::arguments(store_settings(args, &settings.store))
            .and(further::of(&args.server_args, &[&settings.store]));
        let further = [&of_store, &of_services];
        match Fleet::start(&settings.store, &shared, count, threads, core, further) {
            Ok(started) => {
                found.store = started.store.record.clone();
                fleet = Some(Arc::new(started));
            }
            Err(why) => session.lost("the services on a shared store", why),
        }
    }
    session.on_fleet(found);
    for strategy in &settings.strategies {
        if interrupt::asked() {
            return;
        }
        match (strategy, &fleet) {
            (Strategy::Embedded, _) => match embedded(threads, plan.target_core, &of_services) {
                Ok(service) => session.add(boxed(service)),
                Err(why) => session.lost(&strategy.to_string(), why),
            },
            (_, Some(fleet)) => {
                session.add(boxed(fleet.arm(*strategy, settings.services, threads)));
            }
            (_, None) => {}
        }
    }
    for url in urls {
        let target = match url.protocol {
            Protocol::Grpc | Protocol::Http => attach(args, url),
            _ => Err("a service is compared with services: give grpc:// or http://".into()),
        };
        match target {
            Ok(target) => session.add(target),
            Err(why) => session.lost(&url.name, why),
        }
    }
}

/// Arguments of a store called `name` that is started here.
fn store_settings(args: &RunArgs, name: &str) -> Vec<String> {
    Program::from_name(name)
        .map(|program| args.store_settings.arguments(program))
        .unwrap_or_default()
}

/// One service on its own store.
fn embedded(threads: u32, core: Option<usize>, further: &Further) -> Result<Service, String> {
    let strategy = Strategy::Embedded;
    let arm = Arm {
        strategy,
        services: 1,
        threads,
        fleet: None,
    };
    let rules = rules_yaml(&[strategy], 1);
    Service::start_arm(&strategy.to_string(), &rules, threads, core, arm, further)
}
