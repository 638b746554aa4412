package server

import (
	"context"
	"net/netip"
)

// Authenticator asks a client who it is, by SASL.
type Authenticator interface {
	// Class is the name told in AUTHENTICATE. Some drivers only answer names
	// they know, such as org.apache.cassandra.auth.PasswordAuthenticator.
	Class() string
	// Begin starts the exchange with one client.
	Begin(client netip.AddrPort) Exchange
}

// Exchange is one client's authentication. It is used by one goroutine.
type Exchange interface {
	// Evaluate takes a token of the client. It returns the user once the
	// client has proved who it is, or else a challenge for another token.
	// A *BadCredentials error refuses the client; Evaluate may block, and an
	// implementation that hashes bounds how many do so at once.
	Evaluate(ctx context.Context, token []byte) (user string, done bool, challenge []byte, err error)
}

// BadCredentials is the refusal of a client that did not prove who it is.
type BadCredentials struct{ Message string }

// Error is the message the client sees.
func (e *BadCredentials) Error() string { return e.Message }
