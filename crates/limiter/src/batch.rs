//! Several limits decided as one: all take, or none does.

use crate::algorithms::{AlgorithmKind, KindMismatch, Record};
use crate::types::{Cost, Decision, Quota, Timestamp};

/// One limit of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The algorithm.
    pub kind: AlgorithmKind,
    /// The quota.
    pub quota: Quota,
    /// What the request weighs on this limit.
    pub cost: Cost,
    /// Decide, but take nothing. The decision counts for the others like any.
    pub peek: bool,
    /// Index of the key's record. Requests on the same key must name the same record, so that the second
    /// one sees what the first one took.
    pub record: usize,
}

/// Decides all requests in order. If every one passes, `records` holds the new states and the
/// answer is `true`. If any is denied, `records` is as before, the answer is `false`, and the decisions
/// of those that would have passed report what is there without taking.
///
/// `before` is scratch of the length of `records`; `decisions` has the length of `requests`.
///
/// # Errors
/// A key holds the state of another algorithm; `records` is as before.
///
/// # Panics
/// When the slices' lengths do not match, or a request names a record that is not there.
pub fn decide_all(
    requests: &[Request],
    records: &mut [Option<Record>],
    before: &mut [Option<Record>],
    decisions: &mut [Decision],
    now: Timestamp,
) -> Result<bool, KindMismatch> {
    assert_eq!(
        requests.len(),
        decisions.len(),
        "one decision for each request"
    );
    before.copy_from_slice(records);
    let mut passed = true;
    for (request, decision) in requests.iter().zip(decisions.iter_mut()) {
        let record = &mut records[request.record];
        match request
            .kind
            .decide(*record, &request.quota, request.cost, now)
        {
            Ok((made, next)) => {
                *decision = made;
                passed &= made.allowed;
                if next.is_some() && !request.peek {
                    *record = next;
                }
            }
            Err(mismatch) => {
                records.copy_from_slice(before);
                return Err(mismatch);
            }
        }
    }
    if passed {
        return Ok(true);
    }
    records.copy_from_slice(before);
    for (request, decision) in requests.iter().zip(decisions.iter_mut()) {
        if decision.allowed && !request.peek {
            let untouched = records[request.record];
            *decision = request
                .kind
                .decide(untouched, &request.quota, Cost(0), now)?
                .0;
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(limit: u64, cost: u64, record: usize) -> Request {
        Request {
            kind: AlgorithmKind::FixedWindow,
            quota: Quota::new(limit, 1_000_000_000),
            cost: Cost(cost),
            peek: false,
            record,
        }
    }

    fn run(requests: &[Request], records: &mut [Option<Record>]) -> (bool, Vec<Decision>) {
        let mut before = records.to_vec();
        let mut decisions = vec![Decision::DENIED; requests.len()];
        let passed = decide_all(
            requests,
            records,
            &mut before,
            &mut decisions,
            Timestamp::from_secs(1),
        );
        (passed.expect("one algorithm per key"), decisions)
    }

    #[test]
    fn one_denial_takes_nothing_anywhere() {
        let mut records = [None, None];
        let (passed, decisions) = run(&[request(10, 3, 0), request(2, 3, 1)], &mut records);
        assert!(!passed);
        assert_eq!(records, [None, None]);
        assert_eq!((decisions[0].allowed, decisions[0].remaining), (true, 10));
        assert_eq!(
            (decisions[1].allowed, decisions[1].retry_after),
            (false, None)
        );
    }

    #[test]
    fn the_same_key_twice_takes_twice() {
        let mut records = [None];
        let (passed, decisions) = run(&[request(3, 2, 0), request(3, 1, 0)], &mut records);
        assert!(passed);
        assert_eq!((decisions[0].remaining, decisions[1].remaining), (1, 0));
        let mut records = [None];
        let (passed, decisions) = run(&[request(3, 2, 0), request(3, 2, 0)], &mut records);
        assert!(!passed);
        assert_eq!(
            (decisions[0].allowed, decisions[0].remaining, records[0]),
            (true, 3, None)
        );
    }

    #[test]
    fn a_peek_counts_for_the_answer_and_takes_nothing() {
        let mut records = [None];
        let peek = |cost| Request {
            peek: true,
            ..request(3, cost, 0)
        };
        let (passed, decisions) = run(&[peek(2), request(3, 1, 0)], &mut records);
        assert!(passed);
        assert_eq!((decisions[0].remaining, decisions[1].remaining), (1, 2));
        let (passed, decisions) = run(&[request(3, 1, 0), peek(2)], &mut records);
        assert!(!passed);
        assert_eq!((decisions[0].allowed, decisions[0].remaining), (true, 2));
        assert_eq!((decisions[1].allowed, decisions[1].remaining), (false, 1));
    }
}
