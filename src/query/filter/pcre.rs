//! PCRE2 itself, behind an interface that cannot be misused: compiled patterns, searches with limits, and what they found.
//!
//! Everything unsafe about patterns is in this file. Which limits a search gets is decided in [`super::search`].

#![allow(unsafe_code)] // a C library

use std::any::Any;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};

use pcre2_sys as sys;

/// A pattern, ready to be searched for.
pub struct Code {
    code: NonNull<sys::pcre2_code_8>,
    /// The whole match and each group.
    pairs: u32,
    refers_back: bool,
    /// It became machine code, which needs nothing of the heap.
    is_fast: bool,
}

/// What is searched.
#[derive(Clone, Copy)]
pub enum Text<'t> {
    Str(&'t str),
    /// PCRE2 looks through it first: it need not be UTF-8, and is not searched then.
    Bytes(&'t [u8]),
}

/// Where the last search with it found the whole and its groups.
pub struct Places {
    data: NonNull<sys::pcre2_match_data_8>,
    pairs: u32,
    /// The last search found something: before, the places hold nothing that may be read.
    is_set: bool,
}

/// Asked before every item of a pattern, with the place in the text; false ends the search.
pub type Ask<'a> = &'a mut dyn FnMut(usize) -> bool;

/// How far a search may go.
pub struct Terms<'a> {
    /// Backtracking steps for each place where a match could begin.
    pub steps: u32,
    /// The last such place, for [`Kind::Windowed`].
    pub last: Option<usize>,
    /// Only [`Kind::Asking`] asks.
    pub ask: Option<Ask<'a>>,
}

/// What a pattern is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Plain,
    /// To ask ([`Terms::ask`]).
    Asking,
    /// To search a part of a text ([`Terms::last`]).
    Windowed,
}

/// Why a search came to no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure(c_int);

/// What a thread keeps for its searches.
struct Desk {
    context: NonNull<sys::pcre2_match_context_8>,
    stack: Option<NonNull<sys::pcre2_jit_stack_8>>,
    /// For those who ask only whether there is a match.
    whole: Places,
}

/// What the callback is handed.
struct Asked<'a> {
    ask: Ask<'a>,
    panic: Option<Box<dyn Any + Send>>,
}

