"""Pages of users: sign-in and account."""
