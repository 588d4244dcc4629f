//! The labels that mongod gives an error, so that drivers know what may be done again.

use crate::command::frame::transaction::{self, TRANSIENT};
use crate::error::Code;
use crate::value::Doc;

/// Errors after which a command may be repeated.
const RETRYABLE: &[i32] = &[
    6, 7, 89, 91, 134, 189, 262, 317, 358, 384, 402, 406, 407, 412, 9001, 10107, 11600, 11602,
    13435, 13436,
];
/// Retryable in the eyes of a retryable write alone: InternalTransactionNotSupported.
const WRITES_ONLY: i32 = 358;
/// Errors after which only a change stream goes on.
const RESUMABLE: &[i32] = &[63, 133, 150, 234, 13388];
/// Errors that end a change stream for good: ChangeStreamFatalError, ChangeStreamHistoryLost.
const FATAL: &[i32] = &[280, 286];

/// Returns the label of an error with this code in the reply to `command`. `stream` is the command that has opened the
/// cursor, if there is one.
pub fn of_error(code: i32, command: Doc<'_>, stream: Option<Doc<'_>>) -> Option<&'static str> {
    let ends = ends_transaction(command);
    let retryable = RETRYABLE.contains(&code);
    let everywhere = retryable && code != WRITES_ONLY;
    if command.has("autocommit")
        && (transaction::is_transient(Code::numbered(code)) || everywhere && !ends)
    {
        return Some(TRANSIENT);
    }
    if FATAL.contains(&code) {
        return Some("NonResumableChangeStreamError");
    }
    if watches(stream.unwrap_or(command)) && (everywhere || RESUMABLE.contains(&code)) {
        return Some("ResumableChangeStreamError");
    }
    of_write(code, command)
}

/// Returns the label of an error of the write concern with this code.
pub fn of_write(code: i32, command: Doc<'_>) -> Option<&'static str> {
    let is_retryable_write = command.has("txnNumber") && !command.has("autocommit");
    let may_repeat = is_retryable_write || ends_transaction(command);
    (may_repeat && RETRYABLE.contains(&code)).then_some("RetryableWriteError")
}

fn ends_transaction(command: Doc<'_>) -> bool {
    command.first().is_some_and(|name| {
        matches!(
            name.name_bytes(),
            b"commitTransaction" | b"abortTransaction"
        )
    })
}

/// Whether the command opens a change stream.
fn watches(command: Doc<'_>) -> bool {
    let stages = command.get("pipeline").as_array();
    let first = stages.and_then(|stages| stages.first());
    first.is_some_and(|stage| {
        stage
            .value
            .as_doc()
            .is_some_and(|stage| stage.has("$changeStream"))
    })
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;
    use crate::value::DocBuf;

    /// Seen on mongod 6.0.5, with failCommand and failGetMoreAfterCursorCheckout.
    #[test]
    fn labels_by_command_and_code() {
        let insert = doc! {"insert": "c", "documents": [{}]};
        let retried = doc! {"insert": "c", "documents": [{}], "txnNumber": 1_i64};
        let inside =
            doc! {"insert": "c", "documents": [{}], "txnNumber": 1_i64, "autocommit": false};
        let commit = doc! {"commitTransaction": 1, "txnNumber": 1_i64, "autocommit": false};
        let abort = doc! {"abortTransaction": 1, "txnNumber": 1_i64, "autocommit": false};
        let watch = doc! {"aggregate": "c", "pipeline": [{"$changeStream": {}}]};
        let more = doc! {"getMore": 1_i64, "collection": "c"};
        let (transient, retryable) = (
            Some("TransientTransactionError"),
            Some("RetryableWriteError"),
        );
        let resumable = Some("ResumableChangeStreamError");
        let fatal = Some("NonResumableChangeStreamError");
        type Row<'a> = (&'a [i32], [Option<&'a str>; 6]);
        // plain, retried, inside, commit and abort, watch, getMore without a stream
        let rows: &[Row<'_>] = &[
            (
                &[
                    6, 7, 89, 91, 189, 262, 317, 9001, 10107, 11600, 11602, 13435, 13436,
                ],
                [None, retryable, transient, retryable, resumable, None],
            ),
            (&[358], [None, retryable, None, retryable, None, None]),
            (
                &[24, 112, 246, 251, 267],
                [None, None, transient, transient, None, None],
            ),
            (&[150], [None, None, transient, transient, resumable, None]),
            (&[63, 133, 234], [None, None, None, None, resumable, None]),
            (&[280, 286], [fatal; 6]),
            (&[1, 2, 43, 50, 59, 64, 100, 11601], [None; 6]),
        ];
        let label = |code: i32, command: &Document, stream: Option<&Document>| {
            let stream = stream.map(DocBuf::from);
            let stream = stream.as_ref().map(DocBuf::as_doc);
            of_error(code, DocBuf::from(command).as_doc(), stream)
        };
        for &(codes, expected) in rows {
            for &code in codes {
                let told = [&insert, &retried, &inside, &commit, &watch, &more]
                    .map(|command| label(code, command, None));
                assert_eq!(told, expected, "{code}");
                assert_eq!(label(code, &abort, None), expected[3], "{code}");
                assert_eq!(label(code, &more, Some(&watch)), expected[4], "{code}");
                let of_concern = expected[1].filter(|_| !FATAL.contains(&code));
                for command in [&retried, &commit] {
                    let told = of_write(code, DocBuf::from(command).as_doc());
                    assert_eq!(told, of_concern, "{code}");
                }
            }
        }
    }
}
