//! The pace that no client of several masters can much exceed, by bare sockets: one thread that writes a
//! cycle's two commands to each of them and reads the answers of a majority, with no lock around it.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Instant,
};

use crate::{Failure, cycle::ROUND, support::Server};

/// The leanest lock that there is: SET NX PX, and delete if it is mine.
const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const NAME: &str = "bare";
const OWNER: &str = "00000000-0000-4000-8000-000000000000";

/// Cycles per second of one thread.
pub(crate) fn cycles_per_s(servers: &[Server]) -> Result<f64, Failure> {
    let majority = servers.len() / 2 + 1;
    let mut digest = String::new();
    let mut sockets = Vec::new();
    for server in servers {
        digest = server.ok(&["SCRIPT", "LOAD", RELEASE]);
        let socket = TcpStream::connect(server.address())?;
        socket.set_nodelay(true)?;
        sockets.push(socket);
    }
    let acquire = written(&["SET", NAME, OWNER, "NX", "PX", "30000"]);
    let release = written(&["EVALSHA", digest.trim(), "1", NAME, OWNER]);
    let steps: [(&[u8], &[u8]); 2] = [(&acquire, b"+OK\r\n"), (&release, b":1\r\n")];
    let mut cycles = 0_u32;
    let mut before = None;
    let began = Instant::now();
    while began.elapsed() < ROUND {
        for (request, answer) in steps {
            for socket in &mut sockets {
                socket.write_all(request)?;
            }
            let (first, late) = sockets.split_at_mut(majority);
            for socket in first {
                expect(socket, answer)?;
            }
            // Of the others the answer before this one has come meanwhile.
            if let Some(answer) = before.replace(answer) {
                for socket in late {
                    expect(socket, answer)?;
                }
            }
        }
        cycles += 1;
    }
    Ok(f64::from(cycles) / began.elapsed().as_secs_f64())
}

/// A command as it goes over the wire.
fn written(words: &[&str]) -> Vec<u8> {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.get_packed_command()
}

fn expect(socket: &mut TcpStream, answer: &[u8]) -> Result<(), Failure> {
    let mut bytes = [0; 8];
    let said = &mut bytes[..answer.len()];
    socket.read_exact(said)?;
    if said != answer {
        return Err(format!("a bare cycle was answered {}", String::from_utf8_lossy(said)).into());
    }
    Ok(())
}
