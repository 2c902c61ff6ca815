//! CLIENT TRACKING, CACHING, GETREDIR and TRACKINGINFO.

use super::NodeRunner;
use crate::client::Client;
use std::collections::BTreeSet;
use std::sync::Arc;
use tollgate_commands::{CmdError, Reply};
use tollgate_engine::{Engine, NodeCx, Session, Subscriber, TrackingOptions};

/// The words of CLIENT TRACKING.
#[derive(Default)]
struct Wanted<'a> {
    options: TrackingOptions,
    prefixes: Vec<&'a [u8]>,
}

fn parse<'a>(runner: &NodeRunner<'_>, cx: &mut NodeCx<'a>) -> Result<Wanted<'a>, CmdError> {
    let mut wanted = Wanted::default();
    while !cx.args.is_empty() {
        let options = &mut wanted.options;
        let has_value = cx.args.len() > 1;
        if has_value && cx.args.keyword("REDIRECT") {
            if options.redirect.is_some() {
                return Err(CmdError::RedirectTwice);
            }
            let target = u64::try_from(cx.args.int()?)
                .ok()
                .and_then(|id| runner.shared.clients.get(id))
                .ok_or(CmdError::NoRedirectTarget)?;
            options.redirect = Some(target as Arc<dyn Subscriber>);
        } else if cx.args.keyword("BCAST") {
            options.broadcast = true;
        } else if cx.args.keyword("OPTIN") {
            options.opt_in = true;
        } else if cx.args.keyword("OPTOUT") {
            options.opt_out = true;
        } else if cx.args.keyword("NOLOOP") {
            options.no_loop = true;
        } else if has_value && cx.args.keyword("PREFIX") {
            wanted.prefixes.push(cx.args.next()?);
        } else {
            return Err(CmdError::Syntax);
        }
    }
    Ok(wanted)
}

pub(super) fn tracking(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let switch = cx.args.next()?;
    let wanted = parse(runner, cx)?;
    if switch.eq_ignore_ascii_case(b"OFF") {
        stop(cx.engine, runner.client, cx.session);
        return Ok(Reply::Ok);
    }
    if !switch.eq_ignore_ascii_case(b"ON") {
        return Err(CmdError::Syntax);
    }
    let Wanted { options, prefixes } = wanted;
    if !options.broadcast && !prefixes.is_empty() {
        return Err(CmdError::PrefixWithoutBroadcast);
    }
    let current = cx.session.tracker.as_ref().map(|tracker| tracker.options());
    if current.is_some_and(|current| current.broadcast != options.broadcast) {
        return Err(CmdError::BroadcastSwitched);
    }
    if options.broadcast && (options.opt_in || options.opt_out) {
        return Err(CmdError::BroadcastWithOptions);
    }
    if options.opt_in && options.opt_out {
        return Err(CmdError::OptInAndOut);
    }
    if current.is_some_and(|current| {
        options.opt_in && current.opt_out || options.opt_out && current.opt_in
    }) {
        return Err(CmdError::OptSwitched);
    }
    let mut all = runner.client.tracked_prefixes();
    if options.broadcast {
        check_prefixes(&all, &prefixes)?;
        all.extend(prefixes.iter().map(|&prefix| Box::from(prefix)));
        if prefixes.is_empty() {
            all.insert(Box::default());
        }
    }
    // The protocol must be known to whoever sends an invalidation.
    runner.client.publish_session(cx.session);
    let me: Arc<dyn Subscriber> = Arc::clone(runner.client) as _;
    let tracker = cx.engine.track(me, options, &prefixes);
    runner.client.set_tracked(Some(Arc::clone(&tracker)), all);
    cx.session.tracker = Some(tracker);
    Ok(Reply::Ok)
}

/// No prefix of a client may begin with another one: it would be told twice.
fn check_prefixes(existing: &BTreeSet<Box<[u8]>>, new: &[&[u8]]) -> Result<(), CmdError> {
    let overlap = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    let error = |prefix: &[u8], kind: &str, other: &[u8]| {
        let kind = format!("' overlaps with {kind} prefix '");
        let end = b"'. Prefixes for a single client must not overlap.";
        Err(CmdError::err(
            [b"Prefix '", prefix, kind.as_bytes(), other, end].concat(),
        ))
    };
    for (at, prefix) in new.iter().enumerate() {
        if let Some(other) = existing.iter().find(|other| overlap(other, prefix)) {
            return error(prefix, "an existing", other);
        }
        if let Some(other) = new[at + 1..].iter().find(|other| overlap(other, prefix)) {
            return error(prefix, "another provided", other);
        }
    }
    Ok(())
}

/// Ends tracking.
pub(crate) fn stop(engine: &Engine, client: &Client, session: &mut Session) {
    if session.tracker.take().is_some() {
        let prefixes: Vec<_> = client.tracked_prefixes().into_iter().collect();
        engine.untrack(client.id, &prefixes);
        client.set_tracked(None, BTreeSet::new());
    }
}

pub(super) fn caching(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let Some(tracker) = &cx.session.tracker else {
        return Err(CmdError::CachingWithoutOptions);
    };
    let options = tracker.options();
    if cx.args.keyword("YES") {
        if !options.opt_in {
            return Err(CmdError::CachingYesWithoutOptIn);
        }
    } else if cx.args.keyword("NO") {
        if !options.opt_out {
            return Err(CmdError::CachingNoWithoutOptOut);
        }
    } else {
        return Err(CmdError::Syntax);
    }
    tracker.set_caching(true);
    Ok(Reply::Ok)
}

pub(super) fn get_redirect(cx: &NodeCx<'_>) -> Reply {
    Reply::Int(cx.session.tracker.as_ref().map_or(-1, |tracker| {
        let target = tracker.options().redirect.as_ref();
        target.map_or(0, |target| target.id() as i64)
    }))
}

pub(super) fn tracking_info(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Reply {
    let mut flags = Vec::new();
    match &cx.session.tracker {
        None => flags.push("off"),
        Some(tracker) => {
            let options = tracker.options();
            let caching = tracker.is_caching();
            for (flag, is_set) in [
                ("on", true),
                ("bcast", options.broadcast),
                ("optin", options.opt_in),
                ("caching-yes", options.opt_in && caching),
                ("optout", options.opt_out),
                ("caching-no", options.opt_out && caching),
                ("noloop", options.no_loop),
                ("broken_redirect", tracker.is_broken()),
            ] {
                if is_set {
                    flags.push(flag);
                }
            }
        }
    }
    let redirect = get_redirect(cx);
    let out = &mut *cx.out;
    out.map(3);
    out.bulk(b"flags");
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag.as_bytes()));
    out.bulk(b"redirect");
    redirect.write(out);
    out.bulk(b"prefixes");
    let prefixes = runner.client.tracked_prefixes();
    out.array(prefixes.len());
    prefixes.iter().for_each(|prefix| out.bulk(prefix));
    Reply::Written
}
