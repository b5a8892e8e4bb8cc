//! Conversations by datagrams that stay with a backend that has left.
//!
//! OVN tells the switch to forget them when a backend leaves. But the switch goes on by what it has cached for a moment
//! longer, and a client that sends in that moment is sent to the old backend anew, and stays there for as long as it
//! sends. So they are looked for again, less and less often, until that moment is over on the busiest of machines.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use netferry_core::overlay::inputs::Moved;
use netferry_core::overlay::service::Led;
use netferry_ovs::unixctl::ControlError;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::overlay::switch;

/// From the leaving to the first look; each later one is after twice the time.
const FIRST: Duration = Duration::from_millis(500);
/// After this nothing is cached any more.
const LAST: Duration = Duration::from_secs(60);
/// A switch with very many connections takes its time to list them.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

const UDP: u8 = 17;

/// Looks for them, until nobody tells of backends any more. The switch's control socket is in `run`.
pub async fn look_for(run: PathBuf, moved: mpsc::UnboundedReceiver<Moved>) {
    let mut gone = Gone { left: BTreeMap::new(), moved };
    let mut pause = FIRST;
    loop {
        let look = Instant::now() + pause;
        match if gone.left.is_empty() { Ok(gone.moved.recv().await) } else { gone.wait(look).await } {
            Ok(None) => return,
            Ok(Some(news)) => {
                if !news.left.is_empty() {
                    pause = FIRST;
                }
                gone.hear(news);
            }
            Err(Elapsed) => {
                pause = (pause * 2).min(LAST);
                match forget(&run, &mut gone).await {
                    Ok(0) => {}
                    Ok(count) => tracing::info!(count, "datagrams went on to backends that have left"),
                    Err(error) => tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "looking for datagrams to backends that have left"
                    ),
                }
                let now = Instant::now();
                gone.left.retain(|_, until| *until > now);
            }
        }
    }
}

/// Backends that have left, and who tells of them.
struct Gone {
    left: BTreeMap<Led, Instant>,
    moved: mpsc::UnboundedReceiver<Moved>,
}

struct Elapsed;

impl Gone {
    fn hear(&mut self, news: Moved) {
        self.left.retain(|led, _| !news.came.contains(led));
        let until = Instant::now() + LAST;
        self.left.extend(news.left.into_iter().map(|led| (led, until)));
    }

    async fn wait(&mut self, until: Instant) -> Result<Option<Moved>, Elapsed> {
        tokio::select! {
            news = self.moved.recv() => Ok(news),
            () = sleep_until(until) => Err(Elapsed),
        }
    }

    /// Whether it is still gone. While the switch lists its conversations a backend may come back: those that begin then
    /// are right, and forgetting one costs it the answer that is on its way.
    fn still(&mut self, led: &Led) -> bool {
        while let Ok(news) = self.moved.try_recv() {
            self.hear(news);
        }
        self.left.contains_key(led)
    }
}

async fn forget(run: &std::path::Path, gone: &mut Gone) -> Result<usize, ControlError> {
    let control = switch::control(run).await?.within(ANSWERS_WITHIN);
    // What is cached now is compared with the flows of now before anything is forgotten. One that does not know the
    // command is asked again later all the same.
    let _ = control.command("revalidator/wait", &[]).await;
    let tracked = control.command("dpctl/dump-conntrack", &[]).await?;
    let mut count = 0;
    for flow in tracked.lines().filter_map(Flow::read) {
        if gone.still(&flow.led()) {
            control
                .command("dpctl/flush-conntrack", &[&format!("zone={}", flow.zone), &flow.tuple()])
                .await?;
            count += 1;
        }
    }
    Ok(count)
}

/// A conversation as the switch prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flow {
    client: SocketAddr,
    asked: SocketAddr,
    answers: SocketAddr,
    zone: u16,
}

