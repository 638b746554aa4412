//go:build integration

package integration

import (
	"os"
	"testing"
)

// ringAddress gives the CQL address of a node under test.
func ringAddress(t *testing.T) string {
	address := os.Getenv("CQLD_ADDRESS")
	if address == "" {
		t.Skip("no server")
	}
	return address
}
