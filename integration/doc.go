// Package integration tests whole nodes from outside: it builds cqld, starts real processes as a ring, and drives them
// with the clients people use. It has no tests of single rooms; those stand beside the code.
//
//	testdata/cql   statements with the answers recorded from Cassandra, played by TestTranscripts
//	transcript     plays and renders them, over
//	cqlclient      a raw client of the native protocol that hides nothing
//	drivers        one small suite per driver, each in its own language, run by TestDrivers
//	bench          the load program behind "make bench"
//
// The tests have the build tag "integration". Tools they need are installed by tools/install.sh into .tools; a missing
// one skips its test, or fails it when CI=true.
package integration