/// The beginning of `pcre2_callout_block` as `pcre2.h` has it; more may follow.
#[repr(C)]
struct Callout {
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

type Callback = unsafe extern "C" fn(*mut Callout, *mut c_void) -> c_int;

unsafe extern "C" {
    /// `pcre2-sys` does not name it.
    fn pcre2_set_callout_8(
        context: *mut sys::pcre2_match_context_8,
        callback: Option<Callback>,
        data: *mut c_void,
    ) -> c_int;
}

/// The stack of a search by machine code: it begins with the first, and may grow to the second.
const STACK: (usize, usize) = (32 << 10, 1 << 20);
/// What a search without machine code may take, in KiB.
const HEAP_LIMIT: u32 = 20_000;

// === impl Code ===

// SAFETY: a compiled pattern is not changed by searches, and PCRE2 allows them from several threads at once.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Code {
    /// Options are PCRE2's; `fast` asks for machine code. What is wrong with a pattern is said in PCRE2's words.
    pub fn compile(source: &str, options: u32, kind: Kind, fast: bool) -> Result<Self, String> {
        let options = options
            | sys::PCRE2_UTF
            | match kind {
                Kind::Plain => 0,
                Kind::Asking => sys::PCRE2_AUTO_CALLOUT,
                Kind::Windowed => sys::PCRE2_USE_OFFSET_LIMIT,
            };
        let (mut error, mut offset) = (0, 0);
        // SAFETY: the pattern is readable for its length, both results are written to locals, and no context means the
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
            refers_back: false,
            is_fast: false,
        };
        made.pairs = 1 + made.info(sys::PCRE2_INFO_CAPTURECOUNT);
        made.refers_back = made.info(sys::PCRE2_INFO_BACKREFMAX) > 0;
        if fast {
            // SAFETY: the pattern is valid, and nobody searches for it yet.
            let refused =
                unsafe { sys::pcre2_jit_compile_8(code.as_ptr(), sys::PCRE2_JIT_COMPLETE) };
            // Where there is none for this machine or this pattern, PCRE2 interprets.
            made.is_fast = refused == 0;
        }
        Ok(made)
    }

    /// One of the facts that are a `uint32_t`.
    fn info(&self, what: u32) -> u32 {
        let mut fact: u32 = 0;
        // SAFETY: the pattern is valid, and both facts that are asked for are of this type (pcre2api).
        unsafe { sys::pcre2_pattern_info_8(self.code.as_ptr(), what, (&raw mut fact).cast()) };
        fact
    }

    pub fn groups(&self) -> u32 {
        self.pairs - 1
    }

    pub fn refers_back(&self) -> bool {
        self.refers_back
    }

    /// Whether the text has a match that begins at `from` or later.
    pub fn is_in(&self, text: Text<'_>, from: usize, terms: Terms<'_>) -> Result<bool, Failure> {
        Desk::with(|desk| {
            if self.is_fast {
                return self.search(text, from, terms, desk.context, &mut desk.whole);
            }
            // The heap that an interpreted search takes belongs to its places, and goes with them.
            self.search(text, from, terms, desk.context, &mut Places::new(1)?)
        })
    }

    /// The same, and `places` tell where.
    pub fn find(
        &self,
        text: Text<'_>,
        from: usize,
        terms: Terms<'_>,
        places: &mut Places,
    ) -> Result<bool, Failure> {
        Desk::with(|desk| self.search(text, from, terms, desk.context, places))
    }

    #[inline]
    fn search(
        &self,
        text: Text<'_>,
        from: usize,
        terms: Terms<'_>,
        context: NonNull<sys::pcre2_match_context_8>,
        places: &mut Places,
    ) -> Result<bool, Failure> {
        let (bytes, options) = match text {
            Text::Bytes(bytes) => (bytes, 0),
            Text::Str(text) if text.is_char_boundary(from) => {
                (text.as_bytes(), sys::PCRE2_NO_UTF_CHECK)
            }
            Text::Str(_) => return Err(Failure(sys::PCRE2_ERROR_BADUTFOFFSET)),
        };
        let mut asked = terms.ask.map(|ask| Asked { ask, panic: None });
        let last = terms.last.unwrap_or(sys::PCRE2_UNSET);
        // An empty slice may point to where nothing can be read, and PCRE2 has been known to read there.
        let subject = if bytes.is_empty() { &[0] } else { bytes };
        // SAFETY: context, places and pattern are valid and used by this thread alone while the search runs (`places`
        // is borrowed mutably, and the desk is taken from its thread). The text is readable for its length, and it is
        // UTF-8 where the check is left out, searched from the beginning of a character. What the callback is handed
        // outlives the search, and is taken from the context before anybody else sees that.
        let found = unsafe {
            sys::pcre2_set_match_limit_8(context.as_ptr(), terms.steps);
            sys::pcre2_set_offset_limit_8(context.as_ptr(), last);
            if let Some(asked) = &mut asked {
                let data = (&raw mut *asked).cast();
                pcre2_set_callout_8(context.as_ptr(), Some(ask), data);
            }
            let found = sys::pcre2_match_8(
                self.code.as_ptr(),
                subject.as_ptr(),
                bytes.len(),
                from,
                options,
                places.data.as_ptr(),
                context.as_ptr(),
            );
            if asked.is_some() {
                pcre2_set_callout_8(context.as_ptr(), None, ptr::null_mut());
            }
            found
        };
        places.is_set = found >= 0;
        if let Some(panic) = asked.and_then(|asked| asked.panic) {
            resume_unwind(panic);
        }
        match found {
            sys::PCRE2_ERROR_NOMATCH => Ok(false),
            // Zero: there are more groups than places for them.
            0.. => Ok(true),
            error => Err(Failure(error)),
        }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: it was made by PCRE2 and is freed once.
        unsafe { sys::pcre2_code_free_8(self.code.as_ptr()) }
    }
}

