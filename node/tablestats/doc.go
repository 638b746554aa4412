// Package tablestats knows what a node measures of each table: requests by table and, during a toppartitions command,
// by partition (Engine), and estimates of the partitions that the node stores (Estimates).
//
// It counts; it neither shows nor stores its figures. The commands of operators, the metrics and system_views show
// them.
package tablestats
