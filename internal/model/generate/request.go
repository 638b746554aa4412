package generate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Request is one request as a block of a transcript: the directive, its options, and lines of bound values and
// statements. Package integration/transcript describes the format. For example:
//
//	cql v4 prepared tracing serial=any page=2
//	? int:1 v=int:2
//	SELECT v FROM t WHERE p = ? AND v = ?;
type Request struct {
	Directive string // cql, prepare or batch
	Options   []string
	Input     string
}

// Head returns the first line of the block.
func (x Request) Head() string { return strings.Join(append([]string{x.Directive}, x.Options...), " ") }

// Requests generates requests over a small schema in two keyspaces. Other than a Generator, it varies what a request
// carries beside its statement: the protocol version, the flags, consistency levels, keyspaces, timestamps, page sizes
// and paging states, and how values are bound. Many of its requests are invalid, because what is refused first, and
// whether the answer has a trace, are compared too. The same seed generates the same requests. It is not safe for
// concurrent use.
//
//	directive   cql: QUERY, or with the option prepared PREPARE and EXECUTE
//	            prepare: PREPARE only
//	            batch: BATCH, whose entries are statements, or with the option prepared ids
//	options     version, flags, levels, keyspaces, times, pages
//	input       statements with literals, ? or :name, and their values by position or by name
//
// It does not generate requests after which Cassandra and cqld have different data, because all later answers would
// differ: see level and parameters.
type Requests struct {
	r        *rand.Rand
	keyspace string
}

// NewRequests returns a generator of requests in a keyspace and in the keyspace with that name and the suffix _b.
func NewRequests(r *rand.Rand, keyspace string) *Requests { return &Requests{r: r, keyspace: keyspace} }

// Definitions returns statements that create the schema. Both keyspaces have a table t; u is only in the second, and
// the table of counters, whose updates have neither timestamps nor conditions, only in the first.
func (q *Requests) Definitions() []string {
	const table = "CREATE TABLE %s (p int, c int, s int static, v int, w text, PRIMARY KEY (p, c))"
	b := q.keyspace + "_b"
	return []string{
		"CREATE KEYSPACE " + b + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		fmt.Sprintf(table, "t"), fmt.Sprintf(table, b+".t"), fmt.Sprintf(table, b+".u"),
		"CREATE TABLE k (p int PRIMARY KEY, n counter)",
	}
}

// Drops returns statements that drop the schema. Rows of a seed are not seen by the next one.
func (q *Requests) Drops() []string {
	return []string{"DROP KEYSPACE " + q.keyspace + "_b", "DROP TABLE t", "DROP TABLE k"}
}

