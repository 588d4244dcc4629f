//! The table of error codes that have a name in MongoDB.

/// Generates the enum, its numbers and its names from one list.
macro_rules! codes {
    ($($number:literal $name:ident,)*) => {
        /// A MongoDB error code. `Location` is for errors that mongod knows by number only.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $($name,)*
            Location(i32),
        }

        impl Code {
            pub fn number(self) -> i32 {
                match self {
                    $(Self::$name => $number,)*
                    Self::Location(number) => number,
                }
            }

            /// Returns the code with this number.
            pub fn numbered(number: i32) -> Self {
                match number {
                    $($number => Self::$name,)*
                    other => Self::Location(other),
                }
            }

            pub fn name(self) -> std::borrow::Cow<'static, str> {
                match self {
                    $(Self::$name => stringify!($name).into(),)*
                    Self::Location(number) => format!("Location{number}").into(),
                }
            }
        }

        #[cfg(test)]
        const ALL: &[Code] = &[$(Code::$name,)*];
    };
}

codes! {
    0 OK,
    1 InternalError,
    2 BadValue,
    4 NoSuchKey,
    5 GraphContainsCycle,
    6 HostUnreachable,
    7 HostNotFound,
    8 UnknownError,
    9 FailedToParse,
    10 CannotMutateObject,
    11 UserNotFound,
    12 UnsupportedFormat,
    13 Unauthorized,
    14 TypeMismatch,
    15 Overflow,
    16 InvalidLength,
    17 ProtocolError,
    18 AuthenticationFailed,
    19 CannotReuseObject,
    20 IllegalOperation,
    21 EmptyArrayOperation,
    22 InvalidBSON,
    23 AlreadyInitialized,
    24 LockTimeout,
    25 RemoteValidationError,
    26 NamespaceNotFound,
    27 IndexNotFound,
    28 PathNotViable,
    29 NonExistentPath,
    30 InvalidPath,
    31 RoleNotFound,
    34 CannotBackfillArray,
    40 ConflictingUpdateOperators,
    43 CursorNotFound,
    46 LockBusy,
    47 NoMatchingDocument,
    48 NamespaceExists,
    50 MaxTimeMSExpired,
    52 DollarPrefixedFieldName,
    53 InvalidIdField,
    54 NotSingleValueField,
    55 InvalidDBRef,
    56 EmptyFieldName,
    57 DottedFieldName,
    59 CommandNotFound,
    61 ShardKeyNotFound,
    62 OplogOperationUnsupported,
    64 WriteConcernFailed,
    65 MultipleErrorsOccurred,
    66 ImmutableField,
    67 CannotCreateIndex,
    68 IndexAlreadyExists,
    70 ShardNotFound,
    72 InvalidOptions,
    73 InvalidNamespace,
    75 WriteConcernNotDefined,
    76 NoReplicationEnabled,
    79 UnknownReplWriteConcern,
    85 IndexOptionsConflict,
    86 IndexKeySpecsConflict,
    89 NetworkTimeout,
    91 ShutdownInProgress,
    93 InvalidReplicaSetConfig,
    94 NotYetInitialized,
    96 OperationFailed,
    100 UnsatisfiableWriteConcern,
    111 NotExactValueField,
    112 WriteConflict,
    115 CommandNotSupported,
    117 ConflictingOperationInProgress,
    121 DocumentValidationFailure,
    123 NotAReplicaSet,
    125 CommandFailed,
    133 FailedToSatisfyReadPreference,
    134 ReadConcernMajorityNotAvailableYet,
    136 CappedPositionLost,
    146 ExceededMemoryLimit,
    150 StaleEpoch,
    159 DurationOverflow,
    160 MaxStalenessOutOfRange,
    165 ViewDepthLimitExceeded,
    166 CommandNotSupportedOnView,
    167 OptionNotSupportedOnView,
    168 InvalidPipelineOperator,
    171 CannotIndexParallelArrays,
    175 QueryPlanKilled,
    181 AmbiguousIndexKeyPattern,
    182 InvalidViewDefinition,
    183 ClientMetadataMissingField,
    184 ClientMetadataAppNameTooLarge,
    185 ClientMetadataDocumentTooLarge,
    186 ClientMetadataCannotBeMutated,
    188 IncompatibleServerVersion,
    189 PrimarySteppedDown,
    197 InvalidIndexSpecificationOption,
    201 CannotBuildIndexKeys,
    205 ClusterTimeFailsRateLimiter,
    206 NoSuchSession,
    207 InvalidUUID,
    209 StaleClusterTime,
    217 IncompleteTransactionHistory,
    224 QueryFeatureNotAllowed,
    225 TransactionTooOld,
    232 MaxSubPipelineDepthExceeded,
    234 RetryChangeStream,
    237 CursorKilled,
    238 NotImplemented,
    239 SnapshotTooOld,
    241 ConversionFailure,
    246 SnapshotUnavailable,
    251 NoSuchTransaction,
    256 TransactionCommitted,
    260 InvalidResumeToken,
    261 TooManyLogicalSessions,
    262 ExceededTimeLimit,
    263 OperationNotSupportedInTransaction,
    266 FailPointSetFailed,
    267 PreparedTransactionInProgress,
    276 IndexBuildAborted,
    278 UnsatisfiableCommitQuorum,
    280 ChangeStreamFatalError,
    286 ChangeStreamHistoryLost,
    290 TransactionExceededLifetimeLimitSeconds,
    291 NoQueryExecutionPlans,
    292 QueryExceededMemoryLimitNoDiskUseAllowed,
    317 ConnectionPoolExpired,
    322 APIVersionError,
    323 APIStrictError,
    324 APIDeprecationError,
    331 InvalidIdFieldType,
    334 MechanismUnavailable,
    345 IncompatibleCollectionOptions,
    347 APIMismatchError,
    349 KeyPatternShorterThanBound,
    352 UnsupportedOpQueryCommand,
    357 TransactionTooLargeForCache,
    359 CannotConvertIndexToUnique,
    361 CollectionUUIDMismatch,
    366 OfflineValidationFailedToComplete,
    378 NonConformantBSON,
    396 IndexInformationTooLarge,
    9001 SocketException,
    10107 NotWritablePrimary,
    10334 BSONObjectTooLarge,
    11000 DuplicateKey,
    11600 InterruptedAtShutdown,
    11601 Interrupted,
    11602 InterruptedDueToReplStateChange,
    12051 CursorInUse,
    12587 BackgroundOperationInProgressForNamespace,
    13113 MergeStageNoMatchingDocument,
    13297 DatabaseDifferCase,
    13388 StaleConfig,
    13435 NotPrimaryNoSecondaryOk,
    13436 NotPrimaryOrSecondary,
    40413 IDLDuplicateField,
    40414 IDLFailedToParse,
    40415 IDLUnknownField,
    50768 NotARetryableWriteCommand,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sorted_and_unique() {
        for pair in ALL.windows(2) {
            assert!(
                pair[0].number() < pair[1].number(),
                "{:?} before {:?}",
                pair[0],
                pair[1]
            );
        }
    }
}
