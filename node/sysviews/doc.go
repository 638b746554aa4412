// Package sysviews reads what the system tables of a node show: system, system_views and what drivers read when they
// connect. It converts the figures of the parts; query/system has the tables.
package sysviews
