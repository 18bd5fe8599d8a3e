//! Channels between the tasks: what counts is the latest value, and only a different one wakes its reader.

use tokio::sync::watch;

/// Sends a value unless it is the one that was sent last.
pub fn publish<T: PartialEq>(channel: &watch::Sender<T>, value: T) {
    channel.send_if_modified(|current| {
        let changed = *current != value;
        if changed {
            *current = value;
        }
        changed
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_value_is_news() {
        let (channel, mut reader) = watch::channel(1);
        publish(&channel, 1);
        assert!(!reader.has_changed().unwrap());
        publish(&channel, 2);
        assert!(reader.has_changed().unwrap());
        assert_eq!(*reader.borrow_and_update(), 2);
    }
}
