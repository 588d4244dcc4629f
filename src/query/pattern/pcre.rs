//! A safe interface to PCRE2: compiled patterns, searches with limits, and their matches.
//!
//! All unsafe code for patterns is in this file. [`super::search`] decides which limits a search gets.

#![allow(unsafe_code)] // a C library

use std::any::Any;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};

use pcre2_sys as sys;

/// A pattern compiled by PCRE2.
pub struct PcreCode {
    code: NonNull<sys::pcre2_code_8>,
    /// The number of offset pairs: one for the whole match and one for each group.
    pairs: u32,
    has_backreferences: bool,
    /// Whether the pattern was compiled to machine code. A search by machine code needs no heap.
    has_jit: bool,
}

/// The text to search.
#[derive(Clone, Copy)]
pub enum Text<'t> {
    Str(&'t str),
    /// Bytes that may be invalid UTF-8. PCRE2 checks them first, and the search fails if they are invalid.
    Bytes(&'t [u8]),
}

/// The offsets of the whole match and of each group in the last search: PCRE2's match data.
pub struct Captures {
    data: NonNull<sys::pcre2_match_data_8>,
    pairs: u32,
    /// Whether the last search found a match. If not, the offsets must not be read.
    is_set: bool,
}

/// A callback that runs before every item of a pattern, with the position in the text. It returns whether the search continues.
pub type OnItem<'a> = &'a mut dyn FnMut(usize) -> bool;

/// The limits of one search.
pub struct SearchLimits<'a> {
    /// Backtracking steps from each position where a match can begin: PCRE2's match limit.
    pub steps: u32,
    /// The last position where a match can begin, for [`CompileMode::Windowed`].
    pub last: Option<usize>,
    /// The callback, for [`CompileMode::Interruptible`] only.
    pub on_item: Option<OnItem<'a>>,
}

/// The kind of search that a pattern is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompileMode {
    Plain,
    /// A search that can be interrupted ([`SearchLimits::on_item`]).
    Interruptible,
    /// A search of a part of a text ([`SearchLimits::last`]).
    Windowed,
}

/// PCRE2's reason why a search has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PcreError(c_int);

/// A thread's search context, with memory that its searches reuse.
struct MatchContext {
    raw: NonNull<sys::pcre2_match_context_8>,
    stack: Option<NonNull<sys::pcre2_jit_stack_8>>,
    /// Match data for searches that only return whether there is a match.
    whole: Captures,
}

/// The data that PCRE2 passes to the callback.
struct CalloutData<'a> {
    on_item: OnItem<'a>,
    panic: Option<Box<dyn Any + Send>>,
}

/// The first fields of `pcre2_callout_block`, as in `pcre2.h`. The struct may continue after them.
#[repr(C)]
struct CalloutBlock {
    version: u32,
    number: u32,
    capture_top: u32,
    capture_last: u32,
    offset_vector: *mut usize,
    mark: *const u8,
    subject: *const u8,
    subject_length: usize,
    start_match: usize,
    current_position: usize,
}

type Callback = unsafe extern "C" fn(*mut CalloutBlock, *mut c_void) -> c_int;

unsafe extern "C" {
    /// `pcre2-sys` does not declare this function.
    fn pcre2_set_callout_8(
        context: *mut sys::pcre2_match_context_8,
        callback: Option<Callback>,
        data: *mut c_void,
    ) -> c_int;
}

/// The initial and the largest stack of a search by machine code, in bytes.
const JIT_STACK: (usize, usize) = (32 << 10, 1 << 20);
/// The heap that an interpreted search may use, in KiB.
const HEAP_LIMIT: u32 = 20_000;

// === impl PcreCode ===

// SAFETY: searches do not change a compiled pattern, and PCRE2 allows them from several threads at once.
unsafe impl Send for PcreCode {}
// SAFETY: as above.
unsafe impl Sync for PcreCode {}

impl PcreCode {
    /// Compiles a pattern. `options` are PCRE2's, and `jit` requests machine code. The error is PCRE2's message.
    pub fn compile(
        source: &str,
        options: u32,
        mode: CompileMode,
        jit: bool,
    ) -> Result<Self, String> {
        let options = options
            | sys::PCRE2_UTF
            | match mode {
                CompileMode::Plain => 0,
                CompileMode::Interruptible => sys::PCRE2_AUTO_CALLOUT,
                CompileMode::Windowed => sys::PCRE2_USE_OFFSET_LIMIT,
            };
        let (mut error, mut offset) = (0, 0);
        // SAFETY: the pattern is readable for its length, both results are written to locals, and a null context means the
        // default one.
        let code = unsafe {
            sys::pcre2_compile_8(
                source.as_ptr(),
                source.len(),
                options,
                &raw mut error,
                &raw mut offset,
                ptr::null_mut(),
            )
        };
        let code = NonNull::new(code).ok_or_else(|| message(error))?;
        let mut made = Self {
            code,
            pairs: 1,
            has_backreferences: false,
            has_jit: false,
        };
        made.pairs = 1 + made.info(sys::PCRE2_INFO_CAPTURECOUNT);
        made.has_backreferences = made.info(sys::PCRE2_INFO_BACKREFMAX) > 0;
        if jit {
            // SAFETY: the pattern is valid, and no search uses it yet.
            let refused =
                unsafe { sys::pcre2_jit_compile_8(code.as_ptr(), sys::PCRE2_JIT_COMPLETE) };
            // If PCRE2 has no machine code for this machine or this pattern, it interprets the pattern.
            made.has_jit = refused == 0;
        }
        Ok(made)
    }

