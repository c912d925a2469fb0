"""Single sign-on by OpenID Connect: the authorization code flow with PKCE, state and nonce."""
