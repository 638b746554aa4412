//go:build integration

package integration

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cqld/azuretables"
	"cqld/azuretables/client"
	"cqld/integration/process"
)

// tablesPrograms returns the test suites for Azure Tables, with the minimum number of checks of each.
func tablesPrograms(root string) []tablesProgram {
	src, tools := filepath.Join(root, "integration/drivers"), filepath.Join(root, ".tools")
	python := filepath.Join(tools, "tables-python/bin/python")
	return []tablesProgram{
		{driver{name: "raw", argv: []string{python, filepath.Join(src, "tables-python/raw.py")},
			file: filepath.Join(tools, "tables-python.stamp"), install: "tables-python"}, 900},
		{driver{name: "python", argv: []string{python, filepath.Join(src, "tables-python/suite.py")},
			file: filepath.Join(tools, "tables-python.stamp"), install: "tables-python"}, 110},
		{driver{name: "node", argv: []string{"node", filepath.Join(src, "tables-node/suite.js")},
			env:  []string{"NODE_PATH=" + filepath.Join(tools, "tables-node/node_modules")},
			file: filepath.Join(tools, "tables-node.stamp"), install: "tables-node"}, 65},
		{driver{name: "go", argv: []string{"go", "run", "-C", src, "./tables-go"}}, 110},
	}
}

type tablesProgram struct {
	driver
	checks int
}

// TestTablesSDKs executes the Azure SDKs, and handwritten requests, against the shared ring. Each program prints its
// number of checks of status, code, header and body.
func TestTablesSDKs(t *testing.T) {
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, p := range tablesPrograms(root) {
		t.Run(p.name, func(t *testing.T) {
			if p.file != "" && !exists(p.file) {
				missing(t, "the Azure SDK", fmt.Sprintf(installHint, p.install))
			}
			began := time.Now()
			out, err := p.run(root, tablesUnderTest(t))
			checks := 0
			for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
				verdict, rest, _ := strings.Cut(lines.Text(), " ")
				group, text, _ := strings.Cut(rest, " ")
				switch verdict {
				case "fail":
					t.Errorf("%s: %s", group, text)
				case "ok":
					n, err := strconv.Atoi(text)
					if err != nil {
						t.Errorf("%q: %v", lines.Text(), err)
					}
					checks += n
				}
			}
			t.Logf("%d checks in %v", checks, time.Since(began).Round(time.Millisecond))
			if checks < p.checks && !t.Failed() {
				t.Errorf("%d checks, of %d and more: %v\n%s", checks, p.checks, err, out)
			} else if err != nil && !t.Failed() {
				t.Errorf("%v\n%s", err, out)
			}
			total += checks
		})
	}
	t.Logf("%d checks in all", total)
}

// tablesUnderTest returns the addresses of the shared ring, or those that CQLD_TABLES names.
func tablesUnderTest(t *testing.T) string {
	if addresses := os.Getenv("CQLD_TABLES"); addresses != "" {
		return addresses
	}
	return sharedRing(t).Tables()
}

func (p tablesProgram) run(root, addresses string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	cmd.Dir, cmd.WaitDelay = root, 5*time.Second
	cmd.Env = append(append(os.Environ(), p.env...), "CQLD_TABLES="+addresses,
		"CQLD_TABLES_PREFIX=s"+strconv.FormatInt(time.Now().UnixMilli()%1e6, 10))
	return cmd.CombinedOutput()
}

// tables sends requests to the nodes of a ring, as the development account.
type tables struct {
	t     *testing.T
	nodes []*client.Client
}

func askTables(t *testing.T, ring *process.Ring) *tables {
	t.Helper()
	out := &tables{t: t}
	for _, s := range ring.Servers {
		c, err := client.New(s.Tables, azuretables.DevelopmentAccount, azuretables.DevelopmentKey, 64)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		out.nodes = append(out.nodes, c)
	}
	return out
}

// do sends a request to a node; the connection must not break.
func (a *tables) do(node int, r client.Request) *client.Response {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 30*time.Second)
	defer cancel()
	resp, err := a.nodes[node%len(a.nodes)].Do(ctx, r)
	if err != nil {
		a.t.Fatalf("%s %s: %v", r.Method, r.Path, err)
	}
	return resp
}

// must sends a request and requires one of the statuses.
func (a *tables) must(node int, r client.Request, statuses ...int) *client.Response {
	a.t.Helper()
	resp := a.do(node, r)
	if err := resp.Err(statuses...); err != nil {
		a.t.Fatalf("%s %s: %v", r.Method, r.Path, err)
	}
	return resp
}

func (a *tables) create(name string) {
	a.t.Helper()
	a.must(0, client.Request{Method: "POST", Path: "/Tables", Body: []byte(`{"TableName":"` + name + `"}`)}, 201)
}

func insert(name, entity string) client.Request {
	return client.Request{Method: "POST", Path: "/" + name, Body: []byte(entity),
		Header: map[string]string{"Prefer": "return-no-content"}}
}

func get(name, pk, rk string) client.Request {
	return client.Request{Method: "GET", Path: client.EntityPath(name, pk, rk)}
}

// filtered requests a page of entities.
func filtered(name, filter, more string) client.Request {
	q := more
	if filter != "" {
		q = strings.TrimPrefix(q+"&$filter="+strings.ReplaceAll(url.QueryEscape(filter), "+", "%20"), "&")
	}
	return client.Request{Method: "GET", Path: "/" + name + "()", Query: q}
}

// continuation returns the part of the query that requests the page after an answer, or "" if there is none.
func continuation(r *client.Response) string {
	pk := r.Header.Get("x-ms-continuation-NextPartitionKey")
	if pk == "" {
		return ""
	}
	out := "&NextPartitionKey=" + url.QueryEscape(pk)
	if rk := r.Header.Get("x-ms-continuation-NextRowKey"); rk != "" {
		out += "&NextRowKey=" + url.QueryEscape(rk)
	}
	return out
}