    /// Returns a property of the pattern whose type is `uint32_t`.
    fn info(&self, what: u32) -> u32 {
        let mut fact: u32 = 0;
        // SAFETY: the pattern is valid, and both properties that callers request have this type (pcre2api).
        unsafe { sys::pcre2_pattern_info_8(self.code.as_ptr(), what, (&raw mut fact).cast()) };
        fact
    }

    pub fn groups(&self) -> u32 {
        self.pairs - 1
    }

    pub fn has_backreferences(&self) -> bool {
        self.has_backreferences
    }

    /// Returns whether the text has a match that begins at `from` or later.
    pub fn is_match(
        &self,
        text: Text<'_>,
        from: usize,
        limits: SearchLimits<'_>,
    ) -> Result<bool, PcreError> {
        MatchContext::with(|context| {
            if self.has_jit {
                return self.search(text, from, limits, context.raw, &mut context.whole);
            }
            // An interpreted search allocates heap in its match data. Dropping the match data frees it.
            self.search(text, from, limits, context.raw, &mut Captures::new(1)?)
        })
    }

    /// Finds the first match that begins at `from` or later, and writes its offsets to `captures`.
    pub fn find(
        &self,
        text: Text<'_>,
        from: usize,
        limits: SearchLimits<'_>,
        captures: &mut Captures,
    ) -> Result<bool, PcreError> {
        MatchContext::with(|context| self.search(text, from, limits, context.raw, captures))
    }

    #[inline]
    fn search(
        &self,
        text: Text<'_>,
        from: usize,
        limits: SearchLimits<'_>,
        context: NonNull<sys::pcre2_match_context_8>,
        captures: &mut Captures,
    ) -> Result<bool, PcreError> {
        let (bytes, options) = match text {
            Text::Bytes(bytes) => (bytes, 0),
            Text::Str(text) if text.is_char_boundary(from) => {
                (text.as_bytes(), sys::PCRE2_NO_UTF_CHECK)
            }
            Text::Str(_) => return Err(PcreError(sys::PCRE2_ERROR_BADUTFOFFSET)),
        };
        let mut callout = limits.on_item.map(|on_item| CalloutData {
            on_item,
            panic: None,
        });
        let last = limits.last.unwrap_or(sys::PCRE2_UNSET);
        // An empty slice may point to unreadable memory, and some versions of PCRE2 have read there.
        let subject = if bytes.is_empty() { &[0] } else { bytes };
        // SAFETY: context, captures and pattern are valid, and only this thread uses them while the search runs (`captures` is
        // borrowed mutably, and the context is taken out of its thread-local). The text is readable for its length. If PCRE2's
        // check is skipped, the text is UTF-8 and `from` is at the beginning of a character. The callback's data outlives the
        // search, and it is removed from the context before the context is used again.
        let found = unsafe {
            sys::pcre2_set_match_limit_8(context.as_ptr(), limits.steps);
            sys::pcre2_set_offset_limit_8(context.as_ptr(), last);
            if let Some(callout) = &mut callout {
                let data = (&raw mut *callout).cast();
                pcre2_set_callout_8(context.as_ptr(), Some(call_out), data);
            }
            let found = sys::pcre2_match_8(
                self.code.as_ptr(),
                subject.as_ptr(),
                bytes.len(),
                from,
                options,
                captures.data.as_ptr(),
                context.as_ptr(),
            );
            if callout.is_some() {
                pcre2_set_callout_8(context.as_ptr(), None, ptr::null_mut());
            }
            found
        };
        captures.is_set = found >= 0;
        if let Some(panic) = callout.and_then(|callout| callout.panic) {
            resume_unwind(panic);
        }
        match found {
            sys::PCRE2_ERROR_NOMATCH => Ok(false),
            // Zero means that the pattern has more groups than the match data has offsets for.
            0.. => Ok(true),
            error => Err(PcreError(error)),
        }
    }
}

impl Drop for PcreCode {
    fn drop(&mut self) {
        // SAFETY: PCRE2 created it, and it is freed once.
        unsafe { sys::pcre2_code_free_8(self.code.as_ptr()) }
    }
}

