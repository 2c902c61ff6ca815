//! A rule's `rate_limit`: the keys of envoyproxy/ratelimit, and those of our own beside them.

use tollgate_limiter::calendar::{Calendar, CalendarUnit, Zone};
use tollgate_limiter::{ALGORITHMS, AlgorithmKind, Method, Nanos, Quota};

use crate::bound::{Bound, Fallback, MAX_LIMITS, OnError, WHOLE_PPM};
use crate::found::Found;
use crate::hot_key::{HotKey, hot_key_of};
use crate::inherit::Inherit;
use crate::load::{bool_of, fields, fields_noting, flag, not_a_map, text_of, u32_of, wrong_type};
use crate::period;
use crate::ruleset::{Limit, NamedBound, Rate};
use crate::unit::Unit;
use crate::yaml::{self, Kind, Node, YamlError};

/// How long a lease lasts where the rule does not say.
const LEASE_DEFAULT: Nanos = 60_000_000_000;

pub(crate) const RATE_LIMIT_KEYS: &[&str] = &[
    "unlimited",
    "name",
    "replaces",
    "limits",
    "on_error",
    "inherit",
    "exact",
    "hot_key",
    "unit",
    "requests_per_unit",
    "algorithm",
    "burst",
    "period",
    "zone",
    "concurrency",
    "lease",
];
const LIMIT_KEYS: &[&str] = &[
    "name",
    "unit",
    "requests_per_unit",
    "algorithm",
    "burst",
    "period",
    "zone",
    "concurrency",
    "lease",
];
const ON_ERROR_KEYS: &[&str] = &["mode", "share", "budget"];
const REPLACES_KEYS: &[&str] = &["name"];

/// The keys that say one limit.
#[derive(Clone, Copy)]
struct Said<'a> {
    unit: Option<&'a Node>,
    requests: Option<&'a Node>,
    algorithm: Option<&'a Node>,
    burst: Option<&'a Node>,
    period: Option<&'a Node>,
    zone: Option<&'a Node>,
    concurrency: Option<&'a Node>,
    lease: Option<&'a Node>,
}

impl<'a> Said<'a> {
    /// The first key that is given and not one of envoyproxy/ratelimit's, and its node.
    fn first_own(&self) -> Option<(&'static str, &'a Node)> {
        let own = [
            ("algorithm", self.algorithm),
            ("burst", self.burst),
            ("period", self.period),
            ("zone", self.zone),
            ("concurrency", self.concurrency),
            ("lease", self.lease),
        ];
        own.into_iter()
            .find_map(|(name, node)| Some((name, given(node)?)))
    }

    /// Whether something else says in which time is counted.
    fn needs_no_unit(&self) -> bool {
        [self.period, self.concurrency, self.lease]
            .into_iter()
            .any(|node| given(node).is_some())
    }
}

