//! In which order the rungs of a ladder run.

use crate::load::rng::Rng;

/// Order of rungs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Rising.
    Up,
    /// Falling: what an overloaded target still owes falls into the lower loads.
    Down,
    /// By the seed: a machine that becomes slower with time does not look like a knee.
    Shuffled,
    /// Rising, then falling through the same loads without the highest.
    UpDown,
}

impl Order {
    /// The word on the command line and in records.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Order::Up => "up",
            Order::Down => "down",
            Order::Shuffled => "shuffled",
            Order::UpDown => "updown",
        }
    }

    /// `rates` in this order. Ladders of one length are shuffled alike.
    #[must_use]
    pub(crate) fn arrange(self, mut rates: Vec<f64>, seed: u64) -> Vec<f64> {
        rates.sort_by(f64::total_cmp);
        match self {
            Order::Up => {}
            Order::Down => rates.reverse(),
            Order::Shuffled => {
                let mut rng = Rng::new(seed ^ 0x6f72_6465_7200);
                for end in (1..rates.len()).rev() {
                    // A ladder has at most a few thousand rungs.
                    rates.swap(end, rng.below(end as u32 + 1) as usize);
                }
            }
            Order::UpDown => {
                let down: Vec<f64> = rates.iter().rev().skip(1).copied().collect();
                rates.extend(down);
            }
        }
        rates
    }
}

impl std::str::FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Order, String> {
        [Order::Up, Order::Down, Order::Shuffled, Order::UpDown]
            .into_iter()
            .find(|order| order.word() == text)
            .ok_or_else(|| format!("'{text}' is not an order: give up, down, shuffled or updown"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rung_runs_in_every_order() {
        let rates = || vec![30.0, 10.0, 20.0, 50.0, 40.0];
        assert_eq!(
            Order::Up.arrange(rates(), 1),
            [10.0, 20.0, 30.0, 40.0, 50.0]
        );
        assert_eq!(
            Order::Down.arrange(rates(), 1),
            [50.0, 40.0, 30.0, 20.0, 10.0]
        );
        let round = Order::UpDown.arrange(vec![2.0, 1.0, 3.0], 1);
        assert_eq!(round, [1.0, 2.0, 3.0, 2.0, 1.0]);
        let shuffled = Order::Shuffled.arrange(rates(), 7);
        assert_eq!(shuffled, Order::Shuffled.arrange(rates(), 7));
        assert_ne!(shuffled, Order::Shuffled.arrange(rates(), 8));
        assert_eq!(
            Order::Up.arrange(shuffled, 1),
            Order::Up.arrange(rates(), 1)
        );
        for order in [Order::Up, Order::UpDown] {
            assert!(order.arrange(Vec::new(), 1).is_empty());
            assert_eq!(order.word().parse::<Order>(), Ok(order));
        }
        assert!("sideways".parse::<Order>().is_err());
    }
}
