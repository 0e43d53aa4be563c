"""Sign-in by an organization's identity provider: Microsoft Entra, and any other OpenID Connect provider.

msal speaks the protocol (authorization code, PKCE, state, nonce); the ID token is checked here, since msal does not
(its 1.38 ended that). Every request on the way is made by the outbound client, to the endpoints of the discovery
document alone.
"""
