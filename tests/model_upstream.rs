//! The model through upstream mode: the random commands of `model/`, with a Sundown in front of a cluster. The cluster is a
//! genuine replica set if `MONGOD` names a binary, else another Sundown.

#[path = "model/main.rs"]
mod model;

use model::support;
