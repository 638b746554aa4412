// Package integration tests whole nodes from outside: it builds cqld, starts real processes as a ring, and sends
// requests with the clients that users have. Tests of single packages are in those packages.
//
//	testdata/cql   statements with the answers recorded from Cassandra, played by TestTranscripts
//	transcript     plays and renders them, over
//	cqlclient      a raw client of the native protocol that hides nothing
//	drivers        one small suite per driver, each in its own language, run by TestDrivers; for the SDKs of Azure
//	               Tables by TestTablesSDKs, for Apache Spark by TestSpark. It is a Go module of its own, and also
//	               contains programs as applications write them, run by TestPrograms, TestTools and TestModels
//	process        starts, kills, pauses and stops the servers
//	netns          partitions their network, in a network namespace, with
//	firewall       which drops packets by nftables; a Go module of its own
//	bench          the load program behind "make bench"
//
// CQLD_ADDRESS=host:port plays the transcripts against a node that runs already; CQLD_ORACLE=host:port plays them and
// the drivers' suites against a Cassandra node, and with -rewrite records them from it (tools/oracle/record).
// CQLD_ORACLE6=host:port does so with the transcripts of Cassandra 6 (testdata/cql6), in TestTranscriptsOfCassandra6.
//
// TestSpark reads 200,000 rows; CQLD_SPARK_ROWS=1000000 makes them a million.
//
// TestDrill backs up, loses and restores 4,000 rows; CQLD_BACKUP_ROWS=1000000 ("make drill") makes them a million,
// which takes 15 minutes and 5 GB of disk.
//
// The tests of faults (faults_*_test.go) are short; CQLD_FAULTS=25 makes them 25 times as long. A full disk needs the
// right to mount one, a partition that to make a namespace.
//
// The tests of memory (memory*_test.go) run nodes in memory cgroups of version 1 or 2, which needs the right to make
// one. TestMemoryOfTools mounts a /proc as the packaged unit sees it. CQLD_HOSTILE=1h lets TestHostile run for an hour;
// "make level" is not part of "make test" and has the build tag "level", too.
//
// Tests that mostly wait, for failure detectors, throttled streams or drivers, on a ring of their own, call t.Parallel:
// they run after all others, some at a time. Tests that load their ring, or that measure latencies, gaps or memory, run
// alone.
//
// The tests have the build tag "integration". Tools they need are installed by tools/install.sh into .tools; a missing
// one skips its test, or fails it when CI=true.
package integration