// requestReads and requestWrites are statements of requests. Reads are all statements that BATCH does not accept; most
// of them have rows. The others show which error comes first: of the request, of the syntax, of names, or of values.
// $T is one of the tables, and braces have a value: the name of its bind marker, and its type if that is not int.
//
// The names are the markers' own: p and c are the key, v, w and s columns, l a LIMIT, t a timestamp, d a TTL, j the
// object of INSERT JSON, and x and y the values of conditions.
var (
	requestReads = []string{
		"SELECT * FROM $T WHERE p = {p}", "SELECT v, w FROM $T WHERE p = {p} AND c = {c}", "SELECT * FROM $T",
		"SELECT JSON p, c FROM $T WHERE p = {p}", "SELECT count(*) FROM $T", "SELECT DISTINCT p, s FROM $T",
		"SELECT p, c FROM $T WHERE p IN ({p}, {p})", "SELECT v FROM $T WHERE v = {v} ALLOW FILTERING",
		"SELECT p, c FROM $T LIMIT {l}", "SELECT p, v FROM $T PER PARTITION LIMIT {l}",
		"SELECT v FROM $T WHERE p = {p} ORDER BY c DESC", "SELECT v FROM $T WHERE v = {v}",
		"SELECT nosuch FROM $T WHERE p = {p}", "SELECT * FROM nosuch WHERE p = {p}",
		"SELECT * FROM nosuch.t WHERE p = 1",
		"SELEC * FROM $T", "SELECT n FROM k WHERE p = {p}", "SELECT key FROM system.local",
		"SELECT p FROM $T WHERE p = {p} AND c > {c}", "SELECT (int){v} FROM $T WHERE p = {p}",
		"USE %KEYSPACE%", "USE nosuch", "CREATE TABLE IF NOT EXISTS t (p int PRIMARY KEY)",
		"CREATE TABLE t (p int PRIMARY KEY)", "DROP TABLE nosuch", "DROP TABLE IF EXISTS nosuch",
	}
	requestWrites = []string{
		"INSERT INTO $T (p, c, v, w) VALUES ({p}, {c}, {v}, {w text})",
		"INSERT INTO $T (p, c, v, s) VALUES ({p}, {c}, {v}, {s})",
		"INSERT INTO $T (p, c, v) VALUES ({p}, {c}, {v}) IF NOT EXISTS",
		"INSERT INTO $T (p, c, w) VALUES ({p}, {c}, {w text}) USING TIMESTAMP {t bigint}",
		"INSERT INTO $T (p, c, w) VALUES ({p}, {c}, {w text}) USING TTL {d}",
		"INSERT INTO $T JSON {j json}", "UPDATE $T SET v = {v}, w = {w text} WHERE p = {p} AND c = {c}",
		"UPDATE $T SET s = {s} WHERE p = {p}", "UPDATE $T SET v = {v} WHERE p = {p} AND c = {c} IF v = {x}",
		"UPDATE $T SET v = {v} WHERE p = {p} AND c = {c} IF EXISTS",
		"UPDATE $T SET v = {v} WHERE p = {p} AND c = {c} IF v IN ({x}, {y})",
		"UPDATE $T USING TIMESTAMP {t bigint} SET v = {v} WHERE p = {p} AND c = {c} IF EXISTS",
		"DELETE FROM $T WHERE p = {p}", "DELETE v FROM $T WHERE p = {p} AND c = {c}",
		"DELETE FROM $T WHERE p = {p} AND c > {c}", "DELETE FROM $T WHERE p = {p} AND c = {c} IF EXISTS",
		"DELETE s FROM $T WHERE p = {p} IF s != {s}", "UPDATE k SET n = n + {n bigint} WHERE p = {p}",
		"UPDATE nosuch SET v = {v} WHERE p = {p} IF v = 1", "UPDATE $T SET v = {v} WHERE p IN ({p}, {p}) IF v = {x}",
	}
	requestBatches = []string{"BEGIN BATCH", "BEGIN UNLOGGED BATCH", "BEGIN COUNTER BATCH"}
)

// Next generates one request.
func (q *Requests) Next() Request {
	x := Request{Directive: "cql"}
	add := func(format string, args ...any) { x.Options = append(x.Options, fmt.Sprintf(format, args...)) }
	// Version 4 has no keyspace in PREPARE, and one byte of flags.
	v4 := q.oneIn(3)
	if v4 {
		add("v4")
	}
	prepared := q.oneIn(3)
	switch n := q.r.IntN(20); {
	case n < 4:
		x.Directive, prepared = "prepare", false
		x.Input = q.statement(q.any(requestReads, requestWrites), statementOptions{})
	case n < 8:
		// Kind 3 does not exist. Logged batches are the most frequent kind, as they are in programs.
		x.Directive = "batch"
		x.Input = q.batch()
		add("kind=%d", []int{0, 0, 0, 1, 1, 2, 3}[q.r.IntN(7)])
		if q.oneIn(20) {
			add("named")
		}
	case n == 8:
		// A batch in CQL. Its literals need no order of markers over several statements.
		inner := []string{q.any(requestBatches)}
		for range q.r.IntN(3) {
			// A line of values that do not belong to a marker would precede the statement only.
			lines := strings.Split(q.statement(q.any(requestWrites), statementOptions{literals: true}), "\n")
			inner = append(inner, lines[len(lines)-1])
		}
		x.Input = strings.Join(inner, " ") + " APPLY BATCH;"
	default:
		x.Input = q.statement(q.any(requestReads, requestWrites), statementOptions{})
	}
	// With unknown, EXECUTE has an id that was never prepared, whatever the statement is.
	if prepared {
		add("prepared")
		if q.oneIn(20) {
			add("unknown")
		}
	}
	x.Options = append(x.Options, q.parameters(&x, v4, prepared)...)
	return x
}

// requestLevels are consistency levels by name.
var requestLevels = []string{
	"any", "one", "two", "three", "quorum", "all", "local_quorum", "each_quorum", "serial", "local_serial", "local_one",
}

