"""Accounts: one-time links, invitations, passwords, agents, tokens, sessions, and signing in by an OpenID provider."""
