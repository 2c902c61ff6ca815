//! From decisions to the response.

use tollgate_limiter::Decision;
use tollgate_wire::rls::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use tollgate_wire::rls::{Duration, RateLimitResponse};

use crate::resolve::{Applied, Item, Resolved};

impl Resolved<'_> {
    /// The response: one status for each descriptor in their order, over the limit if any of them is.
    ///
    /// # Panics
    /// When there are not as many decisions as [`checks`](Resolved::checks).
    pub fn verdict(&self, decisions: &[Decision]) -> RateLimitResponse {
        let mut decisions = decisions.iter();
        let mut overall = Code::Ok;
        let mut statuses = Vec::with_capacity(self.items.len());
        for item in &self.items {
            statuses.push(match item {
                Item::Free => status(Code::Ok),
                Item::Unlimited => DescriptorStatus {
                    limit_remaining: u32::MAX,
                    ..status(Code::Ok)
                },
                Item::Limited(applied) => {
                    let decision = decisions.next().expect("one decision for each check");
                    if !decision.allowed {
                        overall = Code::OverLimit;
                    }
                    limited(applied, decision)
                }
            });
        }
        assert!(decisions.next().is_none(), "one decision for each check");
        RateLimitResponse {
            overall_code: overall as i32,
            statuses,
            ..RateLimitResponse::default()
        }
    }
}

fn status(code: Code) -> DescriptorStatus {
    DescriptorStatus {
        code: code as i32,
        ..DescriptorStatus::default()
    }
}

fn limited(applied: &Applied<'_>, decision: &Decision) -> DescriptorStatus {
    let code = if decision.allowed {
        Code::Ok
    } else {
        Code::OverLimit
    };
    DescriptorStatus {
        current_limit: Some(RateLimit {
            name: applied.name.to_owned(),
            requests_per_unit: applied.requests,
            unit: applied.unit.wire() as i32,
        }),
        limit_remaining: match decision.allowed {
            true => u32::try_from(decision.remaining).unwrap_or(u32::MAX),
            false => 0,
        },
        // Whole seconds, rounded up: Envoy writes only the seconds into its headers, and a client that
        // waits as long as it is told must find the window renewed.
        duration_until_reset: Some(Duration {
            seconds: decision.reset_after.div_ceil(1_000_000_000) as i64,
            nanos: 0,
        }),
        ..status(code)
    }
}
