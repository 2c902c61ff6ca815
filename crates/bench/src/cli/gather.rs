//! Starts or attaches what is to be measured.

use super::args::RunArgs;
use crate::os::{cpu, interrupt};
use crate::record::Severity;
use crate::run::plan::RunPlan;
use crate::run::session::{Job, Session};
use crate::target::further;
use crate::target::program::Program;
use crate::target::url::{Protocol, TargetUrl};
use crate::target::{Further, Memcached, Service, Store, Target};

/// Name under which Tollgate's service is started and asked over gRPC.
pub(super) const GRPC_NAME: &str = "tollgate-grpc";
/// Why systems that nobody named are not measured.
const NOT_INSTALLED: &str = "not installed; --only NAME tells where to get one";
/// Name of the services that share a store, in the comparison of strategies for hot keys.
pub(super) const FLEET_NAME: &str = "services";
/// Name under which it is started and asked over HTTP.
const HTTP_NAME: &str = "tollgate-http";

/// Refuses names that are none of a system that can be started.
pub(super) fn check_names(names: &[String]) -> Result<(), String> {
    let known =
        |name: &str| [GRPC_NAME, HTTP_NAME].contains(&name) || Program::from_name(name).is_some();
    match names.iter().find(|name| !known(name)) {
        Some(name) => Err(format!(
            "'{name}' is not a system: give {}, {GRPC_NAME}, {HTTP_NAME} or {}",
            Program::stores(),
            Program::Memcached.name()
        )),
        None => Ok(()),
    }
}

/// Refuses systems of one name: nobody could tell their rows apart.
pub(super) fn check_apart(only: &[String], urls: &[TargetUrl]) -> Result<(), String> {
    let names: Vec<&String> = only
        .iter()
        .chain(urls.iter().map(|url| &url.name))
        .collect();
    let twice = (1..names.len()).find(|at| names[..*at].contains(&names[*at]));
    twice.map_or(Ok(()), |at| {
        Err(format!(
            "two systems are called '{}': give each a name of its own, NAME=URL",
            names[at]
        ))
    })
}

/// Refuses words for servers that this run does not start.
pub(super) fn check_server_args(args: &RunArgs, job: &Job) -> Result<(), String> {
    let all = [Program::Tollgate]
        .into_iter()
        .chain(Program::PEERS)
        .map(Program::name)
        .chain([GRPC_NAME, HTTP_NAME]);
    let started: Vec<&str> = match job {
        Job::Mitigations(settings) if settings.store.contains("://") => vec![FLEET_NAME],
        Job::Mitigations(settings) => vec![FLEET_NAME, &settings.store],
        _ if args.only.is_empty() && !args.targets.is_empty() => Vec::new(),
        _ if args.only.is_empty() => all.collect(),
        _ => args.only.iter().map(String::as_str).collect(),
    };
    further::check(&args.server_args, &started)
}

/// Starts or attaches what `args` name; without a name everything that is installed.
pub(super) fn gather(
    args: &RunArgs,
    urls: &[TargetUrl],
    plan: &RunPlan,
    session: &mut Session<'_>,
) {
    let by_default = args.only.is_empty() && urls.is_empty();
    let wanted = |name: &str| args.only.iter().any(|only| only == name);
    let threads = service_threads(plan);
    let mut missing: Vec<&str> = Vec::new();
    for program in [Program::Tollgate].into_iter().chain(Program::PEERS) {
        let name = program.name();
        // What counts instead of limiting ranks beside nothing: its ladders would only lengthen every run.
        let unasked = by_default && program.speaks_resp();
        if !(unasked || wanted(name)) || interrupt::asked() {
            continue;
        }
        if program.locate().is_none() {
            match unasked {
                true if program.is_missed() => missing.push(name),
                true => {}
                false => session.skip(name, program.hint().into()),
            }
            continue;
        }
        let count = program.threads(threads);
        let clustered = args.load.ops.iter().any(|op| op.of_cluster());
        let node = if clustered {
            program.as_cluster_node()
        } else {
            Vec::new()
        };
        let further = Further::arguments(args.store_settings.arguments(program))
            .and(Further::arguments(node))
            .and(further::of(&args.server_args, &[name]));
        let target = if program.speaks_resp() {
            Store::start_with(program, count, plan.target_core, &further)
                .and_then(|mut store| match clustered {
                    true => store.serve_all_slots().map(|()| store),
                    false => Ok(store),
                })
                .map(|store| Target::Store(Box::new(store)))
        } else {
            Memcached::start(count, plan.target_core, &further)
                .map(|server| Target::Memcached(Box::new(server)))
        };
        take(args, name, target, session);
    }
    if !missing.is_empty() {
        session.skip(&missing.join(", "), NOT_INSTALLED.into());
    }
    let service = |name: &str| (by_default || wanted(name)) && !interrupt::asked();
    if service(GRPC_NAME) {
        let further = further::of(&args.server_args, &[GRPC_NAME]);
        let target = Service::start(threads, plan.target_core, &further);
        take(args, GRPC_NAME, target.map(boxed), session);
    }
    if service(HTTP_NAME) {
        let further = further::of(&args.server_args, &[HTTP_NAME]);
        let target = Service::start_http(threads, plan.target_core, &args.load.http(), &further);
        take(args, HTTP_NAME, target.map(boxed), session);
    }
    for url in urls {
        take(args, &url.name, attach(args, url), session);
    }
}

/// A service as a target.
pub(super) fn boxed(service: Service) -> Target {
    Target::Service(Box::new(service))
}

/// What runs at `url`.
pub(super) fn attach(args: &RunArgs, url: &TargetUrl) -> Result<Target, String> {
    match url.protocol {
        Protocol::Grpc => Service::attach(url).map(boxed),
        Protocol::Http => Service::attach_http(url, &args.load.http()).map(boxed),
        Protocol::Memcache => {
            Memcached::attach(url).map(|server| Target::Memcached(Box::new(server)))
        }
        Protocol::Resp => {
            let mut store = Store::attach(url)?;
            if args.flush && !url.endpoint.address.is_local() {
                return Err("--flush empties stores of this machine only".into());
            }
            if args.flush {
                store.flush()?;
            }
            Ok(Target::Store(Box::new(store)))
        }
    }
}

/// Threads of a service started here.
pub(super) fn service_threads(plan: &RunPlan) -> u32 {
    match plan.target_core {
        Some(_) => 1,
        None => cpu::count() as u32,
    }
}

/// Chooses the operations of `target` and adds it, or says why it is not measured.
fn take(args: &RunArgs, name: &str, target: Result<Target, String>, session: &mut Session<'_>) {
    let mut target = match target {
        Ok(target) => target,
        Err(why) => return session.lost(name, why),
    };
    if let Target::Store(store) = &target
        && let Some(keys) = store.keys_before.filter(|keys| *keys > 0)
    {
        let text =
            format!("it holds {keys} keys already, which stay as they are (--flush deletes them)");
        session.event(Severity::Info, Some(name), text);
    }
    if !args.load.ops.is_empty() {
        match target.choose(&args.load.ops) {
            Ok(missing) => {
                for (op, why) in missing {
                    session.skip(&format!("{name} {}", op.name()), why);
                }
            }
            Err(why) => return session.lost(name, why),
        }
        if target.ways().is_empty() {
            return;
        }
    }
    session.add(target);
}
