"""What every black-box test stands on: a fenced daemon, a raw HTTP client, a view of /proc."""
