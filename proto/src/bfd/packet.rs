//! Control packets (RFC 5880 §4.1).

use std::fmt;
use std::num::{NonZeroU8, NonZeroU32};
use std::time::Duration;

use crate::reader::Reader;

/// Bytes of a control packet without authentication.
pub const LENGTH: usize = 24;
const VERSION: u8 = 1;

const POLL: u8 = 0x20;
const FINAL: u8 = 0x10;
const CONTROL_PLANE_INDEPENDENT: u8 = 0x08;
const AUTHENTICATED: u8 = 0x04;
const DEMAND: u8 = 0x02;
const MULTIPOINT: u8 = 0x01;

/// Names one end of a session; never 0.
pub type Discriminator = NonZeroU32;

/// State of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "names of the RFC")]
pub enum State {
    AdminDown,
    Down,
    Init,
    Up,
}

impl State {
    fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::AdminDown,
            1 => Self::Down,
            2 => Self::Init,
            _ => Self::Up,
        }
    }

    fn bits(self) -> u8 {
        match self {
            Self::AdminDown => 0,
            Self::Down => 1,
            Self::Init => 2,
            Self::Up => 3,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why a session changed its state last, 0 to 31.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Diagnostic(u8);

#[expect(missing_docs, reason = "names of the RFC")]
impl Diagnostic {
    pub const NONE: Self = Self(0);
    pub const CONTROL_DETECTION_TIME_EXPIRED: Self = Self(1);
    pub const ECHO_FUNCTION_FAILED: Self = Self(2);
    pub const NEIGHBOR_SIGNALED_SESSION_DOWN: Self = Self(3);
    pub const ADMINISTRATIVELY_DOWN: Self = Self(7);
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0 => "no diagnostic",
            1 => "control detection time expired",
            2 => "echo function failed",
            3 => "neighbor signaled session down",
            4 => "forwarding plane reset",
            5 => "path down",
            6 => "concatenated path down",
            7 => "administratively down",
            8 => "reverse concatenated path down",
            code => return write!(f, "diagnostic {code}"),
        })
    }
}

/// A control packet. Intervals are whole microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlPacket {
    /// Why the sender's state changed last.
    pub diagnostic: Diagnostic,
    /// The sender's state.
    pub state: State,
    /// An answer is asked for.
    pub poll: bool,
    /// This is the answer.
    pub is_final: bool,
    /// The sender's BFD survives its control plane.
    pub control_plane_independent: bool,
    /// The sender wants no periodic packets while both are up.
    pub demand: bool,
    /// After how many missed packets the sender is gone.
    pub detect_mult: NonZeroU8,
    /// The sender's end of the session.
    pub my_discriminator: Discriminator,
    /// The receiver's end, where the sender knows it.
    pub your_discriminator: Option<Discriminator>,
    /// The sender sends no more often than this.
    pub desired_min_tx: Duration,
    /// The sender wants nothing more often than this; zero: nothing periodic at all.
    pub required_min_rx: Duration,
    /// The same for echo packets; zero: it returns none.
    pub required_min_echo_rx: Duration,
}

/// Why bytes are no control packet that counts. Each is discarded (RFC 5880 §6.8.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// It ends too early.
    #[error("{0} bytes, a control packet has {LENGTH} at least")]
    Short(usize),
    /// It is of another version.
    #[error("version {0} is not {VERSION}")]
    Version(u8),
    /// The length field is impossible, or longer than what came.
    #[error("length field {0} is not possible")]
    Length(u8),
    /// RFC 5880 §6.8.6: the multiplier is 0.
    #[error("detect multiplier is 0")]
    DetectMult,
    /// RFC 5880 §6.8.6: the multipoint bit is set.
    #[error("multipoint bit is set")]
    Multipoint,
    /// RFC 5880 §6.8.6: the sender has no discriminator.
    #[error("my discriminator is 0")]
    MyDiscriminator,
    /// RFC 5880 §6.8.6: only who is down may not know the other end.
    #[error("your discriminator is 0 in state {0}")]
    YourDiscriminator(State),
    /// RFC 5880 §6.8.6: authenticated, which no session here is.
    #[error("authenticated, but no authentication is in use")]
    Authenticated,
}

impl ControlPacket {
    /// Reads the payload of a datagram.
    pub fn parse(payload: &[u8]) -> Result<Self, PacketError> {
        let short = |_| PacketError::Short(payload.len());
        let mut reader = Reader::new(payload, 0);
        let [first, flags, detect_mult, length] = reader.array().map_err(short)?;
        if first >> 5 != VERSION {
            return Err(PacketError::Version(first >> 5));
        }
        if usize::from(length) < LENGTH || usize::from(length) > payload.len() {
            return Err(PacketError::Length(length));
        }
        let detect_mult = NonZeroU8::new(detect_mult).ok_or(PacketError::DetectMult)?;
        if flags & MULTIPOINT != 0 {
            return Err(PacketError::Multipoint);
        }
        let mut number = || reader.array().map(u32::from_be_bytes).map_err(short);
        let my_discriminator = Discriminator::new(number()?).ok_or(PacketError::MyDiscriminator)?;
        let your_discriminator = Discriminator::new(number()?);
        let state = State::from_bits(flags >> 6);
        if your_discriminator.is_none() && matches!(state, State::Init | State::Up) {
            return Err(PacketError::YourDiscriminator(state));
        }
        if flags & AUTHENTICATED != 0 {
            return Err(PacketError::Authenticated);
        }
        let mut interval = || number().map(|micros| Duration::from_micros(micros.into()));
        Ok(Self {
            diagnostic: Diagnostic(first & 0x1f),
            state,
            poll: flags & POLL != 0,
            is_final: flags & FINAL != 0,
            control_plane_independent: flags & CONTROL_PLANE_INDEPENDENT != 0,
            demand: flags & DEMAND != 0,
            detect_mult,
            my_discriminator,
            your_discriminator,
            desired_min_tx: interval()?,
            required_min_rx: interval()?,
            required_min_echo_rx: interval()?,
        })
    }

    /// The payload of a datagram.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = self.state.bits() << 6
            | flag(self.poll, POLL)
            | flag(self.is_final, FINAL)
            | flag(self.control_plane_independent, CONTROL_PLANE_INDEPENDENT)
            | flag(self.demand, DEMAND);
        let [a, b, c, d] = self.my_discriminator.get().to_be_bytes();
        let [e, f, g, h] = self.your_discriminator.map_or(0, NonZeroU32::get).to_be_bytes();
        let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX).to_be_bytes();
        let [i, j, k, l] = micros(self.desired_min_tx);
        let [m, n, o, p] = micros(self.required_min_rx);
        let [q, r, s, t] = micros(self.required_min_echo_rx);
        let first = VERSION << 5 | self.diagnostic.0;
        let (mult, length) = (self.detect_mult.get(), LENGTH as u8);
        [first, flags, mult, length, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t]
    }
}

#[cfg(test)]
pub(super) mod tests;
