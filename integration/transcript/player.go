package transcript

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"

	"cqld/integration/cqlclient"
)

// Player holds the connections for one file. A file has one Player. It is not safe for concurrent use.
type Player struct {
	Statements int // number of executed statements

	// host:port of the server; all blocks of a file use it.
	address  string
	keyspace string
	// By protocol version; the connection of v5 is opened first.
	conns map[byte]*cqlclient.Conn
}

// Open connects, and recreates the file's keyspace, with one replica, and uses it. Keyspaces whose names begin with
// that name also belong to the file: they are dropped now and by Close. The keyspace name must be in lower case.
func Open(address, keyspace string) (*Player, error) { return OpenReplicated(address, keyspace, 1) }

// OpenReplicated is Open with a replication factor. On a ring, a file is played with more than one replica and the same
// answers.
func OpenReplicated(address, keyspace string, factor int) (*Player, error) {
	p := &Player{address: address, keyspace: keyspace, conns: map[byte]*cqlclient.Conn{}}
	c, err := p.conn(5)
	if err != nil {
		return nil, err
	}
	// A run that was interrupted may have left them.
	if err := p.dropKeyspaces(c); err != nil {
		p.closeConns()
		return nil, err
	}
	for _, s := range []string{
		fmt.Sprintf("CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}",
			keyspace, factor),
		"USE " + keyspace,
	} {
		if err := mustQuery(c, s); err != nil {
			p.closeConns()
			return nil, err
		}
	}
	return p, nil
}

// Close drops the keyspaces of the file. It must be called even if the file failed, or the next run has to drop the
// keyspaces.
func (p *Player) Close() error {
	defer p.closeConns()
	return p.dropKeyspaces(p.conns[5])
}

// closeConns closes all connections. Their errors do not matter: the answers have been read.
func (p *Player) closeConns() {
	for _, c := range p.conns {
		c.Close()
	}
}

// conn returns the connection with a protocol version. It is kept, so that USE has an effect on later blocks. Version 4
// is opened only by a file with the option v4.
func (p *Player) conn(version byte) (*cqlclient.Conn, error) {
	if c := p.conns[version]; c != nil {
		return c, nil
	}
	c, err := cqlclient.Dial(p.address, version)
	if err != nil {
		return nil, err
	}
	p.conns[version] = c
	// The first connection is opened before the keyspace exists. conns contains the new one already.
	if len(p.conns) > 1 {
		err = mustQuery(c, "USE "+p.keyspace)
	}
	return c, err
}

// mustQuery executes a statement of the player itself, for which an error response is an error. Its failure means that
// the server or the keyspace is not usable, so the whole file fails.
func mustQuery(c *cqlclient.Conn, statement string) error {
	a, err := c.Query(statement, cqlclient.Options{})
	if err == nil && a.Err != nil {
		err = fmt.Errorf("%s: %w", statement, a.Err)
	}
	return err
}

// dropKeyspaces drops the keyspace of the player and the ones that its files create, whose names begin with it. An
// interrupted run leaves at most these.
func (p *Player) dropKeyspaces(c *cqlclient.Conn) error {
	a, err := c.Query("SELECT keyspace_name FROM system_schema.keyspaces", cqlclient.Options{})
	if err != nil {
		return err
	}
	// System keyspaces have names of their own and never match.
	for _, r := range a.Rows {
		name := string(r[0])
		if name == p.keyspace || strings.HasPrefix(strings.ToLower(name), p.keyspace+"_") {
			if err := mustQuery(c, `DROP KEYSPACE "`+name+`"`); err != nil {
				return err
			}
		}
	}
	return nil
}

// request is one parsed block of a file. Each block has a new one, so options do not carry over.
type request struct {
	version  byte
	pageSize int
	states   bool // show an empty last page, too
	// Names of columns whose values are not shown.
	mask     map[string]bool
	raw      bool
	header   bool
	prepared bool
	options  cqlclient.Options

	traceID bool // show whether the answer has the id of a trace
	kind    byte // of a batch: 0 logged, 1 unlogged, 2 counter
	named   bool // a batch has the flag for names of values
	unknown bool // statements are executed by an id that no server has

	executeKeyspace string // that EXECUTE names; PREPARE names the keyspace of options
}

// Play executes one block and returns the answers. The result ends with a newline, as datadriven expects. An error is
// one of the file or of the connection; an error response of the server is part of the result. For example:
//
//	ok x3
//	k int | v text
//	1 | 'a'
//	(1 rows)
func (p *Player) Play(d *datadriven.TestData) (string, error) {
	rq, err := parseRequest(d)
	if err != nil {
		return "", err
	}
	c, err := p.conn(rq.version)
	if err != nil {
		return "", err
	}
	// One text for each statement.
	var out []string
	statements := split(d.Input)
	if d.Cmd == "batch" {
		p.Statements += len(statements)
		return rq.batch(c, statements)
	}
	for _, s := range statements {
		if s.err != nil {
			return "", s.err
		}
		p.Statements++
		rq.options.Values = s.binds
		var text string
		switch d.Cmd {
		case "cql":
			text, err = rq.settled(c, p.keyspace, s.text)
		case "prepare":
			text, err = rq.describePrepared(c, s.text)
		default:
			err = fmt.Errorf("transcript: unknown directive %q", d.Cmd)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", s.text, err)
		}
		out = append(out, text)
	}
	return strings.Join(collapse(out), "\n") + "\n", nil
}

