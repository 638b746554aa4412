package azuretables

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/auth"
	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/coordinator"
	"cqld/listing"
	"cqld/paxos"
	"cqld/request"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// empty is a cluster of one node without rows. It counts the calls that reach its replicas and its schema.
type empty struct {
	schema  *schema.Schema
	effects int
}

func (e *empty) Schema() *schema.Schema { return e.schema }

func (e *empty) Topology() *ring.Topology {
	return ring.NewTopology(1, []*ring.Node{{ID: 1, Host: ring.HostID{1}, Datacenter: "dc1", Rack: "r1",
		State: ring.Normal, Tokens: []ring.Token{0}}})
}

func (e *empty) AwaitSchema(context.Context) error { return nil }

func (e *empty) ProposeSchemaFor(_ context.Context, _ auth.Principal, change schema.Change) error {
	e.effects++
	next, err := schema.Apply(e.schema, change)
	if err == nil {
		e.schema = next
	}
	return err
}

func (e *empty) page() []byte {
	w := row.NewPageWriter(nil)
	return w.Finish(false)
}

func (e *empty) CAS(req *paxos.CASRequest, done func(bool, []byte, error)) {
	e.effects++
	_, applies, err := req.Update(e.page(), 1_700_000_000_000_000)
	done(applies, e.page(), err)
}

func (e *empty) Read(_ *coordinator.ReadRequest, done func([]byte, error)) {
	e.effects++
	done(e.page(), nil)
}

func (e *empty) Write(_ *coordinator.WriteRequest, done func(error)) {
	e.effects++
	done(nil)
}

func (e *empty) List(_ *listing.Request, done func(*listing.Result, error)) {
	e.effects++
	done(&listing.Result{}, nil)
}

func (e *empty) Truncate(_ *schema.Table, _ time.Duration, done func(error)) {
	e.effects++
	done(nil)
}

// guarded is an Authorizer that records the permissions that are checked, and denies one of them.
type guarded struct {
	requested []string
	denied    string
}

func (g *guarded) Authorize(_ context.Context, p auth.Principal, need auth.Requirement) error {
	if g.requested = append(g.requested, need.String()); need.String() == g.denied {
		return &auth.Denied{Principal: p, Requirement: need}
	}
	return nil
}

// authorized returns requests of every kind with the permissions that each one checks, in this order.
func authorized() map[string][]string {
	const (
		keyspace, table = "<keyspace devstoreaccount1>", "<table devstoreaccount1.races>"
		read, modify    = "SELECT on " + table, "MODIFY on " + table
		json, xml       = "\nContent-Type: application/json\n\n", "\nContent-Type: application/xml\n\n"
		one             = "/devstoreaccount1/Races(PartitionKey='p',RowKey='r')"
		changeset       = "POST /devstoreaccount1/$batch\nContent-Type: multipart/mixed; " +
			"boundary=b\n\n--b\nContent-Type: multipart/mixed; boundary=c\n\n" +
			"--c\nContent-Type: application/http\n\nPUT /races(PartitionKey='p',RowKey='r') HTTP/1.1\nContent-Type: " +
			"application/json\n\n{}\n--c--\n--b--\n"
		inside = "POST /devstoreaccount1/$batch\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: " +
			"application/http\n\n" +
			"GET /races(PartitionKey='p',RowKey='r') HTTP/1.1\nAccept: application/json\n\n\n--b--\n"
	)
	return map[string][]string{
		"GET /devstoreaccount1/?restype=service&comp=properties": {"SELECT on " + keyspace},
		"PUT /devstoreaccount1/?restype=service&comp=properties" + xml +
			"<StorageServiceProperties><Cors/></StorageServiceProperties>": {
			"ALTER on " + keyspace},
		"GET /devstoreaccount1-secondary/?restype=service&comp=stats": {"SELECT on " +
			keyspace},
		"GET /devstoreaccount1/Tables": {"SELECT on <all " +
			"tables in devstoreaccount1>"},
		"GET /devstoreaccount1/Tables?$top=0": {"SELECT on " +
			keyspace},
		"GET /devstoreaccount1/Tables('Races')": {read},
		"POST /devstoreaccount1/Tables" + json + `{"TableName":"More"}`: {"CREATE on <all " +
			"tables in devstoreaccount1>"},
		"DELETE /devstoreaccount1/Tables('races')": {"DROP on " + table},
		"GET /devstoreaccount1/races?comp=acl":     {read},
		"HEAD /devstoreaccount1/races?comp=acl":    {read},
		"PUT /devstoreaccount1/races?comp=acl" + xml + "<SignedIdentifiers></SignedIdentifiers>": {"AUTHORIZE on " +
			table, "ALTER on " + table},
		"GET /devstoreaccount1/races()":                                 {read},
		"GET /devstoreaccount1/races()?$top=0":                          {read},
		"GET /devstoreaccount1/races()?$filter=PartitionKey%20eq%20'p'": {read},
		"GET /devstoreaccount1/races/$count":                            {read},
		"GET " + one:                                                    {read},
		"POST /devstoreaccount1/races" + json + `{"PartitionKey":"p","RowKey":"r","new":1}`: {modify},
		"PUT " + one + json + "{}":                                         {modify},
		"PATCH " + one + json + "{}":                                       {modify},
		"MERGE " + one + json + "{}":                                       {modify},
		"POST " + one + "\nX-HTTP-Method: MERGE" + json + "{}":             {modify},
		"PUT " + one + "\nIf-Match: *" + json + "{}":                       {modify},
		"DELETE " + one + "\nIf-Match: *\n\n":                              {modify},
		"DELETE /devstoreaccount1/races(PartitionKey='p')":                 {modify},
		"DELETE /devstoreaccount1/races()?$filter=PartitionKey%20eq%20'p'": {modify, read},
		changeset: {modify},
		inside:    {read},
	}
}

