package entity

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"

	"cqld/auth"
	"cqld/azuretables/odata"
	"cqld/request"
	"cqld/ring"
	"cqld/schema"
	"cqld/schema/refused"
	"cqld/types"
)

// nameExtension is the table option that stores the Azure table's name as created.
const nameExtension = "odata.name"

// catalogs caches the Azure tables of each account; a catalog is rebuilt when the account's keyspace has changed. The
// zero value is empty. Catalogs of dropped keyspaces are replaced only when a keyspace of that name exists again.
type catalogs struct {
	sync.RWMutex
	of map[string]*catalog // by account; nil until the first one
}

// catalog contains the Azure tables of one version of a keyspace. It is immutable. Its plans are shared with the
// catalogs of other versions in which their tables are the same.
type catalog struct {
	keyspace *schema.Keyspace // the version; compared by identity
	byName   map[string]*plan // by the name in lower case
	sorted   []*plan          // by the name in lower case
}

// catalog returns the account's current catalog, or nil if the account has no keyspace. A nil catalog has no tables
// (find).
func (s *Store) catalog(account string) *catalog {
	k := s.o.View.Schema().Keyspace(account)
	// Accounts have the names of keyspaces, and must not reach the tables of the database itself.
	if k == nil || k.Virtual || schema.IsSystem(account) {
		return nil
	}
	s.catalogs.RLock()
	c := s.catalogs.of[account]
	s.catalogs.RUnlock()
	// The keyspace object is immutable, so the same pointer is the same version. This is the usual case, under a read
	// lock.
	if c != nil && c.keyspace == k {
		return c
	}
	// Two requests may build it at the same time; the results are equal.
	c = newCatalog(k, c)
	s.catalogs.Lock()
	defer s.catalogs.Unlock()
	if s.catalogs.of == nil {
		s.catalogs.of = map[string]*catalog{}
	}
	s.catalogs.of[k.Name] = c // account may refer to a request's memory
	return c
}

// newCatalog builds the catalog of k and keeps the plans in old whose tables have not changed. old may be nil. Keeping
// plans preserves what build has computed.
func newCatalog(k *schema.Keyspace, old *catalog) *catalog {
	c := &catalog{keyspace: k, byName: map[string]*plan{}}
	for _, name := range k.TableNames() {
		t := k.Table(name)
		if !isAzureTable(t) {
			continue
		}
		lower := strings.ToLower(name)
		// CQL allows names that differ only in case, Azure Tables does not.
		if other := c.byName[lower]; other != nil && other.table.Name == lower {
			continue // of two names that differ only in case, the lower-case one wins
		}
		var p *plan
		if old != nil {
			// A changed table is another object.
			if p = old.byName[lower]; p != nil && p.table != t {
				p = nil
			}
		}
		if p == nil {
			// The plan's columns are built when it is first used.
			p = newPlan(t)
		}
		c.byName[lower] = p
	}
	// Sorted for lists of tables, which are paged by name.
	for _, p := range c.byName {
		c.sorted = append(c.sorted, p)
	}
	slices.SortFunc(c.sorted, func(a, b *plan) int {
		return cmp.Compare(strings.ToLower(a.spelled), strings.ToLower(b.spelled))
	})
	return c
}

// isAzureTable reports whether the primary key of t consists of one text partition column and one text clustering
// column. Such tables can be created by CQL as well, and have entities with their other columns as properties.
func isAzureTable(t *schema.Table) bool {
	return !t.Virtual && t.Compact == schema.NotCompact && len(t.PartitionKey) == 1 && len(t.Clustering) == 1 &&
		t.PartitionKey[0].Type.Kind() == types.Text && t.Clustering[0].Type.Kind() == types.Text
}

// nameMax is the maximum length of a table name.
const nameMax = 63

