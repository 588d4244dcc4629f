//! MongoDB's actions, by name: the things that a user can be allowed to do.

use std::fmt;

/// Generates the enum and the names from one list, sorted by name.
macro_rules! actions {
    ($($variant:ident $name:literal,)*) => {
        /// An action that a privilege allows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Action {
            $($variant,)*
        }

        impl Action {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name that `connectionStatus` and `rolesInfo` show.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

actions! {
    AddShard "addShard",
    Analyze "analyze",
    AppendOplogNote "appendOplogNote",
    ApplicationMessage "applicationMessage",
    ApplyOps "applyOps",
    BypassDocumentValidation "bypassDocumentValidation",
    ChangeCustomData "changeCustomData",
    ChangePassword "changePassword",
    ChangeStream "changeStream",
    CollMod "collMod",
    CollStats "collStats",
    Compact "compact",
    ConnPoolStats "connPoolStats",
    ConvertToCapped "convertToCapped",
    CreateCollection "createCollection",
    CreateIndex "createIndex",
    CreateRole "createRole",
    CreateSearchIndexes "createSearchIndexes",
    CreateUser "createUser",
    DbHash "dbHash",
    DbStats "dbStats",
    DropCollection "dropCollection",
    DropConnections "dropConnections",
    DropDatabase "dropDatabase",
    DropIndex "dropIndex",
    DropRole "dropRole",
    DropSearchIndex "dropSearchIndex",
    DropUser "dropUser",
    EnableProfiler "enableProfiler",
    EnableSharding "enableSharding",
    Find "find",
    FlushRouterConfig "flushRouterConfig",
    Fsync "fsync",
    GetClusterParameter "getClusterParameter",
    GetCmdLineOpts "getCmdLineOpts",
    GetDefaultRwConcern "getDefaultRWConcern",
    GetLog "getLog",
    GetParameter "getParameter",
    GetShardMap "getShardMap",
    GrantRole "grantRole",
    HostInfo "hostInfo",
    IndexStats "indexStats",
    Inprog "inprog",
    Insert "insert",
    InvalidateUserCache "invalidateUserCache",
    KillAnyCursor "killAnyCursor",
    KillAnySession "killAnySession",
    KillCursors "killCursors",
    Killop "killop",
    ListCollections "listCollections",
    ListDatabases "listDatabases",
    ListIndexes "listIndexes",
    ListSearchIndexes "listSearchIndexes",
    ListSessions "listSessions",
    ListShards "listShards",
    LogRotate "logRotate",
    PlanCacheIndexFilter "planCacheIndexFilter",
    PlanCacheRead "planCacheRead",
    PlanCacheWrite "planCacheWrite",
    QueryStatsRead "queryStatsRead",
    ReIndex "reIndex",
    Remove "remove",
    RenameCollectionSameDb "renameCollectionSameDB",
    ReplSetConfigure "replSetConfigure",
    ReplSetGetConfig "replSetGetConfig",
    ReplSetGetStatus "replSetGetStatus",
    RevokeRole "revokeRole",
    RotateCertificates "rotateCertificates",
    ServerStatus "serverStatus",
    SetAuthenticationRestriction "setAuthenticationRestriction",
    SetClusterParameter "setClusterParameter",
    SetDefaultRwConcern "setDefaultRWConcern",
    SetFeatureCompatibilityVersion "setFeatureCompatibilityVersion",
    SetParameter "setParameter",
    Shutdown "shutdown",
    StorageDetails "storageDetails",
    Top "top",
    Unlock "unlock",
    Update "update",
    UpdateSearchIndex "updateSearchIndex",
    UseUuid "useUUID",
    Validate "validate",
    ViewRole "viewRole",
    ViewUser "viewUser",
}

/// A set of actions.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Actions(u128);

// === impl Actions ===

impl Actions {
    pub const NONE: Self = Self(0);

    pub const fn of(list: &[Action]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < list.len() {
            bits |= 1 << list[at] as u32;
            at += 1;
        }
        Self(bits)
    }

    /// Returns the set of all actions.
    pub const fn all() -> Self {
        Self::of(Action::ALL)
    }

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn has(self, action: Action) -> bool {
        self.0 & (1 << action as u32) != 0
    }

    pub fn iter(self) -> impl Iterator<Item = Action> {
        Action::ALL
            .iter()
            .copied()
            .filter(move |action| self.has(*action))
    }
}

impl From<Action> for Actions {
    fn from(action: Action) -> Self {
        Self::of(&[action])
    }
}

impl fmt::Debug for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(Action::name))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_fit_the_set() {
        assert!(Action::ALL.len() <= 128);
        for pair in Action::ALL.windows(2) {
            assert!(pair[0].name() < pair[1].name(), "{pair:?}");
        }
        assert_eq!(Actions::all().iter().count(), Action::ALL.len());
        let two = Actions::of(&[Action::Find]).and(Action::ViewUser.into());
        assert!(two.has(Action::Find) && two.has(Action::ViewUser) && !two.has(Action::Insert));
    }
}