/// Runs the callback before an item. A panic must not unwind through C, so it is stored until the search has ended.
unsafe extern "C" fn call_out(block: *mut CalloutBlock, data: *mut c_void) -> c_int {
    // SAFETY: PCRE2 passes its block, which is valid during the call, and the pointer that the search set. That points to a
    // `CalloutData` that outlives the search, and no other code touches it meanwhile. Only its lifetime is shortened here.
    let (position, callout) = unsafe {
        let callout = &mut *data.cast::<CalloutData<'_>>();
        ((*block).current_position, callout)
    };
    match catch_unwind(AssertUnwindSafe(|| (callout.on_item)(position))) {
        Ok(true) => 0,
        Ok(false) => sys::PCRE2_ERROR_CALLOUT,
        Err(panic) => {
            callout.panic = Some(panic);
            sys::PCRE2_ERROR_CALLOUT
        }
    }
}

// === impl Text ===

impl Text<'_> {
    pub fn len(self) -> usize {
        match self {
            Self::Str(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

// === impl Captures ===

// SAFETY: it is plain PCRE2 memory that any thread may use, one at a time.
unsafe impl Send for Captures {}

impl Captures {
    /// Allocates space for the whole match and all groups of a pattern.
    pub fn of(code: &PcreCode) -> Result<Self, PcreError> {
        Self::new(code.pairs)
    }

    fn new(pairs: u32) -> Result<Self, PcreError> {
        // SAFETY: a null context means the default one.
        let data = unsafe { sys::pcre2_match_data_create_8(pairs, ptr::null_mut()) };
        let data = NonNull::new(data).ok_or(PcreError::MEMORY)?;
        // The pairs of a pattern fit in sixteen bits, so PCRE2 allocates all of them.
        Ok(Self {
            data,
            pairs,
            is_set: false,
        })
    }

    /// Returns the start and end of the whole match (0) or of a group. A group that took no part in the match gives `None`.
    pub fn get(&self, group: u32) -> Option<(usize, usize)> {
        if !self.is_set || group >= self.pairs {
            return None;
        }
        let at = 2 * group as usize;
        // SAFETY: each pair has two offsets, and a match has set all of them (UNSET for groups that took no part).
        let (start, end) = unsafe {
            let offsets = sys::pcre2_get_ovector_pointer_8(self.data.as_ptr());
            (*offsets.add(at), *offsets.add(at + 1))
        };
        (start != sys::PCRE2_UNSET).then_some((start, end))
    }
}

impl Drop for Captures {
    fn drop(&mut self) {
        // SAFETY: PCRE2 created it, and it is freed once.
        unsafe { sys::pcre2_match_data_free_8(self.data.as_ptr()) }
    }
}

// === impl PcreError ===

impl PcreError {
    pub const MATCH_LIMIT: Self = Self(sys::PCRE2_ERROR_MATCHLIMIT);
    pub const MEMORY: Self = Self(sys::PCRE2_ERROR_NOMEMORY);
    pub const NOT_UTF8: Self = Self(sys::PCRE2_ERROR_UTF8_ERR1);
}

/// Writes PCRE2's own message, which mongod repeats.
impl std::fmt::Display for PcreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&message(self.0))
    }
}

fn message(error: c_int) -> String {
    let mut text = [0u8; 120];
    // SAFETY: the buffer is writable for its length.
    let length = unsafe { sys::pcre2_get_error_message_8(error, text.as_mut_ptr(), text.len()) };
    let length = usize::try_from(length).unwrap_or_default();
    String::from_utf8_lossy(text.get(..length).unwrap_or_default()).into_owned()
}

// === impl MatchContext ===

impl MatchContext {
    fn new() -> Result<Self, PcreError> {
        let whole = Captures::new(1)?;
        // SAFETY: a null context means the default one. A null result is not used.
        unsafe {
            let context = sys::pcre2_match_context_create_8(ptr::null_mut());
            let context = NonNull::new(context).ok_or(PcreError::MEMORY)?;
            sys::pcre2_set_heap_limit_8(context.as_ptr(), HEAP_LIMIT);
            let stack = sys::pcre2_jit_stack_create_8(JIT_STACK.0, JIT_STACK.1, ptr::null_mut());
            let stack = NonNull::new(stack);
            if let Some(stack) = stack {
                sys::pcre2_jit_stack_assign_8(context.as_ptr(), None, stack.as_ptr().cast());
            }
            Ok(Self {
                raw: context,
                stack,
                whole,
            })
        }
    }

    /// Lends this thread's context. A search inside another search would get a new one.
    fn with<R>(search: impl FnOnce(&mut Self) -> Result<R, PcreError>) -> Result<R, PcreError> {
        thread_local! {
            static CONTEXT: Cell<Option<Box<MatchContext>>> = const { Cell::new(None) };
        }
        let mut context = match CONTEXT.take() {
            Some(context) => context,
            None => Box::new(Self::new()?),
        };
        let found = search(&mut context);
        CONTEXT.set(Some(context));
        found
    }
}

impl Drop for MatchContext {
    fn drop(&mut self) {
        // SAFETY: PCRE2 created both, they are freed once, and no search uses them any more.
        unsafe {
            sys::pcre2_match_context_free_8(self.raw.as_ptr());
            if let Some(stack) = self.stack {
                sys::pcre2_jit_stack_free_8(stack.as_ptr());
            }
        }
    }
}
