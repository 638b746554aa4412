package definition

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cqld/cql"
	"cqld/internal/javanumber"
	"cqld/query/invalid"
	"cqld/ring"
	"cqld/schema"
)

// defaultFactor is the replication factor of a keyspace that specifies none, limited by the number of nodes (design
// §5).
const defaultFactor = 4

// createKeyspace defines CREATE KEYSPACE. An empty replication map, or one without a factor, selects cqld's defaults
// (docs/differences.md).
func (d *Definer) createKeyspace(stmt *cql.CreateKeyspace) Definition {
	p, err := newProperties(stmt.Properties, "replication", "durable_writes")
	if err != nil {
		return refuse(err)
	}
	options, given, err := p.stringMap("replication")
	if err != nil {
		return refuse(err)
	}
	// As in Cassandra, the option is mandatory, but may be empty.
	if !given {
		return refuse(invalid.Errorf("Missing mandatory option 'replication'"))
	}
	if _, ok := options["class"]; !ok && len(options) > 0 {
		return refuse(invalid.Configf("Missing replication strategy class"))
	}
	// Apply refuses the names of replicated system keyspaces, because these always exist.
	if schema.IsLocalSystem(stmt.Keyspace) || schema.IsVirtualSystem(stmt.Keyspace) {
		return refuse(invalid.Errorf("System keyspace '%s' is not user-modifiable", stmt.Keyspace))
	}
	c := &schema.CreateKeyspace{Keyspace: stmt.Keyspace, IfNotExists: stmt.IfNotExists}
	def := Definition{Change: c, Event: schema.Event{Change: schema.Created, Target: schema.TargetKeyspace,
		Keyspace: stmt.Keyspace}}
	if d.Schema.Keyspace(stmt.Keyspace) != nil { // Apply returns this error, before errors about the replication
		// A valid placeholder: Apply refuses the change or ignores it.
		c.Replication = ring.Replication{Class: ring.Simple}
		return def
	}
	if err := schema.CheckKeyspaceName(stmt.Keyspace); err != nil {
		return refuse(err)
	}
	if c.DurableWrites, err = p.boolean("durable_writes", true); err != nil {
		return refuse(err)
	}
	c.Replication, err = replications{d.Topology}.parse(stmt.Keyspace, options, ring.Replication{})
	if err != nil {
		return refuse(err)
	}
	// A factor above the number of nodes is only a warning, because nodes may join later.
	def.Warnings = replications{d.Topology}.warnings(stmt.Keyspace, c.Replication)
	return def
}

// alterKeyspace defines ALTER KEYSPACE. Options that the statement does not set are nil in the change, and stay.
func (d *Definer) alterKeyspace(stmt *cql.AlterKeyspace) Definition {
	p, err := newProperties(stmt.Properties, "replication", "durable_writes")
	if err != nil {
		return refuse(err)
	}
	c := &schema.AlterKeyspace{Keyspace: stmt.Keyspace, IfExists: stmt.IfExists}
	if p.has("durable_writes") {
		durable, err := p.boolean("durable_writes", true)
		if err != nil {
			return refuse(err)
		}
		c.DurableWrites = &durable
	}
	options, given, err := p.stringMap("replication")
	if err != nil {
		return refuse(err)
	}
	// The replicated system keyspaces are not refused here: their replication may be altered.
	if schema.IsLocalSystem(stmt.Keyspace) || schema.IsVirtualSystem(stmt.Keyspace) {
		return refuse(mayChange(stmt.Keyspace, "", ""))
	}
	def := Definition{Change: c, Event: schema.Event{Change: schema.Updated, Target: schema.TargetKeyspace,
		Keyspace: stmt.Keyspace}}
	// With replication_factor, data centers that the statement does not name keep their factors.
	old := d.Schema.Keyspace(stmt.Keyspace)
	// Apply reports a missing keyspace. Empty options change nothing.
	if old == nil || !given || len(options) == 0 {
		return def
	}
	r, err := replications{d.Topology}.parse(stmt.Keyspace, options, old.Replication)
	if err != nil {
		return refuse(err)
	}
	c.Replication = &r
	def.Warnings = replications{d.Topology}.warnings(stmt.Keyspace, r)
	// New replicas have no data until they are repaired.
	if old.Replication.Total() < r.Total() {
		def.Warnings = append(def.Warnings,
			"When increasing replication factor you need to run a full (-full) repair to distribute the data.")
	}
	return def
}

