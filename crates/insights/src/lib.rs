//! What daily data says, with the evidence: baselines, anomalies, trends, correlations, effects of
//! behaviours, change points, training load, sleep regularity, records. Arithmetic over its arguments;
//! no IO, no clock, no randomness.

pub mod across;
pub mod anomaly;
pub mod baseline;
pub mod best_nights;
pub mod blocks;
pub mod change_point;
pub mod chart;
pub mod correlation;
pub mod crossing;
pub mod day;
pub mod difference;
pub mod discovery;
pub mod effective;
pub mod finding;
pub mod health;
pub mod load;
pub mod metric;
pub mod records;
pub mod report;
pub mod sample;
pub mod sentences;
pub mod series;
pub mod sleep;
pub mod survey;
#[cfg(test)]
mod testing;
pub mod trend;
pub mod week;

pub use blocks::BlockLength;
pub use day::Day;
pub use finding::{Finding, Interval, Shortfall};
pub use metric::{Better, Metric, Unit, Units};
pub use series::Series;
