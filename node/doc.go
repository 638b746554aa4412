// Package node assembles a node. It is the only package that imports all parts: it starts them in order, connects them
// to each other, and stops them in the opposite order.
//
// It makes no decisions about data or statements; it only sets defaults. What operators, clients and supervisors see of
// a node is in the packages below it: admin, metrics, sysviews, clients, notify, access and others.
//
//	Open:  storage ─▶ cluster (log on disk) ─▶ replica, coordinator ─▶ control ─▶ messaging ─▶ member ─▶ server
//	Close: control ─▶ server drains ─▶ hints stop ─▶ messaging ─▶ cluster ─▶ storage
package node