/// The limit, unless something is wrong with it. A key that is not known may be what is missing elsewhere, so that nothing is
/// missed beside one.
pub(crate) fn rate_limit_of(node: &Node, found: &mut Found) -> Option<Limit> {
    let before = found.len();
    let [
        unlimited,
        name,
        replaces,
        limits,
        on_error,
        inherit,
        exact,
        hot_key,
        unit,
        requests,
        algorithm,
        burst,
        period,
        zone,
        concurrency,
        lease,
    ] = fields_noting(node, RATE_LIMIT_KEYS, "rate_limit", found)?;
    let is_complete = found.len() == before;
    let said = Said {
        unit,
        requests,
        algorithm,
        burst,
        period,
        zone,
        concurrency,
        lease,
    };
    let name = name.map_or(Ok(""), |node| text_of(node, "name"));
    let name = found.keep(name).unwrap_or_default();
    let [limits, on_error, inherit, exact, hot_key] =
        [limits, on_error, inherit, exact, hot_key].map(given);
    let unlimited = flag(unlimited, "unlimited", found);
    // Of several mistakes envoyproxy/ratelimit tells that of the unit, then that of `replaces`; ours come behind.
    if is_complete || given(unit).is_some() {
        found.keep(right_unit(node, said, unlimited, limits.is_some()));
    }
    let replaces = found.keep(replaces_of(replaces, name));
    let rate = if unlimited {
        let own = [limits, on_error, inherit, exact, hot_key];
        found.keep(stands_alone(own, said));
        Some(Rate::Unlimited)
    } else {
        let bounds = match limits {
            Some(list) => limits_beside(said, list, found),
            None => bound_of(node, said, is_complete, found).map(|bound| only(name, bound)),
        };
        all_with(bounds, inherit, exact, found).map(Rate::Limited)
    };
    let hot_key = match (hot_key, &rate) {
        (Some(node), Some(Rate::Limited(bounds))) => found.keep(hot_key_of(node, bounds)),
        _ => Some(HotKey::Exact),
    };
    let on_error = found.keep(on_error.map_or(Ok(OnError::DEFAULT), on_error_of));
    let limit = Limit {
        name: name.into(),
        replaces: replaces?,
        hot_key: hot_key?,
        on_error: on_error?,
        ..Limit::new(rate?)
    };
    (found.len() == before).then_some(limit)
}

/// The bounds of a list, beside which nothing else is said.
fn limits_beside(said: Said<'_>, list: &Node, found: &mut Found) -> Option<Box<[NamedBound]>> {
    found.keep(nothing_beside_limits(said));
    limits_of(list, found)
}

/// The bounds of a limit with one, which has its name.
fn only(name: &str, bound: Bound) -> Box<[NamedBound]> {
    Box::new([NamedBound {
        name: name.into(),
        bound,
        previous: None,
    }])
}

/// The bounds with what is said for all of them, which is looked at without bounds, too.
fn all_with(
    mut bounds: Option<Box<[NamedBound]>>,
    inherit: Option<&Node>,
    exact: Option<&Node>,
    found: &mut Found,
) -> Option<Box<[NamedBound]>> {
    let all = bounds.as_deref_mut().unwrap_or_default();
    apply_to_all(all, inherit, exact, found);
    bounds
}

/// Refuses a unit beside `unlimited`, and none that is valid where nothing else says in which time is counted.
fn right_unit(
    node: &Node,
    said: Said<'_>,
    unlimited: bool,
    has_limits: bool,
) -> Result<(), YamlError> {
    match given(said.unit) {
        Some(unit) if unlimited => {
            let reason = "should not specify rate limit unit when unlimited";
            Err(YamlError::new(unit.line, reason))
        }
        _ if unlimited || has_limits || said.needs_no_unit() => Ok(()),
        _ => unit_of(node, said).map(drop),
    }
}

/// Refuses what else is said beside `unlimited`: the keys of the rule, which are `own`, then those of a limit.
fn stands_alone(own: [Option<&Node>; 5], said: Said<'_>) -> Result<(), YamlError> {
    const NAMES: [&str; 5] = ["limits", "on_error", "inherit", "exact", "hot_key"];
    let own = NAMES.into_iter().zip(own);
    let own = own.filter_map(|(key, node)| Some((key, node?))).next();
    match own.or(said.first_own()) {
        Some((key, node)) => {
            let reason = format!("should not specify {key} when unlimited");
            Err(YamlError::new(node.line, reason))
        }
        None => Ok(()),
    }
}

/// Refuses a limit's own keys beside a list of limits.
fn nothing_beside_limits(said: Said<'_>) -> Result<(), YamlError> {
    let envoy = [
        ("unit", given(said.unit)),
        ("requests_per_unit", given(said.requests)),
    ];
    let beside = envoy.into_iter().find_map(|(key, node)| Some((key, node?)));
    match beside.or(said.first_own()) {
        Some((key, node)) => {
            let reason = format!("{key} cannot be next to limits: it belongs in one of them");
            Err(YamlError::new(node.line, reason))
        }
        None => Ok(()),
    }
}

