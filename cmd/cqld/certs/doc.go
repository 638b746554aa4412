// Package certs contains `cqld certs`, which makes the certificates of a cluster as PEM files.
//
// It uses a directory with the certificate authority (ca.crt, ca.key) and the certificates that it has issued
// (NAME.crt, NAME.key). Certificates of other authorities may be used as well: no other part of cqld knows this
// directory.
//
//	init ───────▶ ca.crt ca.key
//	                 │ signs
//	node, client ─▶ NAME.crt NAME.key ─▶ copied to the node or the client by the operator
//	                 │ before the expiry
//	renew ──────▶ NAME.crt NAME.key, with the same names
package certs
