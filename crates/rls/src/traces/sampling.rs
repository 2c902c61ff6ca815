//! Which calls have a span.

use tollgate_wire::trace::TraceParent;

/// As its caller decided; of calls whose caller says nothing, a share by the number of their trace, so that services that sample
/// as OpenTelemetry's libraries do agree on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampling {
    /// What the lower 63 bits of a trace's number have to be below.
    below: u64,
}

impl Sampling {
    /// Of a share from 0 to 1.
    pub(super) fn new(share: f64) -> Self {
        const ALL: u64 = 1 << 63;
        Self {
            below: match share {
                share if share >= 1.0 => ALL,
                // What is no number is none.
                share => (share.max(0.0) * ALL as f64) as u64,
            },
        }
    }

    pub(super) fn takes(self, parent: Option<&TraceParent>, trace: &[u8; 16]) -> bool {
        if let Some(parent) = parent {
            return parent.is_sampled();
        }
        let [_, _, _, _, _, _, _, _, low @ ..] = *trace;
        u64::from_be_bytes(low) >> 1 < self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(share: f64, low: u64) -> bool {
        let mut trace = [7; 16];
        trace[8..].copy_from_slice(&low.to_be_bytes());
        Sampling::new(share).takes(None, &trace)
    }

    #[test]
    fn a_share_of_traces_is_taken_by_their_numbers() {
        for low in [0, 1, u64::MAX / 2, u64::MAX] {
            assert!(takes(1.0, low) && takes(7.0, low) && !takes(0.0, low) && !takes(-1.0, low));
            assert!(!takes(f64::NAN, low));
        }
        assert!(takes(0.25, u64::MAX / 4 - 1) && !takes(0.25, u64::MAX / 4 + 2));
    }

    #[test]
    fn what_the_caller_decided_counts() {
        for (flags, taken) in [(0, false), (1, true), (2, false), (3, true)] {
            let parent = TraceParent {
                trace: [1; 16],
                span: [2; 8],
                flags,
            };
            for share in [0.0, 1.0] {
                let sampling = Sampling::new(share);
                assert_eq!(sampling.takes(Some(&parent), &parent.trace), taken);
            }
        }
    }
}
