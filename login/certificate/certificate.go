// Package certificate authenticates CQL clients by the certificates that they present in the TLS handshake, as
// Cassandra's MutualTlsAuthenticator and MutualTlsWithPasswordFallbackAuthenticator do.
//
// Package tlsconfig has verified a certificate before this package sees it. This package extracts an identity from it
// and looks up the role of the identity. It does not store identities: ADD IDENTITY puts them into the cluster's
// metadata, so a change is in force for the next login.
package certificate

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/netip"
	"strings"

	"cqld/login"
	"cqld/server"
	"cqld/tlsconfig"
)

// Validator extracts the identity of a certificate. Its error is for the client.
type Validator func(c *x509.Certificate) (identity string, err error)

// identityBytesMax bounds identities: they appear in messages and logs. SPIFFE allows 2,048 bytes.
const identityBytesMax = 2048

// Names of validators in the parameter validator_class_name, without org.apache.cassandra.auth.
const (
	spiffeValidator  = "SpiffeCertificateValidator"
	subjectValidator = "SubjectCertificateValidator"
)

// NewValidator returns the validator with a class name. SpiffeCertificateValidator is Cassandra's;
// SubjectCertificateValidator uses the subject's distinguished name in the format of RFC 2253, such as
// CN=app,O=example.
func NewValidator(class string) (Validator, error) {
	switch strings.TrimPrefix(class, "org.apache.cassandra.auth.") {
	case spiffeValidator:
		return spiffe, nil
	case subjectValidator:
		return subject, nil
	case "":
		// This is Cassandra's message.
		return nil, fmt.Errorf("authenticator.parameters.validator_class_name is not set")
	}
	return nil, fmt.Errorf("validator_class_name %q is not supported; it is %s or %s", class, spiffeValidator,
		subjectValidator)
}

func spiffe(c *x509.Certificate) (string, error) {
	identity, ok := tlsconfig.SPIFFE(c)
	if !ok {
		return "", refused("Unable to extract Spiffe from the certificate")
	}
	return identity, nil
}

func subject(c *x509.Certificate) (string, error) {
	if len(c.RawSubject) > identityBytesMax { // checked before the name is formatted, which costs CPU time
		return "", refused("Unable to extract client identity from certificate for authentication")
	}
	return c.Subject.String(), nil
}

func refused(message string) error { return &server.BadCredentials{Message: message} }

// Options configure an Authenticator.
type Options struct {
	Validator Validator
	// Role returns the role to which an identity was added. It is called concurrently and must not block.
	Role func(identity string) (role string, ok bool)
	// CanLogin reports whether a role exists and may log in. It must not block.
	CanLogin func(role string) bool
	// Password authenticates clients without a certificate if Fallback is true. It also checks the standing of all
	// authenticated clients, and counts and reports all attempts.
	Password *login.Authenticator
	Fallback bool
}

// Authenticator implements server.CertificateAuthenticator. It is safe for concurrent use.
type Authenticator struct{ o Options }

// New returns an Authenticator.
func New(o Options) *Authenticator { return &Authenticator{o} }

// Class implements server.Authenticator.
func (a *Authenticator) Class() string {
	if a.o.Fallback {
		return "org.apache.cassandra.auth.MutualTlsWithPasswordFallbackAuthenticator"
	}
	return "org.apache.cassandra.auth.MutualTlsAuthenticator"
}

// Begin implements server.Authenticator for a client without a certificate.
func (a *Authenticator) Begin(client netip.AddrPort) server.Exchange {
	return a.BeginCertificate(client, nil)
}

// BeginCertificate implements server.CertificateAuthenticator. A client with a certificate never logs in by password.
func (a *Authenticator) BeginCertificate(client netip.AddrPort, c *x509.Certificate) server.Exchange {
	if c == nil && a.o.Fallback {
		return a.o.Password.Begin(client)
	}
	return &exchange{a, client, c}
}

// Check implements server.Authenticator.
func (a *Authenticator) Check(user string, client netip.AddrPort) server.Standing {
	return a.o.Password.Check(user, client)
}

// exchange is the authentication of one client. The token of the client is ignored; drivers send one because the
// protocol requires it.
type exchange struct {
	*Authenticator
	client      netip.AddrPort
	certificate *x509.Certificate
}

// Evaluate implements server.Exchange.
func (e *exchange) Evaluate(context.Context, []byte) (user string, done bool, challenge []byte, err error) {
	identity, role, reason, err := e.authenticate()
	kind := login.Success
	switch {
	case reason == login.NoLogin, reason == login.AccessDenied:
		kind = login.Unauthorized
	case err != nil:
		kind = login.Failure
	}
	if role == "" {
		role = identity // for the log
	}
	e.o.Password.Report(e.client, role, kind, reason)
	if err != nil {
		return "", false, nil, err
	}
	return role, true, nil, nil
}

// authenticate returns the identity of the certificate, if it has one, and its role, if there is one.
func (e *exchange) authenticate() (identity, role string, reason login.Reason, err error) {
	if e.certificate == nil {
		return "", "", login.NoCertificate, refused("Invalid or not supported certificate")
	}
	if identity, err = e.o.Validator(e.certificate); err != nil {
		return "", "", login.NoIdentity, err
	}
	if identity == "" || len(identity) > identityBytesMax {
		return "", "", login.NoIdentity, refused("Unable to extract client identity from certificate for " +
			"authentication")
	}
	role, ok := e.o.Role(identity)
	if !ok {
		return identity, "", login.UnknownIdentity, refused("Certificate identity '" + identity + "' not authorized")
	}
	if !e.o.CanLogin(role) {
		return identity, role, login.NoLogin, refused(role + " is not permitted to log in")
	}
	if e.o.Password.Check(role, e.client).Refused != nil {
		return identity, role, login.AccessDenied, nil // as in Cassandra, its statements fail
	}
	return identity, role, login.NoReason, nil
}
