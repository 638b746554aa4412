// Package tlsconfig makes TLS configurations from PEM files, for servers and for clients.
//
// A Source holds one certificate with its private key, the certificate authorities that it trusts, and their revocation
// lists. It reads the files again when they change. Configurations that Server and Client return use the newest files
// for each new connection; existing connections continue. Files that cannot be used are logged, and the previous ones
// stay in use.
//
// What this package does not do: it neither listens nor connects, and it does not decide which identity may do what.
// Package tlsconfig/authority makes certificates.
//
//	Files ─▶ Source ─▶ material ─▶ Server, Client: *tls.Config ─▶ Conn
package tlsconfig
