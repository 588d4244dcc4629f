//! The settings that getParameter shows and setParameter changes.

use std::sync::atomic::{AtomicBool, AtomicI64};

/// Those that can change while the server runs. Written by setParameter, read by whom they concern.
pub struct Parameters {
    /// Switches the reaper.
    pub ttl_monitor_enabled: AtomicBool,
    /// Accepted for MongoDB's sake: the reaper wakes when something is due.
    pub ttl_monitor_sleep_secs: AtomicI64,
    pub log_level: AtomicI64,
    pub quiet: AtomicBool,
    pub notablescan: AtomicBool,
}

// === impl Parameters ===

impl Default for Parameters {
    fn default() -> Self {
        Self {
            ttl_monitor_enabled: AtomicBool::new(true),
            ttl_monitor_sleep_secs: AtomicI64::new(60),
            log_level: AtomicI64::new(0),
            quiet: AtomicBool::new(false),
            notablescan: AtomicBool::new(false),
        }
    }
}
