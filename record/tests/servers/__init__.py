"""Real servers for the tests of notices: SMTP, a Matrix homeserver, a receiver of webhooks. On loopback alone."""
