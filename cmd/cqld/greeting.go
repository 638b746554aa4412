package main

import (
	"fmt"
	"io"
	"path/filepath"

	"cqld/azuretables"
	"cqld/node/config"
)

// cqlshLine returns the command to connect with cqlsh. It omits cqlsh's default port.
func cqlshLine(address string, port uint16) string {
	if port == 9042 {
		return "cqlsh " + address
	}
	return fmt.Sprintf("cqlsh %s %d", address, port)
}

// greetNode prints how clients connect to the node of `cqld start`, and where its data is. It prints USER and ACCOUNT
// as placeholders, because the node's roles and accounts are not known here, except in development mode, where the
// account and its key are fixed. The text is for people; programs read --status-fd or the log.
func greetNode(out io.Writer, o *config.Options) {
	address := o.Native()
	line := cqlshLine(address.Addr().String(), address.Port())
	// Only a hint: cqlsh also needs the CA's certificate, and prompts for the password.
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
	// The path is absolute, because a service's working directory is not obvious.
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