/// What holds for every limit of a rule.
fn apply_to_all(
    bounds: &mut [NamedBound],
    inherit: Option<&Node>,
    exact: Option<&Node>,
    found: &mut Found,
) {
    let places = |named: &NamedBound| named.bound.method == Method::Concurrency;
    let are_places = !bounds.is_empty() && bounds.iter().all(places);
    let inherit = match inherit {
        Some(node) if are_places => {
            let reason = "inherit cannot be combined with concurrency, whose places stay in use whatever the limit";
            found.note(YamlError::new(node.line, reason));
            None
        }
        Some(node) => found.keep(one_of(node, "inherit", &Inherit::ALL, Inherit::name)),
        None => None,
    };
    let exact = exact.map_or(Ok(false), |node| bool_of(node, "exact"));
    let exact = found.keep(exact).unwrap_or_default();
    for NamedBound { bound, .. } in bounds {
        bound.exact = exact;
        bound.inherit = inherit;
    }
}

/// Several limits that are decided at once.
fn limits_of(list: &Node, found: &mut Found) -> Option<Box<[NamedBound]>> {
    let Kind::List(items) = &list.kind else {
        found.note(wrong_type(list, "limits", "a list"));
        return None;
    };
    if items.is_empty() || items.len() > MAX_LIMITS {
        let reason = format!("limits must have 1 to {MAX_LIMITS} entries");
        found.note(YamlError::new(list.line, reason));
        return None;
    }
    let before = found.len();
    let mut bounds: Vec<NamedBound> = Vec::with_capacity(items.len());
    for item in items {
        if !matches!(item.kind, Kind::Map(_)) {
            found.note(not_a_map(item));
            continue;
        }
        let known = found.len();
        let [
            name,
            unit,
            requests,
            algorithm,
            burst,
            period,
            zone,
            concurrency,
            lease,
        ] = fields_noting(item, LIMIT_KEYS, "limits", found)?;
        let is_complete = found.len() == known;
        let said = Said {
            unit,
            requests,
            algorithm,
            burst,
            period,
            zone,
            concurrency,
            lease,
        };
        let bound = bound_of(item, said, is_complete, found);
        let tag = bound.as_ref().map(Bound::tag);
        if bounds.iter().any(|other| Some(other.bound.tag()) == tag) {
            let reason = "two limits of one rule have the same algorithm and period";
            found.note(YamlError::new(item.line, reason));
        }
        let name = found.keep(name.map_or(Ok(""), |node| text_of(node, "name")));
        let (Some(bound), Some(name)) = (bound, name) else {
            continue;
        };
        let name = name.into();
        bounds.push(NamedBound {
            name,
            bound,
            previous: None,
        });
    }
    (found.len() == before).then(|| bounds.into())
}

/// One limit; `is_complete` says that nothing stands there which may have been meant for what is missing. Where only the keys of envoyproxy/ratelimit are given, its messages are given too.
fn bound_of(node: &Node, said: Said<'_>, is_complete: bool, found: &mut Found) -> Option<Bound> {
    if let Some(limit) = given(said.concurrency) {
        return found.keep(concurrency_of(limit, said));
    }
    if let Some(lease) = given(said.lease) {
        let reason = "lease needs concurrency";
        found.note(YamlError::new(lease.line, reason));
        return None;
    }
    let has_window = given(said.unit).or(given(said.period)).is_some();
    let window = match is_complete || has_window {
        true => found.keep(window_of(node, said)),
        false => None,
    };
    let requests = match given(said.requests) {
        Some(requests) => found.keep(u32_of(requests, "requests_per_unit")),
        None => {
            if is_complete {
                let reason = "rate_limit has no requests_per_unit";
                found.note(YamlError::new(node.line, reason));
            }
            None
        }
    };
    let method = match given(said.algorithm) {
        Some(node) => found.keep(method_of(node)).map(Some),
        None => Some(None),
    };
    let bound = match (window, requests, method) {
        (Some(window), Some(requests), Some(method)) => {
            found.keep(bound_in(node, window, requests, method))
        }
        _ => None,
    };
    match (given(said.burst), bound) {
        (Some(burst), Some(bound)) => found.keep(with_burst(bound, burst)),
        (Some(burst), None) => {
            found.keep(u32_of(burst, "burst"));
            None
        }
        (None, bound) => bound,
    }
}

