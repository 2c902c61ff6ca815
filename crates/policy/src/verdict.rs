//! From decisions to the response.

use tollgate_limiter::Decision;
use tollgate_wire::rls::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use tollgate_wire::rls::{Duration, HeaderValue, RateLimitRequest, RateLimitResponse};

use crate::bound::Bound;
use crate::describe;
use crate::headers::HeaderForm;
use crate::modes::HeaderNames;
use crate::outcome::{retry_of, standings, told, until_change};
use crate::resolve::{Applied, Item, Part, Resolved, Role};
use crate::ruleset::Quota;
use crate::unit::Unit;

impl Resolved<'_> {
    /// The response to the request that was resolved: one status for each descriptor in their order, over the limit
    /// if an enforced limit is, or all quotas are.
    ///
    /// # Panics
    /// When there are not as many decisions as [`checks`](Resolved::checks).
    pub fn verdict(&self, request: &RateLimitRequest, decisions: &[Decision]) -> RateLimitResponse {
        let decided = decisions;
        let mut decisions = decisions.iter();
        let mut statuses = Vec::with_capacity(self.items.len());
        let mut tally = Tally::default();
        let mut violations = Vec::new();
        for item in &self.items {
            let status = match item {
                Item::Free => status(Code::Ok),
                Item::Unlimited(_) => DescriptorStatus {
                    limit_remaining: u32::MAX,
                    ..status(Code::Ok)
                },
                Item::Limited(applied) => {
                    let (part, decision) = self.tightest(applied, &mut decisions);
                    let status = limited(applied, part, decision);
                    // In the shadow mode of all rules limits would deny if they were enforced, and statuses say so.
                    let quota = self.quota_of(applied.limit);
                    tally.add(&status, quota);
                    match quota == Quota::Tells && status.code() == Code::OverLimit {
                        true => {
                            violations.push(statuses.len());
                            passing(status)
                        }
                        false => status,
                    }
                }
            };
            statuses.push(status);
        }
        assert!(decisions.next().is_none(), "one decision for each check");
        let overall = match tally.is_over() && !self.modes.shadow_mode {
            true => Code::OverLimit,
            false => Code::Ok,
        };
        let mut headers = match &self.modes.per_unit_headers {
            Some(names) => per_unit_headers(names, &statuses),
            None => Vec::new(),
        };
        if let Some(form) = &self.modes.headers {
            headers.extend(self.headers(form, request, decided, overall));
        }
        let request_headers = match &self.modes.request_headers {
            Some(names) => {
                let form = HeaderForm::Named(names.clone());
                self.headers(&form, request, decided, overall)
            }
            None => Vec::new(),
        };
        let dynamic_metadata = self
            .modes
            .dynamic_metadata
            .then(|| describe::metadata(request, &self.items, &statuses, &violations));
        RateLimitResponse {
            overall_code: overall as i32,
            statuses,
            response_headers_to_add: headers,
            request_headers_to_add: request_headers,
            dynamic_metadata,
            ..RateLimitResponse::default()
        }
    }
}

impl Resolved<'_> {
    /// How headers are written; `None` where there are none.
    pub fn header_form(&self) -> Option<&HeaderForm> {
        self.modes.headers.as_ref()
    }

    /// Whether a request with this response passes only because all rules are in shadow mode.
    pub fn is_shadowed(&self, response: &RateLimitResponse) -> bool {
        if !self.modes.shadow_mode {
            return false;
        }
        let mut tally = Tally::default();
        for (item, status) in self.items.iter().zip(&response.statuses) {
            if let Item::Limited(applied) = item {
                tally.add(status, self.quota_of(applied.limit));
            }
        }
        tally.is_over()
    }

    fn headers(
        &self,
        form: &HeaderForm,
        request: &RateLimitRequest,
        decisions: &[Decision],
        overall: Code,
    ) -> Vec<HeaderValue> {
        let outcomes = self.outcomes(decisions);
        let standings = standings(&outcomes, request);
        // Who passes has nothing to wait for, whatever limits say that only tell.
        let retry = retry_of(overall != Code::OverLimit, &outcomes);
        let headers = form.headers(&standings, retry, self.asked).into_iter();
        headers
            .map(|(key, value)| HeaderValue {
                key: key.into_owned(),
                value,
                raw_value: Vec::new(),
            })
            .collect()
    }
}

