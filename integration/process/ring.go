package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"cqld/integration/cqlclient"
)

// Ring is a cluster of servers on this machine. Servers and Spare have separate addresses; a test that starts a spare
// node moves it to Servers if WaitAgreed is to count it.
type Ring struct {
	Servers []*Server
	// Spare are prepared and not started: nodes that may join.
	Spare []*Server

	// reserved is a listener next to the addresses of the ring. While it is open, free returns none of them, even if
	// none of the servers runs. It is nil for hosts that Options name.
	reserved net.Listener
}

// Options configure a ring of cqld nodes.
type Options struct {
	// At least 1.
	Nodes int
	Spare int      // number of further nodes that are only prepared
	Sync  string   // commitlog_sync, "" for the server's default
	Flags []string // additional flags of "cqld start"
	YAML  []string // lines of each node's configuration file
	Hosts []Host   // where the nodes run; nil means free addresses of this machine
	Dial  Dialer   // how WaitAgreed connects; nil means without encryption and credentials
}

// Host is an address for a node, and a function that calls another one in the network namespace with that address.
// Enter of package netns is Namespace.Do.
type Host struct {
	Address string
	Enter   func(func() error) error
}

// NewRing prepares a ring of cqld nodes under dir without starting it, at free addresses. It writes the configuration
// files, and reserves the addresses until Stop.
func NewRing(binary, dir string, o Options) (*Ring, error) {
	places, reserved, err := o.places()
	if err != nil {
		return nil, err
	}
	r := &Ring{reserved: reserved}
	for i, p := range places {
		// All nodes have the first one as their seed, including itself. The first node therefore founds the cluster
		// when it is started alone.
		s := &Server{Address: p.cqlAddress(),
			Dir: filepath.Join(dir, "node"+strconv.Itoa(i+1)), status: &status{}, dial: o.Dial}
		if o.Hosts != nil {
			s.enter = o.Hosts[i].Enter
		}
		// The data directory is below the server's: the log of the process is not part of the data.
		s.argv = []string{binary, "start", "--status-fd", strconv.Itoa(statusFD), "--cluster-name", "integration",
			"--data-dir", filepath.Join(s.Dir, "data"),
			"--listen-address", p.host, "--storage-port", strconv.Itoa(p.storage),
			"--rpc-address", p.host, "--native-transport-port", strconv.Itoa(p.cql),
			"--seeds", net.JoinHostPort(places[0].host, strconv.Itoa(places[0].storage))}
		s.Tables = "http://" + net.JoinHostPort(p.host, strconv.Itoa(p.tables))
		s.options = p.options(o.YAML)
		if err := s.Configure(); err != nil {
			r.Stop()
			return nil, err
		}
		// After the flags, whose order has no meaning for the server.
		s.argv = append(s.argv, "--config", s.config())
		if o.Sync != "" {
			s.argv = append(s.argv, "--commitlog-sync", o.Sync)
		}
		s.argv = append(s.argv, o.Flags...)
		// The rest are spare.
		if i < o.Nodes {
			r.Servers = append(r.Servers, s)
		} else {
			r.Spare = append(r.Spare, s)
		}
	}
	return r, nil
}

// places returns the addresses of all nodes, and what reserves them. With Hosts, Nodes and Spare count them in their
// order.
func (o Options) places() (places []place, reserved net.Listener, err error) {
	if o.Hosts == nil {
		return free(o.Nodes + o.Spare)
	}
	for _, h := range o.Hosts {
		// Each host has all ports to itself.
		places = append(places, place{h.Address, 9042, 7000, tablesPort})
	}
	return places, nil, nil
}

// Configure sets lines of the node's configuration file for the next start, after the lines of Options.YAML. Each call
// replaces the lines of the previous one.
func (s *Server) Configure(lines ...string) error {
	return writeLines(s.config(), slices.Concat(s.options, lines))
}

// config returns the path of the node's configuration file.
func (s *Server) config() string { return filepath.Join(s.Dir, "cqld.yaml") }

