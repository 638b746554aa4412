package main

import (
	"fmt"
	"io"
	"path/filepath"

	"cqld/azuretables"
	"cqld/node/config"
)

// cqlshLine returns the command with which cqlsh connects. It omits the port that cqlsh takes by default.
func cqlshLine(address string, port uint16) string {
	if port == 9042 {
		return "cqlsh " + address
	}
	return fmt.Sprintf("cqlsh %s %d", address, port)
}

// greetNode prints how clients connect to the node of `cqld start`, and where its data is. It names USER instead of a
// role, because the node's users are not known here, and ACCOUNT likewise, except in development mode, where the
// account and its key are fixed. It is prose for a person at a terminal, and no interface: programs read --status-fd or
// the log.
func greetNode(out io.Writer, o *config.Options) {
	address := o.Native()
	line := cqlshLine(address.Addr().String(), address.Port())
	// The line is a hint: cqlsh also needs the certificate authority, and asks for the password.
	if o.Encryption.Clients.Used() {
		line += " --ssl"
	}
	if o.Access.Authenticates() {
		line += " -u USER"
	}
	fmt.Fprintf(out, "\ncqld is ready.\n  %s\n  drivers: contact point %s, local data center %s\n", line, address,
		o.Datacenter)
	if o.Tables.Port != 0 && o.Development() {
		m := member{address: address.Addr().String(), tables: o.Tables.Port}
		fmt.Fprintf(out, "  Azure Tables: AZURE_STORAGE_CONNECTION_STRING=%q\n",
			connectionString(scheme(o), m, azuretables.DevelopmentKey))
	} else if o.Tables.Port != 0 {
		fmt.Fprintf(out, "  Azure Tables: %s://%s:%d/ACCOUNT\n", scheme(o), address.Addr(), o.Tables.Port)
	}
	// A service's working directory is not obvious, so the path is printed absolute.
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		dir = o.DataDir
	}
	fmt.Fprintf(out, "  data: %s\n  inspect: cqld ctl%s status\n", dir, dataDirFlag(dir))
}

// scheme returns the scheme of URLs for Azure Tables. The Azure Tables listener uses the same encryption as CQL
// clients.
func scheme(o *config.Options) string {
	if o.Encryption.Clients.Used() {
		return "https"
	}
	return "http"
}
