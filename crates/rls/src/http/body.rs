//! Bodies of requests, within bounds of length and time.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;

/// Longest body of a request, in bytes.
const MAX_BODY: usize = 1 << 20;
/// Longest wait for a request's body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The whole body, or the status and the reason why there is none.
pub(super) async fn read(body: Incoming) -> Result<Bytes, (StatusCode, String)> {
    let body = Limited::new(body, MAX_BODY).collect();
    match tokio::time::timeout(BODY_TIMEOUT, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err((
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is longer than {MAX_BODY} bytes"),
        )),
        Ok(Err(error)) => Err((StatusCode::BAD_REQUEST, error.to_string())),
        Err(_) => Err((
            StatusCode::REQUEST_TIMEOUT,
            "the body did not come whole".to_owned(),
        )),
    }
}

/// Whether a body is said to be JSON, or nothing is said.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let Some(given) = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes) else {
        return true;
    };
    let essence = given.split(|byte| *byte == b';').next().unwrap_or_default();
    let essence = essence.trim_ascii().to_ascii_lowercase();
    essence == b"application/json"
        || (essence.starts_with(b"application/") && essence.ends_with(b"+json"))
}
