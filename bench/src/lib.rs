//! Subjects, workloads, pacers and the driver.
pub mod subject;
