//! Sorted integers of one width: 16, 32 or 64 bits, the smallest that holds all that were ever in.

/// A sorted array without repetitions.
#[derive(Clone, Debug)]
pub(super) enum Ints {
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
}

impl Default for Ints {
    fn default() -> Self {
        Self::I16(Vec::new())
    }
}

/// Calls an expression with the array of whatever width.
macro_rules! each {
    ($ints:expr, $array:ident => $body:expr) => {
        match $ints {
            Ints::I16($array) => $body,
            Ints::I32($array) => $body,
            Ints::I64($array) => $body,
        }
    };
}

impl Ints {
    /// Address of the least member.
    #[inline]
    pub(super) fn front(&self) -> *const u8 {
        each!(self, array => array.as_ptr().cast())
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        each!(self, array => array.len())
    }

    #[inline]
    pub(super) fn heap_bytes(&self) -> usize {
        fn bytes<T>(array: &Vec<T>) -> usize {
            array.capacity() * size_of::<T>()
        }
        each!(self, array => bytes(array))
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<i64> {
        fn get<T: Copy + Into<i64>>(array: &[T], at: usize) -> Option<i64> {
            array.get(at).map(|int| (*int).into())
        }
        each!(self, array => get(array, at))
    }

    #[inline]
    pub(super) fn contains(&self, int: i64) -> bool {
        self.search(int).is_ok()
    }

    /// Where the integer is, or where it belongs. One too wide for the array belongs at an end.
    fn search(&self, int: i64) -> Result<usize, usize> {
        fn find<T: Copy + Ord + TryFrom<i64>>(array: &[T], int: i64) -> Result<usize, usize> {
            match T::try_from(int) {
                Ok(int) => array.binary_search(&int),
                Err(_) if int < 0 => Err(0),
                Err(_) => Err(array.len()),
            }
        }
        each!(self, array => find(array, int))
    }

    /// Adds an integer; false when it is there.
    pub(super) fn insert(&mut self, int: i64) -> bool {
        let Err(at) = self.search(int) else {
            return false;
        };
        match self {
            Ints::I16(array) => match i16::try_from(int) {
                Ok(int) => insert_at(array, at, int),
                Err(_) => {
                    let wider = array.iter().map(|int| i32::from(*int)).collect();
                    *self = Ints::I32(wider);
                    return self.insert(int);
                }
            },
            Ints::I32(array) => match i32::try_from(int) {
                Ok(int) => insert_at(array, at, int),
                Err(_) => {
                    let wider = array.iter().map(|int| i64::from(*int)).collect();
                    *self = Ints::I64(wider);
                    return self.insert(int);
                }
            },
            Ints::I64(array) => insert_at(array, at, int),
        }
        true
    }

    /// Removes an integer; false when it is not there.
    pub(super) fn remove(&mut self, int: i64) -> bool {
        let found = self.search(int);
        found.into_iter().for_each(|at| self.remove_nth(at));
        found.is_ok()
    }

    /// Removes the integer at a position below the length.
    pub(super) fn remove_nth(&mut self, at: usize) {
        fn remove<T>(array: &mut Vec<T>, at: usize) {
            array.remove(at);
            if array.len() * 4 < array.capacity() {
                array.shrink_to(array.len() * 2);
            }
        }
        each!(self, array => remove(array, at));
    }

    /// Removes the integers at these positions, which are in ascending order.
    pub(super) fn remove_positions(&mut self, positions: &[usize]) {
        fn remove<T>(array: &mut Vec<T>, positions: &[usize]) {
            let mut doomed = positions.iter().copied().peekable();
            let mut at = 0;
            array.retain(|_| {
                at += 1;
                doomed.next_if_eq(&(at - 1)).is_none()
            });
            array.shrink_to(array.len() * 2);
        }
        each!(self, array => remove(array, positions));
    }

    /// Length of the longest decimal text among the integers.
    pub(super) fn longest_text(&self) -> usize {
        let text_len = |int: i64| {
            let digits = int.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
            digits + usize::from(int < 0)
        };
        let last = self.len().saturating_sub(1);
        let ends = [self.get(0), self.get(last)];
        ends.into_iter().flatten().map(text_len).max().unwrap_or(0)
    }
}

fn insert_at<T>(array: &mut Vec<T>, at: usize, int: T) {
    if array.len() == array.capacity() {
        // A quarter of slack instead of as much again.
        array.reserve_exact(array.len() / 4 + 1);
    }
    array.insert(at, int);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_grow_with_what_comes_in() {
        let mut ints = Ints::default();
        let wide = [
            0,
            5,
            -3,
            i64::from(i16::MAX),
            i64::from(i16::MAX) + 1,
            i64::from(i16::MIN) - 1,
            i64::from(i32::MAX) + 1,
            i64::MIN,
            i64::MAX,
        ];
        for (n, int) in wide.into_iter().enumerate() {
            assert!(!ints.contains(int) && !ints.remove(int));
            assert!(ints.insert(int) && !ints.insert(int));
            assert_eq!(ints.len(), n + 1);
            assert!(wide[..=n].iter().all(|int| ints.contains(*int)));
        }
        let all: Vec<i64> = (0..ints.len()).filter_map(|at| ints.get(at)).collect();
        assert!(all.is_sorted());
        assert_eq!(ints.longest_text(), 20);
        assert!(wide.into_iter().all(|int| ints.remove(int)));
        assert_eq!((ints.len(), ints.longest_text()), (0, 0));
    }
}