// find returns the table with the given name, ignoring case, or nil.
func (c *catalog) find(name string) *plan {
	if c == nil {
		return nil
	}
	// The buffer avoids an allocation in every request; the conversion in the lookup does not allocate.
	var buffer [nameMax]byte
	if len(name) > len(buffer) {
		return c.byName[strings.ToLower(name)]
	}
	lower := buffer[:len(name)]
	// Only ASCII letters: names have no others.
	for i := range len(name) {
		b := name[i]
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		lower[i] = b
	}
	return c.byName[string(lower)]
}

// plan returns the plan of the account's table, or TableNotFound.
func (s *Store) plan(account, table string) (*plan, error) {
	if p := s.catalog(account).find(table); p != nil {
		// The plan is built outside the lock of catalogs, once for each version of a table.
		p.once.Do(p.build)
		return p, nil
	}
	return nil, odata.Of(odata.TableNotFound)
}

// Exists implements Service.
func (s *Store) Exists(account, name string) (spelled string, ok bool) {
	p := s.catalog(account).find(name)
	if p == nil {
		return "", false
	}
	return p.spelled, true
}

// Tables implements Service. It needs the permission to read all tables of the account. Listing starts at the first
// name that is not before from.
func (s *Store) Tables(r *request.Request, account, from string, match func(name string) bool,
	top int) (names []string, next string, err error) {
	if err := s.authorize(r, auth.Select, auth.AllTables(account)); err != nil {
		return nil, "", err
	}
	// A page has at most Limits.PageEntities names.
	if top <= 0 || top > s.o.Limits.PageEntities {
		top = s.o.Limits.PageEntities
	}
	c := s.catalog(account)
	if c == nil {
		return nil, "", nil
	}
	// sorted is by the names in lower case.
	from = strings.ToLower(from)
	first, _ := slices.BinarySearchFunc(c.sorted, from, func(p *plan, from string) int {
		return cmp.Compare(strings.ToLower(p.spelled), from)
	})
	for _, p := range c.sorted[first:] {
		if match != nil && !match(p.spelled) {
			continue
		}
		// One more name than fits exists, so next names where to continue.
		if len(names) == top {
			return names, p.spelled, nil
		}
		names = append(names, p.spelled)
	}
	return names, "", nil
}

// CreateTable implements Service. The first table of an account creates its keyspace. The keyspace has the default
// replication (defaultReplication). Errors: TableAlreadyExists, and the errors of names and permissions.
func (s *Store) CreateTable(r *request.Request, account, name string) error {
	if err := odata.CheckTableName(name); err != nil {
		return err
	}
	// The account has the name of a system keyspace.
	if schema.IsSystem(account) {
		return odata.Of(odata.AuthorizationFailure)
	}
	if err := s.authorize(r, auth.Create, auth.AllTables(account)); err != nil {
		return err
	}
	if _, ok := s.Exists(account, name); ok {
		// The existing table may be new to other nodes.
		return s.tableExists(r)
	}
	if err := s.ensureKeyspace(r, account); err != nil {
		return err
	}
	text := types.Native(types.Text)
	// The CQL name is in lower case, so that CQL need not quote it. The spelling is an extension of the table.
	change := &schema.CreateTable{Keyspace: account, Table: strings.ToLower(name), ID: s.newID(),
		Options: schema.DefaultOptions(),
		Columns: []schema.ColumnSpec{
			{Name: "PartitionKey", Kind: schema.PartitionKey, Type: text},
			{Name: "RowKey", Kind: schema.Clustering, Type: text},
		}}
	// Without the extension, the name is shown as it is.
	if name != change.Table {
		change.Options.Extensions = map[string][]byte{nameExtension: []byte(name)}
	}
	err := s.propose(r, change)
	var exists *refused.Exists
	// Another client has created the table meanwhile. The refusal arrives when every live node has that table.
	if errors.As(err, &exists) {
		return odata.Of(odata.TableAlreadyExists)
	}
	return err
}

// replicationFactor is a new keyspace's replication factor, limited by the number of nodes. It equals the factor of
// CREATE KEYSPACE without a factor (query/definition).
const replicationFactor = 4