// dropKeyspace defines DROP KEYSPACE. Apply also drops the keyspace's contents.
func (d *Definer) dropKeyspace(stmt *cql.DropKeyspace) Definition {
	if err := mayChange(stmt.Keyspace, "DROP", "keyspace "+stmt.Keyspace); err != nil {
		return refuse(err)
	}
	// retention reads the clock, so it is called once.
	retention := dropping{d}.retention()
	def := Definition{Change: &schema.DropKeyspace{Keyspace: stmt.Keyspace, IfExists: stmt.IfExists,
		Retention: retention},
		Event: schema.Event{Change: schema.Dropped, Target: schema.TargetKeyspace, Keyspace: stmt.Keyspace}}
	if k := d.Schema.Keyspace(stmt.Keyspace); k != nil && retention != nil && !schema.Restorable(k) {
		// Apply uses the same limit. The statement succeeds with a warning.
		def.Warnings = append(def.Warnings, fmt.Sprintf("Keyspace '%s' was removed at once, and UNDROP KEYSPACE "+
			"cannot restore it: it had more tables, views, types and functions than drop_grace keeps", k.Name))
	}
	return def
}

// replications parses replication options against the data centers and nodes of a topology.
type replications struct{ topology *ring.Topology }

// parse parses the option replication. previous is the value before ALTER, or zero. The default class is
// SimpleStrategy, and the default factor is defaultFactor. Errors have the code CONFIG_ERROR, except for LocalStrategy.
func (x replications) parse(keyspace string, options map[string]string, previous ring.Replication) (ring.Replication,
	error) {
	class, ok := options["class"]
	// createKeyspace has checked this; alterKeyspace has not.
	if !ok && len(options) > 0 {
		return ring.Replication{}, invalid.Configf("Missing replication strategy class")
	}
	if !ok {
		class = "SimpleStrategy"
	}
	// An unqualified class name is one of Cassandra's strategies.
	if !strings.Contains(class, ".") {
		class = "org.apache.cassandra.locator." + class
	}
	// Clone, because the parsed statement must not change.
	rest := maps.Clone(options)
	delete(rest, "class")
	switch class {
	case ring.Simple.Name():
		return x.simple(keyspace, rest)
	case ring.NetworkTopology.Name():
		return x.network(keyspace, rest, previous)
	case ring.Everywhere.Name():
		return x.everywhere(keyspace, rest)
	case ring.Local.Name():
		return ring.Replication{}, invalid.Errorf("Unable to use given strategy class: LocalStrategy is reserved for " +
			"internal use.")
	}
	return ring.Replication{}, invalid.Configf("Unable to find replication strategy class '%s'", class)
}

// simple parses the options of SimpleStrategy, which has only an optional factor.
//
//	replication_factor: 3   3
//	none                    the number of nodes, at least 1 and at most defaultFactor
//	others                  an error
func (x replications) simple(keyspace string, options map[string]string) (ring.Replication, error) {
	// The factor is at least 1, even before the first node owns tokens.
	factor := min(defaultFactor, max(1, x.nodesIn("")))
	// Sorted, so the same unknown option is reported each time.
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if name != "replication_factor" {
			return ring.Replication{},
				invalid.Configf("Unrecognized strategy option {%s} passed to SimpleStrategy for keyspace %s", name,
					keyspace)
		}
		var err error
		if factor, err = parseFactor(options[name]); err != nil {
			return ring.Replication{}, err
		}
	}
	return ring.Replication{Class: ring.Simple, Factor: factor}, nil
}

// everywhere parses the options of EverywhereStrategy, which has none. DataStax Enterprise and ScyllaDB have this
// class, and Cassandra does not.
func (x replications) everywhere(keyspace string, options map[string]string) (ring.Replication, error) {
	for _, name := range slices.Sorted(maps.Keys(options)) {
		return ring.Replication{},
			invalid.Configf("Unrecognized strategy option {%s} passed to EverywhereStrategy for keyspace %s", name,
				keyspace)
	}
	return ring.EverywhereOn(x.topology.Nodes()), nil
}

