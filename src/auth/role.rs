//! The built-in roles: one table from role to privileges.
//!
//! A role of a database applies to that database. Roles for all databases or for the server exist in `admin` only.

use std::fmt;

use super::action::{Action, Actions};
use super::privilege::{Privileges, Resource};

/// The name of a role, and the database that the role belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleName {
    pub role: String,
    pub db: String,
}

/// One row of the table.
pub struct Role {
    pub name: &'static str,
    /// Every database has this role; otherwise only `admin` has it.
    pub everywhere: bool,
    /// The role allows the union of these grants.
    grants: &'static [&'static [Grant]],
}

struct Grant {
    on: GrantScope,
    actions: Actions,
}

/// The resource of a grant.
enum GrantScope {
    /// The role's own database and its ordinary collections.
    Own,
    /// A system collection of the role's own database.
    OwnSystem(&'static str),
    /// The ordinary collections of all databases except `config` and `local`.
    Every,
    /// A system collection of any database.
    EverySystem(&'static str),
    /// A database with this name.
    Named(&'static str),
    /// A collection with this name, in this database.
    Collection(&'static str, &'static str),
    Cluster,
    Anything,
}

/// Every built-in role, sorted by name.
pub static ROLES: &[Role] = &[
    Role {
        name: "clusterAdmin",
        everywhere: false,
        grants: &[
            CLUSTER_MANAGER,
            CLUSTER_MONITOR,
            HOST_MANAGER,
            CLUSTER_ADMIN,
        ],
    },
    Role {
        name: "clusterManager",
        everywhere: false,
        grants: &[CLUSTER_MANAGER],
    },
    Role {
        name: "clusterMonitor",
        everywhere: false,
        grants: &[CLUSTER_MONITOR],
    },
    Role {
        name: "dbAdmin",
        everywhere: true,
        grants: &[DB_ADMIN],
    },
    Role {
        name: "dbAdminAnyDatabase",
        everywhere: false,
        grants: &[DB_ADMIN_ANY],
    },
    Role {
        name: "dbOwner",
        everywhere: true,
        grants: &[READ_WRITE, DB_ADMIN, USER_ADMIN],
    },
    Role {
        name: "hostManager",
        everywhere: false,
        grants: &[HOST_MANAGER],
    },
    Role {
        name: "read",
        everywhere: true,
        grants: &[READ],
    },
    Role {
        name: "readAnyDatabase",
        everywhere: false,
        grants: &[READ_ANY],
    },
    Role {
        name: "readWrite",
        everywhere: true,
        grants: &[READ_WRITE],
    },
    Role {
        name: "readWriteAnyDatabase",
        everywhere: false,
        grants: &[READ_WRITE_ANY],
    },
    Role {
        name: "root",
        everywhere: false,
        grants: &[ROOT],
    },
    Role {
        name: "userAdmin",
        everywhere: true,
        grants: &[USER_ADMIN],
    },
    Role {
        name: "userAdminAnyDatabase",
        everywhere: false,
        grants: &[USER_ADMIN_ANY],
    },
];

const READING: Actions = Actions::of(&[
    Action::ChangeStream,
    Action::CollStats,
    Action::DbHash,
    Action::DbStats,
    Action::Find,
    Action::KillCursors,
    Action::ListCollections,
    Action::ListIndexes,
    Action::ListSearchIndexes,
    Action::PlanCacheRead,
]);

const WRITING: Actions = READING.and(Actions::of(&[
    Action::ConvertToCapped,
    Action::CreateCollection,
    Action::CreateIndex,
    Action::CreateSearchIndexes,
    Action::DropCollection,
    Action::DropIndex,
    Action::DropSearchIndex,
    Action::Insert,
    Action::Remove,
    Action::RenameCollectionSameDb,
    Action::Update,
    Action::UpdateSearchIndex,
]));

const ADMINISTERING: Actions = Actions::of(&[
    Action::Analyze,
    Action::BypassDocumentValidation,
    Action::CollMod,
    Action::CollStats,
    Action::Compact,
    Action::ConvertToCapped,
    Action::CreateCollection,
    Action::CreateIndex,
    Action::CreateSearchIndexes,
    Action::DbStats,
    Action::DropCollection,
    Action::DropDatabase,
    Action::DropIndex,
    Action::DropSearchIndex,
    Action::EnableProfiler,
    Action::ListCollections,
    Action::ListIndexes,
    Action::ListSearchIndexes,
    Action::PlanCacheIndexFilter,
    Action::PlanCacheRead,
    Action::PlanCacheWrite,
    Action::ReIndex,
    Action::RenameCollectionSameDb,
    Action::StorageDetails,
    Action::UpdateSearchIndex,
    Action::Validate,
]);

/// What an administrator may do with the profiler's collection.
const PROFILED: Actions = READING.and(Actions::of(&[
    Action::ConvertToCapped,
    Action::CreateCollection,
    Action::DropCollection,
]));

const ADMITTING: Actions = Actions::of(&[
    Action::ChangeCustomData,
    Action::ChangePassword,
    Action::CreateRole,
    Action::CreateUser,
    Action::DropRole,
    Action::DropUser,
    Action::GrantRole,
    Action::RevokeRole,
    Action::SetAuthenticationRestriction,
    Action::ViewRole,
    Action::ViewUser,
]);

const LISTING: Actions = Actions::of(&[Action::ListDatabases]);

const READ: &[Grant] = &[
    grant(GrantScope::Own, READING),
    grant(GrantScope::OwnSystem("system.js"), READING),
];

const READ_WRITE: &[Grant] = &[
    grant(GrantScope::Own, WRITING),
    grant(GrantScope::OwnSystem("system.js"), WRITING),
];

const DB_ADMIN: &[Grant] = &[
    grant(GrantScope::Own, ADMINISTERING),
    grant(GrantScope::OwnSystem("system.profile"), PROFILED),
];

const USER_ADMIN: &[Grant] = &[grant(GrantScope::Own, ADMITTING)];

const READ_ANY: &[Grant] = &[
    grant(GrantScope::Every, READING),
    grant(GrantScope::EverySystem("system.js"), READING),
    grant(GrantScope::Cluster, LISTING),
];

const READ_WRITE_ANY: &[Grant] = &[
    grant(GrantScope::Every, WRITING),
    grant(GrantScope::EverySystem("system.js"), WRITING),
    grant(GrantScope::Cluster, LISTING),
];

const DB_ADMIN_ANY: &[Grant] = &[
    grant(GrantScope::Every, ADMINISTERING),
    grant(GrantScope::EverySystem("system.profile"), PROFILED),
    grant(
        GrantScope::Cluster,
        LISTING.and(Actions::of(&[Action::ApplyOps])),
    ),
];

const USER_ADMIN_ANY: &[Grant] = &[
    grant(GrantScope::Every, ADMITTING),
    // A user administrator manages the users of all databases, including the server's own.
    grant(GrantScope::Named("config"), ADMITTING),
    grant(GrantScope::Named("local"), ADMITTING),
    grant(GrantScope::Collection("admin", "system.users"), READING),
    grant(GrantScope::Collection("admin", "system.roles"), READING),
    grant(
        GrantScope::Cluster,
        LISTING.and(Actions::of(&[Action::InvalidateUserCache])),
    ),
];

const CLUSTER_MONITOR: &[Grant] = &[
    grant(
        GrantScope::Cluster,
        Actions::of(&[
            Action::ConnPoolStats,
            Action::GetClusterParameter,
            Action::GetCmdLineOpts,
            Action::GetDefaultRwConcern,
            Action::GetLog,
            Action::GetParameter,
            Action::GetShardMap,
            Action::HostInfo,
            Action::Inprog,
            Action::ListDatabases,
            Action::ListSessions,
            Action::ListShards,
            Action::QueryStatsRead,
            Action::ReplSetGetConfig,
            Action::ReplSetGetStatus,
            Action::ServerStatus,
            Action::Top,
        ]),
    ),
    grant(GrantScope::Every, MONITORING),
    grant(GrantScope::Named("config"), READING.and(MONITORING)),
    grant(GrantScope::Named("local"), READING.and(MONITORING)),
    grant(
        GrantScope::EverySystem("system.profile"),
        Actions::of(&[Action::Find]),
    ),
];

const MONITORING: Actions = Actions::of(&[
    Action::CollStats,
    Action::DbStats,
    Action::IndexStats,
    Action::UseUuid,
]);

const CLUSTER_MANAGER: &[Grant] = &[
    grant(
        GrantScope::Cluster,
        Actions::of(&[
            Action::AddShard,
            Action::AppendOplogNote,
            Action::ApplicationMessage,
            Action::FlushRouterConfig,
            Action::GetClusterParameter,
            Action::GetDefaultRwConcern,
            Action::ListSessions,
            Action::ListShards,
            Action::ReplSetConfigure,
            Action::ReplSetGetConfig,
            Action::ReplSetGetStatus,
            Action::SetClusterParameter,
            Action::SetDefaultRwConcern,
            Action::SetFeatureCompatibilityVersion,
        ]),
    ),
    grant(GrantScope::Every, Actions::of(&[Action::EnableSharding])),
];

const HOST_MANAGER: &[Grant] = &[
    grant(
        GrantScope::Cluster,
        Actions::of(&[
            Action::ApplicationMessage,
            Action::DropConnections,
            Action::FlushRouterConfig,
            Action::Fsync,
            Action::InvalidateUserCache,
            Action::KillAnyCursor,
            Action::KillAnySession,
            Action::Killop,
            Action::LogRotate,
            Action::RotateCertificates,
            Action::SetParameter,
            Action::Shutdown,
            Action::Unlock,
        ]),
    ),
    grant(GrantScope::Every, Actions::of(&[Action::KillCursors])),
];

const CLUSTER_ADMIN: &[Grant] = &[grant(
    GrantScope::Every,
    Actions::of(&[Action::DropDatabase]),
)];

/// MongoDB's root is the union of most other roles. Here it may do everything.
const ROOT: &[Grant] = &[grant(GrantScope::Anything, Actions::all())];

const fn grant(on: GrantScope, actions: Actions) -> Grant {
    Grant { on, actions }
}

// === impl Role ===

impl Role {
    /// Returns the role with this name, if the database has it.
    pub fn find(name: &RoleName) -> Option<&'static Self> {
        let at = ROLES
            .binary_search_by(|role| role.name.cmp(&name.role))
            .ok()?;
        ROLES.get(at).filter(|role| role.exists_in(&name.db))
    }

    /// Returns whether the database has this role. `$external` holds only users.
    pub fn exists_in(&self, db: &str) -> bool {
        (self.everywhere && db != "$external") || db == "admin"
    }

    /// Adds the privileges of this role in `db`.
    pub fn grant(&self, db: &str, privileges: &mut Privileges) {
        for grant in self.grants.iter().copied().flatten() {
            let resource = match grant.on {
                GrantScope::Own => Resource::Database(db.to_owned()),
                GrantScope::OwnSystem(name) => Resource::Collection(db.to_owned(), name.to_owned()),
                GrantScope::Every => Resource::Every,
                GrantScope::EverySystem(name) => Resource::EveryCollection(name.to_owned()),
                GrantScope::Named(name) => Resource::Database(name.to_owned()),
                GrantScope::Collection(db, name) => {
                    Resource::Collection(db.to_owned(), name.to_owned())
                }
                GrantScope::Cluster => Resource::Cluster,
                GrantScope::Anything => Resource::Anything,
            };
            privileges.add(resource, grant.actions);
        }
    }
}

// === impl RoleName ===

impl RoleName {
    pub fn new(role: impl Into<String>, db: impl Into<String>) -> Self {
        Self {
            role: role.into(),
            db: db.into(),
        }
    }
}

/// Formats the name as mongod does: `role@db`.
impl fmt::Display for RoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.role, self.db)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::AuthTarget;

