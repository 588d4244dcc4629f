//! `buildInfo`: the MongoDB version that this server behaves like.

use super::{Access, Call, Command, Flags, Needs, Outcome};
use crate::error::Result;
use crate::value::{DocBuilder, MAX_DOCUMENT, Value};

/// The version that drivers and tools see.
pub const VERSION: &str = "8.2.4";
pub const VERSION_PARTS: [i32; 4] = [8, 2, 4, 0];

pub(super) const COMMAND: Command =
    Command::ready("buildInfo", Access::None, "Shows the server version.", run)
        .alias(&["buildinfo"])
        .with(Flags::BEFORE_LOGIN.and(Flags::SECONDARY))
        .needs(Needs::Nothing);

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.only(&[])?;
    reply
        .put_str("version", VERSION)
        .put_str("gitVersion", concat!("sundown-", env!("CARGO_PKG_VERSION")));
    reply.array("modules").end();
    let mut sundown = reply.doc("sundown");
    sundown.put_str("version", env!("CARGO_PKG_VERSION"));
    sundown.end();
    reply
        .put_str(
            "allocator",
            if cfg!(feature = "jemalloc") {
                "jemalloc"
            } else {
                "system"
            },
        )
        .put_str("javascriptEngine", "none")
        .put_str("sysInfo", "deprecated");
    let mut parts = reply.array("versionArray");
    for part in VERSION_PARTS {
        parts.push(Value::int32(part).as_ref());
    }
    parts.end();
    let mut openssl = reply.doc("openssl");
    openssl
        .put_str("running", "disabled")
        .put_str("compiled", "disabled");
    openssl.end();
    let mut environment = reply.doc("buildEnvironment");
    environment
        .put_str("distmod", "")
        .put_str("distarch", std::env::consts::ARCH)
        .put_str("cc", "")
        .put_str("ccflags", "")
        .put_str("cxx", "")
        .put_str("cxxflags", "")
        .put_str("linkflags", "")
        .put_str("target_arch", std::env::consts::ARCH)
        .put_str("target_os", std::env::consts::OS)
        .put_str("cppdefines", "");
    environment.end();
    reply
        .put_i32("bits", usize::BITS as i32)
        .put_bool("debug", cfg!(debug_assertions))
        .put_i32("maxBsonObjectSize", MAX_DOCUMENT as i32);
    let mut engines = reply.array("storageEngines");
    engines.push_str("inMemory");
    engines.end();
    Ok(Outcome::Reply)
}
