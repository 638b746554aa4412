// Package netns runs a test again in a network namespace of its own, where packets between two addresses can be dropped
// without an error for the sender, and in one direction, as by a broken network. The network of the machine does not
// change.
//
// It needs Linux and the permission to create a namespace. The packets are dropped by the program of ../firewall, which
// is a module of its own.
//
//	test ── Run ──▶ the same test binary, in a new network namespace (Inside is true)
//	                  ├── LoopbackUp                  127.0.0.0/8 works again
//	                  ├── NewFirewall ── Drop, Cut    packets vanish without an ICMP answer
//	                  └── NewBridge ── Connect        more namespaces, one for each node
//
// Everything disappears with the namespaces, so a killed test leaves nothing to clean up.
package netns