impl Flow {
    /// `udp,orig=(src=…,dst=…,sport=…,dport=…),reply=(src=…,dst=…,sport=…,dport=…),zone=9,mark=2`
    fn read(line: &str) -> Option<Flow> {
        let rest = line.strip_prefix("udp,orig=(")?;
        let (original, rest) = rest.split_once("),reply=(")?;
        let (reply, rest) = rest.split_once(')')?;
        let end = |of: &str, address: &str, port: &str| {
            let value = |key: &str| of.split(',').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
            Some(SocketAddr::new(value(address)?.parse().ok()?, value(port)?.parse().ok()?))
        };
        let zone = rest.split(',').find_map(|pair| pair.strip_prefix("zone="));
        Some(Flow {
            client: end(original, "src", "sport")?,
            asked: end(original, "dst", "dport")?,
            answers: end(reply, "src", "sport")?,
            zone: zone.unwrap_or("0").parse().ok()?,
        })
    }

    fn led(&self) -> Led {
        Led { asked: self.asked, backend: self.answers }
    }

    /// As the switch wants it back.
    fn tuple(&self) -> String {
        let word = match self.asked.ip() {
            IpAddr::V4(_) => "ct_nw",
            IpAddr::V6(_) => "ct_ipv6",
        };
        let (from, to) = (self.client, self.asked);
        format!(
            "{word}_src={},{word}_dst={},ct_nw_proto={UDP},ct_tp_src={},ct_tp_dst={}",
            from.ip(),
            to.ip(),
            from.port(),
            to.port()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_that_came_back_while_the_switch_was_asked_is_left_alone() {
        let (tell, moved) = mpsc::unbounded_channel();
        let mut gone = Gone { left: BTreeMap::new(), moved };
        let led =
            |asked: &str| Led { asked: asked.parse().unwrap(), backend: "10.244.0.4:8080".parse().unwrap() };
        let (stays, returns) = (led("10.96.0.1:80"), led("10.96.0.2:80"));
        gone.hear(Moved { left: [stays, returns].into(), ..Moved::default() });
        assert!(gone.still(&returns));
        tell.send(Moved { came: [returns].into(), ..Moved::default() }).unwrap();
        assert!(!gone.still(&returns));
        assert!(gone.still(&stays));
    }

    #[test]
    fn a_conversation_is_read_as_the_switch_prints_it_and_named_as_it_wants_it() {
        let line = "udp,orig=(src=10.244.1.4,dst=10.96.77.77,sport=53147,dport=80),\
                    reply=(src=10.244.0.4,dst=10.244.1.4,sport=8080,dport=53147),zone=9,mark=2";
        let flow = Flow::read(line).unwrap();
        let (asked, backend) = ("10.96.77.77:80".parse().unwrap(), "10.244.0.4:8080".parse().unwrap());
        assert_eq!((flow.led(), flow.zone), (Led { asked, backend }, 9));
        assert_eq!(
            flow.tuple(),
            "ct_nw_src=10.244.1.4,ct_nw_dst=10.96.77.77,ct_nw_proto=17,ct_tp_src=53147,ct_tp_dst=80"
        );
        let line = "udp,orig=(src=fd01::4,dst=fd02::7,sport=1,dport=80),\
                    reply=(src=fd01::9,dst=fd01::4,sport=8080,dport=1)";
        let flow = Flow::read(line).unwrap();
        assert_eq!((flow.answers, flow.zone), ("[fd01::9]:8080".parse().unwrap(), 0));
        assert_eq!(
            flow.tuple(),
            "ct_ipv6_src=fd01::4,ct_ipv6_dst=fd02::7,ct_nw_proto=17,ct_tp_src=1,ct_tp_dst=80"
        );
        for other in ["", "tcp,orig=(src=1.1.1.1", "udp,orig=(src=x,dst=y),reply=(src=z)", "icmp,orig=()"] {
            assert_eq!(Flow::read(other), None, "{other}");
        }
    }
}
