package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"strconv"

	"cqld/node/config"
)

// ports are the ports of the first node of a ring. The other nodes have the same ones at other addresses or, if the
// system has only 127.0.0.1, the following ones.
type ports struct{ native, storage, tables uint16 }

// portStep is the distance between the ports that rings of one machine choose; it is more than localNodesMax. For
// example, the third ring of a machine uses the ports 9242, 7200 and 10202.
const portStep = 100

// portTries is how many rings may choose ports on one machine. The largest port is then 10002 + 49·100 = 14902, below
// the range from which Linux takes ports of connections (32768).
const portTries = 50

// layout assigns an address to every node: 127.0.0.1, 127.0.0.2, … with equal ports, or, if the system has only
// 127.0.0.1, that address with consecutive ports. A ring keeps its ports; a new one without flags takes the default
// ports, or free ones. It sends nothing and writes nothing; it listens on each port for a moment.
func (c *localCommand) layout() ([]member, error) {
	// Clients and the other nodes know a ring by its ports, so an existing ring does not look for free ones.
	kept, err := c.keptPorts()
	if err != nil {
		return nil, err
	}
	// Linux answers on all of 127.0.0.0/8; other systems may have to be configured for it. Port 0 is any free port.
	many := free("127.0.0.2", 0) == nil
	if kept != nil {
		members, err := c.members(c.withFlags(*kept), many)
		if err != nil {
			return nil, err
		}
		if err := allFree(members); err != nil {
			return nil, fmt.Errorf("%w; the ring in %s keeps its ports", err, c.DataDir)
		}
		return members, nil
	}
	// All ports are shifted together, so that the ports of one ring are recognizable.
	for i := range uint16(portTries) {
		p := c.withFlags(ports{9042 + i*portStep, 7000 + i*portStep, 10002 + i*portStep})
		members, wrong := c.members(p, many)
		// Ports that the flags give are too large in every attempt.
		if wrong != nil {
			return nil, wrong
		}
		err = allFree(members)
		if err == nil {
			return members, nil
		}
		// All ports are given, so that a further attempt would try the same ones.
		if c.Port != nil && c.TablesPort != nil && c.StoragePort != nil {
			break
		}
	}
	return nil, fmt.Errorf("%w; is another ring or node running? Set --port, --tables-port and --storage-port", err)
}

// keptPorts returns the ports of the ring in the data directory, or nil if there is none. It returns an error if
// --storage-port differs from the ring's port: members are known by their internode addresses. The ports for clients
// may change at each start. node1 is enough to know the ports of all nodes, which follow from its own.
func (c *localCommand) keptPorts() (*ports, error) {
	present, err := ringConfigs(c.DataDir)
	if err != nil || len(present) == 0 || c.Fresh {
		return nil, err
	}
	o := config.Default()
	if err := o.LoadFile(filepath.Join(c.DataDir, "node1", nodeConfig)); err != nil {
		return nil, err
	}
	if c.StoragePort != nil && *c.StoragePort != o.Listen.StoragePort {
		return nil, fmt.Errorf("--storage-port: the ring in %s has port %d between its nodes, and keeps it; use "+
			"--fresh or another --data-dir",
			c.DataDir, o.Listen.StoragePort)
	}
	return &ports{o.Listen.NativePort, o.Listen.StoragePort, o.Tables.Port}, nil
}

// withFlags returns the ports with those that the flags set. Ports that are given are not shifted.
func (c *localCommand) withFlags(p ports) ports {
	setIf(&p.native, c.Port)
	setIf(&p.storage, c.StoragePort)
	setIf(&p.tables, c.TablesPort)
	return p
}

// members returns the nodes with their addresses: many, or one with consecutive ports. It returns an error that names
// the flag if the last node's port would exceed 65535.
func (c *localCommand) members(p ports, many bool) (out []member, err error) {
	if !many {
		for _, f := range []struct {
			flag  string
			first uint16
		}{{"--port", p.native}, {"--storage-port", p.storage}, {"--tables-port", p.tables}} {
			if last := int(f.first) + c.Nodes - 1; last > math.MaxUint16 {
				return nil, fmt.Errorf("%s: the system has one loopback address, on which %d nodes would use the "+
					"ports %d to %d; the largest port is %d", f.flag, c.Nodes, f.first, last, math.MaxUint16)
			}
		}
	}
	for i := range c.Nodes {
		// The ports of the second node and later ones follow from the first.
		m := member{index: i + 1, address: "127.0.0.1", port: p.native, storage: p.storage, tables: p.tables,
			dir: filepath.Join(c.DataDir, fmt.Sprintf("node%d", i+1)), center: c.center(i)}
		if many {
			m.address = fmt.Sprintf("127.0.0.%d", i+1)
		} else {
			m.port += uint16(i)
			m.storage += uint16(i)
			// Port 0 disables Azure Tables and stays 0.
			if m.tables != 0 {
				m.tables += uint16(i)
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// allFree returns an error that names the first port of the members that is in use, or that two listeners of the ring
// would use.
func allFree(members []member) error {
	// free closes each port before the next one is tried, so it does not notice that a port occurs twice.
	taken := map[string]bool{}
	for _, m := range members {
		for _, port := range []uint16{m.port, m.storage, m.tables} {
			listener := net.JoinHostPort(m.address, strconv.Itoa(int(port)))
			if port != 0 && taken[listener] {
				return fmt.Errorf("two listeners of the ring would use %s", listener)
			}
			taken[listener] = true
		}
	}
	for _, m := range members {
		for _, port := range []uint16{m.port, m.storage, m.tables} {
			if port == 0 {
				continue
			}
			// The first conflict is enough: the caller tries all ports again or reports it.
			if err := free(m.address, port); err != nil {
				return fmt.Errorf("%s:%d is in use (%w)", m.address, port, err)
			}
		}
	}
	return nil
}

// free listens on a port for a moment, and returns why that is not possible. Another process may take the port before
// the node does; the node then exits, and the ring does not start. The error has no address, for example "bind: address
// already in use".
func free(address string, port uint16) error {
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, port))
	if err != nil {
		// The message of the OpError repeats the address, which the caller adds.
		var op *net.OpError
		if errors.As(err, &op) {
			return op.Err
		}
		return err
	}
	return l.Close()
}