/// The limit of so many requests in a window.
fn bound_in(
    node: &Node,
    window: Window,
    requests: u32,
    method: Option<(Method, usize)>,
) -> Result<Bound, YamlError> {
    Ok(match (window, method) {
        (Window::Unit(unit), None) => Bound::per_unit(requests, unit),
        (Window::Unit(unit), Some((method, at))) => {
            per_period(method, at, u64::from(requests), unit.nanos())?
        }
        (Window::Span(period), method) => {
            let aligned = Method::Small(AlgorithmKind::FixedWindowEpoch);
            let (method, at) = method.unwrap_or((aligned, node.line));
            per_period(method, at, u64::from(requests), period)?
        }
        (
            Window::Calendar(calendar),
            None | Some((Method::Small(AlgorithmKind::Calendar(_)), _)),
        ) => Bound::per_calendar(calendar, u64::from(requests)),
        (Window::Calendar(_), Some((method, at))) => {
            let name = method.name();
            let reason = format!("algorithm {name} cannot use a calendar period");
            return Err(YamlError::new(at, reason));
        }
    })
}

fn per_period(method: Method, line: usize, limit: u64, period: Nanos) -> Result<Bound, YamlError> {
    match method {
        Method::Small(AlgorithmKind::Calendar(_)) => Err(YamlError::new(
            line,
            "algorithm calendar needs a period of 1d, 1w, 1mo, 1q or 1y, or a zone",
        )),
        Method::Concurrency => Err(YamlError::new(
            line,
            "algorithm concurrency needs the key concurrency, how many may be in use at the same time",
        )),
        method => Ok(Bound::per_period(method, Quota::new(limit, period))),
    }
}

fn with_burst(bound: Bound, burst: &Node) -> Result<Bound, YamlError> {
    if !bound.method.has_burst() {
        let name = bound.method.name();
        let reason = format!("algorithm {name} has no burst");
        return Err(YamlError::new(burst.line, reason));
    }
    let burst = u32_of(burst, "burst")?;
    Ok(Bound {
        quota: bound.quota.with_burst(u64::from(burst)),
        ..bound
    })
}

fn concurrency_of(limit: &Node, said: Said<'_>) -> Result<Bound, YamlError> {
    let beside = [
        ("unit", said.unit),
        ("requests_per_unit", said.requests),
        ("burst", said.burst),
        ("period", said.period),
        ("zone", said.zone),
    ];
    if let Some((key, node)) = beside
        .into_iter()
        .find_map(|(key, node)| Some((key, given(node)?)))
    {
        let reason = format!("{key} cannot be combined with concurrency, which has no period");
        return Err(YamlError::new(node.line, reason));
    }
    if let Some(node) = given(said.algorithm) {
        let (method, line) = method_of(node)?;
        if method != Method::Concurrency {
            let name = method.name();
            let reason = format!("algorithm {name} cannot be combined with concurrency");
            return Err(YamlError::new(line, reason));
        }
    }
    let lease = match given(said.lease) {
        Some(node) => span_of(node, "lease")?,
        None => LEASE_DEFAULT,
    };
    let limit = u64::from(u32_of(limit, "concurrency")?);
    Ok(Bound::at_once(limit, lease))
}

/// The time in which a limit's requests are counted.
enum Window {
    Unit(Unit),
    Span(Nanos),
    Calendar(Calendar),
}