    #[test]
    fn the_table_is_sorted() {
        for pair in ROLES.windows(2) {
            assert!(pair[0].name < pair[1].name, "{}", pair[1].name);
        }
    }

    #[test]
    fn a_role_is_found_where_it_exists() {
        let rows = [
            ("read", "shop", true),
            ("read", "admin", true),
            ("root", "admin", true),
            ("root", "shop", false),
            ("readAnyDatabase", "shop", false),
            ("nope", "admin", false),
            ("", "admin", false),
        ];
        for (role, db, there) in rows {
            let name = RoleName::new(role, db);
            assert_eq!(Role::find(&name).is_some(), there, "{name}");
        }
    }

    #[test]
    fn what_roles_allow() {
        use Action::*;
        let shop = AuthTarget::Collection("shop", "carts");
        let other = AuthTarget::Collection("other", "carts");
        let rows: &[(&str, &str, AuthTarget<'_>, Action, bool)] = &[
            ("read", "shop", shop, Find, true),
            ("read", "shop", shop, Insert, false),
            ("read", "shop", other, Find, false),
            (
                "read",
                "shop",
                AuthTarget::Database("shop"),
                ListCollections,
                true,
            ),
            ("read", "shop", AuthTarget::Cluster, ListDatabases, false),
            (
                "read",
                "shop",
                AuthTarget::Collection("shop", "system.js"),
                Find,
                true,
            ),
            (
                "read",
                "shop",
                AuthTarget::Collection("shop", "system.users"),
                Find,
                false,
            ),
            ("readWrite", "shop", shop, Remove, true),
            ("readWrite", "shop", shop, CollMod, false),
            (
                "readWrite",
                "shop",
                AuthTarget::Database("shop"),
                DropDatabase,
                false,
            ),
            ("dbAdmin", "shop", shop, CollMod, true),
            ("dbAdmin", "shop", shop, Find, false),
            (
                "dbAdmin",
                "shop",
                AuthTarget::Database("shop"),
                DropDatabase,
                true,
            ),
            (
                "userAdmin",
                "shop",
                AuthTarget::Database("shop"),
                CreateUser,
                true,
            ),
            (
                "userAdmin",
                "shop",
                AuthTarget::Database("other"),
                CreateUser,
                false,
            ),
            (
                "dbOwner",
                "shop",
                AuthTarget::Database("shop"),
                GrantRole,
                true,
            ),
            ("dbOwner", "shop", shop, Update, true),
            ("readAnyDatabase", "admin", other, Find, true),
            (
                "readAnyDatabase",
                "admin",
                AuthTarget::Cluster,
                ListDatabases,
                true,
            ),
            (
                "readAnyDatabase",
                "admin",
                AuthTarget::Collection("local", "x"),
                Find,
                false,
            ),
            (
                "userAdminAnyDatabase",
                "admin",
                AuthTarget::Database("local"),
                CreateUser,
                true,
            ),
            (
                "clusterMonitor",
                "admin",
                AuthTarget::Cluster,
                ServerStatus,
                true,
            ),
            ("clusterMonitor", "admin", shop, Find, false),
            ("clusterMonitor", "admin", shop, CollStats, true),
            (
                "clusterAdmin",
                "admin",
                AuthTarget::Cluster,
                KillAnySession,
                true,
            ),
            ("clusterAdmin", "admin", shop, Find, false),
            (
                "root",
                "admin",
                AuthTarget::Collection("local", "system.x"),
                Remove,
                true,
            ),
        ];
        for (role, db, target, action, allowed) in rows {
            let name = RoleName::new(*role, *db);
            let mut privileges = Privileges::default();
            Role::find(&name)
                .expect("a role")
                .grant(db, &mut privileges);
            assert_eq!(
                privileges.allow(*target, *action),
                *allowed,
                "{name} {target:?} {action:?}"
            );
        }
    }
}
