// Command tables-go runs the checks of Azure Tables with github.com/Azure/azure-sdk-for-go/sdk/data/aztables: see
// ../README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// developmentKey is public: all emulators use it.
const developmentKey = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

func environment(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// suite contains the checks and the clients.
type suite struct {
	ctx       context.Context
	endpoints []string // of the account, one for each node
	account   string
	prefix    string // of table names
	key       *aztables.SharedKeyCredential

	count    int
	failures []string
}

func main() {
	s := &suite{ctx: context.Background(), account: environment("CQLD_TABLES_ACCOUNT", "devstoreaccount1"),
		prefix: environment("CQLD_TABLES_PREFIX", "t") + "Go"}
	for _, e := range strings.Split(environment("CQLD_TABLES", "http://127.0.0.1:10002"), ",") {
		s.endpoints = append(s.endpoints, e+"/"+s.account)
	}
	var err error
	if s.key, err = aztables.NewSharedKeyCredential(s.account,
		environment("CQLD_TABLES_KEY", developmentKey)); err != nil {
		fmt.Println("fail key", err)
		os.Exit(1)
	}
	if len(os.Args) == 3 && os.Args[1] == "sas" {
		sas, err := s.readSAS(os.Args[2])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(sas)
		return
	}
	failed := false
	for _, g := range []struct {
		name string
		run  func(*suite) error
	}{
		{"tables", (*suite).tables}, {"types", (*suite).types}, {"changes", (*suite).changes},
		{"transactions", (*suite).transactions},
		{"queries", (*suite).queries}, {"signatures", (*suite).signatures}, {"properties", (*suite).properties},
	} {
		s.count, s.failures = 0, nil
		if err := g.run(s); err != nil {
			s.failures = append(s.failures, err.Error())
		}
		for _, f := range s.failures {
			fmt.Println("fail", g.name, strings.Join(strings.Fields(f), " "))
		}
		if len(s.failures) == 0 {
			fmt.Println("ok", g.name, s.count)
		}
		failed = failed || len(s.failures) > 0
	}
	if failed {
		os.Exit(1)
	}
}

// readSAS returns a shared access signature that allows reading a table for an hour.
func (s *suite) readSAS(table string) (string, error) {
	return aztables.SASSignatureValues{TableName: table, Protocol: aztables.SASProtocolHTTPSandHTTP, Permissions: "r",
		ExpiryTime: time.Now().UTC().Add(time.Hour)}.Sign(s.key)
}

// same counts a check and records its failure.
func (s *suite) same(got, want any, what string, args ...any) {
	s.count++
	if !reflect.DeepEqual(got, want) {
		s.failures = append(s.failures, fmt.Sprintf("%s: got %.300v, want %.300v", fmt.Sprintf(what, args...), got,
			want))
	}
}

// fails checks for an error of the service with this status and code.
func (s *suite) fails(err error, status int, code, what string, args ...any) {
	var r *azcore.ResponseError
	if !errors.As(err, &r) {
		s.same(fmt.Sprint(err), fmt.Sprint(status, " ", code), what, args...)
		return
	}
	s.same(fmt.Sprint(r.StatusCode, " ", r.ErrorCode), fmt.Sprint(status, " ", code), what, args...)
}

func options() *aztables.ClientOptions {
	return &aztables.ClientOptions{ClientOptions: azcore.ClientOptions{InsecureAllowCredentialWithHTTP: true,
		Retry: policy.RetryOptions{MaxRetries: 2}}}
}

func (s *suite) endpoint(node int) string { return s.endpoints[node%len(s.endpoints)] }

func (s *suite) service(node int) (*aztables.ServiceClient, error) {
	return aztables.NewServiceClientWithSharedKey(s.endpoint(node), s.key, options())
}

// table returns a client of a table at a node; the table's name gets the prefix.
func (s *suite) table(name string, node int) (*aztables.Client, error) {
	c, err := s.service(node)
	if err != nil {
		return nil, err
	}
	return c.NewClient(s.prefix + name), nil
}

// fresh creates a table.
func (s *suite) fresh(name string) (*aztables.Client, error) {
	c, err := s.table(name, 0)
	if err != nil {
		return nil, err
	}
	_, err = c.CreateTable(s.ctx, nil)
	return c, err
}

type props = map[string]any

func entity(pk, rk string, p props) []byte {
	b, err := json.Marshal(aztables.EDMEntity{Entity: aztables.Entity{PartitionKey: pk, RowKey: rk}, Properties: p})
	if err != nil {
		panic(err)
	}
	return b
}

func decode(b []byte) (aztables.EDMEntity, error) {
	var e aztables.EDMEntity
	err := json.Unmarshal(b, &e)
	return e, err
}

// get reads an entity's properties and etag.
func (s *suite) get(c *aztables.Client, pk, rk string) (props, azcore.ETag, error) {
	r, err := c.GetEntity(s.ctx, pk, rk, nil)
	if err != nil {
		return nil, "", err
	}
	e, err := decode(r.Value)
	return e.Properties, r.ETag, err
}

// list reads all pages of a query.
func (s *suite) list(c *aztables.Client, o *aztables.ListEntitiesOptions) (all []aztables.EDMEntity, sizes []int,
	err error) {
	for p := c.NewListEntitiesPager(o); p.More(); {
		page, err := p.NextPage(s.ctx)
		if err != nil {
			return all, sizes, err
		}
		sizes = append(sizes, len(page.Entities))
		for _, b := range page.Entities {
			e, err := decode(b)
			if err != nil {
				return all, sizes, err
			}
			all = append(all, e)
		}
	}
	return all, sizes, nil
}

func filter(format string, args ...any) *aztables.ListEntitiesOptions {
	return &aztables.ListEntitiesOptions{Filter: to.Ptr(fmt.Sprintf(format, args...))}
}