fn window_of(node: &Node, said: Said<'_>) -> Result<Window, YamlError> {
    let zone = match given(said.zone) {
        Some(node) => Some((zone_of(node)?, node.line)),
        None => None,
    };
    let calendar = |unit| {
        let zone = zone.map_or(Zone::UTC, |(zone, _)| zone);
        Window::Calendar(Calendar { unit, zone })
    };
    let no_calendar = |line| {
        YamlError::new(
            line,
            "a zone needs a unit of day, week, month or year, or a period of 1d, 1w, 1mo, 1q or 1y",
        )
    };
    if let Some(period) = given(said.period) {
        if let Some(unit) = given(said.unit) {
            let reason = "unit and period are both given";
            return Err(YamlError::new(unit.line, reason));
        }
        let text = text_of(period, "period")?;
        let is_calendar = |node: &Node| {
            matches!(
                method_of(node),
                Ok((Method::Small(AlgorithmKind::Calendar(_)), _))
            )
        };
        let wanted = zone.is_some() || given(said.algorithm).is_some_and(is_calendar);
        return match (period::calendar(text), period::span(text)) {
            (Some(unit), span) if wanted || span.is_none() => Ok(calendar(unit)),
            (_, Some(span)) => match zone {
                Some((_, line)) => Err(no_calendar(line)),
                None => Ok(Window::Span(span)),
            },
            _ => {
                let forms = format!("{}, or a calendar's 1mo, 1q or 1y", period::FORMS);
                Err(wrong_type(period, "period", &forms))
            }
        };
    }
    let unit = unit_of(node, said)?;
    let by_calendar = |unit| match unit {
        Unit::Day => Some(CalendarUnit::Day),
        Unit::Week => Some(CalendarUnit::Week),
        Unit::Month => Some(CalendarUnit::Month),
        Unit::Year => Some(CalendarUnit::Year),
        Unit::Second | Unit::Minute | Unit::Hour => None,
    };
    let wanted = match given(said.algorithm) {
        Some(node) => matches!(
            method_of(node)?,
            (Method::Small(AlgorithmKind::Calendar(_)), _)
        ),
        None => false,
    };
    match (zone, by_calendar(unit)) {
        (Some(_), Some(unit)) => Ok(calendar(unit)),
        (Some((_, line)), None) => Err(no_calendar(line)),
        (None, Some(unit)) if wanted => Ok(calendar(unit)),
        (None, _) => Ok(Window::Unit(unit)),
    }
}

/// The unit that a limit needs.
fn unit_of(node: &Node, said: Said<'_>) -> Result<Unit, YamlError> {
    let text = said.unit.map_or(Ok(""), |node| text_of(node, "unit"))?;
    Unit::parse(text).ok_or_else(|| {
        let line = said.unit.map_or(node.line, |unit| unit.line);
        let found = yaml::excerpt(text);
        YamlError::new(line, format!("invalid rate limit unit '{found}'"))
    })
}

/// The algorithm of a name, and the line it stands in.
fn method_of(node: &Node) -> Result<(Method, usize), YamlError> {
    let name = text_of(node, "algorithm")?;
    let small = ALGORITHMS.iter().map(|row| Method::Small(row.kind));
    let known = small.chain([Method::Log, Method::Concurrency]);
    let Some(method) = known.clone().find(|method| method.name() == name) else {
        let names: Vec<&str> = known.map(Method::name).collect();
        let reason = format!(
            "unknown algorithm '{}': there are {}",
            yaml::excerpt(name),
            names.join(", ")
        );
        return Err(YamlError::new(node.line, reason));
    };
    Ok((method, node.line))
}

fn zone_of(node: &Node) -> Result<Zone, YamlError> {
    let name = text_of(node, "zone")?;
    Zone::by_name(name.as_bytes())
        .ok_or_else(|| wrong_type(node, "zone", "a time zone, as Europe/Paris or UTC"))
}

