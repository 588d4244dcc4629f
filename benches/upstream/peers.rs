//! Two servers to compare with: the least that any server on this runtime does, and the least that any proxy does.

use std::net::SocketAddr;

use bson::doc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::connection::message;
use crate::processes::LISTENING;

const BUFFER: usize = 64 * 1024;

/// Answers every message with the same reply.
pub fn echo() {
    serve(|mut socket| async move {
        let mut reply = message(&doc! {"ok": 1.0}, None);
        let mut buffer = vec![0; BUFFER];
        let mut filled = 0;
        while let Ok(read @ 1..) = socket.read(&mut buffer[filled..]).await {
            filled += read;
            let length = |bytes: &[u8]| bytes.first_chunk().map(|word| i32::from_le_bytes(*word));
            if length(&buffer[..filled]) != Some(filled as i32) {
                continue;
            }
            reply[8..12].copy_from_slice(&buffer[4..8]);
            filled = 0;
            if socket.write_all(&reply).await.is_err() {
                return;
            }
        }
    });
}

/// Passes bytes on, in both directions.
pub fn relay(to: SocketAddr) {
    serve(move |mut client| async move {
        let mut server = TcpStream::connect(to).await.expect("a connection");
        server.set_nodelay(true).expect("a TCP socket");
        let _ = copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER, BUFFER).await;
    });
}

/// Runs a task for each connection, on the runtime that Sundown uses.
fn serve<F: Future<Output = ()> + Send + 'static>(task: impl Fn(TcpStream) -> F) {
    let runtime = Runtime::new().expect("threads");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        println!("{LISTENING}{}", listener.local_addr().expect("it is bound"));
        while let Ok((socket, _)) = listener.accept().await {
            socket.set_nodelay(true).expect("a TCP socket");
            tokio::spawn(task(socket));
        }
    });
}