// writeLines writes a file that only its owner may read. The file may contain paths of keys and passwords.
func writeLines(path string, lines []string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// place contains the addresses of one node. storage is the port for other nodes; tables is the port for Azure Tables.
type place struct {
	host                 string
	cql, storage, tables int
}

// free returns places for n nodes: a loopback address each, or ports of 127.0.0.1 if that is the only one. No other
// call returns them before reserved is closed, in this process or another one. The reservation is a listener, which the
// kernel closes when the process ends, even if it is killed.
func free(n int) (places []place, reserved net.Listener, err error) {
	// Processes begin at different ranges, so that rings of parallel tests rarely meet.
	many, base := loopback(), os.Getpid()
	// 200 of 250 ranges, or of 400 ranges of ports.
	for try := range 200 {
		places = make([]place, n)
		for i := range places {
			places[i] = placeIn(many, base+try, i+1)
		}
		// Place 0 is the lock of the range: no node listens there.
		if reserved, err = net.Listen("tcp", placeIn(many, base+try, 0).cqlAddress()); err != nil {
			continue // another ring has these addresses
		}
		if !slices.ContainsFunc(places, place.taken) {
			// The nodes bind their addresses a little later. Another program could take one meanwhile; rings cannot.
			return places, reserved, nil
		}
		reserved.Close()
	}
	return nil, nil, errors.New("process: no free addresses for a ring")
}

// placeIn returns the place of a node in one of the ranges of addresses for rings. Place 0 is for no node. A range of
// 127.0.0.1 has 100 ports, enough for 32 nodes with three ports each.
func placeIn(many bool, ring, node int) place {
	if many {
		return place{fmt.Sprintf("127.77.%d.%d", ring%250, node), 9042, 7000, tablesPort}
	}
	port := 20000 + ring%400*100 + 3*node
	return place{"127.0.0.1", port, port + 1, port + 2}
}

// cqlAddress returns host:port of the CQL port. Drivers call it a contact point.
func (p place) cqlAddress() string { return net.JoinHostPort(p.host, strconv.Itoa(p.cql)) }

// options returns the options of a node that have no flag. On a machine with all of 127.0.0.0/8 the default port is
// used. Tests truncate and drop tables all the time, so that snapshots of them are made only if more has the option.
func (p place) options(more []string) []string {
	var own []string
	if p.tables != tablesPort {
		own = append(own, "tables_port: "+strconv.Itoa(p.tables))
	}
	if !slices.ContainsFunc(more, func(line string) bool { return strings.HasPrefix(line, "auto_snapshot:") }) {
		own = append(own, "auto_snapshot: false")
	}
	// Tests look for the data of dropped tables, and drop more of them than a schema retains.
	if !slices.ContainsFunc(more, func(line string) bool { return strings.HasPrefix(line, "drop_grace:") }) {
		own = append(own, "drop_grace: 0s")
	}
	return append(own, more...)
}

// tablesPort is the default port for Azure Tables.
const tablesPort = 10002

// taken reports whether another process listens at one of the ports. It is a moment's answer, not a reservation.
func (p place) taken() bool {
	for _, port := range []int{p.cql, p.storage, p.tables} {
		l, err := net.Listen("tcp", net.JoinHostPort(p.host, strconv.Itoa(port)))
		if err != nil {
			return true
		}
		l.Close()
	}
	return false
}

// Start starts all servers and waits until they agree.
func (r *Ring) Start(limit time.Duration) error {
	for _, s := range r.Servers {
		if err := s.Start(); err != nil {
			// The servers that run would otherwise stay.
			r.Stop()
			return err
		}
	}
	if err := r.WaitAgreed(limit); err != nil {
		r.Stop()
		return err
	}
	return nil
}

// Stop stops all servers. Afterwards, another ring may get their addresses. Servers are stopped one after the other,
// spare ones first.
func (r *Ring) Stop() {
	for _, s := range append(r.Spare, r.Servers...) {
		s.Stop()
	}
	if r.reserved != nil {
		r.reserved.Close()
	}
}

// Addresses returns the CQL addresses of all servers, in the format of drivers. For example
// 127.77.3.1:9042,127.77.3.2:9042.
func (r *Ring) Addresses() string {
	var all []string
	for _, s := range r.Servers {
		all = append(all, s.Address)
	}
	return strings.Join(all, ",")
}

// Tables returns the addresses of all servers for clients of Azure Tables, separated by commas. For example
// http://127.77.3.1:10002,http://127.77.3.2:10002.
func (r *Ring) Tables() string {
	var all []string
	for _, s := range r.Servers {
		all = append(all, s.Tables)
	}
	return strings.Join(all, ",")
}

// WaitAgreed waits until every server knows all others, considers them alive, and all have the same schema version.
// limit bounds the whole wait; one attempt may exceed it by the timeout of a request.
func (r *Ring) WaitAgreed(limit time.Duration) error {
	end := time.Now().Add(limit)
	for {
		err := r.agreed()
		if err == nil {
			return nil
		}
		for _, s := range r.Servers {
			// Waiting is of no use if a node has failed; its log says why.
			if s.stop == nil && s.done != nil && !s.Running() {
				return fmt.Errorf("process: %s ended:\n%s", s.Address, s.Log())
			}
		}
		if time.Now().After(end) {
			return fmt.Errorf("process: the ring does not agree within %v: %w", limit, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// agreed returns what keeps the ring from being complete, or nil. It needs a connection to each server, on purpose: a
// ring that accepts no clients is not complete.
func (r *Ring) agreed() error {
	version := ""
	for _, s := range r.Servers {
		if s.status != nil && !s.status.seesAlive(len(r.Servers)) {
			return fmt.Errorf("process: %s does not see all nodes alive", s.Address)
		}
		dial := s.dial
		if dial == nil {
			dial = plain
		}
		c, err := dial(s.Address)
		if err != nil {
			return err
		}
		// Both are ordinary queries, so Cassandra answers them as well.
		local, err1 := c.Query("SELECT schema_version FROM system.local", cqlclient.Options{})
		peers, err2 := c.Query("SELECT schema_version FROM system.peers_v2", cqlclient.Options{})
		c.Close()
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if local.Err != nil || peers.Err != nil || len(local.Rows) != 1 {
			return fmt.Errorf("process: %s answers %v, %v", s.Address, local.Err, peers.Err)
		}
		// A node is not among its own peers.
		if len(peers.Rows) != len(r.Servers)-1 {
			return fmt.Errorf("process: %s knows %d other nodes", s.Address, len(peers.Rows))
		}
		// Every node's own version, and the ones that it knows of the others, must be the same.
		for _, row := range append(peers.Rows, local.Rows...) {
			if version != "" && version != string(row[0]) {
				return fmt.Errorf("process: %s sees two schema versions", s.Address)
			}
			version = string(row[0])
		}
	}
	return nil
}

// NewOracle prepares nodes of the reference Cassandra under dir, to be started one after the other. Cassandra has fixed
// addresses, 127.0.98.1 and following, so only one such ring runs on a machine at a time. sync is commitlog_sync: batch
// or periodic.
func NewOracle(dir string, nodes int, sync string) (*Ring, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	r := &Ring{}
	for i := range nodes {
		ip := fmt.Sprintf("127.0.98.%d", i+1)
		s := &Server{Address: ip + ":9042", Dir: filepath.Join(dir, "oracle"+strconv.Itoa(i+1))}
		s.argv = []string{"env", "SEEDS=127.0.98.1", filepath.Join(root, "tools/oracle/start.sh"), s.Dir, ip, sync}
		// The start script leaves a daemon, so a signal to its process would stop nothing.
		s.stop = []string{filepath.Join(root, "tools/oracle/stop.sh"), s.Dir}
		r.Servers = append(r.Servers, s)
	}
	return r, nil
}

// StartOracle starts the nodes of NewOracle one after the other, as Cassandra requires. Cassandra refuses concurrent
// bootstraps (consistent range movements, CASSANDRA-2434), so each node is awaited.
func (r *Ring) StartOracle() error {
	for _, s := range r.Servers {
		if err := s.Start(); err != nil {
			return err
		}
		<-s.done // the script ends when the node answers
		b, err := os.ReadFile(filepath.Join(s.Dir, "pid"))
		if err != nil {
			r.Stop()
			return fmt.Errorf("process: Cassandra did not start: %w\n%s", err, s.Log())
		}
		if s.PID, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
			return err
		}
		if err := s.WaitAnswer(time.Minute); err != nil {
			r.Stop()
			return err
		}
	}
	return r.WaitAgreed(time.Minute)
}
