// Package entity implements the data model of Azure Tables: it maps Azure tables to CQL tables and properties to
// columns, and executes operations on entities as conditional changes of partitions and as reads of rows. It does not
// handle HTTP and signatures (package azuretables) or JSON (package odata). It uses the coordinator.
//
//	account ─▶ keyspace          Azure table ─▶ CQL table with PRIMARY KEY ("PartitionKey", "RowKey")
//	property ─▶ column           ETag, Timestamp ─▶ the newest write time of the row, in µs
//
//	Apply ─▶ one paxos.Proposer.CAS on the partition: all or nothing, linearizable
//	Query ─▶ point │ rows of a partition │ partitions in a range of keys │ all of the table
package entity
