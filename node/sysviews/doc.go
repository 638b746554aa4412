// Package sysviews reads what the system tables of a node show: system, system_views and what drivers read when they
// connect. It converts the figures of the parts; query/system has the tables.
//
//	SELECT … FROM system_views.x ─▶ query/system (columns, rows) ─▶ views (figures) ─▶ the part that counts
//
// Nothing is stored or cached here: each statement reads the parts at its time. A view shows this node only; clients
// that need all nodes ask each of them.
package sysviews