// level returns the consistency level of a request. It excludes levels at which Cassandra and cqld write different
// data: batches at a serial level, and conditional changes whose commit too few replicas exist for.
func (q *Requests) level(x *Request) string {
	if q.oneIn(15) {
		return []string{"11", "255", "65535"}[q.r.IntN(3)]
	}
	for {
		level := q.any(requestLevels)
		switch {
		case strings.HasSuffix(level, "serial") && (x.Directive == "batch" || strings.Contains(x.Input, " BATCH ")):
		case (level == "two" || level == "three") && strings.Contains(x.Input, " IF "):
		default:
			return level
		}
	}
}

// parameters returns options that set the tracing flag and the parameters of a request.
func (q *Requests) parameters(x *Request, v4, prepared bool) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if q.oneIn(4) {
		add("tracing")
	}
	// In version 4, the flag is sent as well, though the specification does not have it there.
	if q.oneIn(4) && !v4 || q.oneIn(25) {
		add("keyspace=%s", q.keyspaces())
	}
	// PREPARE has no other parameters.
	if x.Directive == "prepare" {
		return out
	}
	if q.oneIn(2) {
		add("consistency=%s", q.level(x))
	}
	// Half of the serial levels are serial. Others must be refused, but only for a condition.
	if q.oneIn(2) {
		add("serial=%s", [...]string{"serial", "local_serial", q.level(x)}[q.r.IntN(3)])
	}
	// Zero and less mean no pages. With few rows, a page of 1 or 2 has a successor.
	if q.oneIn(4) {
		add("page=%d", []int{1, 2, 3, 5, 100, -1, -2147483648, 2147483647}[q.r.IntN(8)])
	}
	// A write with a paging state is refused by Cassandra only.
	if q.oneIn(10) && x.Directive == "cql" && strings.Contains(x.Input, "SELECT ") {
		add("state=%s", []string{"0x", "0x00", "0xffffffff"}[q.r.IntN(3)])
	}
	// The least value is out of bounds. None is later than the clock: cqld warns of those.
	if q.oneIn(5) {
		add("ts=%d", []int64{0, 1, 5, -1, -9223372036854775808, -9223372036854775807, 1700000000000000}[q.r.IntN(7)])
	}
	if q.oneIn(8) && !v4 {
		times := []int{0, 1, 1700000000, 2147483647, -2147483648, -1}
		if !strings.Contains(x.Input, "SELECT ") {
			times = times[:5] // Cassandra stores deletions at -1 as empty values
		}
		add("now=%d", times[q.r.IntN(len(times))])
	}
	// Rows without metadata are rendered without names and types, so that the comparison shows the difference.
	if q.oneIn(6) {
		add("skip")
	}
	if prepared && x.Directive == "cql" && q.oneIn(8) {
		add("execute-keyspace=%s", q.keyspaces())
	}
	return out
}

// keyspaces returns the name of a keyspace, which may not exist. Names in requests are case-sensitive, unlike in CQL.
// The second keyspace is the most frequent one: the same names are other tables there.
func (q *Requests) keyspaces() string {
	b := q.keyspace + "_b"
	return []string{q.keyspace, b, b, "nosuch", strings.ToUpper(q.keyspace), "system"}[q.r.IntN(6)]
}

// batch returns the lines of a BATCH message of up to three statements. Their values have no names: the layout of names
// in BATCH is ambiguous (CASSANDRA-10246).
func (q *Requests) batch() string {
	var lines []string
	for range q.r.IntN(4) {
		from := requestWrites
		// No batch may contain a SELECT or a definition.
		if q.oneIn(12) {
			from = requestReads
		}
		lines = append(lines, q.statement(q.any(from), statementOptions{positional: true}))
	}
	return strings.Join(lines, "\n")
}

// statementOptions restrict how values are written: as literals only, as in the text of a batch, or without names, as
// in a BATCH message.
type statementOptions struct{ literals, positional bool }