// network expands replication_factor to all data centers. As in Cassandra, ALTER KEYSPACE keeps the factors of the
// keyspace's data centers that the statement does not name, because the shorthand must not remove replicas. A factor of
// 0 removes a data center.
//
//	with the data centers dc1 and dc2     factors
//	replication_factor: 3                 dc1: 3, dc2: 3
//	replication_factor: 3, dc2: 1         dc1: 3, dc2: 1
//	dc1: 3                                dc1: 3
//	dc1: 3, dc2: 0                        dc1: 3
//	ALTER of dc1: 3, replication_factor: 2   dc1: 3, dc2: 2
//	none                                  dc1, dc2: defaultFactor, or the number of nodes
func (x replications) network(keyspace string, options map[string]string,
	previous ring.Replication) (ring.Replication, error) {
	expand, given := options["replication_factor"]
	// From here on, named contains the factor of each data center, as text.
	named := maps.Clone(options)
	delete(named, "replication_factor")
	// Changing from SimpleStrategy without any factor applies the previous factor to each data center.
	if !given && len(named) == 0 && previous.Class == ring.Simple {
		expand, given = strconv.Itoa(previous.Factor), true
	}
	// Without the shorthand, only the named data centers remain.
	if given {
		for _, f := range previous.Datacenters {
			if _, ok := named[f.Datacenter]; !ok {
				named[f.Datacenter] = strconv.Itoa(f.Factor)
			}
		}
	}
	// A data center must have a node, so a misspelled name is an error.
	known := x.topology.Datacenters()
	// Without any option, each data center gets the default factor.
	if given || len(named) == 0 {
		for _, dc := range known {
			if _, ok := named[dc]; ok {
				continue
			}
			named[dc] = expand
			if !given {
				named[dc] = strconv.Itoa(min(defaultFactor, max(1, x.nodesIn(dc))))
			}
		}
	}
	var factors []ring.DatacenterFactor
	for _, dc := range slices.Sorted(maps.Keys(named)) {
		// The order of errors is Cassandra's: a malformed factor is reported before an unknown data center.
		n, err := parseFactor(named[dc])
		if err != nil {
			return ring.Replication{}, err
		}
		if !slices.Contains(known, dc) {
			return ring.Replication{},
				invalid.Configf("Unrecognized strategy option {%s} passed to NetworkTopologyStrategy for keyspace %s",
					dc, keyspace)
		}
		// Zero is valid, and means no replica.
		if n > 0 {
			factors = append(factors, ring.DatacenterFactor{Datacenter: dc, Factor: n})
		}
	}
	if len(factors) == 0 {
		return ring.Replication{}, invalid.Configf("Configuration for at least one datacenter must be present")
	}
	return ring.NewNetworkTopology(factors...), nil
}

// parseFactor parses a replication factor. n/m requests transient replication, an experimental feature of Cassandra.
//
//	3, +3     3
//	0         0, for a data center without replicas
//	-1, a     errors
//	3/1       not supported
func parseFactor(text string) (int, error) {
	if strings.Contains(text, "/") {
		return 0, invalid.NotSupported("Transient replication")
	}
	// Java accepts a plus sign and digits of other scripts.
	n, err := javanumber.ParseInt(text, 32)
	switch {
	case err != nil:
		return 0, invalid.Configf("For input string: \"%s\"", text)
	case n < 0:
		return 0, invalid.Configf("Replication factor must be non-negative, found %d", n)
	}
	return int(n), nil
}

// nodesIn returns the number of nodes in a data center that own tokens; "" means all data centers. Leaving nodes count,
// because they own their tokens until they have left.
func (x replications) nodesIn(datacenter string) int {
	n := 0
	for _, node := range x.topology.Nodes() {
		if node.State != ring.Joining && (datacenter == "" || node.Datacenter == datacenter) {
			n++
		}
	}
	return n
}

// warnings returns a warning for each factor that exceeds the number of nodes of its data center.
func (x replications) warnings(keyspace string, r ring.Replication) []string {
	var warnings []string
	warn := func(factor, nodes int, where string) {
		if factor > nodes {
			warnings = append(warnings, fmt.Sprintf("Your replication factor %d for keyspace %s is higher than the "+
				"number of nodes %d%s",
				factor, keyspace, nodes, where))
		}
	}
	if r.Class == ring.Simple {
		warn(r.Factor, x.nodesIn(""), "")
	}
	// Empty for SimpleStrategy, and never higher than the number of nodes for EverywhereStrategy.
	for _, f := range r.Datacenters {
		warn(f.Factor, x.nodesIn(f.Datacenter), " for datacenter "+f.Datacenter)
	}
	return warnings
}
