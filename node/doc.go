// Package node is one node assembled: it is the only room that sees all parts, starts them in
// order, hands each what it needs of the others, and stops them in the opposite order.
//
// It decides nothing about data or statements. What looks like a decision here is a default.
//
//	Open:  storage ─▶ messaging ─▶ cluster ─▶ member ─▶ replica, coordinator ─▶ query ─▶ server
//	Close: server drains ─▶ hints stop ─▶ cluster ─▶ messaging ─▶ storage
package node