// collapse replaces n successive "ok" by "ok xn". Files insert many rows, whose answers would hide the others.
func collapse(in []string) []string {
	var out []string
	for i := 0; i < len(in); {
		n := 1
		for i+n < len(in) && in[i] == "ok" && in[i+n] == "ok" {
			n++
		}
		if n > 1 {
			out = append(out, fmt.Sprintf("ok x%d", n))
		} else {
			out = append(out, in[i])
		}
		i += n
	}
	return out
}

// parseRequest parses the options of a block. An option without a value has no Vals; one with several is mask=(a,b).
func parseRequest(d *datadriven.TestData) (*request, error) {
	rq := &request{version: 5, mask: map[string]bool{}}
	for _, a := range d.CmdArgs {
		var n int64
		var err error
		// Most options have a number.
		if len(a.Vals) == 1 && !namedOptions[a.Key] {
			if n, err = strconv.ParseInt(a.Vals[0], 10, 64); err != nil {
				return nil, err
			}
		}
		switch a.Key {
		case "v4":
			rq.version = 4
		case "page":
			rq.pageSize = int(n)
		case "states":
			rq.states = true
		// Columns whose values differ from run to run.
		case "mask":
			for _, v := range a.Vals {
				rq.mask[v] = true
			}
		case "raw":
			rq.raw = true
		case "header":
			rq.header = true
		case "prepared":
			rq.prepared = true
		case "ts":
			rq.options.Timestamp = &n
		case "now":
			now := int32(n)
			rq.options.Now = &now
		case "consistency":
			if rq.options.Consistency, err = consistency(a.Vals); err != nil {
				return nil, err
			}
		case "serial":
			if rq.options.Serial, err = consistency(a.Vals); err != nil {
				return nil, err
			}
		case "keyspace":
			rq.options.Keyspace = a.Vals[0]
		case "execute-keyspace":
			rq.executeKeyspace = a.Vals[0]
		case "trace":
			rq.options.Tracing = true
		default:
			known, err := rq.frameOption(a.Key, a.Vals, n)
			if err != nil {
				return nil, err
			}
			if !known {
				return nil, fmt.Errorf("transcript: unknown option %q", a.Key)
			}
		}
	}
	rq.options.PageSize = rq.pageSize
	return rq, nil
}

// namedOptions are the options whose value is no number. Their values are words.
var namedOptions = map[string]bool{"mask": true, "consistency": true, "serial": true, "keyspace": true,
	"execute-keyspace": true, "state": true}

// consistency returns the number of the level that an option names, or the number that it is. The client would send an
// unknown name as ONE.
func consistency(values []string) (uint16, error) {
	name := strings.ToUpper(strings.Join(values, ","))
	if n, err := strconv.ParseUint(name, 10, 16); err == nil {
		return uint16(n), nil
	}
	level, known := consistencies[name]
	if !known {
		return 0, fmt.Errorf("transcript: unknown consistency level %q", name)
	}
	return level, nil
}

// consistencies are the levels by name, with their numbers in the protocol.
var consistencies = map[string]uint16{
	"ANY": cqlclient.ConsistencyAny, "ONE": 1, "TWO": 2, "THREE": 3, "QUORUM": 4, "ALL": 5, "LOCAL_QUORUM": 6,
	"EACH_QUORUM": 7, "SERIAL": 8, "LOCAL_SERIAL": 9, "LOCAL_ONE": 10,
}

// boundStatement is a statement of a block with its bound values, or the error of their line. The error is reported
// when the statement's turn comes, with its text.
type boundStatement struct {
	text  string
	binds []cqlclient.Value
	err   error
}

// split divides a block into statements: each ends with a line that ends with ";", a batch with APPLY BATCH;. A body in
// dollar signs may contain ";" only inside a line. For example:
//
//	? int:1              bound to the next statement
//	SELECT v FROM t
//	  WHERE k = ?;       the end of the statement
func split(input string) []boundStatement {
	var out []boundStatement
	var cur boundStatement
	var lines []string
	flush := func() {
		if cur.text = strings.TrimSpace(strings.Join(lines, "\n")); cur.text != "" {
			out = append(out, cur)
		}
		cur, lines = boundStatement{}, nil
	}
	for _, line := range strings.Split(input, "\n") {
		// Bound values precede their statement.
		if b, ok := strings.CutPrefix(line, "? "); ok && len(lines) == 0 {
			// A second line of values replaces the first.
			cur.binds, cur.err = parseBinds(b)
			continue
		}
		lines = append(lines, line)
		all := strings.ToUpper(strings.TrimSpace(strings.Join(lines, "\n")))
		// Statements of a batch end with ";" too.
		inBatch := strings.HasPrefix(all, "BEGIN ") && !strings.Contains(all, "APPLY")
		if strings.HasSuffix(line, ";") && !inBatch {
			lines[len(lines)-1] = strings.TrimSuffix(line, ";")
			flush()
		}
	}
	// The last statement may lack its semicolon.
	flush()
	return out
}
