//! Commands through the rules, in front of a plain Sundown, or of the mongod that `MONGODB_URI` names.

mod agreement;
mod golden;
mod pipelines;
mod reading;
mod same_as_engine;
mod sessions;
mod unfiltered;
mod world;
mod writing;