// ensureKeyspace creates the account's keyspace if there is none. That requires the permission to create keyspaces.
func (s *Store) ensureKeyspace(r *request.Request, account string) error {
	if s.o.View.Schema().Keyspace(account) != nil {
		return nil
	}
	// The name of an account is always valid; a keyspace of the configuration may differ.
	if err := schema.CheckKeyspaceName(account); err != nil {
		return odata.Of(odata.InvalidResourceName)
	}
	if err := s.authorize(r, auth.Create, auth.AllKeyspaces()); err != nil {
		return err
	}
	// IfNotExists, because another node may create it at the same time.
	return s.propose(r, &schema.CreateKeyspace{Keyspace: account, IfNotExists: true,
		Replication: defaultReplication(s.o.View.Topology()), DurableWrites: true})
}

// defaultReplication returns the replication of a new keyspace: up to replicationFactor replicas in each data center.
func defaultReplication(t *ring.Topology) ring.Replication {
	members := map[string]int{}
	all := 0
	for _, n := range t.Nodes() {
		// A node that is joining has no data yet and may not complete.
		if n.State != ring.Joining {
			members[n.Datacenter]++
			all++
		}
	}
	// One data center, or none yet: a simple strategy needs no name of a data center.
	if len(members) < 2 {
		return ring.Replication{Class: ring.Simple, Factor: min(replicationFactor, max(1, all))}
	}
	var factors []ring.DatacenterFactor
	for _, dc := range t.Datacenters() {
		if n := members[dc]; n > 0 {
			factors = append(factors, ring.DatacenterFactor{Datacenter: dc, Factor: min(replicationFactor, n)})
		}
	}
	return ring.NewNetworkTopology(factors...)
}

// DeleteTable implements Service. The error of a missing table differs from the error of requests about entities, as
// in the service.
func (s *Store) DeleteTable(r *request.Request, account, name string) error {
	p := s.catalog(account).find(name)
	if p == nil {
		return odata.Of(odata.ResourceNotFound)
	}
	if err := s.permits(r, auth.Drop, p); err != nil {
		return err
	}
	err := s.propose(r, &schema.DropTable{Keyspace: account, Table: p.table.Name})
	var missing *refused.NotFound
	// It was dropped between the look-up and the change.
	if errors.As(err, &missing) {
		return odata.Of(odata.ResourceNotFound)
	}
	return err
}

// Property implements Service. The result is shared and must not be changed. A table that does not exist has no
// properties.
func (s *Store) Property(account, table, name string) []byte {
	c := s.catalog(account)
	switch {
	case c == nil:
		return nil
	case table == "":
		return c.keyspace.Extensions[name]
	}
	if p := c.find(table); p != nil {
		return p.table.Options.Extensions[name]
	}
	return nil
}

// SetProperty implements Service. The first property of an account creates its keyspace. Extensions of a keyspace or
// table have one value for each name. The value is stored in the schema, and reaches all nodes with it.
func (s *Store) SetProperty(r *request.Request, account, table, name string, value []byte) error {
	if schema.IsSystem(account) {
		return odata.Of(odata.AuthorizationFailure)
	}
	extend := map[string][]byte{name: value}
	if table == "" {
		// ALTER on the account, as for a change of its keyspace by CQL.
		if err := s.authorize(r, auth.Alter, auth.Keyspace(account)); err != nil {
			return err
		}
		if err := s.ensureKeyspace(r, account); err != nil {
			return err
		}
		return s.propose(r, &schema.AlterKeyspace{Keyspace: account, Extend: extend})
	}
	p := s.catalog(account).find(table)
	if p == nil {
		return odata.Of(odata.TableNotFound)
	}
	if err := s.permits(r, auth.Alter, p); err != nil {
		return err
	}
	err := s.propose(r, &schema.AlterTable{Keyspace: account, Table: p.table.Name, Extend: extend})
	var missing *refused.NotFound
	if errors.As(err, &missing) {
		return odata.Of(odata.TableNotFound)
	}
	return err
}
