// Package entity is Azure Tables' data: which CQL table an Azure table is, what a property is in it, and
// how the operations on entities are conditional changes of partitions and reads of rows. It knows no
// HTTP, no signatures and no JSON: those are table's and odata's. It speaks to the coordinator.
//
//	account ─▶ keyspace          Azure table ─▶ CQL table with PRIMARY KEY ("PartitionKey", "RowKey")
//	property ─▶ column           ETag, Timestamp ─▶ the newest write time of the row, in µs
//
//	Apply ─▶ one paxos.Proposer.CAS on the partition: all or nothing, linearizable
//	Query ─▶ point │ rows of a partition │ partitions in a range of keys │ all of the table
package entity
