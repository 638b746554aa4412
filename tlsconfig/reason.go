package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
)

// Reason is why a handshake failed, as a label of metrics. There is a fixed set, because errors contain names and
// addresses that peers choose.
type Reason string

// Reasons of failed handshakes.
const (
	ReasonPlaintext     Reason = "plaintext"     // the peer did not begin with TLS
	ReasonTimeout       Reason = "timeout"       // the peer took too long
	ReasonClosed        Reason = "closed"        // the peer closed the connection
	ReasonNoCertificate Reason = "nocertificate" // the peer presented no certificate
	ReasonExpired       Reason = "expired"       // the peer's certificate has expired, or is not valid yet
	ReasonUntrusted     Reason = "untrusted"     // the peer's certificate is from another authority
	ReasonRevoked       Reason = "revoked"       // the peer's certificate is revoked
	ReasonCertificate   Reason = "certificate"   // another fault of the peer's certificate
	ReasonRefused       Reason = "refused"       // the peer refused this process's certificate or parameters
	ReasonProtocol      Reason = "protocol"      // no common version or cipher suite, or malformed messages
)

// Reasons returns all reasons.
func Reasons() [reasons]Reason {
	return [reasons]Reason{ReasonPlaintext, ReasonTimeout, ReasonClosed, ReasonNoCertificate, ReasonExpired,
		ReasonUntrusted, ReasonRevoked,
		ReasonCertificate, ReasonRefused, ReasonProtocol}
}

// ReasonOf returns why a handshake failed with err. The order of the cases matters, because an error may wrap several
// of these types.
//
//	x509.CertificateInvalidError, Expired     ReasonExpired
//	an alert of the peer                      ReasonRefused
//	a reset connection                        ReasonClosed
func ReasonOf(err error) Reason {
	var plain tls.RecordHeaderError
	var alert tls.AlertError
	var op *net.OpError
	switch {
	case errors.As(err, &plain):
		return ReasonPlaintext
	// A timeout is also a *net.OpError, so it is checked first.
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ReasonTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return ReasonClosed
	// crypto/tls returns alerts of the peer as *net.OpError.
	case errors.As(err, &alert), errors.As(err, &op) && op.Op == "remote error":
		return ReasonRefused
	// Other network errors, such as a reset, end the connection.
	case errors.As(err, &op):
		return ReasonClosed
	}
	return certificateReason(err)
}

// certificateReason returns the reason of an error about a certificate or the protocol.
func certificateReason(err error) Reason {
	var invalid x509.CertificateInvalidError
	var untrusted x509.UnknownAuthorityError
	var failed *tls.CertificateVerificationError
	var revoked *RevokedError
	var validity *ValidityError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return ReasonExpired
	case errors.As(err, &untrusted):
		return ReasonUntrusted
	case errors.As(err, &revoked):
		return ReasonRevoked
	case errors.As(err, &failed), errors.As(err, &validity):
		return ReasonCertificate
	// crypto/tls has no type for this error.
	case strings.Contains(err.Error(), "client didn't provide a certificate"):
		return ReasonNoCertificate
	case strings.Contains(err.Error(), "certificate"):
		return ReasonCertificate
	}
	return ReasonProtocol
}
