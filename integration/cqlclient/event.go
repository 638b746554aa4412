package cqlclient

import (
	"fmt"
	"net/netip"
	"time"
)

// Register requests events of these types: TOPOLOGY_CHANGE, STATUS_CHANGE, SCHEMA_CHANGE. From then on, the connection
// should be used for NextEvent only. Events that arrive while Register waits are discarded.
func (c *Conn) Register(types ...string) error {
	body := appendShort(nil, len(types))
	for _, t := range types {
		body = appendString(body, t)
	}
	f, err := c.roundTrip(opRegister, 0, body)
	if err == nil && f.opcode == opError {
		err = decodeError(f.body(), c.Version)
	} else if err == nil && f.opcode != opReady {
		err = fmt.Errorf("cqlclient: REGISTER answered with opcode %#x", f.opcode)
	}
	return err
}

// NextEvent waits for an event and returns its strings, an address as host:port: for a schema change SCHEMA_CHANGE,
// CREATED, TABLE, keyspace, table; for a status change STATUS_CHANGE, DOWN, address. A timeout leaves the connection
// usable only if no byte of an event has been read.
func (c *Conn) NextEvent(wait time.Duration) ([]string, error) {
	if err := c.sock.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return nil, err
	}
	f, err := c.readFrame()
	if err != nil {
		return nil, err
	}
	if f.opcode != opEvent || f.stream != -1 {
		return nil, fmt.Errorf("cqlclient: opcode %#x on stream %d instead of an event", f.opcode, f.stream)
	}
	r := f.body()
	event := []string{r.string(), r.string()}
	// The number of strings depends on the kind of the object.
	if event[0] == "SCHEMA_CHANGE" {
		for len(r.b) > 0 && r.err == nil {
			event = append(event, r.string())
		}
	} else {
		// [inet]: the size of the address, the address, the port as [int].
		address, _ := netip.AddrFromSlice(r.take(int(r.byte())))
		event = append(event, netip.AddrPortFrom(address, uint16(r.int())).String())
	}
	return event, r.err
}
