//! Means of whole blocks of days. Where only aggregates may leave, everything that leaves is computed from
//! these means alone, so that no two answers differ by less than a block.

use schemars::JsonSchema;
use serde::Serialize;

use crate::day::Day;
use crate::sample;
use crate::series::Series;

const WEEK_DAYS: i32 = 7;
/// 1970-01-01 was a Thursday, and blocks begin on Mondays.
const MONDAY: i32 = 3;
/// How often a week is doubled at most.
const DOUBLINGS_MAX: u32 = 6;

/// The length of a block: a week, doubled a number of times. Blocks of one length are unions of blocks of
/// any shorter one, so that answers with different bounds do not cut a block either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockLength(i32);

impl BlockLength {
    /// The shortest length of at least so many days; the longest one if none is.
    pub fn at_least(days: u32) -> BlockLength {
        let mut lengths = (0..=DOUBLINGS_MAX).map(|times| WEEK_DAYS << times);
        let fits = |length: &i32| u32::try_from(*length).is_ok_and(|length| length >= days);
        BlockLength(lengths.find(fits).unwrap_or(WEEK_DAYS << DOUBLINGS_MAX))
    }

    pub fn days(self) -> i32 {
        self.0
    }

    /// The number of the block that a day is in.
    fn block_of(self, day: Day) -> i32 {
        (day.number() + MONDAY).div_euclid(self.0)
    }

    fn first_day(self, block: i32) -> Day {
        Day::from_number(block.saturating_mul(self.0) - MONDAY)
    }
}

/// The mean of one block.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BlockMean {
    pub from: Day,
    pub to: Day,
    /// Days with a value: all days of the block.
    pub n: usize,
    pub mean: f64,
}

/// The means of the blocks that lie between `from` and `until` and have a value on every day. A block with a
/// missing day is left out: with fewer values its mean would be of fewer days, and a value that arrives later
/// would show as the difference of two means.
pub fn block_means(series: &Series, length: BlockLength, from: Day, until: Day) -> Vec<BlockMean> {
    let (Some(first), Some(last)) = (series.first_day(), series.last_day()) else {
        return Vec::new();
    };
    let blocks = length.block_of(first.max(from))..=length.block_of(last.min(until));
    blocks.filter_map(|block| mean_of(series, length, block, from, until)).collect()
}

fn mean_of(
    series: &Series,
    length: BlockLength,
    block: i32,
    from: Day,
    until: Day,
) -> Option<BlockMean> {
    let begin = length.first_day(block);
    let end = begin.plus(length.days() - 1);
    if begin < from || end > until {
        return None;
    }
    let days = (0..length.days()).map(|after| series.get(begin.plus(after)));
    let mut values: Vec<f64> = days.collect::<Option<_>>()?;
    // The sum of floating-point numbers depends on their order, and their order is not to leave.
    values.sort_by(f64::total_cmp);
    Some(BlockMean { from: begin, to: end, n: values.len(), mean: sample::mean(&values)? })
}

/// The block means as a series by the number of the block, for statistics over blocks.
pub fn block_series(series: &Series, length: BlockLength, from: Day, until: Day) -> Series {
    let means = block_means(series, length, from, until);
    let number = |block: &BlockMean| Day::from_number(length.block_of(block.from));
    Series::from_points(means.iter().map(|block| (number(block), block.mean)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn day(number: i32) -> Day {
        Day::from_number(number)
    }

    fn series(values: &[Option<f64>]) -> Series {
        let days = (20_000..).map(Day::from_number);
        Series::from_points(days.zip(values).filter_map(|(day, value)| Some((day, (*value)?))))
    }

    #[test]
    fn lengths_nest_and_blocks_begin_on_mondays() {
        let table = [(0, 7), (1, 7), (7, 7), (8, 14), (14, 14), (15, 28), (448, 448), (9_999, 448)];
        for (days, length) in table {
            assert_eq!(BlockLength::at_least(days).days(), length, "{days}");
        }
        let full = series(&vec![Some(1.0); 2_000]);
        let weeks = block_means(&full, BlockLength::at_least(7), day(0), day(30_000));
        assert!(weeks.len() > 280 && weeks.iter().all(|week| week.from.weekday() == 0));
    }

    #[test]
    fn a_block_with_a_missing_day_is_left_out() {
        let mut values = vec![Some(3.0); 70];
        values[30] = None;
        let all = block_means(&series(&[Some(3.0); 70]), BlockLength(7), day(0), day(30_000));
        let some = block_means(&series(&values), BlockLength(7), day(0), day(30_000));
        assert_eq!(some.len() + 1, all.len());
    }

    fn values() -> impl Strategy<Value = Vec<Option<f64>>> {
        prop::collection::vec(prop::option::weighted(0.97, 20.0..120.0_f64), 30..260)
    }

    proptest! {
        /// What leaves for one window is a subset of a fixed partition of the calendar, whatever the
        /// windows and bounds of other answers are. So the days of two answers differ by whole blocks of the
        /// smaller bound.
        #[test]
        fn any_two_answers_differ_by_whole_blocks(
            values in values(),
            windows in prop::array::uniform2((19_980..20_300_i32, 0..300_i32, 1..60_u32)),
        ) {
            let series = series(&values);
            let smaller = windows.map(|window| window.2).into_iter().min().unwrap_or(1);
            let answers = windows.map(|(from, lasts, bound)| {
                block_means(&series, BlockLength::at_least(bound), day(from), day(from + lasts))
            });
            let days = answers.each_ref().map(|answer| {
                let spans = answer.iter().flat_map(|block| block.from.number()..=block.to.number());
                spans.collect::<std::collections::BTreeSet<i32>>()
            });
            for only in [&days[0] - &days[1], &days[1] - &days[0], &days[0] & &days[1]] {
                let length = BlockLength::at_least(smaller);
                let mut left = only.clone();
                while let Some(first) = left.first().copied() {
                    let block: Vec<i32> = (first..first + length.days()).collect();
                    prop_assert!(block.iter().all(|day| left.remove(day)), "{only:?} cuts a block");
                }
            }
            for (answer, (.., bound)) in answers.iter().zip(windows) {
                for block in answer {
                    prop_assert!(block.n >= usize::try_from(bound).unwrap_or(usize::MAX).min(448));
                }
            }
        }

        /// Nothing but the mean of a block leaves: values that change places within their block change no bit
        /// of any answer.
        #[test]
        fn the_order_within_a_block_does_not_leave(
            values in values(),
            swaps in prop::collection::vec((0..260_usize, 0..260_usize), 1..40),
            bound in 1..30_u32,
        ) {
            let length = BlockLength::at_least(bound);
            let mut other = values.clone();
            for (a, b) in swaps {
                let same = a < other.len() && b < other.len() && {
                    let of = |at: usize| length.block_of(day(20_000 + i32::try_from(at).unwrap_or(0)));
                    of(a) == of(b)
                };
                if same {
                    other.swap(a, b);
                }
            }
            let answer = |values: &[Option<f64>]| {
                block_means(&series(values), length, day(0), day(30_000))
            };
            prop_assert_eq!(answer(&values), answer(&other));
        }
    }
}
