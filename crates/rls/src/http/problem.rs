//! Problem details of RFC 9457, with the problem types of draft-ietf-httpapi-ratelimit-headers-11.

use http::StatusCode;
use serde::Serialize;
use tollgate_policy::Standing;

/// Content type of a problem.
pub(crate) const CONTENT_TYPE: &str = "application/problem+json";

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

/// Names of the limits that deny.
pub(crate) fn violated(standings: &[Standing<'_>]) -> Vec<String> {
    let denying = standings.iter().filter(|standing| standing.over);
    denying.map(|standing| standing.name.to_string()).collect()
}

/// What went wrong, for programs and for people.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    violated_policies: Vec<String>,
}

impl Problem {
    /// One that its status says all about.
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            violated_policies: Vec::new(),
        }
    }

    /// A request over its limits, which are named.
    pub(crate) fn quota_exceeded(violated_policies: Vec<String>, possible: bool) -> Self {
        let detail = match possible {
            true => "the request is over the limit",
            false => "the request asks for more than the limit ever allows",
        };
        Self {
            r#type: QUOTA_EXCEEDED,
            title: "Quota exceeded",
            status: StatusCode::TOO_MANY_REQUESTS.as_u16(),
            detail: detail.to_owned(),
            violated_policies,
        }
    }

    /// The service cannot decide for the moment.
    pub(crate) fn reduced_capacity(detail: impl Into<String>) -> Self {
        Self {
            r#type: REDUCED_CAPACITY,
            title: "Temporary reduced capacity",
            status: StatusCode::SERVICE_UNAVAILABLE.as_u16(),
            detail: detail.into(),
            violated_policies: Vec::new(),
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("the structure has text keys and plain values only")
    }
}