/// Limit and remainder of each unit that statuses name, in the order in which these do; where several have it, of the one with the least
/// left.
fn per_unit_headers(names: &HeaderNames, statuses: &[DescriptorStatus]) -> Vec<HeaderValue> {
    let mut units: Vec<(Unit, u32, u32)> = Vec::new();
    for status in statuses {
        let Some(limit) = &status.current_limit else {
            continue;
        };
        let Some(unit) = Unit::from_number(limit.unit) else {
            continue;
        };
        let (quota, left) = (limit.requests_per_unit, status.limit_remaining);
        match units.iter_mut().find(|known| known.0 == unit) {
            None => units.push((unit, quota, left)),
            Some(known) if left < known.2 => (known.1, known.2) = (quota, left),
            Some(_) => {}
        }
    }
    let header = |name: &str, unit: Unit, number: u32| HeaderValue {
        key: format!("{name}-{}", unit.plural()),
        value: number.to_string(),
        raw_value: Vec::new(),
    };
    let of_unit = |(unit, quota, left)| {
        [
            header(&names.limit, unit, quota),
            header(&names.remaining, unit, left),
        ]
    };
    units.into_iter().flat_map(of_unit).collect()
}

/// What the statuses come to.
#[derive(Default)]
struct Tally {
    enforced_over: bool,
    quotas: usize,
    quotas_over: usize,
}

impl Tally {
    fn add(&mut self, status: &DescriptorStatus, quota: Quota) {
        let over = status.code == Code::OverLimit as i32;
        let together = quota == Quota::DeniesWithAll;
        self.quotas += usize::from(together);
        self.quotas_over += usize::from(together && over);
        self.enforced_over |= over && quota == Quota::No;
    }

    fn is_over(&self) -> bool {
        self.enforced_over || (self.quotas > 0 && self.quotas == self.quotas_over)
    }
}

fn status(code: Code) -> DescriptorStatus {
    DescriptorStatus {
        code: code as i32,
        ..DescriptorStatus::default()
    }
}

/// What is told of a quota that is over and denies nothing: not when it begins anew, as envoyproxy/ratelimit does.
fn passing(status: DescriptorStatus) -> DescriptorStatus {
    DescriptorStatus {
        code: Code::Ok as i32,
        duration_until_reset: None,
        ..status
    }
}

fn limited(applied: &Applied<'_>, part: &Part<'_>, decision: &Decision) -> DescriptorStatus {
    let passes = decision.allowed || applied.is_shadow() || applied.role == Role::Refund;
    let code = match passes {
        true => Code::Ok,
        false => Code::OverLimit,
    };
    let Bound { quota, unit, .. } = part.bound;
    let (limit, unit) = match told(quota.limit, quota.burst, quota.period) {
        (limit, _) if limit == quota.limit => (limit, unit),
        // Envoy tells of a window only where it has a unit.
        (limit, window) => (limit, Unit::of_length(window)),
    };
    DescriptorStatus {
        current_limit: Some(RateLimit {
            name: part.name.to_owned(),
            requests_per_unit: u32::try_from(limit).unwrap_or(u32::MAX),
            unit: unit.map_or(0, |unit| unit.wire() as i32),
        }),
        limit_remaining: match decision.allowed {
            true => u32::try_from(decision.remaining).unwrap_or(u32::MAX),
            false => 0,
        },
        // Whole seconds, rounded up: Envoy writes only the seconds into its headers, and a client that waits as long as it
        // is told must pass then.
        duration_until_reset: Some(Duration {
            seconds: until_change(decision, !passes).div_ceil(1_000_000_000) as i64,
            nanos: 0,
        }),
        ..status(code)
    }
}