// statement returns the lines of a statement: with literals, or with bind markers and a line of values. Some statements
// have too few values, too many, or an invalid one. From the template
//
//	UPDATE $T SET v = {v}, w = {w text} WHERE p = {p} AND c = {c}
//
// it makes, for example, one of
//
//	UPDATE t SET v = 1, w = 'a' WHERE p = 0 AND c = 2;
//
//	? int:1 text:'a' int:0 int:2
//	UPDATE ks.t SET v = ?, w = ? WHERE p = ? AND c = ?;
//
//	? v=int:1 w=text:'a' p=int:0 c=int:2
//	UPDATE ks_b.t SET v = :v, w = :w WHERE p = :p AND c = :c;
func (q *Requests) statement(template string, o statementOptions) string {
	literals := o.literals || q.oneIn(3)
	named := q.oneIn(3)  // :name instead of ?
	byName := q.oneIn(6) // values have names
	if named {
		byName = q.oneIn(2)
	}
	byName = byName && !o.positional
	var text strings.Builder
	var binds []string
	rest := strings.ReplaceAll(template, "%KEYSPACE%", q.keyspace)
	table := []string{"t", "t", "t", q.keyspace + ".t", q.keyspace + "_b.t", "u"}[q.r.IntN(6)]
	rest = strings.ReplaceAll(rest, "$T", table)
	// Each turn writes the text up to a value, and then the value or its marker.
	for {
		before, marker, found := strings.Cut(rest, "{")
		text.WriteString(before)
		if !found {
			break
		}
		marker, rest, _ = strings.Cut(marker, "}")
		name, kind, _ := strings.Cut(marker, " ")
		if kind == "" {
			kind = "int"
		}
		// Both forms are generated in any case, so that the random numbers do not depend on the form.
		literal, bound := q.value(name, kind)
		switch {
		case literals:
			text.WriteString(literal)
			continue
		case named:
			text.WriteString(":" + name)
		default:
			text.WriteString("?")
		}
		if byName {
			bound = name + "=" + bound
		}
		binds = append(binds, bound)
	}
	binds = q.spoilt(binds, byName)
	if len(binds) == 0 {
		return text.String() + ";"
	}
	return "? " + strings.Join(binds, " ") + "\n" + text.String() + ";"
}

// value returns a value as a literal and as a bound value. name is the name of its marker, kind its type in the format
// of transcripts, or json for the object of INSERT JSON. One of 25 is null, whatever the type.
func (q *Requests) value(name, kind string) (literal, bound string) {
	if q.oneIn(25) {
		return "null", "null"
	}
	switch kind {
	case "text":
		s := []string{"'a'", "'b'", "''"}[q.r.IntN(3)]
		return s, "text:" + s
	case "json":
		s := fmt.Sprintf(`'{"p": %d, "c": %d, "v": %d}'`, q.r.IntN(3), q.r.IntN(3), q.r.IntN(3))
		return s, "text:" + s
	}
	// Few values, so that rows are overwritten and conditions hold.
	n := q.r.IntN(3)
	// TTLs: none, some that do not expire while the test runs, a negative one, and one that is too large.
	if name == "d" {
		n = []int{0, 100, 1000000, -1, 630720001}[q.r.IntN(5)]
	}
	return fmt.Sprint(n), fmt.Sprintf("%s:%d", kind, n)
}

// spoilt returns the values, or, for one request of twelve, other values than the statement needs: too many, too few,
// or one that its type does not have. byName gives the new values names, because the names of a request are for all of
// its values or for none.
func (q *Requests) spoilt(binds []string, byName bool) []string {
	if !q.oneIn(12) {
		return binds
	}
	name := ""
	// P= is another name than p=: names of values are compared as they are, not as identifiers of CQL.
	if byName {
		name = []string{"p=", "P=", "nosuch="}[q.r.IntN(3)]
	}
	if len(binds) == 0 || q.oneIn(3) {
		return append(binds, name+"int:1")
	}
	// One value is missing, has a wrong length, or is not set.
	i := q.r.IntN(len(binds))
	switch q.r.IntN(3) {
	case 0:
		return slices.Delete(binds, i, i+1)
	case 1:
		binds[i] = name + []string{"0x0001", "0x", "0x0000000000000000000001"}[q.r.IntN(3)]
	default:
		binds[i] = name + "unset"
	}
	return binds
}

func (q *Requests) any(lists ...[]string) string {
	all := slices.Concat(lists...)
	return all[q.r.IntN(len(all))]
}

func (q *Requests) oneIn(n int) bool { return q.r.IntN(n) == 0 }