/// What PCRE2 calls before an item. A panic must not pass through C, so it waits until the search has ended.
unsafe extern "C" fn ask(callout: *mut Callout, data: *mut c_void) -> c_int {
    // SAFETY: PCRE2 hands over its block, which is valid during the call, and what the search gave it, which nobody else
    // touches meanwhile. The search gave it an `Asked` that is still there; its lifetime is only shortened here.
    let (place, asked) = unsafe { ((*callout).current_position, &mut *data.cast::<Asked<'_>>()) };
    match catch_unwind(AssertUnwindSafe(|| (asked.ask)(place))) {
        Ok(true) => 0,
        Ok(false) => sys::PCRE2_ERROR_CALLOUT,
        Err(panic) => {
            asked.panic = Some(panic);
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

// === impl Places ===

// SAFETY: it is plain memory of PCRE2 that any one thread at a time may use.
unsafe impl Send for Places {}

impl Places {
    /// Room for all that a pattern can find.
    pub fn of(code: &Code) -> Result<Self, Failure> {
        Self::new(code.pairs)
    }

    fn new(pairs: u32) -> Result<Self, Failure> {
        // SAFETY: no context means the default one.
        let data = unsafe { sys::pcre2_match_data_create_8(pairs, ptr::null_mut()) };
        let data = NonNull::new(data).ok_or(Failure::MEMORY)?;
        // A pattern's pairs fit in sixteen bits: PCRE2 gives as many as it is asked for.
        Ok(Self {
            data,
            pairs,
            is_set: false,
        })
    }

    /// Where the whole (0) or a group began and ended. Nothing for a group that took no part.
    pub fn get(&self, group: u32) -> Option<(usize, usize)> {
        if !self.is_set || group >= self.pairs {
            return None;
        }
        let at = 2 * group as usize;
        // SAFETY: there are two offsets for each pair, and a match has set all of them: UNSET for groups that it leaves out.
        let (start, end) = unsafe {
            let offsets = sys::pcre2_get_ovector_pointer_8(self.data.as_ptr());
            (*offsets.add(at), *offsets.add(at + 1))
        };
        (start != sys::PCRE2_UNSET).then_some((start, end))
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        // SAFETY: it was made by PCRE2 and is freed once.
        unsafe { sys::pcre2_match_data_free_8(self.data.as_ptr()) }
    }
}

// === impl Failure ===

impl Failure {
    pub const STEPS: Self = Self(sys::PCRE2_ERROR_MATCHLIMIT);
    pub const MEMORY: Self = Self(sys::PCRE2_ERROR_NOMEMORY);
    pub const NO_TEXT: Self = Self(sys::PCRE2_ERROR_UTF8_ERR1);
}

/// In PCRE2's words, which mongod repeats.
impl std::fmt::Display for Failure {
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

// === impl Desk ===

impl Desk {
    fn new() -> Result<Self, Failure> {
        let whole = Places::new(1)?;
        // SAFETY: no context means the default one. What could not be made is not used.
        unsafe {
            let context = sys::pcre2_match_context_create_8(ptr::null_mut());
            let context = NonNull::new(context).ok_or(Failure::MEMORY)?;
            sys::pcre2_set_heap_limit_8(context.as_ptr(), HEAP_LIMIT);
            let stack = sys::pcre2_jit_stack_create_8(STACK.0, STACK.1, ptr::null_mut());
            let stack = NonNull::new(stack);
            if let Some(stack) = stack {
                sys::pcre2_jit_stack_assign_8(context.as_ptr(), None, stack.as_ptr().cast());
            }
            Ok(Self {
                context,
                stack,
                whole,
            })
        }
    }

    /// Lends this thread's desk. A search within a search would get another.
    fn with<R>(search: impl FnOnce(&mut Self) -> Result<R, Failure>) -> Result<R, Failure> {
        thread_local! {
            static DESK: Cell<Option<Box<Desk>>> = const { Cell::new(None) };
        }
        let mut desk = match DESK.take() {
            Some(desk) => desk,
            None => Box::new(Self::new()?),
        };
        let found = search(&mut desk);
        DESK.set(Some(desk));
        found
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // SAFETY: both were made by PCRE2 and are freed once; nobody searches with them any more.
        unsafe {
            sys::pcre2_match_context_free_8(self.context.as_ptr());
            if let Some(stack) = self.stack {
                sys::pcre2_jit_stack_free_8(stack.as_ptr());
            }
        }
    }
}