pub(crate) fn span_of(node: &Node, what: &str) -> Result<Nanos, YamlError> {
    period::span(text_of(node, what)?).ok_or_else(|| wrong_type(node, what, period::FORMS))
}

/// `open`, or `{mode: local, share: 25%, budget: 30s}`.
fn on_error_of(node: &Node) -> Result<OnError, YamlError> {
    if !matches!(node.kind, Kind::Map(_)) {
        let fallback = one_of(node, "on_error", &Fallback::ALL, Fallback::name)?;
        return Ok(OnError {
            fallback,
            ..OnError::DEFAULT
        });
    }
    let [mode, share, budget] = fields(node, ON_ERROR_KEYS, "on_error")?;
    let Some(mode) = given(mode) else {
        return Err(YamlError::new(node.line, "on_error has no mode"));
    };
    let fallback = one_of(mode, "mode", &Fallback::ALL, Fallback::name)?;
    let mut on_error = OnError {
        fallback,
        ..OnError::DEFAULT
    };
    if let Some(share) = given(share) {
        if fallback != Fallback::Local {
            let reason = "only the mode local has a share";
            return Err(YamlError::new(share.line, reason));
        }
        on_error.share_ppm = share_of(share)?;
    }
    if let Some(budget) = given(budget) {
        if !matches!(fallback, Fallback::Open | Fallback::Local) {
            let reason = "only the modes open and local have a budget";
            return Err(YamlError::new(budget.line, reason));
        }
        on_error.budget = Some(span_of(budget, "budget")?);
    }
    Ok(on_error)
}

/// `25%`, `12.5%` or `0.25`, in millionths.
pub(crate) fn share_of(node: &Node) -> Result<u32, YamlError> {
    let text = text_of(node, "share")?;
    let (number, whole) = match text.strip_suffix('%') {
        Some(percent) => (percent, f64::from(WHOLE_PPM) / 100.0),
        None => (text, f64::from(WHOLE_PPM)),
    };
    let plain = number
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let ppm = number.parse::<f64>().ok().filter(|_| plain);
    let ppm = ppm.map(|share| (share * whole).round());
    match ppm.filter(|ppm| (1.0..=f64::from(WHOLE_PPM)).contains(ppm)) {
        // Between 1 and a million.
        Some(ppm) => Ok(ppm as u32),
        None => Err(wrong_type(
            node,
            "share",
            "a part above 0 and up to 1, as 0.25 or 25%",
        )),
    }
}

pub(crate) fn one_of<T: Copy>(
    node: &Node,
    what: &str,
    all: &[T],
    name: fn(T) -> &'static str,
) -> Result<T, YamlError> {
    let text = text_of(node, what)?;
    all.iter()
        .copied()
        .find(|&one| name(one) == text)
        .ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|&one| name(one)).collect();
            wrong_type(node, what, &format!("one of {}", names.join(", ")))
        })
}

/// A key that says something.
pub(crate) fn given(node: Option<&Node>) -> Option<&Node> {
    node.filter(|node| !node.is_null())
}

/// The names of the limits that a limit of this name takes the place of.
fn replaces_of(node: Option<&Node>, own: &str) -> Result<Box<[Box<str>]>, YamlError> {
    let Some(list) = node.filter(|node| !node.is_null()) else {
        return Ok(Box::default());
    };
    let Kind::List(items) = &list.kind else {
        return Err(wrong_type(list, "replaces", "a list"));
    };
    let names = items.iter().map(|item| {
        if !matches!(item.kind, Kind::Map(_)) {
            return Err(not_a_map(item));
        }
        let [name] = fields(item, REPLACES_KEYS, "replaces")?;
        match name.map_or(Ok(""), |node| text_of(node, "name"))? {
            "" => Err(YamlError::new(
                item.line,
                "should not have an empty replaces entry",
            )),
            name if name == own => Err(YamlError::new(
                item.line,
                "replaces should not contain name of same descriptor",
            )),
            name => Ok(name.into()),
        }
    });
    names.collect()
}