// newGuarded returns a server on a Store of an empty cluster with one table.
func newGuarded(t *testing.T, answered func(Answer)) (*bench, *guarded, *empty) {
	t.Helper()
	cluster, g := &empty{schema: schema.Initial()}, &guarded{}
	clock := newStillClock()
	store := entity.New(entity.Options{View: cluster, Changer: cluster, Clock: clock, Rand: &counting{},
		Executor: request.New(request.Options{Coordinator: cluster, Lister: cluster, Proposer: cluster, Clock: clock,
			Authorizer: g})})
	b := newBench(t, func(o *Options) { o.Service, o.Answered = store, answered })
	if resp, body := b.send("POST /devstoreaccount1/Tables\nContent-Type: " +
		"application/json\n\n{\"TableName\":\"Races\"}"); resp.StatusCode != 201 {
		t.Fatal(resp.StatusCode, body)
	}
	if want := []string{"CREATE on <all tables in devstoreaccount1>",
		"CREATE on <all keyspaces>"}; !slices.Equal(g.requested, want) {
		t.Errorf("the first table requires %q, want %q", g.requested, want)
	}
	g.requested, cluster.effects = nil, 0
	return b, g, cluster
}

// TestEveryKindOfRequestAsksForItsPermissions sends requests of every kind, first with an Authorizer that allows
// everything, whose record must equal the list, and then once for each of these permissions with an Authorizer that
// denies it. The response is then 403 AuthorizationPermissionMismatch, and nothing reaches the replicas or the schema.
func TestEveryKindOfRequestAsksForItsPermissions(t *testing.T) {
	type kind struct {
		resource odata.Resource
		method   string
		comp     bool
	}
	var mu sync.Mutex
	seen := map[kind]bool{}
	answered := func(a Answer) {
		mu.Lock()
		defer mu.Unlock()
		seen[kind{a.Resource, strings.Clone(a.Method), a.Comp != ""}] = true
	}
	for text, want := range authorized() {
		b, g, _ := newGuarded(t, answered)
		if resp, body := b.send(text); !slices.Equal(g.requested, want) || strings.Contains(body, "Authorization") {
			t.Errorf("%s requires\n%q, want\n%q: %d %s", text, g.requested, want, resp.StatusCode, body)
		}
		for i, denied := range want {
			b, g, cluster := newGuarded(t, answered)
			g.denied = denied
			resp, body := b.send(text)
			refused := resp.StatusCode == 403 || resp.StatusCode == 202 && strings.Contains(body, "HTTP/1.1 403")
			// The answer to HEAD has no body.
			answer := resp.Header.Get("X-Ms-Error-Code") + body
			if !refused || !strings.Contains(answer, "AuthorizationPermissionMismatch") {
				t.Errorf("%s without %s: %d %s", text, denied, resp.StatusCode, body)
			}
			if cluster.effects > 0 || len(g.requested) != i+1 {
				t.Errorf("%s without %s: %d effects, required %q", text, denied, cluster.effects, g.requested)
			}
		}
	}
	for _, r := range []odata.Resource{odata.ServiceRoot, odata.TableSet, odata.OneTable, odata.EntitySet,
		odata.OneEntity, odata.EntityCount, odata.BatchEndpoint} {
		for _, comp := range []string{"", "acl"} {
			if comp != "" && r != odata.EntitySet && r != odata.ServiceRoot || comp == "" && r == odata.ServiceRoot {
				continue
			}
			for _, method := range strings.Split(allowed(r, comp), ",") {
				if method == "POST" && r == odata.OneEntity {
					continue // the method comes from X-HTTP-Method
				}
				if !seen[kind{r, method, comp != ""}] {
					t.Errorf("authorized has no %s of resource %d (comp %q)", method, r, comp)
				}
			}
		}
	}
	if !seen[kind{odata.Partition, "DELETE", false}] {
		t.Error("authorized has no DELETE of a partition")
	}
}
