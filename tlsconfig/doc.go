// Package tlsconfig makes TLS configurations from PEM files, for servers and for clients.
//
// A Source holds one certificate with its private key, the certificate authorities that it trusts, and their revocation
// lists. It reads the files again when they change. Configurations that Server and Client return use the newest files
// for each new connection; existing connections are not affected. Unusable files are logged, and the previous ones stay
// in use.
//
// This package neither listens nor connects, and does not authorize identities. Package tlsconfig/authority issues
// certificates.
//
//	Files ─▶ Source ─▶ material ─▶ Server, Client: *tls.Config ─▶ Conn
package tlsconfig
